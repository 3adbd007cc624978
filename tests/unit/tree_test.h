/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the tests of workers share: functions for SUB workers, which are compiled on the spot,
 * a worker, and shared arrays of numbers.
 *
 * Include it last: cmocka comes with it.
 */
#ifndef PTO_TREE_TEST_H
#define PTO_TREE_TEST_H

#include <dirent.h>

#include "pto/worker.h"
#include "tests/unit/artefact_test.h"

enum { COUNT = 16 }; /* numbers of an array */

static const char sub_text[] =
    "#include <pto/worker.h>\n"
    "#include <signal.h>\n"
    "#include <stdio.h>\n"
    "#include <time.h>\n"
    "#include <unistd.h>\n"
    "static int *at(const struct pto_sub_call *c, int i)\n"
    "{ return (int *)pto_tensor_data(&c->tensor[i]); }\n"
    "static int wait_for(int *word, int value)\n"
    "{\n"
    "    time_t end = time(NULL) + 60;\n"
    "    while (__atomic_load_n(word, __ATOMIC_ACQUIRE) < value) {\n"
    "        if (time(NULL) > end) return PTO_ETIMEOUT;\n"
    "        usleep(100);\n"
    "    }\n"
    "    return 0;\n"
    "}\n"
    "int empty(const struct pto_sub_call *c) { (void)c; return 0; }\n"
    /* The last tensor becomes the sum of the others. */
    "int sum(const struct pto_sub_call *c)\n"
    "{\n"
    "    int last = (int)c->tensor_count - 1;\n"
    "    for (uint32_t i = 0; i < c->tensor[last].shapes[0]; i++) {\n"
    "        int s = 0;\n"
    "        for (int j = 0; j < last; j++) s += at(c, j)[i];\n"
    "        at(c, last)[i] = s;\n"
    "    }\n"
    "    return 0;\n"
    "}\n"
    /* The last one becomes three times itself, plus the others, plus a scalar. */
    "int mix(const struct pto_sub_call *c)\n"
    "{\n"
    "    int last = (int)c->tensor_count - 1;\n"
    "    for (uint32_t i = 0; i < c->tensor[last].shapes[0]; i++) {\n"
    "        unsigned s = 3u * (unsigned)at(c, last)[i] + (unsigned)c->scalar[0];\n"
    "        for (int j = 0; j < last; j++) s += (unsigned)at(c, j)[i];\n"
    "        at(c, last)[i] = (int)s;\n"
    "    }\n"
    "    return 0;\n"
    "}\n"
    "int fails(const struct pto_sub_call *c)\n"
    "{ snprintf(c->text, c->text_size, \"no %d\", (int)c->scalar[0]); return PTO_EFORMAT; }\n"
    /* Says that it has begun in the second number, then waits for the first. */
    "int hold(const struct pto_sub_call *c)\n"
    "{ __atomic_fetch_add(at(c, 0) + 1, 1, __ATOMIC_RELEASE); return wait_for(at(c, 0), 1); }\n"
    "int fails_late(const struct pto_sub_call *c)\n"
    "{ int status = hold(c); return status < 0 ? status : fails(c); }\n"
    /* Waits until as many have come as the scalar says. */
    "int meet(const struct pto_sub_call *c)\n"
    "{ __atomic_fetch_add(at(c, 0), 1, __ATOMIC_RELEASE); return wait_for(at(c, 0), "
    "(int)c->scalar[0]); }\n"
    /* Says that it has begun as hold does. */
    "int dies(const struct pto_sub_call *c)\n"
    "{\n"
    "    if (c->tensor_count > 0) __atomic_fetch_add(at(c, 0) + 1, 1, __ATOMIC_RELEASE);\n"
    "    raise(SIGKILL);\n"
    "    return 0;\n"
    "}\n"
    "int child(const struct pto_sub_call *c) { at(c, 0)[0] = (int)c->child; return 0; }\n";

static struct bytes sub_object;
static struct pto_worker *worker;
static struct pto_worker_report run_report;

static inline void open_worker(uint32_t chips, uint32_t subs)
{
    struct pto_worker_params params;
    struct pto_error error;

    pto_error_init(&error);
    pto_worker_params_init(&params);
    params.platform = "a2a3sim";
    params.chip_count = chips;
    params.sub_count = subs;
    params.memory_max = 1ull << 30;
    params.startup_timeout_ns = HANG_SECONDS * 1000 * MS;
    params.error = &error;
    if (pto_worker_open(&params, &worker) < 0)
        fail_msg("%s", error.text);
}

static inline void close_worker(void)
{
    assert_int_equal(pto_worker_close(worker), PTO_OK);
}

static inline uint64_t register_callable(struct pto_worker_callable params)
{
    struct pto_error error;
    uint64_t callable = 0;

    pto_error_init(&error);
    params.error = &error;
    if (pto_worker_register(worker, &params, &callable) < 0)
        fail_msg("%s", error.text);
    return callable;
}

