/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Breaks the vendor's rules one by one, as a client of the stand-in's libraries. Each breach
 * happens in a separate process and must have the expected result; if the vendor has no code for
 * it, the stand-in must report it. tests/standin/README.md lists the rules, and what in the backend
 * breaks them.
 *
 *     strict PROGRAMS    folder of the device programs
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cann/vendor.h"
#define STANDIN_CLIENT
#include "tests/standin/standin.h"
#include "wire/board.h"

#define X(library, returns, name, parameters) extern returns name parameters;
VENDOR_MAP(X)
VENDOR_OPTIONAL_MAP(X)
#undef X
#define X(returns, name, parameters) extern returns name parameters;
VENDOR_HCCL_MAP(X)
#undef X
extern int aclFinalize(void);
extern int HcclBarrier(void *comm, void *stream);
extern int aclrtGetDevice(int32_t *device);
extern int aclrtSynchronizeStream(void *stream);
extern int aclrtStreamQuery(void *stream, int32_t *status);
extern int aclrtSetStreamFailureMode(void *stream, uint64_t mode);
extern int aclrtSetOpExecuteTimeOutV2(uint64_t us, uint64_t *actual_us);
extern int halGetDeviceInfo(uint32_t device, int32_t module, int32_t info, int64_t *value);

enum {
    EXECUTORS = 20,
    LOAD_MAX = 64,
    /* enough for the bytes that cores read after the arguments of a launch */
    BOARD_BYTES = 1 << 20,
    LAUNCH_ROOM = 4096,
    PAGE = 2 << 20,
    SMALL_PAGE = 64 << 10,
    OPTION_LAZY = 1,
    FAILED = 1,
};

static const char *programs;
static char folder[] = "/tmp/strict-XXXXXX";

