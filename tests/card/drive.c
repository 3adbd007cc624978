/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/card/drive.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cann/device/card_graph.h"

void drive_fail(const char *format, ...)
{
    va_list values;

    va_start(values, format);
    vfprintf(stderr, format, values);
    va_end(values);
    fputc('\n', stderr);
    exit(1);
}

static uint64_t on_card(const struct drive *d, const void *at)
{
    return (uint64_t)(uintptr_t)((const char *)at - (const char *)d->memory + (char *)d->at);
}

static const struct board_answer *ask(struct drive *d, enum board_op op, uint64_t value,
                                      const void *message, uint64_t bytes)
{
    struct board_call call = { .board = on_card(d, &d->memory->board),
                               .magic = BOARD_MAGIC,
                               .version = BOARD_VERSION,
                               .op = op,
                               .sequence = ++d->sequence,
                               .value = value,
                               .message = message != NULL ? on_card(d, message) : 0,
                               .message_bytes = bytes };
    const void *at = op == BOARD_RUN ? d->memory->message + MESSAGE_ANSWER
                                     : (const char *)&d->memory->board.answer;
    const struct board_answer *answer = at;

    d->launch(&call, op == BOARD_RUN);
    if (answer->magic != BOARD_MAGIC || answer->sequence != d->sequence)
        drive_fail("request %d was not answered", (int)op);
    if (answer->status < 0 && answer->status != d->expected)
        drive_fail("request %d: %d: %s", (int)op, answer->status, answer->text);
    return answer;
}

void drive_open(struct drive *d, const uint64_t window[BOARD_WINDOWS], uint32_t bell_offset,
                uint32_t cond_offset)
{
    struct board *board = &d->memory->board;
    struct board_open *open = (struct board_open *)(void *)d->memory->message;

    memset(board, 0, sizeof(*board));
    board->magic = BOARD_MAGIC;
    board->version = BOARD_VERSION;
    board->blocks = DRIVE_CLUSTERS;
    memcpy(board->windows.base, window, sizeof(board->windows.base));
    board->windows.bell_offset = bell_offset;
    board->windows.cond_offset = cond_offset;
    *open = (struct board_open){ .size = { sizeof(struct board), sizeof(struct run_message),
                                           sizeof(struct run_ended), sizeof(struct pto_tensor),
                                           sizeof(struct board_load), sizeof(struct board_run),
                                           sizeof(struct card_graph) },
                                 .clusters = DRIVE_CLUSTERS,
                                 .memory_max = 1 << 30,
                                 .engine = on_card(d, d->memory->engine),
                                 .engine_bytes = d->engine_bytes,
                                 .heap = on_card(d, d->memory->heap),
                                 .heap_bytes = sizeof(d->memory->heap) };
    (void)ask(d, BOARD_OPEN, 0, open, sizeof(*open));
}

void drive_close(struct drive *d)
{
    (void)ask(d, BOARD_CLOSE, 0, NULL, 0);
}

void drive_load(struct drive *d, const char *path, const char *entry, const pto_kernel_fn *kernels,
                const uint32_t *core_types, uint32_t kernel_count)
{
    struct board_load *load = (struct board_load *)(void *)d->memory->load;
    struct board_kernel *kernel = (struct board_kernel *)(void *)(load + 1);
    char *text = (char *)(kernel + kernel_count);
    FILE *file = fopen(path, "re");

    *load = (struct board_load){ .kernel_count = kernel_count,
                                 .entry_bytes = (uint32_t)strlen(entry) / 8 * 8 + 8,
                                 .name_bytes = 8 };
    for (uint32_t i = 0; i < kernel_count; i++)
        kernel[i] = (struct board_kernel){ (uint64_t)(uintptr_t)kernels[i], core_types[i], 0 };
    strcpy(text, entry);
    text += load->entry_bytes;
    strcpy(text, "drive");
    text += load->name_bytes;
    if (file != NULL) {
        load->object_bytes = fread(text, 1, sizeof(d->memory->load) - 4096, file);
        fclose(file);
    }
    if (load->object_bytes == 0 || load->object_bytes >= sizeof(d->memory->load) - 4096)
        drive_fail("%s cannot be read, or is too large", path);
    d->code =
        ask(d, BOARD_LOAD, 0, load, (uint64_t)(text - (char *)load) + load->object_bytes)->value;
}

void drive_unload(struct drive *d)
{
    (void)ask(d, BOARD_UNLOAD, d->code, NULL, 0);
}

