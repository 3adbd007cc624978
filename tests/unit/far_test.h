/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the tests of isolated devices share: a callable with a kernel that does whatever
 * its scalar says, devices for it, and a look at the children of a process.
 *
 * Include it last: cmocka comes with it.
 */
#ifndef PTO_FAR_TEST_H
#define PTO_FAR_TEST_H

#include <dirent.h>

#include "tests/unit/artefact_test.h"

/* What kernel "wild" does, by the entry's first scalar; 0: it is not submitted. */
#define DEEDS                                                                               \
    "enum { NOTHING, EXIT, UNDERSCORE_EXIT, ABORT, CRASH, LOOP, WAIT, BAD_FREE, SCRIBBLE, " \
    "BESIDE, LATER, BEYOND, FORK, ORCH_EXIT, ORCH_CRASH };\n"
enum {
    NOTHING,
    EXIT,
    UNDERSCORE_EXIT,
    ABORT,
    CRASH,
    LOOP,     /* sets element 1 */
    WAIT,     /* the same, until element 2 is set */
    BAD_FREE, /* the allocator notices */
    SCRIBBLE, /* over all of the heap */
    BESIDE,   /* a thread of its own calls abort while it waits */
    LATER,    /* the same, once the kernel has returned and element 2 is set */
    BEYOND,   /* writes behind its tensor */
    FORK,     /* the child returns; element 1 is its exit code */
    ORCH_EXIT,
    ORCH_CRASH,
};

static const char wild_orchestration[] =
    "#include <stdlib.h>\n"
    "#include <pto/orch.h>\n" DEEDS
    "void orchestrate(struct pto_orch *o, const struct pto_entry *e)\n"
    "{\n"
    "    uint64_t what = pto_scalar(o, 0);\n"
    "    if (what == ORCH_EXIT) exit(3);\n"
    "    if (what == ORCH_CRASH) *(volatile int *)8 = 1;\n"
    "    pto_aiv(o, 0, PTO_INOUT(&e->tensor[0]));\n"
    "    if (what != NOTHING) pto_aiv(o, 1, PTO_INOUT(&e->tensor[0]), PTO_INT(what));\n"
    "    pto_aiv(o, 0, PTO_INOUT(&e->tensor[0]));\n"
    "}\n";

static const char count_kernel[] = "#include <pto/kernel.h>\n"
                                   "void kernel_entry(int64_t *args)\n"
                                   "{ ++*(int *)pto_tensor_data(pto_arg_tensor(args, 0)); }\n";

static const char wild_kernel[] =
    "#include <pthread.h>\n#include <stdlib.h>\n#include <string.h>\n#include <unistd.h>\n"
    "#include <sys/wait.h>\n"
    "#include <pto/kernel.h>\n" DEEDS "static char *volatile kept;\n"
    "static void *call_abort(void *word)\n"
    "{\n"
    "    while (word != NULL && *(volatile int *)word == 0) usleep(1000);\n"
    "    abort();\n"
    "}\n"
    "void kernel_entry(int64_t *args)\n"
    "{\n"
    "    volatile int *data = (int *)pto_tensor_data(pto_arg_tensor(args, 0));\n"
    "    pthread_t thread;\n"
    "    pid_t child;\n"
    "    int state;\n"
    "    switch (args[1]) {\n"
    "    case EXIT: exit(7);\n"
    "    case UNDERSCORE_EXIT: _exit(9);\n"
    "    case ABORT: abort();\n"
    "    case CRASH: *(volatile int *)8 = 1; break;\n"
    "    case LOOP: data[1] = 1; for (;;) usleep(1000);\n"
    "    case WAIT: data[1] = 1; while (data[2] == 0) usleep(1000); break;\n"
    "    case BAD_FREE: kept = malloc(4000); kept += 8; free(kept); break;\n"
    "    case SCRIBBLE: kept = malloc(16); memset(kept, 0x5a, 1ul << 32); break;\n"
    "    case BESIDE: pthread_create(&thread, NULL, call_abort, NULL); for (;;) usleep(1000);\n"
    "    case LATER: pthread_create(&thread, NULL, call_abort, (void *)&data[2]); break;\n"
    "    case BEYOND: data[16] = 1; break;\n"
    "    case FORK:\n"
    "        if ((child = fork()) == 0) { close(2); break; }\n"
    "        waitpid(child, &state, 0);\n"
    "        data[1] = WIFEXITED(state) ? WEXITSTATUS(state) : -1;\n"
    "        break;\n"
    "    }\n"
    "}\n";

enum { INTS = 16 };

/* A device with the callable, and its tensor in device memory. */
struct rig {
    struct pto_device *device;
    uint64_t addr;
    struct pto_tensor tensor;
    uint64_t scalar[1];
    struct pto_entry entry;
};

