/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The contract of a backend: three small tables of functions, a fourth for chips that share memory
 * with chips of other processes, and a fifth for virtual time. A backend exports one symbol, a
 * `const struct chip_backend`; the struct that it allocates for a chip begins with a struct chip,
 * and its other members are private. Copy src/chip/null.c to write a backend;
 * docs/internals/porting.md explains it, and tests/conformance/ runs one suite over all backends.
 *
 * src/chip/chip.h documents the calls for the host. The comments here are for implementers. The
 * host never passes NULL where it is not allowed, and the wrappers of chip.c reject sizes of 0. A
 * comment that begins with `Optional:` states what a NULL pointer means. A backend translates
 * errors of the system or of a vendor to a PTO status where they occur.
 */
#ifndef PTO_BACKEND_H
#define PTO_BACKEND_H

#include "chip/chip.h"
#include "chip/status_record.h"

struct chip_device_ops {
    /*
     * Opens a chip. `error` may be NULL. A failed call leaves nothing to clean up. PTO_ENOMEM,
     * PTO_ESYSTEM.
     */
    int (*open)(const struct chip_params *params, struct chip **chip_out, struct pto_error *error);

    /*
     * Closes a chip on which no run is executing, every graph was dropped and all code was
     * unloaded. Returns false if kernels that never return still use the device's memory.
     */
    bool (*close)(struct chip *chip);

    /*
     * Optional: NULL means that the chip runs in the caller's process. Called in a process that
     * `open` has started (link/hello.h): serves the parent process. Returns the exit code, or ends
     * the process.
     */
    int (*serve)(void);

    /* Optional: NULL means that no thread of this process is ever inside an orchestration. */
    bool (*is_builder)(struct chip *chip);
};

/*
 * The memory of a chip. Called from any thread, also during a run. The caller ensures that no run
 * uses memory that is being freed.
 */
struct chip_memory_ops {
    int (*alloc)(struct chip *chip, uint64_t bytes, uint64_t *addr_out, struct pto_error *error);
    int (*free)(struct chip *chip, uint64_t addr, struct pto_error *error);
    int (*write)(struct chip *chip, uint64_t addr, const void *from, uint64_t bytes,
                 struct pto_error *error);
    int (*read)(struct chip *chip, uint64_t addr, void *to, uint64_t bytes,
                struct pto_error *error);
    bool (*contains)(struct chip *chip, uint64_t addr);

    /* Optional: NULL means that there are no guards to check. */
    int (*check)(struct chip *chip, struct pto_error *error);

    /* Optional, both: NULL means that host memory cannot be registered with the chip. */
    int (*register_memory)(struct chip *chip, uint64_t addr, uint64_t bytes);
    void (*unregister_memory)(struct chip *chip, uint64_t addr);
};

struct chip_run_ops {
    int (*load)(struct chip *chip, const struct chip_program *program, struct chip_code **code_out,
                struct pto_error *error);
    void (*unload)(struct chip *chip, struct chip_code *code);

    /*
     * start, wait and report are called by one thread, in this order. The next start comes after
     * the report, or, if the chip takes_next, during the wait, from another thread.
     */
    int (*start)(struct chip *chip, const struct chip_request *request);
    void (*wait)(struct chip *chip);
    const struct chip_result *(*report)(struct chip *chip, struct pto_run_report *report);

    /*
     * poll, cancel and progress are called from any thread. If the cancelled number is not that of
     * the executing run, the chip stores it until that run starts.
     */
    int (*poll)(struct chip *chip);
    void (*cancel)(struct chip *chip, uint64_t number);
    uint64_t (*progress)(struct chip *chip);

    /*
     * Frees a graph. Called from any thread, also during a run of another graph. Optional: NULL
     * means that the chip has no graphs.
     */
    void (*drop)(struct chip *chip, struct chip_graph *graph);

    /* Optional: NULL means that nothing is ever recorded. */
    int (*record)(struct chip *chip, struct chip_record *record_out);
};

/* Virtual time of a chip whose runs have computed durations. */
struct chip_time_ops {
    /*
     * Sets the options for later runs; called between runs. After a failure the previous options
     * stay in effect.
     */
    int (*set)(struct chip *chip, const struct pto_virtual_options *options,
               struct pto_error *error);
    /* Fills in the report about the last run. */
    void (*report)(struct chip *chip, struct pto_virtual_report *report);
    bool (*kernel)(struct chip *chip, uint32_t index, struct pto_virtual_kernel *kernel);
    /*
     * Called before the first run: from then on each run begins at the time that the shared clock
     * has for its member number `place`.
     */
    void (*join)(struct chip *chip, const struct shared_clock_place *place);
};

/* Memory that the kernels of chips in other processes can access. */
struct chip_window_ops {
    /* Names of the ways to share memory, the best one first; NULL-terminated. */
    const char *const *ways;
    /*
     * bit k: windows that are shared in ways[k] need all ranks, so a rank that joins waits until
     * all ranks do
     */
    uint32_t waiting;
    int (*offer)(struct chip *chip, const struct chip_window_request *request,
                 struct chip_window **window_out, struct chip_offer *offer,
                 struct pto_error *error);
    int (*join)(struct chip *chip, struct chip_window *window, const struct chip_offer *offer,
                const struct chip_wait_check *check, struct pto_error *error);
    int (*drop)(struct chip *chip, struct chip_window *window, struct pto_error *error);
};

struct chip_backend {
    const char *name;
    const struct chip_device_ops *device;
    const struct chip_memory_ops *memory;
    const struct chip_run_ops *runs;
    /* Optional: NULL means that windows are made of host memory. */
    const struct chip_window_ops *windows;
    /* Optional: NULL means that the chip runs in real time. */
    const struct chip_time_ops *time;
};

/* The first member of every backend's chip struct. */
struct chip {
    const struct chip_backend *backend;
    struct chip_properties properties;
    /*
     * memory in which observers in other processes see the state: opened by chip_show; the backend
     * writes its part
     */
    struct status status;
};

extern const struct chip_backend sim_backend;
extern const struct chip_backend sim_isolated_backend;
extern const struct chip_backend cann_backend;
extern const struct chip_backend virtual_backend;
extern const struct chip_backend chip_null_backend;

/* Returns the backend with this index; NULL past the last one. */
const struct chip_backend *chip_backend_at(uint32_t index);

/*
 * Adds `count` to the number of threads in kernels that the runtime has given up; -1 when such a
 * kernel returns after all.
 */
void chip_count_stuck(int32_t change);

#endif