/* What to register, for all of its kind. */
static inline struct pto_worker_callable callable_of(struct bytes bytes, enum pto_child_kind kind,
                                                     const char *symbol)
{
    struct pto_worker_callable params;

    pto_worker_callable_init(&params);
    params.kind = kind;
    params.bytes = bytes.at;
    params.byte_count = bytes.size;
    params.symbol = symbol;
    return params;
}

static inline uint64_t register_bytes(struct bytes bytes, enum pto_child_kind kind,
                                      const char *symbol)
{
    return register_callable(callable_of(bytes, kind, symbol));
}

static inline struct pto_child_info child(uint32_t index)
{
    struct pto_child_info info;

    pto_child_info_init(&info);
    assert_int_equal(pto_worker_child(worker, index, &info), PTO_OK);
    return info;
}

static inline void await_death(uint32_t index)
{
    uint64_t end = now_ns() + 60000 * MS;

    while (child(index).state != PTO_CHILD_DEAD) {
        if (now_ns() > end)
            fail_msg("nobody noticed the death of a child for a minute");
        nap_ns(MS / 10);
    }
}

static inline void reopen(uint32_t index)
{
    struct pto_error error;

    pto_error_init(&error);
    if (pto_worker_reopen(worker, index, &error) < 0)
        fail_msg("%s", error.text);
}

static inline uint64_t register_sub(const char *symbol)
{
    return register_bytes(sub_object, PTO_CHILD_SUB, symbol);
}

static inline int *make_numbers(void)
{
    void *memory = NULL;

    assert_int_equal(pto_worker_alloc(worker, COUNT * sizeof(int), &memory), PTO_OK);
    return memory;
}

static inline struct pto_tensor numbers(int *at)
{
    const uint32_t shape[] = { COUNT };

    return pto_tensor_external(at, shape, 1, PTO_INT32);
}

static inline int run(pto_level_fn fn, void *context)
{
    pto_worker_report_init(&run_report);
    return pto_worker_run(worker, fn, context, &run_report);
}

/* As run, and it has to succeed. */
static inline void run_well(pto_level_fn fn, void *context)
{
    if (run(fn, context) < 0)
        fail_msg("%s", run_report.error.text);
}

static inline void wait_word(int *word, int value)
{
    uint64_t end = now_ns() + 60000 * MS;

    while (__atomic_load_n(word, __ATOMIC_ACQUIRE) < value) {
        if (now_ns() > end)
            fail_msg("nothing came for a minute");
        nap_ns(MS / 10);
    }
}

/* ---- processes, also those that are nobody's children ---- */

/* Those that this process starts from here on have it in their environment. */
static inline void mark_processes(pid_t tester, uint32_t token)
{
    char text[32];

    snprintf(text, sizeof(text), "%d.%u", (int)tester, token);
    (void)setenv("PTO_TEST_TOKEN", text, 1);
}

/* Whether a file of /proc, whose size is not known, has the bytes. */
static inline bool proc_has(const char *path, const char *wanted, size_t bytes)
{
    static char text[1 << 20];
    FILE *file = fopen(path, "re");
    size_t size = file != NULL ? fread(text, 1, sizeof(text), file) : 0;

    if (file != NULL)
        fclose(file);
    return memmem(text, size, wanted, bytes) != NULL;
}

static inline uint32_t count_processes(uint32_t token)
{
    DIR *list = opendir("/proc");
    char wanted[64];
    uint32_t count = 0;

    snprintf(wanted, sizeof(wanted), "PTO_TEST_TOKEN=%d.%u", (int)getpid(), token);
    for (struct dirent *e = readdir(list); e != NULL; e = readdir(list)) {
        char path[300];

        snprintf(path, sizeof(path), "/proc/%s/environ", e->d_name);
        count += e->d_name[0] >= '1' && e->d_name[0] <= '9' &&
                 proc_has(path, wanted, strlen(wanted) + 1);
    }
    closedir(list);
    return count;
}

static inline bool are_gone(uint32_t token, uint64_t ms)
{
    uint64_t end = now_ns() + ms * MS;

    while (count_processes(token) != 0) {
        if (now_ns() > end)
            return false;
        nap_ns(MS);
    }
    return true;
}

/* ---- one task ---- */

struct one {
    uint64_t callable;
    uint64_t children;
    struct pto_tensor tensor[4];
    uint32_t count; /* of tensors; the last one is written */
    uint64_t scalar;
};

static inline void submit_one(struct pto_level *level, void *context)
{
    struct one *one = context;
    struct pto_args args;

    pto_args_init(&args);
    for (uint32_t i = 0; i < one->count; i++)
        pto_args_add(&args, &one->tensor[i], i + 1 < one->count ? PTO_TAG_INPUT : PTO_TAG_INOUT);
    pto_add_scalar(&args, one->scalar);
    (void)pto_level_submit(level, one->callable, one->children, &args);
}

#endif
