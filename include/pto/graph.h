/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Graphs: a graph is built once and launched many times, each time with other buffers and scalars.
 *
 * A launch may change the addresses of the entry's tensors, and the scalars that were declared to
 * vary when the graph was built: the orchestration passes them on with pto_pass_scalar. A launch in
 * which anything else has changed is refused with PTO_EGRAPH: a shape, which tensors overlap,
 * another scalar, or an element that the orchestration read with pto_get_data.
 *
 *     pto_run_options_init(&options);
 *     pto_run_options_vary(&options, 0);
 *     status = pto_graph_build(device, callable, &entry, &options, &report, &graph);
 *     entry_scalars[0]++;
 *     status = pto_graph_run(graph, &entry, NULL, &report);
 *
 * The structure of the graph must not depend on a varying scalar. pto_scalar refuses to read one; a
 * direct read of `entry->scalar` is not detected and returns the value of the build.
 *
 * The outputs of the tasks belong to the graph. Every launch reuses them and allocates nothing. One
 * launch of a graph can be in progress at a time; a second one gives PTO_EBUSY.
 */
#ifndef PTO_API_GRAPH_H
#define PTO_API_GRAPH_H

#include "pto/run.h"

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(default)

struct pto_graph;

/*
 * Builds a graph, always on the host: `options->mode` is ignored. The report, which may be NULL,
 * explains errors of the orchestration.
 */
int pto_graph_build(struct pto_device *device, const struct pto_callable *callable,
                    const struct pto_entry *entry, const struct pto_run_options *options,
                    struct pto_run_report *report, struct pto_graph **graph_out);

/*
 * Launches a graph, as pto_run runs a callable. Only the options for the order, the recorder and
 * the time-outs have an effect.
 */
int pto_graph_run(struct pto_graph *graph, const struct pto_entry *entry,
                  const struct pto_run_options *options, struct pto_run_report *report);

/* Prepares a launch as pto_run_prepare does. The graph is busy until the run is finished. */
int pto_graph_prepare(struct pto_graph *graph, const struct pto_entry *entry,
                      const struct pto_run_options *options, struct pto_run **run_out);

/* Frees a graph. Must be called before its device is closed. PTO_EBUSY: a launch is in progress. */
int pto_graph_destroy(struct pto_graph *graph);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif
