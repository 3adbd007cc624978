/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Graphs that are built once and launched many times. What the orchestration reads while it runs is
 * part of the graph: the reads are recorded, and a launch for which one of them would return
 * something else is refused.
 *
 * Pure. While the graph is built, records lie in pools of the orchestration. The kept graph lies in
 * memory of the driver, which asks how many bytes are needed:
 *
 *     built_graph_record .. built_graph_measure, built_graph_fill
 *     then for each launch: built_graph_start
 *
 * Only the thread that leads the run calls these functions.
 */
#ifndef PTO_LAUNCH_H
#define PTO_LAUNCH_H

#include "graph/image.h"
#include "orch/orch.h"

/* A fact about memory on which a built graph depends; enum orch_list has the kinds. */
struct graph_fact {
    /* index of the entry's tensor to which `at` is relative; -1: `at` is an address */
    int32_t entry;
    uint32_t dtype;
    uint64_t at;
    uint64_t bytes;
    uint64_t bits;
    /* bits that must be equal in a launch: those that the orchestration did not write itself */
    uint64_t mask;
};

/*
 * Kinds of facts about what a submit states besides its arguments. In such a fact (in ORCH_ORDERS),
 * `dtype` is the kind and `at` the index of the task. Only recorders of launches read these facts.
 */
enum built_order {
    BUILT_FLAGS,     /* `bits`: CHIP_TASK_IS_MANUAL, CHIP_TASK_IS_EARLY */
    BUILT_EXPLICIT,  /* `bits`: id of a task that it names; `bytes`: enum pto_dep_kind */
    BUILT_PREDICATE, /* `bits`: id of the operand's creator; `bytes`: its manual_dep */
};

struct graph_facts {
    struct graph_fact *fact;
    uint64_t count;
};

struct built_graph {
    struct image image;
    /* measurements that decide whether launches share tasks with other workers */
    struct sharing_choice launches;
    struct pto_entry built; /* the entry with which the graph was built */
    /* where the entry's tensors are in the latest launch; the image has these addresses */
    uint64_t *bound_addr;
    uint64_t *bound_scalar;
    uint64_t varying[PTO_SCALAR_WORDS]; /* a bit for each scalar that was declared to vary */
    /* a bit for each scalar of the entry that tasks get unchanged in each launch */
    uint64_t passed[PTO_SCALAR_WORDS];
    bool has_guards;                     /* outputs have guards around them */
    bool has_lost_fact;                  /* memory ran out while facts were recorded */
    struct graph_facts list[ORCH_LISTS]; /* lists of facts, indexed by enum orch_list */
};

/* Starts to record what the orchestration reads and writes. Fails the run if it cannot. */
int built_graph_record(struct built_graph *b, struct orch *o, struct graph_params *params);
/* Records bytes that the orchestration itself read or wrote. */
void built_graph_note_read(struct built_graph *b, struct orch *o, uint64_t addr, uint32_t bytes,
                           uint64_t bits);
void built_graph_note_write(struct built_graph *b, struct orch *o, uint64_t addr, uint32_t bytes,
                            uint64_t bits);
/* Records what the last submit states besides its arguments. */
void built_graph_note_orders(struct built_graph *b, struct orch *o, const struct pto_args *args);
/* Returns the facts in ORCH_ORDERS about a task. */
struct graph_facts built_graph_orders_of(const struct built_graph *b, uint32_t index);
/*
 * Records that the orchestration read a scalar. Fails the run if the scalar was declared to vary.
 */
int built_graph_note_scalar(struct built_graph *b, struct orch *o, uint32_t index,
                            const struct pto_site *site);

/*
 * Called when the graph is complete, before anything runs. Returns how many bytes built_graph_fill
 * needs.
 */
uint64_t built_graph_measure(struct built_graph *b, struct orch *o);
/*
 * Copies the built graph to `memory`, which is aligned to 128 bytes. `heap` is where outputs will
 * be: it has the image's heap_bytes and is aligned to GRAPH_OUTPUT_ALIGN. Nothing is written there
 * before a launch.
 */
void built_graph_fill(struct built_graph *b, struct orch *o, char *memory, uint64_t heap);

/*
 * Called after the bytes that built_graph_fill wrote were copied to other memory: updates the
 * pointers.
 */
void built_graph_move(struct built_graph *b, char *memory);
/*
 * Makes b a graph that another process filled and that was copied to `memory`, followed by the
 * source locations of its tasks. The caller has set the counts, b->image.heap and those limits that
 * do not depend on the graph. Sets the pointers and validates everything. Returns NULL, or a few
 * words about what is invalid.
 */
const char *built_graph_take(struct built_graph *b, char *memory, uint64_t bytes,
                             struct image_limits limits);

/*
 * Makes the graph the current one for a launch, or fails the run if the launch differs from the
 * build. Returns the run's status.
 */
int built_graph_start(struct built_graph *b, struct orch *o, const struct graph_params *params);

#endif