void drive_keep(struct drive *d)
{
    if (d->memory->board.answer.value > sizeof(d->memory->kept))
        drive_fail("the graph needs %llu bytes", (unsigned long long)d->memory->board.answer.value);
    d->graph = ask(d, BOARD_KEEP, on_card(d, d->memory->kept), NULL, 0)->value;
}

static struct card_graph *graph_of(const struct drive *d)
{
    return (struct card_graph *)(void *)((char *)d->memory +
                                         (d->graph - (uint64_t)(uintptr_t)d->at));
}

void drive_drop(struct drive *d)
{
    if (d->sent == NULL)
        (void)ask(d, BOARD_DROP, d->graph, NULL, 0);
    free(d->sent);
    d->sent = NULL;
    d->graph = 0;
}

static void *at_sent(const struct drive *d, const void *on_card)
{
    return d->sent + ((uint64_t)(uintptr_t)on_card - d->graph);
}

void drive_send(struct drive *d)
{
    const struct image *image = &graph_of(d)->built.image;

    (void)ask(d, BOARD_DROP, d->graph, NULL, 0);
    d->sent_bytes = graph_of(d)->bytes;
    d->sent = malloc(d->sent_bytes);
    memcpy(d->sent, graph_of(d), d->sent_bytes);
    for (uint32_t i = 0; i < image->task_count; i++) { /* sites are the orchestration's */
        uint32_t line = *(const uint32_t *)at_sent(d, &image->task[i]);

        ((struct slot *)at_sent(d, image->slots + (uint64_t)line * SLOT_LINE_BYTES))->site = NULL;
    }
    d->last_task = at_sent(d, &image->task[image->task_count - 1]);
    memset(d->sent, 0x5a, offsetof(struct card_graph, built.image.heap)); /* no pointer counts */
}

const struct run_ended *drive_run(struct drive *d, uint32_t tensor_count, uint32_t elements,
                                  const uint64_t *scalar, uint32_t scalar_count)
{
    struct drive_memory *memory = d->memory;
    struct pto_tensor *tensor = (struct pto_tensor *)(void *)(memory->message + MESSAGE_TENSORS);
    struct run_message run = { .number = ++d->runs,
                               .code = d->code,
                               .graph = d->graph,
                               .purpose = d->purpose,
                               .stall_ns = 100000000,
                               .tensor_count = tensor_count,
                               .scalar_count = scalar_count };
    struct board_run more = { .range_count = 1,
                              .ranges = on_card(d, memory->range),
                              .left_ns = UINT64_MAX,
                              .message_room = MESSAGE_BYTES - MESSAGE_ENDED,
                              .record = d->is_recorded ? on_card(d, &memory->recorded) : 0,
                              .record_max = DRIVE_RECORDS,
                              .edge_max = DRIVE_EDGES,
                              .scope_max = DRIVE_SCOPES,
                              .mark_max = DRIVE_MARKS,
                              .task_bytes_max = DRIVE_TOLD,
                              .dump_max = DRIVE_DUMPED,
                              .graph_bytes = d->sent != NULL ? d->sent_bytes : 0,
                              .tag = d->runs };

    memset(tensor, (int)(d->runs & 0x7f), PTO_ENTRY_TENSORS_MAX * sizeof(*tensor));
    pto_run_options_init(&run.options);
    run.options.deps = PTO_DEPS_SAFE;
    run.options.has_guards = d->has_guards;
    run.options.trace = d->is_recorded ? PTO_TRACE_ARGUMENTS : PTO_TRACE_OFF;
    run.options.diagnostics.has_scopes = d->is_recorded;
    run.options.diagnostics.args = d->is_recorded ? 2 : 0;
    memcpy(memory->message, &run, sizeof(run));
    for (uint32_t i = 0; i < tensor_count; i++) {
        tensor[i] = pto_tensor_external((void *)(uintptr_t)on_card(d, memory->tensor[i]), &elements,
                                        1, PTO_INT32);
        tensor[i].space = PTO_SPACE_DEVICE;
    }
    memcpy(memory->message + MESSAGE_SCALARS, scalar, scalar_count * sizeof(*scalar));
    memcpy(memory->message + MESSAGE_RUN, &more, sizeof(more));
    memory->range[0] = (struct board_range){ on_card(d, memory->tensor), on_card(d, memory->kept) };
    if (d->sent != NULL)
        memcpy(graph_of(d), d->sent, d->sent_bytes);
    *drive_launch(memory) =
        (struct board_launch){ .board = on_card(d, &memory->board), .tag = d->runs };
    (void)ask(d, BOARD_RUN, 0, memory->message, MESSAGE_ENDED);
    return (const struct run_ended *)(const void *)(memory->message + MESSAGE_ENDED);
}
