/* SPDX-License-Identifier: Apache-2.0 */
/* Prints the results of `pto bench` as a table for people and as JSON for programs. */
#ifndef PTO_BENCH_REPORT_H
#define PTO_BENCH_REPORT_H

#include "tool/bench/bench_link.h"
#include "tool/bench/bench_measure.h"
#include "tool/bench/bench_tree.h"

void cli_bench_print_table(const struct bench_settings *settings, struct bench_results *results);

/*
 * Returns whether the file can probably be written, else prints a sentence to stderr. Called before
 * measuring, so that a wrong path costs no measurement.
 */
bool cli_bench_can_write(const char *path);
/*
 * Writes to the file at `path`, or to stdout if `path` is "-". A file is replaced only when it is
 * complete; on failure, prints a sentence to stderr and returns false.
 */
bool cli_bench_write_json(const struct bench_settings *settings, struct bench_results *results,
                          const char *path);

/* Results of `pto bench comm` for one number of ranks. */
struct bench_comm_run {
    uint32_t rank_count;
    struct bench_link_result result[BENCH_LINK_CASES];
};

void cli_bench_print_comm(const struct bench_comm_run *runs, uint32_t count);
bool cli_bench_write_comm(const struct bench_comm_run *runs, uint32_t count, const char *path);

/* Results of `pto bench tree`, as a table and as JSON. */
void cli_bench_print_tree(const struct bench_tree_results *results);
bool cli_bench_write_tree(const struct bench_tree_results *results, const char *path);

#endif
