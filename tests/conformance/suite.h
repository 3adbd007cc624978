/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the parts of the conformance suite for backends of chips (the contract is in
 * chip/backend.h). Each test gets a newly opened chip. Device memory is accessed by chip_write and
 * chip_read only, and code consists of shared objects that are compiled when the suite begins, so
 * the chip may be in another process or on another machine.
 *
 * Tests of features that a backend does not have are skipped, with the name of the feature.
 *
 * Include this header last, because it includes cmocka.
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
/* Ends the test, because the backend does not have this feature. */
#define suite_skip_unless(has, what) ((has) ? (void)0 : suite_skip(what))
void suite_skip(const char *what);

/* ---- code ---- */

/* Kernels by func_id; suite_code.c has their sources. */
enum suite_kernel {
    KERNEL_ADD,    /* tensor 2 = tensor 0 + tensor 1 */
    KERNEL_SCALE,  /* tensor 0 *= the scalar */
    KERNEL_BLOCK,  /* tensor 0 [block] = 100 * blocks + block */
    KERNEL_LANE,   /* tensor 0 [lane] = 100 + lane, for the two AIV lanes */
    KERNEL_BEYOND, /* writes after the end of tensor 0 */
    KERNEL_DEFER,  /* waits for the first word of tensor 0 to be 1, and returns */
    KERNEL_GATE,   /* sets the first word of tensor 0, and returns when the second word is set */
    KERNEL_CRASH,
    KERNELS
};

extern struct chip_object suite_orchestration;
extern struct chip_kernel suite_kernels[KERNELS];

/* Compiles what the tests use. */
int suite_compile(void **state);
int suite_free_objects(void **state);
struct chip_object suite_compile_object(const char *name, const char *text, const char *flags);
/* Returns the callable with the function of this name in suite_orchestration, and all kernels. */
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
    /* a copy, because the chip's result is valid only until the next start */
    struct failure failure;
    struct stall stall;
    bool is_lost;
    struct chip_graph *graph;
};

/* A request whose arguments the test sets; `code` may be NULL. */
void suite_run_init(struct suite_run *run, struct chip_code *code);
/* Buffers of 32-bit integers; a new one is zero. */
uint64_t suite_buffer(uint32_t count);
void suite_add_tensor(struct suite_run *run, uint64_t addr, uint32_t count);
void suite_add_scalar(struct suite_run *run, uint64_t scalar);
/* Start, wait, report. Returns the status of the run. */
int suite_execute(struct suite_run *run);
/* The same on a separate thread. */
pthread_t suite_launch(struct suite_run *run);
int suite_join(pthread_t thread, struct suite_run *run);
/* Waits until a kernel of the run has returned; else fails the test. */
void suite_wait_for_progress(uint64_t from);
/* Waits until the 32-bit word on the device has the value; else fails the test. */
void suite_wait_for_word(uint64_t addr, uint32_t value);

/* Runs "vector": tensor 2 = (tensor 0 + tensor 1) * scalar 0 + tensor 1. Returns the status. */
int suite_run_vector(struct chip_code *code, int32_t scale);
uint32_t suite_word(uint64_t addr, uint32_t index);
void suite_set_word(uint64_t addr, uint32_t index, uint32_t value);
/* Stores the pointer, so that a sanitizer does not report memory that is never freed. */
void suite_expect_leak(const void *memory);
/* Returns the deadline for an event that must happen. */
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
