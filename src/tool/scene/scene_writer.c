/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the element at an address in strided views. */
#include "tool/scene/scene_writer.h"

#include <stdio.h>
#include <string.h>

/*
 * Whether a strided view has an element at `offset`, counted in elements. Searches the dimensions
 * from `d` on, which are sorted by falling stride.
 */
static bool reaches(const uint32_t *shapes, const uint32_t *strides, uint32_t ndims, uint32_t d,
                    uint64_t offset)
{
    uint64_t rest = 0;
    uint64_t index;

    if (d == ndims)
        return offset == 0;
    for (uint32_t i = d + 1; i < ndims; i++)
        rest += (uint64_t)(shapes[i] - 1) * strides[i];
    index = offset / strides[d];
    if (index >= shapes[d])
        index = shapes[d] - 1;
    /*
     * continues with a smaller index only if the remaining dimensions can reach the rest of the
     * offset
     */
    for (;; index--) {
        if (offset - index * strides[d] > rest)
            return false;
        if (reaches(shapes, strides, ndims, d + 1, offset - index * strides[d]))
            return true;
        if (index == 0)
            return false;
    }
}

bool scene_writer_covers(const struct pto_tensor *tensor, uint64_t addr)
{
    uint32_t bytes = pto_dtype_size(tensor->dtype);
    uint64_t begin = tensor->addr + tensor->start * bytes;
    uint32_t shapes[PTO_MAX_DIMS], strides[PTO_MAX_DIMS];
    uint32_t ndims = tensor->ndims;

    if (bytes == 0 || ndims > PTO_MAX_DIMS || tensor->extent == 0 || addr < begin ||
        addr >= begin + tensor->extent * bytes)
        return false;
    for (uint32_t d = 0; d < ndims; d++) { /* sort by falling stride */
        uint32_t at = d;

        for (; at > 0 && strides[at - 1] < tensor->strides[d]; at--) {
            shapes[at] = shapes[at - 1];
            strides[at] = strides[at - 1];
        }
        shapes[at] = tensor->shapes[d];
        strides[at] = tensor->strides[d];
    }
    return reaches(shapes, strides, ndims, 0, (addr - begin) / bytes);
}

static void note_writer(struct watched_element *watched, const struct pto_task_view *view)
{
    watched->is_found = true;
    watched->is_conditional = view->args->predicate != NULL;
    watched->task = view->index;
    watched->kernels = view->kernels;
    watched->blocks = view->args->block_count;
    watched->line = view->site != NULL ? view->site->line : 0;
    snprintf(watched->file, sizeof(watched->file), "%s",
             view->site != NULL && view->site->file != NULL ? view->site->file : "");
}

void scene_writer_watch_task(void *context, const struct pto_task_view *view)
{
    const struct writer_watch *watch = context;

    for (uint32_t a = 0; a < view->args->tensor_count; a++) {
        uint32_t use = pto_tag_use(view->args->tag[a]);
        const struct pto_tensor *tensor = view->args->tensor[a];

        if ((use & (PTO_WRITES | PTO_CREATES)) != PTO_WRITES)
            continue;
        for (uint32_t i = 0; i < watch->count; i++) {
            struct watched_element *watched = &watch->watched[i];
            const struct pto_tensor *entry = &view->entry->tensor[watched->argument];
            uint64_t addr = entry->addr + watched->index * pto_dtype_size(entry->dtype);

            if (scene_writer_covers(tensor, addr))
                note_writer(watched, view);
        }
    }
}
