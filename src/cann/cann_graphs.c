/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs that programs keep for later launches, and their memory on the card. */
#include "cann/cann_runs.h"

#include <stdlib.h>

#include "base/error.h"

enum { GRAPH_ALIGN = 1024 };

void cann_graph_keep(struct cann *c, struct cann_run *r)
{
    struct chip_graph *graph = calloc(1, sizeof(*graph));
    struct board_answer answer;
    struct pto_error error;
    int code;

    pto_error_init(&error);
    if (graph == NULL) {
        cann_run_fail(c, r, PTO_ENOMEM, 0, "there is no memory for a graph");
        return;
    }
    code = cann_take(c, r->graph_bytes + GRAPH_ALIGN, &graph->memory);
    if (code != ACL_SUCCESS)
        cann_run_fail_call(c, r, "aclrtMalloc", code, "while keeping a graph");
    else if (cann_call(c, BOARD_KEEP, (graph->memory + GRAPH_ALIGN - 1) / GRAPH_ALIGN * GRAPH_ALIGN,
                       NULL, 0, &answer, &error) < 0)
        cann_run_fail(c, r, error.status, 0, error.text);
    else
        graph->handle = answer.value;
    if (graph->handle != 0) {
        r->result.graph = graph;
        return;
    }
    if (!cann_is_lost(c))
        (void)cann_give_back(c, graph->memory);
    free(graph);
}

void cann_graph_drop(struct chip *chip, struct chip_graph *graph)
{
    struct cann *c = cann_of(chip);

    pthread_mutex_lock(&c->memory_lock);
    graph->next = c->dropped;
    c->dropped = graph;
    pthread_mutex_unlock(&c->memory_lock);
}

void cann_drop_graphs(struct cann *c)
{
    struct chip_graph *graph;

    pthread_mutex_lock(&c->memory_lock);
    graph = c->dropped;
    c->dropped = NULL;
    pthread_mutex_unlock(&c->memory_lock);
    while (graph != NULL) {
        struct chip_graph *next = graph->next;

        if (!cann_is_lost(c) && c->function != NULL && graph->handle != 0 && graph->sent_bytes == 0)
            (void)cann_call(c, BOARD_DROP, graph->handle, NULL, 0, NULL, NULL);
        if (!cann_is_lost(c)) {
            (void)cann_give_back(c, graph->memory);
            (void)cann_give_back(c, graph->outputs);
        }
        free(graph);
        graph = next;
    }
}

void cann_graph_send(struct cann *c, void *arg)
{
    struct cann_build *b = &c->build;
    struct cann_run *r = arg;
    int code = cann_upload(c, b->addr, b->stage, b->used);

    if (code != ACL_SUCCESS) {
        cann_run_fail_call(c, r, "aclrtMemcpy", code, "while keeping a graph");
        return;
    }
    b->kept->handle = b->addr;
    b->kept->sent_bytes = b->used;
    r->result.graph = b->kept;
}
