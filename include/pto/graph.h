/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A graph that is built once and launched many times, with other buffers and
 * other scalars. What may change: the addresses of the entry's tensors, and
 * scalars that were passed on with pto_pass_scalar. What may not, and is refused
 * with PTO_EGRAPH: shapes; which of the tensors overlap; a scalar that the
 * orchestration read (with pto_scalar, or any of them once it has looked into
 * `entry->scalar`); an element that it read with pto_get_data and that has
 * another value now. `options->mode` is ignored: the graph is built on the host.
 *
 * Outputs that tasks create belong to the graph and are used again by every
 * launch, which allocates nothing. One launch of a graph at a time: PTO_EBUSY.
 */
#ifndef PTO_API_GRAPH_H
#define PTO_API_GRAPH_H

#include "pto/run.h"

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(default)

struct pto_graph;

/* The report, which may be NULL, tells what is wrong with the orchestration. */
int pto_graph_build(struct pto_device *device, const struct pto_callable *callable,
                    const struct pto_entry *entry, const struct pto_run_options *options,
                    struct pto_run_report *report, struct pto_graph **graph_out);
/* As pto_run. Of the options the order, the recorder and the time-outs count. */
int pto_graph_run(struct pto_graph *graph, const struct pto_entry *entry,
                  const struct pto_run_options *options, struct pto_run_report *report);
/* As pto_run_prepare; the graph is busy until the run is finished. */
int pto_graph_prepare(struct pto_graph *graph, const struct pto_entry *entry,
                      const struct pto_run_options *options, struct pto_run **run_out);
/* PTO_EBUSY while it is launched. Before its device is closed. */
int pto_graph_destroy(struct pto_graph *graph);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif
