/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The suite of the contract in chip/backend.h, for whatever backend is registered: what
 * its parts share. Each test gets a chip that was just opened. Device memory is reached
 * through chip_write and chip_read only, and code is shared objects that were compiled
 * when the suite began, so that the chip may be in another process or on another machine.
 *
 * What a backend need not have is skipped, by name.
 *
 * Include it last: cmocka comes with it.
 */
#ifndef PTO_SUITE_H
#define PTO_SUITE_H

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "chip/backend.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

/* ---- the chip of the test ---- */

enum { SUITE_CLUSTERS = 4, SUITE_WORKERS = 2 };
#define SUITE_MEMORY_MAX (256ull << 20)
#define MS 1000000ull

extern const struct chip_backend *suite_backend;
extern struct chip *suite_chip;

struct chip *suite_open(void);
/* Ends the test: the backend does not have this. */
#define suite_skip_unless(has, what) ((has) ? (void)0 : suite_skip(what))
void suite_skip(const char *what);

/* ---- code ---- */

/* By func_id; suite_code.c has their texts. */
enum suite_kernel {
    KERNEL_ADD,    /* tensor 2 = tensor 0 + tensor 1 */
    KERNEL_SCALE,  /* tensor 0 *= the scalar */
    KERNEL_BLOCK,  /* tensor 0 [block] = 100 * blocks + block */
    KERNEL_LANE,   /* tensor 0 [lane] = 100 + lane, for the two AIV lanes */
    KERNEL_BEYOND, /* writes behind the end of tensor 0 */
    KERNEL_DEFER,  /* waits for the first word of tensor 0 to be 1, and returns */
    KERNEL_GATE,   /* sets the first word of tensor 0, and returns when the second one is set */
    KERNEL_CRASH,
    KERNELS
};

extern struct chip_object suite_orchestration;
extern struct chip_kernel suite_kernels[KERNELS];

/* Compiles what the tests use. */
int suite_compile(void **state);
int suite_free_objects(void **state);
struct chip_object suite_compile_object(const char *name, const char *text, const char *flags);
/* The function of suite_orchestration that has this name, with all kernels. */
struct chip_code *suite_load(const char *entry);
/* For runs in this mode. */
struct chip_code *suite_load_for(const char *entry, enum pto_mode mode);

/* ---- runs ---- */

enum { SUITE_TENSORS = 4 };

struct suite_run {
    struct chip_request request;
    struct pto_entry entry;
    struct pto_tensor tensor[SUITE_TENSORS];
    uint64_t scalar[SUITE_TENSORS];
    struct pto_run_options options;
    struct pto_run_report report;
    struct failure failure; /* a copy: the chip's is valid until the next start */
    struct stall stall;
    bool is_lost;
    struct chip_graph *graph;
};

/* To be filled with arguments; `code` may be NULL. */
void suite_run_init(struct suite_run *run, struct chip_code *code);
/* Buffers of 32-bit integers; a new one is zero. */
uint64_t suite_buffer(uint32_t count);
void suite_add_tensor(struct suite_run *run, uint64_t addr, uint32_t count);
void suite_add_scalar(struct suite_run *run, uint64_t scalar);
/* Start, wait, report. Returns the status of the run. */
int suite_execute(struct suite_run *run);
/* The same in a thread of its own. */
pthread_t suite_launch(struct suite_run *run);
int suite_join(pthread_t thread, struct suite_run *run);
/* Until a kernel of the run has returned, or the test fails. */
void suite_wait_for_progress(uint64_t from);
/* Until the 32-bit word on the device has the value, or the test fails. */
void suite_wait_for_word(uint64_t addr, uint32_t value);

/* vector: tensor 2 = (tensor 0 + tensor 1) * scalar 0 + tensor 1. Returns the status. */
int suite_run_vector(struct chip_code *code, int32_t scale);
uint32_t suite_word(uint64_t addr, uint32_t index);
void suite_set_word(uint64_t addr, uint32_t index, uint32_t value);
/* For a sanitizer: nobody frees it. */
void suite_expect_leak(const void *memory);
/* A deadline for what has to happen. */
bool suite_is_late(uint64_t since_ns);
uint64_t suite_now(void);

/* ---- the parts ---- */

#define SUITE_PART(name)                   \
    extern const struct CMUnitTest name[]; \
    extern const size_t name##_count
SUITE_PART(suite_device);
SUITE_PART(suite_memory);
SUITE_PART(suite_code);
SUITE_PART(suite_runs);
SUITE_PART(suite_failures);
SUITE_PART(suite_options);

int suite_begin_test(void **state);
int suite_end_test(void **state);
#define SUITE_TEST(name) cmocka_unit_test_setup_teardown(name, suite_begin_test, suite_end_test)
#define SUITE_COUNT(name) const size_t name##_count = sizeof(name) / sizeof(name[0])

#endif
