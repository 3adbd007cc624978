/* SPDX-License-Identifier: Apache-2.0 */
/* The record of a run: its memory on the card, and a copy of it in host memory. */
#include "cann/cann_runs.h"

#include <stdlib.h>
#include <string.h>

#include "base/os.h"

enum {
    /*
     * maximum number of events, even if the options ask for more: each takes 32 bytes on the card
     */
    RECORDS_MAX = 1 << 20,
    EDGES_MAX = 1 << 20,
    SCOPES_MAX = 1 << 16,
    MARKS_MAX = 1 << 20, /* maximum number of tasks whose arguments are dumped */
    /* maximum bytes for descriptions of tasks; also at most an eighth of the free memory */
    TASK_BYTES_MAX = 64 << 20,
    DUMPED_MAX = 512 << 20, /* maximum bytes for dumps; also at most a quarter of the free memory */
};

/*
 * Returns the layout of the record for the recorders that the run's options enable, within the free
 * memory.
 */
static struct board_run plan_record(const struct pto_run_options *options, uint64_t left)
{
    uint64_t task_bytes = left / 8 < TASK_BYTES_MAX ? left / 8 / 8 * 8 : TASK_BYTES_MAX;
    uint64_t dumped = left / 4 < DUMPED_MAX ? left / 4 / 8 * 8 : DUMPED_MAX;
    bool has_dumps = options->diagnostics.args != 0;

    return (struct board_run){
        .record_max = options->trace_records > RECORDS_MAX ? RECORDS_MAX : options->trace_records,
        .edge_max = EDGES_MAX,
        .scope_max = options->diagnostics.has_scopes ? SCOPES_MAX : 0,
        .mark_max = has_dumps ? MARKS_MAX : 0,
        .task_bytes_max = options->trace == PTO_TRACE_ARGUMENTS ? task_bytes : 0,
        .dump_max = has_dumps ? dumped : 0
    };
}

int cann_record_ready(struct cann *c, const struct pto_run_options *options, const char **call_out)
{
    size_t left = 0, total = 0;
    uint64_t bytes;
    int code = ACL_SUCCESS;

    free(c->recorded);
    c->recorded = NULL;
    if (options->trace == PTO_TRACE_OFF)
        return ACL_SUCCESS;
    if (options->trace == PTO_TRACE_ARGUMENTS) {
        *call_out = "aclrtGetMemInfo";
        code = VENDOR_CALL(&c->vendor, aclrtGetMemInfo, VENDOR_HBM, &left, &total);
    }
    if (code != ACL_SUCCESS)
        return code;
    c->room = plan_record(options, left + c->record_bytes);
    bytes = message_record(&c->room).end;
    if (bytes > c->record_bytes) {
        *call_out = "aclrtMalloc";
        (void)cann_give_back(c, c->record);
        c->record = c->record_bytes = 0;
        code = cann_take(c, bytes, &c->record);
        c->record_bytes = code == ACL_SUCCESS ? bytes : 0;
    }
    c->room.record = c->record;
    return code;
}

/* Copies a part of the record from the card. Returns a vendor's code. */
static int take_part(struct cann *c, uint64_t at, uint64_t bytes)
{
    return bytes != 0 ? cann_download(c, at, c->recorded + (at - c->record), bytes) : ACL_SUCCESS;
}

static uint64_t cann_record_least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

int cann_record_take(struct cann *c)
{
    const struct message_record at = message_record(&c->room);
    struct board_record head;
    int code = cann_download(c, c->record, &head, sizeof(head));

    c->end_ns = os_now_ns();
    if (code != ACL_SUCCESS)
        return code;
    c->recorded = malloc(at.end - c->record);
    if (c->recorded == NULL)
        return ACL_SUCCESS; /* out of memory: the run counts as not recorded */
    head.edge_count = cann_record_least(head.edge_count, c->room.edge_max);
    head.scope_count = cann_record_least(head.scope_count, c->room.scope_max);
    head.task_bytes = cann_record_least(head.task_bytes, c->room.task_bytes_max);
    head.dumped_bytes = cann_record_least(head.dumped_bytes, c->room.dump_max);
    memcpy(c->recorded, &head, sizeof(head));
    code =
        take_part(c, at.record,
                  cann_record_least(head.count, c->room.record_max) * sizeof(struct trace_record));
    if (code == ACL_SUCCESS)
        code = take_part(c, at.edge, head.edge_count * sizeof(struct board_edge));
    if (code == ACL_SUCCESS)
        code = take_part(c, at.scope, head.scope_count * sizeof(struct chip_scope));
    if (code == ACL_SUCCESS)
        code = take_part(c, at.task_records, head.task_bytes);
    if (code == ACL_SUCCESS)
        code = take_part(c, at.dumped, head.dumped_bytes);
    return code;
}

int cann_record_read(struct chip *chip, struct chip_record *out)
{
    struct cann *c = cann_of(chip);
    const struct cann_run *r = cann_run_last(c);
    const struct board_record *head = (const struct board_record *)(const void *)c->recorded;
    struct board_run here = c->room;
    struct message_record at;

    if (head == NULL)
        return PTO_EINVAL;
    here.record = (uint64_t)(uintptr_t)c->recorded;
    at = message_record(&here);
    c->ring[0] = (struct trace_ring){ .record = (struct trace_record *)(uintptr_t)at.record,
                                      .count = head->count,
                                      .mask = (uint32_t)here.record_max - 1,
                                      .has_each_time = true };
    c->ring[1] = (struct trace_ring){ .record = c->ring[0].record, .mask = c->ring[0].mask };
    c->ring_list[0] = &c->ring[0];
    c->ring_list[1] = &c->ring[1];
    *out = (struct chip_record){ .ring = c->ring_list,
                                 .ring_count = 2,
                                 .edge = (const struct chip_edge *)(uintptr_t)at.edge,
                                 .edge_count = head->edge_count,
                                 .edges_lost = head->edges_lost,
                                 .task_records = (const void *)(uintptr_t)at.task_records,
                                 .task_bytes = head->task_bytes,
                                 .task_records_lost = head->task_records_lost,
                                 .dumped = (const void *)(uintptr_t)at.dumped,
                                 .dumped_bytes = head->dumped_bytes,
                                 .dumped_lost = head->dumped_lost,
                                 .scope = (const struct chip_scope *)(uintptr_t)at.scope,
                                 .scope_count = head->scope_count,
                                 .scopes_lost = head->scopes_lost,
                                 .core_count = r->report.core_count,
                                 .aic_count = c->base.properties.aic_count,
                                 .begin_cycles = head->begin_cycles,
                                 .end_cycles = head->end_cycles,
                                 .begin_ns = r->begin_ns,
                                 .end_ns = c->end_ns,
                                 .tasks = r->report.tasks,
                                 .has_ready = true };
    return PTO_OK;
}
