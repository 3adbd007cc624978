/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The contract of a backend: three small tables, and a fourth for chips that share memory. A backend is one symbol, a
 * `const struct chip_backend`, whose struct begins with a struct chip; everything else
 * of it is its own. src/chip/null.c is the one to copy, docs/internals/porting.md walks through
 * it, tests/conformance/ runs the same suite over all of them.
 *
 * What each call means is said in chip/chip.h, where the host finds it; here is what
 * holds for whoever implements it. No pointer is NULL unless it may be, which the host
 * sees to; sizes are not 0, which the wrappers do. `Optional:` says what NULL means. Errors
 * of the system or of a vendor are translated where they occur.
 */
#ifndef PTO_BACKEND_H
#define PTO_BACKEND_H

#include "chip/chip.h"

struct chip_device_ops {
    /* `error` may be NULL. On failure nothing is left behind. PTO_ENOMEM, PTO_ESYSTEM. */
    int (*open)(const struct chip_params *params, struct chip **chip_out, struct pto_error *error);

    /* No run is going on, every graph was dropped, all code unloaded. */
    bool (*close)(struct chip *chip);

    /*
     * Optional: NULL means that a chip needs no process of its own. In a process that `open` has started (link/hello.h):
     * serves the one that did. Returns the exit code, or ends the process.
     */
    int (*serve)(void);

    /* Optional: NULL means that no thread of this process is ever inside an orchestration. */
    bool (*is_builder)(struct chip *chip);
};

/* From any thread, beside a run. A run never takes place in memory that is being freed. */
struct chip_memory_ops {
    int (*alloc)(struct chip *chip, uint64_t bytes, uint64_t *addr_out, struct pto_error *error);
    int (*free)(struct chip *chip, uint64_t addr, struct pto_error *error);
    int (*write)(struct chip *chip, uint64_t addr, const void *from, uint64_t bytes,
                 struct pto_error *error);
    int (*read)(struct chip *chip, uint64_t addr, void *to, uint64_t bytes,
                struct pto_error *error);
    bool (*contains)(struct chip *chip, uint64_t addr);

    /* Optional: NULL means that there are no guards to look at. */
    int (*check)(struct chip *chip, struct pto_error *error);

    /* Optional, both: NULL means that memory of this process cannot become the chip's. */
    int (*adopt)(struct chip *chip, uint64_t addr, uint64_t bytes);
    void (*disown)(struct chip *chip, uint64_t addr);
};

struct chip_run_ops {
    int (*load)(struct chip *chip, const struct chip_program *program, struct chip_code **code_out,
                struct pto_error *error);
    void (*unload)(struct chip *chip, struct chip_code *code);

    /*
     * start, wait, report: one thread, in this order; the next start comes after the report, or,
     * where the chip takes_next, beside the wait, from another thread.
     */
    int (*start)(struct chip *chip, const struct chip_request *request);
    void (*wait)(struct chip *chip);
    const struct chip_result *(*report)(struct chip *chip, struct pto_run_report *report);

    /* From any thread. A number that is not the run's, or not yet, is remembered for its start. */
    int (*poll)(struct chip *chip);
    void (*cancel)(struct chip *chip, uint64_t number);
    uint64_t (*progress)(struct chip *chip);

    /* From any thread, beside a run of another graph. Optional: NULL: there are no graphs. */
    void (*drop)(struct chip *chip, struct chip_graph *graph);

    /* Optional: NULL means that nothing is ever recorded. */
    int (*record)(struct chip *chip, struct chip_record *record_out);
};

/* Memory that chips of other processes reach. */
struct chip_window_ops {
    const char *const *ways; /* names, the best one first; NULL-terminated */
    uint32_t waiting;        /* bits of those whose join waits until all ranks join */
    int (*offer)(struct chip *chip, const struct chip_window_request *request,
                 struct chip_window **window_out, struct chip_offer *offer,
                 struct pto_error *error);
    int (*join)(struct chip *chip, struct chip_window *window, const struct chip_offer *offer,
                const struct chip_patience *patience, struct pto_error *error);
    int (*drop)(struct chip *chip, struct chip_window *window, struct pto_error *error);
};

struct chip_backend {
    const char *name;
    const struct chip_device_ops *device;
    const struct chip_memory_ops *memory;
    const struct chip_run_ops *runs;
    const struct chip_window_ops *windows; /* optional: NULL means that windows are the host's */
};

/* First member of every backend's own struct. */
struct chip {
    const struct chip_backend *backend;
    struct chip_properties properties;
};

extern const struct chip_backend sim_backend;
extern const struct chip_backend sim_isolated_backend;
extern const struct chip_backend cann_backend;
extern const struct chip_backend chip_null_backend;

/* Backends by index, NULL past the end. */
const struct chip_backend *chip_backend_at(uint32_t index);

/* Counts threads in kernels that no run waits for: up, and down when one comes back. */
void chip_count_stuck(int32_t change);

#endif