/* A call and its expected result. */
#define EXPECT(wanted, call)                                                             \
    do {                                                                                 \
        int got_ = (call);                                                               \
        if (got_ != (wanted)) {                                                          \
            fprintf(stderr, "line %d: %s: %d, not %d\n", __LINE__, #call, got_, wanted); \
            exit(FAILED);                                                                \
        }                                                                                \
    } while (0)
#define EXPECT_TRUE(what) EXPECT(1, (what) ? 1 : 0)

/* ---- what a client needs ---- */

static void *open_card(int32_t card)
{
    void *context = NULL;

    (void)aclInit(NULL);
    EXPECT(0, aclrtSetDevice(card));
    EXPECT(0, aclrtGetCurrentContext(&context));
    return context;
}

static void *make_stream(void)
{
    void *stream = NULL;

    EXPECT(0, aclrtCreateStream(&stream));
    return stream;
}

/* The executor's file. */
static size_t read_executor(void *bytes, size_t room)
{
    char path[4096];
    FILE *file;
    size_t size;

    snprintf(path, sizeof(path), "%s/executor-a2a3.o", programs);
    file = fopen(path, "re");
    size = file != NULL ? fread(bytes, 1, room, file) : 0;
    EXPECT_TRUE(size != 0 && size < room);
    fclose(file);
    return size;
}

static void *load_binary(bool is_lazy)
{
    static char bytes[1 << 20];
    struct vendor_option option[2] = { { .id = VENDOR_OPTION_MAGIC, .value = { VENDOR_MAGIC_MIX } },
                                       { .id = OPTION_LAZY, .value = { 1 } } };
    struct vendor_options options = { option, is_lazy ? 2 : 1 };
    void *binary = NULL;

    EXPECT(0,
           aclrtBinaryLoadFromData(bytes, read_executor(bytes, sizeof(bytes)), &options, &binary));
    return binary;
}

static void *load_executor(void)
{
    void *function = NULL;

    EXPECT(0, aclrtBinaryGetFunctionByEntry(load_binary(false), 0, &function));
    return function;
}

static int describe(const char *name, const char *text, void **function)
{
    struct vendor_option mode = { .id = VENDOR_OPTION_CPU_MODE };
    struct vendor_options options = { &mode, 1 };
    char path[300];
    void *binary = NULL;
    FILE *file;
    int code;

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    file = fopen(path, "we");
    EXPECT_TRUE(file != NULL && fputs(text, file) >= 0 && fclose(file) == 0);
    code = aclrtBinaryLoadFromFile(path, &options, &binary);
    return code == 0 ? aclrtBinaryGetFunction(binary, "Op", function) : code;
}

static int describe_so(const char *so, const char *user_defined, void **function)
{
    char text[1024];

    snprintf(text, sizeof(text),
             "{\"Op\": {\"opInfo\": {\"functionName\": \"f\", \"kernelSo\": \"%s\", "
             "\"opKernelLib\": \"AICPUKernel\", \"userDefined\": \"%s\"}}}",
             so, user_defined);
    return describe("op.json", text, function);
}

static int launch(void *function, uint32_t blocks, void *stream, bool is_cores)
{
    struct vendor_attribute together = { .id = VENDOR_ATTRIBUTE_SCHEM,
                                         .value = { VENDOR_SCHEM_BATCH } };
    struct vendor_config config = { &together, is_cores };
    struct board_launch cores = { 0 };
    static void *board;
    uint64_t args[32] = { 0 };
    int code;

    if (board == NULL) {
        EXPECT(0, aclrtMalloc(&board, BOARD_BYTES, 0));
        EXPECT(0, aclrtMemset(board, BOARD_BYTES, 0, BOARD_BYTES));
        cores.board = (uint64_t)(uintptr_t)board + LAUNCH_ROOM;
        EXPECT(0, aclrtMemcpy(board, sizeof(cores), &cores, sizeof(cores), VENDOR_HOST_TO_DEVICE));
    }
    args[0] = (uint64_t)(uintptr_t)board;
    code = aclrtLaunchKernelWithHostArgs(function, blocks, stream, &config, args,
                                         is_cores ? 8 : sizeof(args), NULL, 0);
    EXPECT_TRUE(args[0] == (uint64_t)(uintptr_t)board); /* the caller's memory is only read */
    memset(args, 0xdd, sizeof(args));                   /* and the launch has a copy */
    return code;
}

/*
 * A card that has failed, because its control processor was asked to run a function that does not
 * exist.
 */
static void *poison(void)
{
    void *stream = make_stream(), *function = NULL;

    EXPECT(0, describe_so("libmissing.so", "False", &function)); /* no call has noticed it yet */
    EXPECT(0, launch(function, 1, stream, false));
    EXPECT(507018, aclrtSynchronizeStreamWithTimeout(stream, 10000));
    return stream;
}

/* ---- threads, references, ACL ---- */

static void *first_context, *first_stream;

static void no_device(void)
{
    void *at = NULL;

    (void)aclInit(NULL);
    EXPECT(107002, aclrtMalloc(&at, 64, 0));
    EXPECT(107002, aclrtCreateStream(&at));
    EXPECT(107002, aclrtGetCurrentContext(&at));
    EXPECT(107002, aclrtGetHardwareSyncAddr(&at));
    EXPECT(107001, aclrtSetDevice(7));
}

static void other_context(void)
{
    first_context = open_card(0);
    first_stream = make_stream();
    (void)open_card(1);
    EXPECT(107003, aclrtSynchronizeStreamWithTimeout(first_stream, 10));
    EXPECT(107003, aclrtDestroyStream(first_stream));
    EXPECT(0, aclrtSetCurrentContext(first_context));
    EXPECT(0, aclrtDestroyStream(first_stream));
}

static void two_references(void)
{
    void *stream;

    (void)open_card(0);
    stream = make_stream();
    EXPECT(0, aclrtSetDevice(0));
    EXPECT(0, aclrtResetDevice(0));
    EXPECT(0, aclrtSynchronizeStreamWithTimeout(stream, 10)); /* one is left */
    EXPECT(0, aclrtDestroyStream(stream));
    EXPECT(0, aclrtResetDevice(0));
    EXPECT(507007, aclrtResetDevice(0));
}

static void reset_after_force(void)
{
    (void)open_card(0);
    EXPECT(0, aclrtResetDeviceForce(0));
    EXPECT(507007, aclrtResetDevice(0));
}

static void leaves_stream(void)
{
    (void)open_card(0);
    (void)make_stream();
    EXPECT(0, aclrtResetDevice(0));
}

static void second_init(void)
{
    uint64_t left = 0;

    EXPECT(0, aclInit(NULL));
    EXPECT(100002, aclInit(NULL));
    EXPECT(0, aclFinalizeReference(&left));
    EXPECT_TRUE(left == 1);
    EXPECT(0, aclrtSetDevice(0));
}

static void finalize_all(void)
{
    EXPECT(0, aclInit(NULL));
    EXPECT(100002, aclInit(NULL));
    EXPECT(0, aclFinalize());
    (void)aclrtSetDevice(0); /* called by the other process, this ends the process */
}

/* ---- programs ---- */

/*
 * Memory that every run leaves on the card is noticed only when no memory is left, and with another
 * code.
 */
static void registers_each_time(void)
{
    void *stream, *other = NULL, *function = NULL;
    uint32_t count = 0;
    int code = 0;

    (void)open_card(0);
    stream = make_stream();
    EXPECT(0, launch(load_executor(), 1, stream, true));
    for (count = 1; code == 0 && count < LOAD_MAX; count++)
        code = aclrtBinaryGetFunctionByEntry(load_binary(false), 0, &function);
    EXPECT(207001, code);
    EXPECT(EXECUTORS + 1, (int)count);
    EXPECT(507899, aclrtCreateStream(&other));
    EXPECT(0, aclrtResetDeviceForce(0));
    EXPECT(0, aclrtSetDevice(0));
    EXPECT(0, aclrtCreateStream(&other));
    fprintf(stderr, "207001 for executor %u, then 507899\n", count);
}

/*
 * The copy on the card is made when a function is looked up; for a lazy program, by its first
 * launch.
 */
static void copy_on_card(void)
{
    void *binary, *function = NULL, *stream;

    (void)open_card(0);
    stream = make_stream();
    binary = load_binary(false);
    EXPECT(0, (int)standin_count("modules"));
    EXPECT(0, aclrtBinaryGetFunctionByEntry(binary, 0, &function));
    EXPECT(0, aclrtBinaryGetFunction(binary, "pto_executor_0", &function));
    EXPECT(1, (int)standin_count("modules"));
    EXPECT(107000, aclrtBinaryGetFunctionByEntry(binary, 1, &function));
    EXPECT(107000, aclrtBinaryGetFunction(binary, "pto_executor_0_mix_aic", &function));
    EXPECT(0, aclrtBinaryUnLoad(binary));
    EXPECT(0, (int)standin_count("modules"));
    binary = load_binary(true);
    EXPECT(0, aclrtBinaryGetFunctionByEntry(binary, 0, &function));
    EXPECT(0, (int)standin_count("modules"));
    EXPECT(0, launch(function, 1, stream, true));
    EXPECT(1, (int)standin_count("modules"));
}

static void launch_when_down(void)
{
    void *function, *stream, *binary, *at = NULL;
    char byte = 0;

    (void)open_card(0);
    stream = make_stream();
    function = load_executor();
    binary = load_binary(false);
    EXPECT(0, aclrtMalloc(&at, 64, 0));
    standin_plan("aclrtLaunchKernelWithHostArgs@1=down");
    EXPECT(507901, launch(function, 1, stream, true));
    EXPECT(207001, launch(function, 1, stream, true));
    EXPECT(207001, aclrtBinaryGetFunctionByEntry(binary, 0, &function));
    EXPECT(107000, aclrtBinaryGetFunction(binary, "pto_executor_0", &function));
    EXPECT(507899, aclrtCreateStream(&stream));
    EXPECT(507901, aclrtMemcpy(&byte, 1, at, 1, VENDOR_DEVICE_TO_HOST));
    EXPECT(507033, aclrtSetDevice(0));
}

/* A text that is not JSON is refused; an op with invalid members is accepted or ignored. */
static void descriptions(void)
{
    static const char *const no_json[] = { "",
                                           "{",
                                           "{\"Op\": }",
                                           "{\"Op\": {}} {}",
                                           "{'Op': 1}",
                                           "[1, 2",
                                           "{\"Op\": {\"opInfo\": {\"a\": \"b}}}" };
    static const char several[] =
        "{ \"other\" : {\"opInfo\": {\"kernelSo\": \"a.so\"}, \"list\": [1, {\"opInfo\": {}}]},\n"
        "\"none\": {\"info\": true}, \"odd\": {\"opInfo\": {\"kernelSo\": 1}},\n"
        "\"Op\": {\"opInfo\": {\"opKernelLib\": \"AICPUKernel\", \"x\\u0041\": -1.5e3, "
        "\"userDefined\": \"False\", \"kernelSo\": \"b.so\", \"functionName\": \"f\"}}}";
    struct vendor_option mode = { .id = VENDOR_OPTION_CPU_MODE };
    struct vendor_options options = { &mode, 1 };
    void *function = NULL, *binary = NULL;
    char path[300];

    (void)open_card(0);
    EXPECT(0, describe_so("libgood.so", "False", &function));
    EXPECT(107000, describe("op.json", "{}", &function)); /* the file is read without that op */
    EXPECT(0, describe("op.json", "{\"Op\": {\"opInfo\": {}}}", &function));
    for (size_t i = 0; i < sizeof(no_json) / sizeof(no_json[0]); i++)
        EXPECT(107000, describe("op.json", no_json[i], &function));
    EXPECT(107000, describe("other.txt", several, &function)); /* the runtime reads other.json */
    EXPECT(0, describe("several.json", several, &function));
    snprintf(path, sizeof(path), "%s/several.so", folder);
    EXPECT(0, aclrtBinaryLoadFromFile(path, &options, &binary));
    EXPECT(0, aclrtBinaryGetFunction(binary, "other", &function));
    EXPECT(107000, aclrtBinaryGetFunction(binary, "odd", &function));
    EXPECT(107000, aclrtBinaryGetFunction(binary, "none", &function));
    EXPECT(107000, aclrtBinaryGetFunctionByEntry(binary, 0, &function));
    mode.value[0] = 3;
    EXPECT(107000, aclrtBinaryLoadFromFile(path, &options, &binary));
}

/* The control processor checks names and libraries: the launch fails, not the load. */
static void odd_programs(void)
{
    static const struct {
        const char *so, *user_defined;
    } odd[] = { { "libgood.so", "True" },
                { "folder/libbad.so", "False" },
                { "lib bad.so", "False" },
                { "", "False" } };

    for (size_t i = 0; i <= sizeof(odd) / sizeof(odd[0]); i++) {
        bool is_long = i == sizeof(odd) / sizeof(odd[0]);
        char name[102] = "";
        void *function = NULL, *stream;

        (void)open_card(0);
        stream = make_stream();
        memset(name, 'n', 101);
        EXPECT(0, describe_so(is_long ? name : odd[i].so, is_long ? "False" : odd[i].user_defined,
                              &function));
        EXPECT(0, launch(function, 1, stream, false));
        EXPECT(507018, aclrtSynchronizeStreamWithTimeout(stream, 10000));
        EXPECT(0, aclrtResetDeviceForce(0));
    }
}

/* Renames a function of the executor, in its symbol table and in that of the loader. */
static void rename_all(char *bytes, size_t size, const char *from, const char *to)
{
    size_t length = strlen(from);
    char *at = bytes;

    EXPECT_TRUE(memmem(bytes, size, from, length) != NULL);
    while ((at = memmem(at, size - (size_t)(at - bytes), from, length)) != NULL)
        memcpy(at, to, length);
}

static void wrong_entries(void)
{
    static char bytes[1 << 20];
    struct vendor_option magic = { .id = VENDOR_OPTION_MAGIC, .value = { VENDOR_MAGIC_MIX } };
    struct vendor_options options = { &magic, 1 };
    size_t size = read_executor(bytes, sizeof(bytes));
    void *binary = NULL, *function = NULL;

    (void)open_card(0);
    EXPECT(0, aclrtBinaryLoadFromData(bytes, size, &options, &binary));
    magic.value[0] = 1;
    EXPECT(107000, aclrtBinaryLoadFromData(bytes, size, &options, &binary));
    EXPECT(0, aclrtBinaryLoadFromData(bytes, size, NULL, &binary));
    magic.value[0] = VENDOR_MAGIC_MIX;
    EXPECT(107000, aclrtBinaryLoadFromData(bytes, 1000, &options, &binary));
    rename_all(bytes, size, "pto_executor_0_", "other_execu_17_");
    EXPECT(0, aclrtBinaryLoadFromData(bytes, size, &options, &binary));
    EXPECT(107000, aclrtBinaryGetFunctionByEntry(binary, 0, &function));
    EXPECT(0, aclrtBinaryGetFunctionByEntry(binary, 17, &function));
    EXPECT(0, aclrtBinaryGetFunction(binary, "other_execu_17", &function));
    rename_all(bytes, size, "_mix_aiv", "_all_aiv"); /* a separate entry, with key 0 */
    EXPECT(0, aclrtBinaryLoadFromData(bytes, size, &options, &binary));
    EXPECT(0, aclrtBinaryGetFunctionByEntry(binary, 0, &function));
    rename_all(bytes, size, "_17_mix_aic", "_ab_mix_aic"); /* a second entry with key 0 */
    EXPECT(107000, aclrtBinaryLoadFromData(bytes, size, &options, &binary));
    rename_all(bytes, size, "_ab_mix_aic", "_17_mix_aiv");
    rename_all(bytes, size, "_17_all_aiv", "_17_mix_aiv"); /* the same half twice */
    EXPECT(107000, aclrtBinaryLoadFromData(bytes, size, &options, &binary));
}

/* ---- streams ---- */

static void one_stream(void)
{
    void *stream, *function = NULL;

    (void)open_card(0);
    stream = make_stream();
    EXPECT(0, launch(load_executor(), 1, stream, true));
    EXPECT(0, describe_so("libany.so", "False", &function));
    EXPECT(107000, launch(function, 1, stream, false));
}

static void many_blocks(void)
{
    void *function = NULL;

    (void)open_card(0);
    EXPECT(0, describe_so("libany.so", "False", &function));
    EXPECT(107000, launch(function, 7, make_stream(), false));
}

static void two_limits(void)
{
    struct vendor_attribute limits[2] = { { .id = VENDOR_ATTRIBUTE_TIMEOUT, .value = { 1 } },
                                          { .id = VENDOR_ATTRIBUTE_TIMEOUT + 1, .value = { 1 } } };
    struct vendor_config config = { limits, 2 };
    void *function = NULL;
    uint64_t args[4] = { 0 };

    (void)open_card(0);
    EXPECT(0, describe_so("libany.so", "False", &function));
    EXPECT(107000, aclrtLaunchKernelWithHostArgs(function, 1, make_stream(), &config, args,
                                                 sizeof(args), NULL, 0));
}

/* A generation whose cores do not signal each other by these instructions. */
static void no_sync_address(void)
{
    void *at = NULL;

    (void)open_card(0);
    EXPECT(207000, aclrtGetHardwareSyncAddr(&at));
}

static void whole_program(void)
{
    struct vendor_program program = { .magic = 1, .data = &program, .bytes = sizeof(program) };
    static char bytes[1 << 20];
    struct vendor_args args = { .args = &program, .bytes = 8 };
    void *binary = NULL, *stream;

    (void)open_card(0);
    stream = make_stream();
    EXPECT(107000, rtRegisterAllKernel(&program, &binary));
    program.magic = VENDOR_MAGIC_MIX;
    EXPECT(107000, rtRegisterAllKernel(&program, &binary)); /* no entries */
    EXPECT(107000, rtKernelLaunchWithHandleV2(binary, 0, 1, &args, NULL, stream, NULL));
    EXPECT(107000, rtDevBinaryUnRegister(binary));
    program.bytes = read_executor(bytes, sizeof(bytes));
    program.data = bytes;
    EXPECT(0, rtRegisterAllKernel(&program, &binary));
    EXPECT(107000,
           rtKernelLaunchWithHandleV2(binary, 1, 1, &args, NULL, stream, NULL)); /* no key */
    EXPECT(0, (int)standin_count("modules")); /* the first launch makes the copy */
    EXPECT(0, rtDevBinaryUnRegister(binary));
}

/* Calls of other clients: their results, and that the time limit applies to launches. */
static void calls_of_others(void)
{
    enum { COMPLETE, NOT_READY, CONTINUE = 0, STOP = 1, CPU = 1, OCCUPY = 8 };
    int32_t device = -1, status = -1;
    uint64_t actual = 0;
    int64_t mask = 0;
    void *stream, *function = NULL;

    EXPECT(107002, aclrtGetDevice(&device));
    (void)open_card(1);
    EXPECT(0, aclrtGetDevice(&device));
    EXPECT(1, device);
    EXPECT(0, halGetDeviceInfo(0, CPU, OCCUPY, &mask));
    EXPECT(0xfc, (int)mask);
    EXPECT(65534, halGetDeviceInfo(0, CPU, OCCUPY + 1, &mask));
    EXPECT(0, aclrtSetOpExecuteTimeOutV2(0, &actual));
    EXPECT(1090921693, (int)actual);
    EXPECT(0, aclrtSetOpExecuteTimeOutV2(45000000, &actual));
    EXPECT(47244640, (int)actual);
    stream = make_stream();
    EXPECT(0, aclrtStreamQuery(stream, &status));
    EXPECT(COMPLETE, status);
    EXPECT(0, aclrtSetStreamFailureMode(stream, CONTINUE));
    EXPECT(0, aclrtSetStreamFailureMode(stream, STOP));
    EXPECT(0, aclrtSetStreamFailureMode(stream, STOP));
    EXPECT(207000, aclrtSetStreamFailureMode(stream, CONTINUE));
    EXPECT(0, launch(load_executor(), 1, stream, true)); /* waits for its bell */
    EXPECT(0, aclrtStreamQuery(stream, &status));
    EXPECT(NOT_READY, status);
    EXPECT(0, describe_so("libabsent.so", "False", &function));
    stream = make_stream();
    EXPECT(0, launch(function, 1, stream, false));
    EXPECT(507018, aclrtSynchronizeStream(stream));
    EXPECT(0, aclrtStreamQuery(stream, &status)); /* there is nothing to do for it */
    EXPECT(COMPLETE, status);
}

static void not_together(void)
{
    (void)open_card(0);
    (void)launch(load_executor(), 1, make_stream(), false);
}

static void second_wait(void)
{
    (void)open_card(0);
    EXPECT(507018, aclrtSynchronizeStreamWithTimeout(poison(), 10));
}

/* Cores that are queued after an event which never occurs are not started by a forced reset. */
static void forced_in_flight(void)
{
    void *first, *second, *event = NULL, *function;

    (void)open_card(0);
    first = make_stream();
    second = make_stream();
    function = load_executor();
    EXPECT(0, aclrtCreateEventExWithFlag(&event, VENDOR_EVENT_SYNC | VENDOR_EVENT_PROGRESS));
    EXPECT(0, launch(function, 1, first, true));
    EXPECT(0, aclrtRecordEvent(event, first));
    EXPECT(0, aclrtStreamWaitEvent(second, event));
    EXPECT(0, launch(function, 1, second, true));
    EXPECT(507047, aclrtSynchronizeEventWithTimeout(event, 10));
    EXPECT(0, aclrtResetDeviceForce(0));
    EXPECT(0, aclrtSetDevice(0));
}

/* ---- a card that has failed ---- */

static void cascade(void)
{
    struct vendor_map_in in = { VENDOR_ADDR_CORES, 0 };
    struct vendor_map_out out;
    void *at = NULL;

    (void)open_card(0);
    (void)poison();
    EXPECT(62, halMemCtl(VENDOR_MAP_ADDR, &in, sizeof(in), &out, NULL));
    EXPECT(0, aclrtMalloc(&at, 64, 0)); /* as if the card worked, for a while */
    EXPECT(0, aclrtSynchronizeDeviceWithTimeout(10));
    for (int i = 0; i < 8; i++)
        (void)aclrtSynchronizeDeviceWithTimeout(10);
    EXPECT(507899, aclrtMalloc(&at, 64, 0));
    EXPECT(507901, aclrtMemcpy(at, 1, "", 1, VENDOR_HOST_TO_DEVICE));
}

static void plain_reset(void)
{
    void *at = NULL;

    (void)open_card(0);
    (void)poison();
    (void)aclrtResetDevice(0);
    EXPECT(0, aclrtSetDevice(0));
    EXPECT(507899, aclrtMalloc(&at, 64, 0));
    EXPECT(507899, aclrtResetDeviceForce(0)); /* the first reset does not help */
    EXPECT(0, aclrtSetDevice(0));
    EXPECT(507899, aclrtMalloc(&at, 64, 0));
    EXPECT(0, aclrtResetDeviceForce(0));
    EXPECT(0, aclrtSetDevice(0));
    EXPECT(0, aclrtMalloc(&at, 64, 0));
}

static void driver_codes(void)
{
    struct vendor_map_in in = { VENDOR_ADDR_CORES, 0 };
    struct vendor_map_out out;

    (void)aclInit(NULL);
    EXPECT(13, halMemCtl(VENDOR_MAP_ADDR, &in, sizeof(in), &out, NULL));
    EXPECT(13, halMemCtl(VENDOR_MAP_ADDR, &in, sizeof(in), &out, NULL));
    EXPECT(4, halMemCtl(VENDOR_MAP_ADDR, &in, sizeof(in), &out, NULL));
    EXPECT(0, aclrtSetDevice(0));
    EXPECT(0, halMemCtl(VENDOR_MAP_ADDR, &in, sizeof(in), &out, NULL));
}

static void part_of_card(void)
{
    struct vendor_map_in in = { VENDOR_ADDR_CORES, 0 };
    struct vendor_map_out out;

    (void)open_card(0);
    EXPECT(65534, halMemCtl(VENDOR_MAP_ADDR, &in, sizeof(in), &out, NULL));
}

/* ---- processes ---- */

/* Two processes that wait for each other's messages: a pipe in each direction. */
static int talk[2][2];
static int side;

static bool fork_peer(void)
{
    pid_t pid;

    EXPECT_TRUE(pipe(talk[0]) == 0 && pipe(talk[1]) == 0);
    pid = fork();
    side = pid == 0;
    return pid == 0;
}

static void tell(const void *from, size_t bytes)
{
    EXPECT_TRUE(write(talk[side][1], from, bytes) == (ssize_t)bytes);
}

static void hear(void *to, size_t bytes)
{
    EXPECT_TRUE(read(talk[1 - side][0], to, bytes) == (ssize_t)bytes);
}

/* The peer has finished successfully. */
static void join_peer(void)
{
    int status = 0;

    EXPECT_TRUE(wait(&status) > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void shared_memory_limit(void)
{
    void *at = NULL, *more = NULL;
    char word = 0;

    if (fork_peer()) {
        (void)open_card(0);
        EXPECT(0, aclrtMalloc(&at, 40 << 20, 0));
        tell(&word, 1);
        hear(&word, 1);
        _exit(0); /* its memory is free again */
    }
    hear(&word, 1);
    (void)open_card(0);
    EXPECT(207001, aclrtMalloc(&more, 40 << 20, 0));
    tell(&word, 1);
    join_peer();
    EXPECT(0, aclrtMalloc(&more, 40 << 20, 0));
}

static void health_is_shared(void)
{
    void *at = NULL;

    if (fork_peer()) {
        (void)open_card(0);
        (void)poison();
        _exit(0);
    }
    join_peer();
    (void)open_card(0);
    EXPECT(507899, aclrtMalloc(&at, 64, 0));
}

/* ---- shared memory ---- */

static void *make_physical(bool is_huge, size_t bytes)
{
    struct vendor_memory kind = { .attribute = is_huge ? VENDOR_HBM_HUGE : VENDOR_HBM_NORMAL,
                                  .location = VENDOR_ON_DEVICE };
    void *physical = NULL;

    EXPECT(0, aclrtMallocPhysical(&physical, bytes, &kind, 0));
    return physical;
}

static void no_fabric(void)
{
    uint8_t handle[VENDOR_FABRIC_BYTES];
    uint64_t number;
    void *physical;

    (void)open_card(0);
    physical = make_physical(true, PAGE);
    EXPECT(207000, aclrtMemExportToShareableHandleV2(physical, VENDOR_ANY_PROCESS,
                                                     VENDOR_SHARE_FABRIC, handle));
    EXPECT(0, aclrtMemExportToShareableHandle(physical, VENDOR_HANDLE_NONE, VENDOR_ANY_PROCESS,
                                              &number));
}

static void exports(void)
{
    uint8_t handle[VENDOR_FABRIC_BYTES], second[VENDOR_FABRIC_BYTES];
    void *physical, *again = NULL;

    (void)open_card(0);
    physical = make_physical(true, PAGE);
    EXPECT(0, aclrtMemExportToShareableHandleV2(physical, VENDOR_ANY_PROCESS, VENDOR_SHARE_FABRIC,
                                                handle));
    EXPECT(107000, aclrtMemExportToShareableHandleV2(physical, VENDOR_ANY_PROCESS,
                                                     VENDOR_SHARE_FABRIC, second));
    EXPECT(107000, aclrtMemImportFromShareableHandleV2(handle, VENDOR_SHARE_FABRIC, 0, &again));
}

static void imports(void)
{
    uint8_t handle[3][VENDOR_FABRIC_BYTES];
    void *physical[3], *got = NULL;
    size_t left = 0, before = 0, total = 0;
    char word = 0;

    if (fork_peer()) {
        (void)open_card(0);
        for (int i = 0; i < 3; i++) {
            physical[i] = make_physical(true, PAGE);
            /* The last card is visible to this process only. */
            EXPECT(0, aclrtMemExportToShareableHandleV2(physical[i], i < 2, VENDOR_SHARE_FABRIC,
                                                        handle[i]));
        }
        EXPECT(0, aclrtFreePhysical(physical[1]));
        tell(handle, sizeof(handle));
        hear(&word, 1);
        EXPECT(0, aclrtGetMemInfo(VENDOR_HBM, &before, &total));
        EXPECT(0, aclrtFreePhysical(physical[0]));
        EXPECT(0, aclrtGetMemInfo(VENDOR_HBM, &left, &total));
        EXPECT_TRUE(left == before); /* it is charged as long as it is imported */
        tell(&word, 1);
        hear(&word, 1);
        EXPECT(0, aclrtGetMemInfo(VENDOR_HBM, &left, &total));
        EXPECT_TRUE(left == before + PAGE);
        EXPECT(0, aclrtFreePhysical(physical[2]));
        EXPECT(0, aclrtResetDevice(0));
        _exit(0);
    }
    hear(handle, sizeof(handle));
    (void)open_card(1);
    EXPECT(0, aclrtMemImportFromShareableHandleV2(handle[0], VENDOR_SHARE_FABRIC, 0, &got));
    EXPECT(107000, aclrtMemImportFromShareableHandleV2(handle[1], VENDOR_SHARE_FABRIC, 0,
                                                       &physical[1])); /* freed */
    EXPECT(107000,
           aclrtMemImportFromShareableHandleV2(handle[2], VENDOR_SHARE_FABRIC, 0, &physical[2]));
    tell(&word, 1);
    hear(&word, 1);
    EXPECT(0, aclrtFreePhysical(got));
    tell(&word, 1);
    join_peer();
    EXPECT(0, aclrtResetDevice(1));
}

static void freed_while_mapped(void)
{
    void *physical, *at = NULL;

    (void)open_card(0);
    physical = make_physical(true, PAGE);
    EXPECT(0, aclrtReserveMemAddress(&at, PAGE, 0, NULL, VENDOR_RESERVE_HUGE));
    EXPECT(0, aclrtMapMem(at, PAGE, 0, physical, 0));
    EXPECT(107000, aclrtReleaseMemAddress(at));
    EXPECT(107000, aclrtFreePhysical(physical));
}

/* Copies are refused without access, and accepted with it. */
static void no_access(void)
{
    struct vendor_access access = { VENDOR_READ_WRITE, 0, VENDOR_ON_DEVICE, { 0 } };
    void *physical, *at = NULL;

    (void)open_card(0);
    physical = make_physical(false, SMALL_PAGE);
    EXPECT(0, aclrtReserveMemAddress(&at, SMALL_PAGE, 0, NULL, VENDOR_RESERVE_NORMAL));
    EXPECT(0, aclrtMapMem(at, SMALL_PAGE, 0, physical, 0));
    EXPECT(107000, aclrtMemcpy(at, 1, "", 1, VENDOR_HOST_TO_DEVICE));
    EXPECT(0, aclrtMemSetAccess(at, SMALL_PAGE, &access, 1));
    EXPECT(0, aclrtMemcpy(at, 1, "", 1, VENDOR_HOST_TO_DEVICE));
}

/* The card has the number 0 here, and 1 for the driver. */
static void card_numbers(void)
{
    struct vendor_access access = { VENDOR_READ_WRITE, 0, VENDOR_ON_DEVICE, { 0 } };
    struct vendor_memory kind = { .attribute = VENDOR_HBM_NORMAL,
                                  .device = 1,
                                  .location = VENDOR_ON_DEVICE };
    struct vendor_map_in in = { VENDOR_ADDR_CORES, 0 };
    struct vendor_map_out out;
    void *physical = NULL, *at = NULL;

    (void)open_card(0);
    EXPECT(107001, aclrtMallocPhysical(&physical, SMALL_PAGE, &kind, 0));
    physical = make_physical(false, SMALL_PAGE);
    EXPECT(0, aclrtReserveMemAddress(&at, SMALL_PAGE, 0, NULL, VENDOR_RESERVE_NORMAL));
    EXPECT(0, aclrtMapMem(at, SMALL_PAGE, 0, physical, 0));
    EXPECT(507899, aclrtMemSetAccess(at, SMALL_PAGE, &access, 1));
    access.device = 1;
    EXPECT(0, aclrtMemSetAccess(at, SMALL_PAGE, &access, 1));
    EXPECT(4, halMemCtl(VENDOR_MAP_ADDR, &in, sizeof(in), &out, NULL));
    in.device = 1;
    EXPECT(0, halMemCtl(VENDOR_MAP_ADDR, &in, sizeof(in), &out, NULL));
}

static void no_link(void)
{
    uint64_t number = 0;
    void *physical = NULL;
    char word = 0;

    if (fork_peer()) {
        (void)open_card(0);
        physical = make_physical(false, SMALL_PAGE);
        EXPECT(0, aclrtMemExportToShareableHandle(physical, VENDOR_HANDLE_NONE, VENDOR_ANY_PROCESS,
                                                  &number));
        tell(&number, sizeof(number));
        hear(&word, 1);
        _exit(0);
    }
    hear(&number, sizeof(number));
    (void)open_card(1);
    EXPECT(507899, aclrtMemImportFromShareableHandle(number, 1, &physical));
    EXPECT(0, aclrtDeviceEnablePeerAccess(0, 0));
    EXPECT(0, aclrtMemImportFromShareableHandle(number, 1, &physical));
    tell(&word, 1);
    join_peer();
}

/* ---- the communication library ---- */

static void *make_comm(uint8_t root[VENDOR_ROOT_BYTES])
{
    void *comm = NULL;

    if (side == 0) {
        EXPECT(0, HcclGetRootInfo(root));
        tell(root, VENDOR_ROOT_BYTES);
    } else {
        hear(root, VENDOR_ROOT_BYTES);
    }
    EXPECT(0, HcclCommInitRootInfo(2, root, (uint32_t)side, &comm));
    return comm;
}

static void false_barrier(void)
{
    uint8_t root[VENDOR_ROOT_BYTES];
    void *comm, *stream;
    char word = 0;

    (void)fork_peer();
    (void)open_card(side);
    comm = make_comm(root);
    stream = make_stream();
    if (side == 1)
        hear(&word, 1); /* arrives although this rank does not come */
    EXPECT(0, HcclBarrier(comm, stream));
    if (side == 0) {
        EXPECT(507046, aclrtSynchronizeStreamWithTimeout(stream, 1));
        tell(&word, 1);
    }
    EXPECT(0, aclrtSynchronizeStreamWithTimeout(stream, 20000));
    EXPECT(0, HcclCommDestroy(comm));
    if (side == 1)
        _exit(0);
    join_peer();
}

static void lonely_barrier(void)
{
    uint8_t root[VENDOR_ROOT_BYTES];
    void *comm, *stream;

    (void)fork_peer();
    (void)open_card(side);
    comm = make_comm(root);
    if (side == 1)
        _exit(0);
    join_peer();
    stream = make_stream();
    EXPECT(0, HcclBarrier(comm, stream));
    EXPECT(507018, aclrtSynchronizeStreamWithTimeout(stream, 20000));
}

/* ---- all of them ---- */

static const struct breach {
    const char *name;
    void (*play)(void);
    const char *task_records; /* report expected from the stand-in; NULL: none */
    const char *setting[2];
} breaches[] = {
    { "no device", no_device, NULL, { 0 } },
    { "another context", other_context, NULL, { 0 } },
    { "references", two_references, "given back more often than it was taken", { 0 } },
    { "plain reset after a forced one", reset_after_force, "more often than it was taken", { 0 } },
    { "a stream is left", leaves_stream, "given back with 1 streams", { 0 } },
    { "a second aclInit", second_init, NULL, { 0 } },
    { "aclFinalize", finalize_all, "aclrtSetDevice after the last reference", { 0 } },
    { "a program for each run", registers_each_time, "then 507899", { 0 } },
    { "a launch on a card that is down", launch_when_down, NULL, { 0 } },
    { "the copy of a program", copy_on_card, NULL, { 0 } },
    { "descriptions", descriptions, NULL, { 0 } },
    { "programs that no control processor runs", odd_programs, "userDefined", { 0 } },
    { "names of entries", wrong_entries, NULL, { 0 } },
    { "one stream for both", one_stream, "share a stream", { 0 } },
    { "too many blocks", many_blocks, "7 blocks for 6 threads", { 0 } },
    { "two time limits", two_limits, NULL, { 0 } },
    { "no sync address", no_sync_address, NULL, { "STANDIN_SOC", "Ascend950DT" } },
    { "a program as a whole", whole_program, NULL, { 0 } },
    { "calls of other clients", calls_of_others, "libabsent.so", { 0 } },
    { "cores not together", not_together, "not launched together", { 0 } },
    { "a second wait", second_wait, "a second wait for a stream that failed", { 0 } },
    { "a forced reset with two launches in flight", forced_in_flight, NULL, { 0 } },
    { "what follows a failure", cascade, "libmissing.so: cannot open", { "STANDIN_GRACE", "6" } },
    { "a plain reset heals nothing",
      plain_reset,
      "libmissing.so: cannot open",
      { "STANDIN_HEALS", "2" } },
    { "the driver's codes", driver_codes, NULL, { "STANDIN_BUSY", "2" } },
    { "a part of a card", part_of_card, NULL, { "STANDIN_PART", "1" } },
    { "memory of two processes", shared_memory_limit, NULL, { "STANDIN_HBM", "67108864" } },
    { "a card that another process has lost",
      health_is_shared,
      "libmissing.so: cannot open",
      { 0 } },
    { "no fabric", no_fabric, NULL, { "STANDIN_SHARE", "vmm" } },
    { "exports", exports, "imported by the process that has exported it", { 0 } },
    { "imports", imports, NULL, { 0 } },
    { "freed while it is mapped", freed_while_mapped, "still mapped", { 0 } },
    { "no right of access", no_access, "is not on the card", { 0 } },
    { "numbers of cards", card_numbers, NULL, { "ASCEND_RT_VISIBLE_DEVICES", "1,0" } },
    { "no link", no_link, "without a link to it", { "STANDIN_SHARE", "vmm" } },
    { "a barrier that is none", false_barrier, NULL, { 0 } },
    { "a barrier whose peer is gone", lonely_barrier, NULL, { "STANDIN_BARRIER_MS", "20" } },
};

static char text[1 << 16];

static bool try_breach(const struct breach *b)
{
    int out[2], status = 0;
    size_t size = 0;
    ssize_t got;
    char disk[300];
    pid_t pid;

    if (pipe(out) != 0)
        return false;
    snprintf(disk, sizeof(disk), "%s/%td", folder, b - breaches);
    pid = fork();
    if (pid == 0) {
        dup2(out[1], STDERR_FILENO);
        close(out[0]);
        setenv("STANDIN_DISK", disk, 1);
        if (mkdir(disk, 0700) != 0 ||
            (b->setting[0] != NULL && setenv(b->setting[0], b->setting[1], 1) != 0))
            exit(FAILED);
        b->play();
        _exit(0);
    }
    close(out[1]);
    while ((got = read(out[0], text + size, sizeof(text) - 1 - size)) > 0)
        size += (size_t)got;
    close(out[0]);
    text[size] = '\0';
    (void)waitpid(pid, &status, 0);
    if (WIFSIGNALED(status) ? WTERMSIG(status) != SIGABRT || b->play != finalize_all
                            : WEXITSTATUS(status) != 0)
        return false;
    return b->task_records != NULL ? strstr(text, b->task_records) != NULL
                                   : strstr(text, "standin:") == NULL;
}

int main(int argc, char **argv)
{
    char hbm[32], command[300];
    static char bytes[1 << 20];
    int failed = 0;

    if (argc < 2 || mkdtemp(folder) == NULL)
        return 2;
    programs = argv[1];
    /* Runs the test for several executors and arguments of launches. */
    snprintf(hbm, sizeof(hbm), "%zu",
             BOARD_BYTES + EXECUTORS * (read_executor(bytes, sizeof(bytes)) + 4096));
    setenv("STANDIN_SOC", "Ascend910_9391", 1);
    setenv("HCCL_BUFFSIZE", "1", 1);
    for (size_t i = 0; i < sizeof(breaches) / sizeof(breaches[0]); i++) {
        if (breaches[i].play == registers_each_time)
            setenv("STANDIN_HBM", hbm, 1);
        if (!try_breach(&breaches[i]) && ++failed > 0)
            fprintf(stderr, "%s: %s\n", breaches[i].name, text);
        unsetenv("STANDIN_HBM");
    }
    snprintf(command, sizeof(command), "rm -rf %s", folder);
    (void)!system(command);
    if (failed == 0)
        printf("%zu breaches of the vendor's rules, each answered as it should be\n",
               sizeof(breaches) / sizeof(breaches[0]));
    return failed != 0;
}
