/* SPDX-License-Identifier: Apache-2.0 */
/* The results of `pto bench` as a table for people and as JSON for programs. */
#ifndef PTO_BENCH_REPORT_H
#define PTO_BENCH_REPORT_H

#include "tool/bench/bench_link.h"
#include "tool/bench/bench_measure.h"
#include "tool/bench/bench_tree.h"

void cli_bench_print_table(const struct bench_settings *settings, struct bench_results *results);

/*
 * True if the file can probably be written; else a sentence on stderr. Asked
 * before measuring, so that nobody waits for results that are then lost.
 */
bool cli_bench_can_write(const char *path);
/* `-` is stdout. A file is there complete, or as it was before; false after a sentence on stderr. */
bool cli_bench_write_json(const struct bench_settings *settings, struct bench_results *results,
                          const char *path);

/* Of `pto bench comm`: a run for each number of ranks. */
struct bench_comm_run {
    uint32_t rank_count;
    struct bench_link_result result[BENCH_LINK_CASES];
};

void cli_bench_print_comm(const struct bench_comm_run *runs, uint32_t count);
bool cli_bench_write_comm(const struct bench_comm_run *runs, uint32_t count, const char *path);

/* Of `pto bench tree`. */
void cli_bench_print_tree(const struct bench_tree_results *results);
bool cli_bench_write_tree(const struct bench_tree_results *results, const char *path);

#endif
