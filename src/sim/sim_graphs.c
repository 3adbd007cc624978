/* SPDX-License-Identifier: Apache-2.0 */
/* Built graphs that the simulated chip keeps; their memory shares a budget with that of runs. */
#include <stdlib.h>
#include <string.h>

#include "sim/sim.h"

static char *allocate_image(uint64_t bytes);
static bool reserve_bytes(struct sim *m, struct chip_graph *graph, uint64_t bytes);
static int graphs_refuse(struct sim *m, uint64_t bytes);

struct chip_graph *sim_graph_create(void)
{
    struct chip_graph *graph = aligned_alloc(128, (sizeof(*graph) + 127) / 128 * 128);

    if (graph != NULL)
        memset(graph, 0, sizeof(*graph));
    return graph;
}

int sim_graph_keep(struct sim *m, struct chip_graph *graph)
{
    struct built_graph *b = &graph->built;
    const struct orch_elsewhere *there = m->run.elsewhere;
    uint64_t kept = built_graph_measure(b, &m->orch);
    uint64_t heap =
        (b->image.heap_bytes + GRAPH_OUTPUT_ALIGN - 1) / GRAPH_OUTPUT_ALIGN * GRAPH_OUTPUT_ALIGN;
    uint64_t bytes = heap + kept;

    if (there != NULL) {
        char *memory = b->has_lost_fact ? NULL : there->take(there->context, b, kept, &heap);

        if (memory == NULL)
            return graphs_refuse(m, bytes);
        built_graph_fill(b, &m->orch, memory, heap);
        return PTO_OK;
    }
    if (b->has_lost_fact || !reserve_bytes(m, graph, bytes))
        return graphs_refuse(m, bytes);
    graph->memory = allocate_image(bytes);
    if (graph->memory == NULL)
        return graphs_refuse(m, bytes);
    built_graph_fill(b, &m->orch, graph->memory + heap, (uint64_t)(uintptr_t)graph->memory);
    return PTO_OK;
}

void sim_drop(struct chip *chip, struct chip_graph *graph)
{
    struct sim *m = sim_of(chip);

    if (graph->is_pinned)
        /* a kernel of the graph never returned and may still use the memory, so it is not freed */
        return;
    pthread_mutex_lock(&m->lock);
    m->graph_bytes -= graph->kept_bytes;
    pthread_mutex_unlock(&m->lock);
    free(graph->memory);
    free(graph);
}

static int graphs_refuse(struct sim *m, uint64_t bytes)
{
    struct failure why = orch_failure(PTO_ENOMEM, FAILURE_LAUNCH_MEMORY, NULL);

    why.value[0] = bytes;
    why.value[1] = m->budget.max;
    return orch_fail(&m->orch, &why);
}

static bool reserve_bytes(struct sim *m, struct chip_graph *graph, uint64_t bytes)
{
    bool has_room;

    pthread_mutex_lock(&m->lock);
    has_room = bytes <= m->budget.max &&
               /* positions of slots have 32 bits, which limits their memory to 128 GiB */
               graph->built.image.slot_bytes / SLOT_LINE_BYTES < SPAN_FOLLOWS &&
               m->budget.used + m->graph_bytes <= m->budget.max - bytes;
    if (has_room) {
        graph->kept_bytes = bytes;
        m->graph_bytes += bytes;
    }
    pthread_mutex_unlock(&m->lock);
    return has_room;
}

static char *allocate_image(uint64_t bytes)
{
    bool is_large = bytes >= OS_LARGE_PAGE;
    uint64_t unit = is_large ? OS_LARGE_PAGE : GRAPH_OUTPUT_ALIGN;
    uint64_t rounded = bytes != 0 ? (bytes + unit - 1) / unit * unit : unit;
    char *memory = aligned_alloc(unit, rounded);

    if (is_large && memory != NULL)
        /* large pages, because a launch accesses the image in random order */
        os_use_large_pages(memory, rounded);
    return memory;
}
