/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The clock of a chip in virtual time, and the registers of its cores. The scheduler program of a
 * card (cann/device/scheduler.h) runs against them. The clock advances when the scheduler does
 * something that takes time on a card, and jumps to the next end of a kernel when there is nothing
 * to do.
 *
 * Used by one thread at a time: the leader of the run.
 */
#ifndef PTO_VIRTUAL_CLOCK_H
#define PTO_VIRTUAL_CLOCK_H

#include <stdbool.h>

#include "wire/board.h"

struct virtual_chip;

enum {
    VIRTUAL_BELL = 0, /* offsets of the registers in a core's window */
    VIRTUAL_COND = 4,
    VIRTUAL_CLOCK_ALIGN = 1024,
    VIRTUAL_IDLE_NS = 1000, /* step in ns by which the clock advances when no kernel is running */
};

#define VIRTUAL_NEVER UINT64_MAX

/* How long the scheduler of a card needs for its operations, in ns. */
struct virtual_costs {
    uint64_t register_read_ns;
    uint64_t register_write_ns;
    uint64_t line_ns;   /* time that the scheduler takes to send 64 bytes to a core */
    uint64_t pickup_ns; /* time from the doorbell to the start of the kernel */
    uint64_t submit_ns; /* time of one submit of the orchestration */
};

struct virtual_window {
    uint32_t bell, cond;
};

/* Aligned to VIRTUAL_CLOCK_ALIGN, so that masking the address of a register gives its clock. */
struct virtual_clock {
    struct virtual_window window[BOARD_CORES];
    struct virtual_chip *chip;
    void *machine; /* the struct machine of the scheduler program */
    uint64_t now_ns;
    struct virtual_costs cost;
    uint32_t core_count;
    uint64_t end_ns[BOARD_CORES]; /* when the kernel ends; VIRTUAL_NEVER: none, or it is late */
    /* number of kernels that returned later than their cost model predicted */
    uint64_t late_count;
};

static_assert(sizeof(struct virtual_window[BOARD_CORES]) <= VIRTUAL_CLOCK_ALIGN,
              "a register's address leads to its clock");

static inline struct virtual_clock *virtual_clock_of(uint64_t addr)
{
    return (struct virtual_clock *)(uintptr_t)(addr & ~(uint64_t)(VIRTUAL_CLOCK_ALIGN - 1));
}

/*
 * Returns the clock of the chip that the calling thread belongs to. Never inlined: the caller runs
 * on a fiber that moves between threads, so it must not keep the address of the thread-local
 * variable.
 */
struct virtual_clock *virtual_clock_here(void);

/*
 * A kernel that the scheduler has started on a core by its doorbell. device/port_virtual.c fills
 * it.
 */
struct virtual_start {
    void (*fn)(int64_t *args);
    int64_t *args;
    const void *tensor; /* array of struct pto_tensor: the task's tensors */
    const uint64_t *scalar;
    uint32_t tensor_count, scalar_count;
    uint32_t core; /* number of the core: AICs first, then AIVs */
    uint32_t task; /* index of the task, from 0 */
    uint32_t kernel;
    uint32_t block, block_count;
    uint32_t lane;
    bool is_team; /* other kernels start together with this one, which may wait for them */
};

/* Whether and how a kernel has ended. */
struct virtual_end {
    bool has_ended;
    int signal; /* signal of the kernel's crash; 0: none */
    uint64_t addr;
    const char *thrown; /* text of the exception that left the kernel; NULL: none */
    bool has_exited;    /* the kernel called pthread_exit */
};

/*
 * virtual_jobs.c: starts the kernel at the current virtual time, and sets the clock's end_ns of its
 * core.
 */
void virtual_begin(struct virtual_chip *v, const struct virtual_start *start);
/*
 * Called when the core's end_ns is reached. If the kernel has not really returned, it becomes late,
 * and has_ended is false.
 */
struct virtual_end virtual_finish(struct virtual_chip *v, uint32_t core);
/* Called when the scheduler has nothing to do: advances the clock. */
void virtual_pass(struct virtual_chip *v);
/* Load and store by the scheduler, of memory that the orchestration or a predicate names. */
bool virtual_peek(struct virtual_chip *v, uint64_t addr, uint32_t bytes);
bool virtual_poke(struct virtual_chip *v, uint64_t addr, uint32_t bytes, uint64_t bits);
/* Copies a cancellation that the host requested to the board, where the scheduler reads it. */
void virtual_take_requests(struct virtual_chip *v);
void virtual_show_live(struct virtual_chip *v);

#endif
