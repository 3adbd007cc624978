/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A second client of the stand-in, so that the stand-in is not shaped after the backend alone. It
 * works as the reference's host code does: ACL is not initialised, each thread takes the card, two
 * pairs of streams, one description with several ops that is removed once it is read, cores that
 * are launched before the control processor, 6 blocks that meet, waits of 50 s, one reset. The
 * prototypes are those of tests/standin/facts.tsv; nothing of the backend is used.
 *
 *     client PROGRAMS RUNS    folder of dispatcher.so, scheduler.so and executor.so
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/standin/second/second.h"

struct value {
    int32_t id;
    uint32_t value[4];
};

struct values {
    struct value *value;
    size_t count;
};

extern int aclrtSetDevice(int32_t device);
extern int aclrtResetDevice(int32_t device);
extern int aclrtMalloc(void **at, size_t bytes, int policy);
extern int aclrtFree(void *at);
extern int aclrtMemcpy(void *to, size_t room, const void *from, size_t bytes, int kind);
extern int aclrtMemset(void *at, size_t room, int32_t value, size_t bytes);
extern int aclrtCreateStream(void **stream);
extern int aclrtDestroyStream(void *stream);
extern int aclrtSynchronizeStreamWithTimeout(void *stream, int32_t ms);
extern int aclrtGetStreamResLimit(void *stream, int kind, uint32_t *value);
extern int aclrtBinaryLoadFromFile(const char *path, struct values *options, void **binary);
extern int aclrtBinaryLoadFromData(const void *data, size_t bytes, const struct values *options,
                                   void **binary);
extern int aclrtBinaryGetFunction(void *binary, const char *name, void **function);
extern int aclrtBinaryGetFunctionByEntry(void *binary, uint64_t entry, void **function);
extern int aclrtBinaryUnLoad(void *binary);
extern int aclrtLaunchKernelWithHostArgs(void *function, uint32_t blocks, void *stream,
                                         struct values *config, void *args, size_t bytes,
                                         void *places, size_t place_count);
extern int halMemCtl(int type, void *in, size_t in_bytes, void *out, size_t *out_bytes);
extern int halGetDeviceInfoByBuff(uint32_t device, int32_t module, int32_t info, void *at,
                                  int32_t *bytes);

enum {
    TO_CARD = 1,
    FROM_CARD = 2,
    WAIT_MS = 50000,
    PROGRAM_MAX = 1 << 20,
    MIB = 1 << 20,
    CARD_CORES = NUMBERS / 3,
};