static struct pto_callable *wild;
static struct recipe wild_recipe;
static struct artefact_kernel wild_kernels[2];
static struct bytes count_bytes;

static inline int set_up(void **state)
{
    if (make_folder(state) != 0)
        return -1;
    count_bytes = compile(count_kernel, "");
    wild_recipe = (struct recipe){ .orchestration_bytes = compile(wild_orchestration, ""),
                                   .kernel_bytes = compile(wild_kernel, "-pthread") };
    wild_kernels[0] =
        (struct artefact_kernel){ 0, PTO_CORE_AIV, "count", count_bytes.at, count_bytes.size };
    wild_kernels[1] =
        (struct artefact_kernel){ 1, PTO_CORE_AIV, "wild", wild_recipe.kernel_bytes.at,
                                  wild_recipe.kernel_bytes.size };
    wild_recipe.parts =
        (struct artefact_parts){ .name = "far",
                                 .platform = "a2a3sim",
                                 .orchestration = wild_recipe.orchestration_bytes.at,
                                 .orchestration_size = wild_recipe.orchestration_bytes.size,
                                 .kernels = wild_kernels,
                                 .kernel_count = 2 };
    wild = load_recipe(&wild_recipe);
    return 0;
}

static inline int tear_down(void **state)
{
    assert_int_equal(pto_callable_destroy(wild), PTO_OK);
    free_recipe(&wild_recipe);
    free(count_bytes.at);
    return remove_folder(state);
}

static inline struct pto_device *open_far(uint32_t workers)
{
    struct pto_device_params params;
    struct pto_error error;
    struct pto_device *device = NULL;

    pto_error_init(&error);
    pto_device_params_init(&params);
    params.clusters = 2;
    params.workers = workers;
    params.is_isolated = true;
    params.error = &error;
    if (pto_device_open(&params, &device) < 0)
        fail_msg("%s", error.text);
    return device;
}

static inline struct rig set_rig(struct pto_device *device)
{
    static const int zero[INTS];
    struct rig r = { .device = device };

    assert_int_equal(pto_mem_alloc(device, sizeof(zero), &r.addr), PTO_OK);
    assert_int_equal(pto_mem_write(device, r.addr, zero, sizeof(zero)), PTO_OK);
    r.tensor = pto_tensor_external((void *)(uintptr_t)r.addr, (uint32_t[]){ INTS }, 1, PTO_INT32);
    r.tensor.space = PTO_SPACE_DEVICE;
    return r;
}

static const struct pto_entry *entry_of(struct rig *r, uint64_t what)
{
    r->scalar[0] = what;
    r->entry = (struct pto_entry){ 1, 1, &r->tensor, r->scalar };
    return &r->entry;
}

static inline int run_wild(struct rig *r, uint64_t what)
{
    pto_run_report_init(&report);
    return pto_run(r->device, wild, entry_of(r, what), NULL, &report);
}

static inline int element(struct rig *r, uint32_t index)
{
    int value;

    assert_int_equal(pto_mem_read(r->device, r->addr + index * sizeof(int), &value, sizeof(value)),
                     PTO_OK);
    return value;
}

static inline void set_element(struct rig *r, uint32_t index, int value)
{
    assert_int_equal(pto_mem_write(r->device, r->addr + index * sizeof(int), &value, sizeof(value)),
                     PTO_OK);
}

static inline void assert_works(struct rig *r)
{
    int before = element(r, 0);

    if (run_wild(r, NOTHING) < 0)
        fail_msg("%s", report.error.text);
    assert_int_equal(element(r, 0), before + 2);
}

/* ---- processes ---- */

/* The children of a process; returns how many there are, *last is one of them. */
static inline uint32_t children_of(pid_t parent, pid_t *last)
{
    DIR *proc = opendir("/proc");
    uint32_t count = 0;

    assert_non_null(proc);
    for (struct dirent *entry = readdir(proc); entry != NULL; entry = readdir(proc)) {
        char path[300], text[512] = { 0 };
        FILE *file;
        char *end;
        int ppid = 0;

        snprintf(path, sizeof(path), "/proc/%.250s/stat", entry->d_name);
        file = entry->d_name[0] >= '0' && entry->d_name[0] <= '9' ? fopen(path, "r") : NULL;
        if (file == NULL)
            continue;
        (void)!fread(text, 1, sizeof(text) - 1, file);
        fclose(file);
        end = strrchr(text, ')');
        if (end != NULL && sscanf(end + 1, " %*c %d", &ppid) == 1 && ppid == parent) {
            count++;
            if (last != NULL)
                *last = (pid_t)atoi(entry->d_name);
        }
    }
    closedir(proc);
    return count;
}

#endif