/* Makes a call that must succeed. */
#define CALL(call)                                                                \
    do {                                                                          \
        int code_ = (call);                                                       \
        if (code_ != 0) {                                                         \
            fprintf(stderr, "line %d: %s answered %d\n", __LINE__, #call, code_); \
            exit(1);                                                              \
        }                                                                         \
    } while (0)

static const char *programs;
static char description[] = "/tmp/second-XXXXXX.json";

static size_t read_program(const char *name, char **bytes)
{
    char path[4096];
    size_t size = 0;
    FILE *file;

    snprintf(path, sizeof(path), "%s/%s", programs, name);
    file = fopen(path, "re");
    *bytes = malloc(PROGRAM_MAX);
    if (file != NULL && *bytes != NULL)
        size = fread(*bytes, 1, PROGRAM_MAX, file);
    if (size == 0 || size == PROGRAM_MAX) {
        fprintf(stderr, "%s cannot be read\n", path);
        exit(1);
    }
    fclose(file);
    return size;
}

static void *upload(const void *from, size_t bytes)
{
    void *at = NULL;

    CALL(aclrtMalloc(&at, bytes, 0));
    CALL(aclrtMemcpy(at, bytes, from, bytes, TO_CARD));
    return at;
}

/* The file is deleted as soon as it is loaded. */
static void *load_description(const char *text)
{
    struct value mode = { .id = 3 };
    struct values options = { &mode, 1 };
    int fd = mkstemps(description, 5);
    void *binary = NULL;
    FILE *file = fd >= 0 ? fdopen(fd, "w") : NULL;

    if (file == NULL || fputs(text, file) < 0 || fclose(file) != 0)
        exit(1);
    CALL(aclrtBinaryLoadFromFile(description, &options, &binary));
    (void)unlink(description);
    strcpy(description, "/tmp/second-XXXXXX.json");
    return binary;
}

static void launch_cpu(void *function, uint32_t blocks, void *stream, const void *args,
                       size_t bytes)
{
    struct value none = { 0 };
    struct values config = { &none, 0 };
    char copy[256];

    memcpy(copy, args, bytes);
    CALL(aclrtLaunchKernelWithHostArgs(function, blocks, stream, &config, copy, bytes, NULL, 0));
}

/* ---- bootstrap ---- */

static void boot(void *stream, const char *inner_name)
{
    static const char text[] =
        "{\"AstDynServer\": {\"opInfo\": {\"opKernelLib\": \"KFCKernel\", \"kernelSo\": "
        "\"libaicpu_extend_kernels.so\", \"functionName\": \"DynTileFwkKernelServerInit\"}}}";
    char *object, *inner;
    struct boot_args args = { .device = 0 };
    struct boot_launch launch = { .args = 0 };
    void *binary = load_description(text), *function = NULL;

    args.object_bytes = read_program("dispatcher.so", &object);
    args.inner_bytes = read_program("scheduler.so", &inner);
    args.object = (uint64_t)(uintptr_t)upload(object, args.object_bytes);
    args.inner = (uint64_t)(uintptr_t)upload(inner, args.inner_bytes);
    snprintf(args.name, sizeof(args.name), "%s", inner_name);
    launch.args = (uint64_t)(uintptr_t)upload(&args, sizeof(args));
    CALL(aclrtBinaryGetFunction(binary, "AstDynServer", &function));
    launch_cpu(function, 1, stream, &launch, sizeof(launch));
    CALL(aclrtSynchronizeStreamWithTimeout(stream, WAIT_MS));
    CALL(aclrtMemcpy(&args, sizeof(args), (const void *)(uintptr_t)launch.args, sizeof(args),
                     FROM_CARD));
    if (args.written != args.inner_bytes) {
        fprintf(stderr, "the dispatcher wrote %llu bytes\n", (unsigned long long)args.written);
        exit(1);
    }
    CALL(aclrtFree((void *)(uintptr_t)launch.args));
    CALL(aclrtFree((void *)(uintptr_t)args.inner));
    CALL(aclrtFree((void *)(uintptr_t)args.object));
    CALL(aclrtBinaryUnLoad(binary));
    free(object);
    free(inner);
}

/* ---- runs ---- */

enum { INIT, REGISTER, EXEC, OPS };

/*
 * Writes one description for all functions of the program, with its members in an arbitrary order.
 */
static void *load_ops(const char *so, void *function[OPS])
{
    static const char *const names[OPS] = { "second_init", "second_register", "second_exec" };
    char text[4096];
    size_t at = 0;
    void *binary;

    for (int i = 0; i < OPS; i++)
        at +=
            (size_t)snprintf(text + at, sizeof(text) - at,
                             "%s\n  \"%s\" : {\n    \"opInfo\" : { \"kernelSo\" : \"%s\", "
                             "\"userDefined\":\"False\", \"computeCost\": 100,\n"
                             "      \"functionName\":\"%s\", \"opKernelLib\" : \"AICPUKernel\" }}",
                             i == 0 ? "{" : ",", names[i], so, names[i]);
    snprintf(text + at, sizeof(text) - at, "\n}\n");
    binary = load_description(text);
    for (int i = 0; i < OPS; i++)
        CALL(aclrtBinaryGetFunction(binary, names[i], &function[i]));
    return binary;
}

/* Returns the register windows of all existing cores. */
static void find_windows(uint64_t window[NUMBERS])
{
    struct {
        uint32_t kind, device;
    } in = { 2, 0 };
    struct {
        uint64_t at, bytes;
    } out = { 0, 0 };
    uint64_t mask[2] = { 0, 0 };
    int32_t bytes = sizeof(mask);

    CALL(halMemCtl(0, &in, sizeof(in), &out, NULL));
    CALL(halGetDeviceInfoByBuff(0, 4, 8, mask, &bytes));
    for (uint32_t i = 0; i < CARD_CORES; i++) {
        uint64_t at = (mask[0] >> i & 1) != 0 ? out.at + (uint64_t)i * 8 * MIB : 0;

        window[i] = at;
        window[CARD_CORES + 2 * i] = at + MIB;
        window[CARD_CORES + 2 * i + 1] = at + 2 * MIB;
    }
}

static bool is_right(const struct run *run)
{
    static const uint64_t expected[CORES] = { 2, 6, 15, 28, 55, 78 };
    bool is = run->answer == CORES && run->lonely == 0;

    for (int i = 0; i < CORES; i++)
        is = is && run->core[i].result == expected[i];
    return is;
}

static void run_once(void *executor, void *exec, void *cpu_stream, void *core_stream)
{
    struct value batch = { .id = 1, .value = { 1 } };
    struct values together = { &batch, 1 };
    struct run run = { .arrived = 0 };
    struct launch launch = { .value = 7 };
    uint64_t pointer;
    int code;

    find_windows(run.window);
    launch.run = pointer = (uint64_t)(uintptr_t)upload(&run, sizeof(run));
    CALL(aclrtLaunchKernelWithHostArgs(executor, CLUSTERS, core_stream, &together, &pointer,
                                       sizeof(pointer), NULL, 0));
    launch_cpu(exec, BLOCKS, cpu_stream, &launch, sizeof(launch));
    code = aclrtSynchronizeStreamWithTimeout(cpu_stream, WAIT_MS);
    CALL(aclrtMemcpy(&run, sizeof(run), (const void *)(uintptr_t)launch.run, sizeof(run),
                     FROM_CARD));
    if (code != 0 || !is_right(&run)) {
        fprintf(stderr, "the run answered %d: %u of %d blocks came%s, %u of %d cores answered\n",
                code, run.arrived, BLOCKS, run.lonely != 0 ? ", not at the same time" : "",
                run.answer, CORES);
        exit(1);
    }
    CALL(aclrtSynchronizeStreamWithTimeout(core_stream, WAIT_MS));
    CALL(aclrtFree((void *)(uintptr_t)launch.run));
}

static void *load_executor(void **binary)
{
    struct value magic = { .id = 2, .value = { 0x43554245 } };
    struct values options = { &magic, 1 };
    char *bytes;
    size_t size = read_program("executor.so", &bytes);
    void *function = NULL;

    CALL(aclrtBinaryLoadFromData(bytes, size, &options, binary));
    CALL(aclrtBinaryGetFunctionByEntry(*binary, 0, &function));
    free(bytes);
    return function;
}

/* The thread of the runs binds itself to the card as well, and never unbinds. */
static void *run_main(void *runs)
{
    static const char inner[] = "libsecond_inner_0.so";
    struct launch launch = { .value = 7 };
    void *stream[4], *function[OPS], *binary, *executor = NULL, *entry;
    uint32_t cubes = 0, vectors = 0;

    CALL(aclrtSetDevice(0));
    for (int i = 0; i < 4; i++) /* two streams for the bootstrap, two for the runs */
        CALL(aclrtCreateStream(&stream[i]));
    CALL(aclrtGetStreamResLimit(stream[1], 0, &cubes));
    CALL(aclrtGetStreamResLimit(stream[1], 1, &vectors));
    if (cubes < CLUSTERS || vectors != 2 * cubes)
        exit(1);
    boot(stream[0], inner);
    binary = load_ops(inner, function);
    launch_cpu(function[INIT], 1, stream[0], &launch, sizeof(launch));
    CALL(aclrtSynchronizeStreamWithTimeout(stream[0], WAIT_MS));
    launch_cpu(function[REGISTER], 1, stream[0], &launch, sizeof(launch));
    CALL(aclrtSynchronizeStreamWithTimeout(stream[0], WAIT_MS));
    entry = load_executor(&executor); /* which stays */
    for (int i = 0; i < *(int *)runs; i++)
        run_once(entry, function[EXEC], stream[2], stream[3]);
    for (int i = 0; i < 4; i++)
        CALL(aclrtDestroyStream(stream[i]));
    CALL(aclrtBinaryUnLoad(binary));
    return NULL;
}

int main(int argc, char **argv)
{
    int runs = argc == 3 ? atoi(argv[2]) : 0;
    pthread_t thread;

    if (runs < 1)
        return 2;
    programs = argv[1];
    CALL(aclrtSetDevice(0));
    if (pthread_create(&thread, NULL, run_main, &runs) != 0 || pthread_join(thread, NULL) != 0)
        return 1;
    CALL(aclrtResetDevice(0));
    printf("%d runs of %d blocks and %d cores\n", runs, BLOCKS, CORES);
    return 0;
}
