/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests libhost_runtime.so as the reference's worker uses it: loads each of the four libraries from
 * the build, and calls them only through names of functions. The callables are ours, in chip
 * callables of the reference's layout.
 */
#include <fcntl.h>
#include <inttypes.h>

#include "pto/log.h"
#include "wire/chip_callable.h"
#include "tests/fixture/compat_plays.h"
#include "tests/fixture/hostlib_call.h"

static struct bytes add_blob, act_blob, bad_blob,
    compat_blob[2]; /* compat_blob is indexed by is_host */

/* ---- fixtures ---- */

/* Values of scalar 0; the address of the flag that a kernel waits for is in scalar 1. */
static const char act_text[] =
    "#include <pto/orch.h>\n"
    "void orchestrate(struct pto_orch *o, const struct pto_entry *e)\n"
    "{\n"
    "    struct pto_tensor_info info;\n"
    "    switch (e->scalar[0]) {\n"
    "    case 0: /* waits, and adds */\n"
    "        pto_aiv(o, 0, PTO_IN(&e->tensor[0]), PTO_IN(&e->tensor[1]), "
    "PTO_WRITE(&e->tensor[2]),\n"
    "                PTO_INT(e->scalar[1]), PTO_TIMED(3));\n"
    "        break;\n"
    "    case 1:\n"
    "        pto_aiv(o, 0, PTO_IN(&e->tensor[0]), PTO_IN(&e->tensor[1]), "
    "PTO_WRITE(&e->tensor[2]),\n"
    "                PTO_INT(0));\n"
    "        pto_orch_fail(o, PTO_EORCH, \"told to\");\n"
    "        break;\n"
    "    case 2: /* more than a window of 4 */\n"
    "        PTO_SCOPE(o)\n"
    "            for (int i = 0; i < 8; i++)\n"
    "                pto_dummy(o, PTO_INT(0));\n"
    "        break;\n"
    "    case 3: /* more than a heap of 1024 */\n"
    "        info = pto_tensor_info_make(PTO_DIMS(8192), 1, PTO_FLOAT32);\n"
    "        pto_alloc(o, PTO_OUT(&info));\n"
    "        break;\n"
    "    case 4:\n"
    "        pto_orch_fail(o, -(int)e->scalar[1], \"because\");\n"
    "        break;\n"
    "    }\n"
    "}\n";

static const char act_kernel_text[] =
    "#include <pto/kernel.h>\n"
    "#include <sched.h>\n"
    "static int *at(int64_t *args, int i)\n"
    "{ return (int *)pto_tensor_data(pto_arg_tensor(args, i)); }\n"
    "void kernel_entry(int64_t *args)\n"
    "{\n"
    "    while (args[3] != 0 && __atomic_load_n((int *)args[3], __ATOMIC_ACQUIRE) == 0)\n"
    "        sched_yield();\n"
    "    for (uint32_t i = 0; i < pto_arg_tensor(args, 0)->shapes[0]; i++)\n"
    "        at(args, 2)[i] = at(args, 0)[i] + at(args, 1)[i];\n"
    "}\n";

/* Returns the orchestration of test_compat.c, compiled as the reference would. */
#define COMPAT_FLAGS "-I\"$OLDPWD/src\" -I\"$OLDPWD\""

static int make_blobs(void **state)
{
    static const enum pto_direction inout_in_in[] = { PTO_DIR_INOUT, PTO_DIR_IN, PTO_DIR_IN };
    struct recipe r;

    if (make_folder(state) != 0)
        return -1;
    r = make_recipe("-DOP=+ -DTAG=1");
    add_blob = make_blob(&r);
    bad_blob = make_blob(&r);
    strcpy(((struct chip_callable *)bad_blob.at)->func_name, "orchestrane"); /* there is none */
    free_recipe(&r);
    act_blob = make_blob_of(compile(act_text, ""), act_kernel_text, NULL, in_in_out);
    for (int i = 0; i < 2; i++)
        compat_blob[i] = make_blob_of(compile("#include \"tests/fixture/compat_orch.h\"\n",
                                              i == 0 ? COMPAT_FLAGS : COMPAT_FLAGS " -DKIND_HOST"),
                                      act_kernel_text, "compat_entry_point", inout_in_in);
    return 0;
}

static int free_blobs(void **state)
{
    free(add_blob.at);
    free(act_blob.at);
    free(bad_blob.at);
    free(compat_blob[0].at);
    free(compat_blob[1].at);
    return remove_folder(state);
}

static int prepare(struct worker_device *d, struct call *c, int32_t id)
{
    return lib.simpler_prepare_run(d, c->storage, id, &c->args, &c->config, &c->ticket);
}

static void assert_added(const struct call *c)
{
    for (int i = 0; i < ELEMENTS; i++)
        assert_int_equal(c->out[i], 11 * i);
}

static void assert_untouched(const struct call *c)
{
    for (int i = 0; i < ELEMENTS; i++) {
        assert_int_equal(c->a[i], i);
        assert_int_equal(c->out[i], -1);
    }
}

/* ---- what is printed ---- */

static int real_stderr;

static void catch_lines(enum pto_log_level from)
{
    char path[128];
    int file;

    fflush(stderr);
    snprintf(path, sizeof(path), "%s/lines", folder);
    file = open(path, O_CREAT | O_TRUNC | O_RDWR | O_APPEND, 0600);
    real_stderr = dup(STDERR_FILENO);
    assert_true(file >= 0 && real_stderr >= 0 && dup2(file, STDERR_FILENO) >= 0);
    close(file);
    threshold.threshold = from;
}

/* The caller frees the result. */
static char *caught_lines(void)
{
    char path[128], *text;
    size_t size;

    threshold.threshold = PTO_LOG_OFF;
    assert_true(dup2(real_stderr, STDERR_FILENO) >= 0);
    close(real_stderr);
    snprintf(path, sizeof(path), "%s/lines", folder);
    assert_int_equal(file_read(path, 1 << 20, &text, &size), PTO_OK);
    return text;
}

static void assert_line(const char *lines, const char *part)
{
    if (strstr(lines, part) == NULL)
        fail_msg("nothing printed has \"%s\":\n%s", part, lines);
}

static uint32_t count_lines(const char *lines, const char *part)
{
    uint32_t count = 0;

    for (const char *at = strstr(lines, part); at != NULL; at = strstr(at + 1, part))
        count++;
    return count;
}

/* ---- tests; each for every library ---- */

static void runs_compute(void)
{
    struct worker_device *d = open_worker_device();
    struct call *c = make_call(0);

    assert_int_equal(lib.simpler_register_callable(d, 5, add_blob.at), 0);
    assert_int_equal(run(d, c, 5), 0);
    assert_added(c);
    assert_int_equal(c->accepted, 7);
    memset(c->out, 0, sizeof(c->out));
    assert_int_equal(run(d, c, 5), 0); /* in the same memory, which is not cleared */
    assert_added(c);
    c->config.aicpu_threads = variant->threads_max;
    assert_int_equal(run(d, c, 5), 0);
    free_call(c);
    close_worker_device(d);
}

static void device_memory_is_used_in_place(void)
{
    struct worker_device *d = open_worker_device();
    struct call *c = make_call(0);
    size_t before = lib.committed_device_memory_ctx(d);
    void *out = lib.device_malloc_ctx(d, sizeof(c->out));
    int result[ELEMENTS];

    assert_non_null(out);
    assert_int_equal(lib.committed_device_memory_ctx(d), before + sizeof(c->out));
    assert_int_equal(lib.copy_to_device_ctx(d, out, c->out, sizeof(c->out)), 0);
    assert_int_equal(lib.simpler_register_callable(d, 0, add_blob.at), 0);
    set_tensor(&c->args.tensor[2], out, sizeof(c->out));
    c->args.tensor[2].space = PTO_SPACE_DEVICE;
    assert_int_equal(run(d, c, 0), 0);
    assert_untouched(c);
    assert_int_equal(lib.copy_from_device_ctx(d, result, out, sizeof(result)), 0);
    memcpy(c->out, result, sizeof(result));
    assert_added(c);
    assert_true(lib.copy_from_device_ctx(d, result, (char *)out + 4, sizeof(result)) < 0);
    assert_true(lib.copy_to_device_ctx(d, NULL, result, 4) < 0);
    assert_true(lib.committed_device_memory_ctx(d) > before + sizeof(c->out)); /* the slot */
    before = lib.committed_device_memory_ctx(d);
    lib.device_free_ctx(d, out);
    assert_int_equal(lib.committed_device_memory_ctx(d), before - sizeof(c->out));
    lib.device_free_ctx(d, NULL);
    free_call(c);
    close_worker_device(d);
}

/*
 * An id can be used once; loaded callables are counted; equal blobs stay loaded as long as any id
 * has them.
 */
static void callables_have_ids(void)
{
    struct worker_device *d = open_worker_device();
    struct call *c = make_call(0);
    size_t (*loads)(struct worker_device *) =
        variant->is_host ? lib.get_host_dlopen_count : lib.get_aicpu_dlopen_count;
    size_t (*others)(struct worker_device *) =
        variant->is_host ? lib.get_aicpu_dlopen_count : lib.get_host_dlopen_count;

    assert_true(run(d, c, 0) < 0);
    assert_true(lib.simpler_register_callable(d, -1, add_blob.at) < 0);
    assert_true(lib.simpler_register_callable(d, 64, add_blob.at) < 0);
    assert_true(lib.simpler_register_callable(d, 0, NULL) < 0);
    assert_true(lib.simpler_register_callable(d, 0, bad_blob.at) < 0);
    assert_int_equal(loads(d), 0);
    assert_int_equal(lib.simpler_unregister_callable(d, 0), 0); /* nothing is there */
    assert_int_equal(lib.simpler_register_callable(d, 0, add_blob.at), 0);
    assert_true(lib.simpler_register_callable(d, 0, act_blob.at) < 0);
    assert_int_equal(loads(d), 1);
    assert_int_equal(lib.simpler_register_callable(d, 63, add_blob.at), 0);
    assert_int_equal(loads(d), 2);
    assert_int_equal(lib.simpler_unregister_callable(d, 0), 0);
    assert_true(run(d, c, 0) < 0);
    assert_int_equal(run(d, c, 63), 0);
    assert_added(c);
    assert_int_equal(lib.simpler_unregister_callable(d, 63), 0);
    assert_int_equal(lib.simpler_register_callable(d, 63, add_blob.at), 0);
    assert_int_equal(loads(d), 3); /* it only grows */
    assert_int_equal(others(d), 0);
    free_call(c);
    close_worker_device(d);
}

static void a_run_goes_through_its_phases(void)
{
    struct worker_device *d = open_worker_device();
    struct call *c = make_call(0), *other = make_call(0);

    assert_int_equal(lib.simpler_register_callable(d, 0, act_blob.at), 0);
    c->args.scalar[1] = (uint64_t)(uintptr_t)&c->flag;
    assert_true(lib.simpler_launch_run(d, c->storage) < 0);
    assert_true(lib.simpler_wait_run(d, c->storage) < 0);
    assert_true(lib.simpler_finalize_run(d, c->storage) < 0);
    assert_int_equal(prepare(d, c, 0), 0);
    assert_true(prepare(d, c, 0) < 0);     /* in the same memory */
    assert_true(prepare(d, other, 0) < 0); /* on the same device */
    assert_true(lib.simpler_register_callable(d, 1, add_blob.at) < 0);
    assert_true(lib.simpler_unregister_callable(d, 0) < 0);
    assert_true(lib.finalize_device(d) < 0);
    lib.destroy_device_context(d); /* refused */
    assert_int_equal(lib.simpler_poll_run(d, c->storage), WORKER_RUN_FAULTY);
    assert_true(lib.simpler_wait_run(d, c->storage) < 0);
    assert_int_equal(c->accepted, 0);
    assert_int_equal(lib.simpler_launch_run(d, c->storage), 0);
    assert_int_equal(__atomic_load_n(&c->accepted, __ATOMIC_ACQUIRE), 7);
    assert_true(lib.simpler_launch_run(d, c->storage) < 0);
    assert_int_equal(lib.simpler_poll_run(d, c->storage), WORKER_RUN_PENDING); /* for the flag */
    assert_true(lib.simpler_unregister_callable(d, 0) < 0);
    __atomic_store_n(&c->flag, 1, __ATOMIC_RELEASE);
    assert_int_equal(lib.simpler_wait_run(d, c->storage), 0);
    assert_int_equal(lib.simpler_poll_run(d, c->storage), WORKER_RUN_ENDED);
    assert_untouched(c); /* results are copied back at the end of the run */
    assert_int_equal(lib.simpler_finalize_run(d, c->storage), 0);
    assert_added(c);
    assert_true(lib.simpler_finalize_run(d, c->storage) < 0);
    free_call(other);
    free_call(c);
    close_worker_device(d);
}

static void a_run_can_be_abandoned(void)
{
    struct worker_device *d = open_worker_device();
    struct call *c = make_call(0);

    assert_int_equal(lib.simpler_register_callable(d, 0, add_blob.at), 0);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(prepare(d, c, 0), 0);
        assert_int_equal(lib.simpler_finalize_run(d, c->storage), 0);
        assert_untouched(c);
        assert_int_equal(c->accepted, 0);
    }
    assert_int_equal(lib.simpler_unregister_callable(d, 0), 0);
    free_call(c);
    close_worker_device(d);
}

static void calls_that_are_wrong_are_refused(void)
{
    struct worker_device *d = open_worker_device(), *other = open_worker_device();
    struct call *c = make_call(0);

    assert_int_equal(lib.simpler_register_callable(d, 0, add_blob.at), 0);
    assert_true(lib.simpler_prepare_run(d, c->storage, 0, &c->args, NULL, &c->ticket) < 0);
    assert_true(lib.simpler_prepare_run(d, c->storage, 0, &c->args, &c->config, NULL) < 0);
    assert_true(lib.simpler_prepare_run(d, NULL, 0, &c->args, &c->config, &c->ticket) < 0);
    assert_true(lib.simpler_prepare_run(NULL, c->storage, 0, &c->args, &c->config, &c->ticket) < 0);
    c->ticket.slot = 2;
    assert_true(prepare(d, c, 0) < 0);
    c->ticket.slot = 0;
    c->ticket.bank = 2;
    assert_true(prepare(d, c, 0) < 0);
    c->ticket.bank = 0;
    c->config.aicpu_threads = 1;
    assert_true(prepare(d, c, 0) < 0);
    c->config.aicpu_threads = variant->threads_max + 1;
    assert_true(prepare(d, c, 0) < 0);
    c->config.aicpu_threads = 0;
    c->config.dep_gen = 1; /* and no folder */
    assert_true(prepare(d, c, 0) < 0);
    c->config.dep_gen = 0;
    c->args.tensor_count = 257;
    assert_true(prepare(d, c, 0) < 0);
    c->args.tensor_count = 3;
    *(uint64_t *)(void *)c->storage = 1; /* never cleared */
    assert_true(prepare(d, c, 0) < 0);
    *(uint64_t *)(void *)c->storage = 0;
    assert_int_equal(prepare(d, c, 0), 0);
    assert_true(lib.simpler_launch_run(other, c->storage) < 0);
    assert_int_equal(lib.simpler_finalize_run(d, c->storage), 0);
    assert_true(lib.simpler_init(d, 0, NULL, 0, NULL, 0, NULL, 0, NULL) < 0); /* it is open */
    assert_true(lib.simpler_init(NULL, 0, NULL, 0, NULL, 0, NULL, 0, NULL) < 0);
    free_call(c);
    close_worker_device(other);
    close_worker_device(d);
}

/* After a failure nothing is copied back, and the device works. */
static void a_failed_run_says_why(void)
{
    struct worker_device *d = open_worker_device();
    struct call *c = make_call(1);
    char *lines;

    assert_int_equal(lib.simpler_register_callable(d, 0, act_blob.at), 0);
    catch_lines(PTO_LOG_ERROR);
    assert_int_equal(run(d, c, 0), PTO_EORCH);
    lines = caught_lines();
    assert_untouched(c);
    assert_line(lines, "[ERROR] hostlib_log_failure: PTO2 runtime failed: orch_error_code=9 "
                       "sched_error_code=0 runtime_status=-9\n");
    assert_line(lines, "error detail: orch_error_code=9 EXPLICIT_ORCH_FATAL - ");
    assert_line(lines, "told to");
    assert_line(lines, "error hint: ");
    free(lines);
    c->args.scalar[0] = 0;
    assert_int_equal(run(d, c, 0), 0);
    assert_added(c);
    free_call(c);
    close_worker_device(d);
}

/*
 * Programs find the code in one line and its name in the next; the function that printed them does
 * not matter.
 */
static void every_code_has_its_name(void)
{
    static const struct {
        int code;
        const char *name;
    } codes[] = { { 1, "SCOPE_DEADLOCK" },
                  { 2, "HEAP_RING_DEADLOCK" },
                  { 3, "FLOW_CONTROL_DEADLOCK" },
                  { 4, "DEP_POOL_OVERFLOW" },
                  { 5, "INVALID_ARGS" },
                  { 6, "DEPENDENCY_OVERFLOW" },
                  { 7, "REQUIRE_SYNC_START_INVALID" },
                  { 8, "TENSOR_WAIT_TIMEOUT" },
                  { 9, "EXPLICIT_ORCH_FATAL" },
                  { 10, "SCOPE_TASKS_OVERFLOW" },
                  { 11, "TENSORMAP_OVERFLOW" },
                  { 100, "SCHEDULER_TIMEOUT" },
                  { 101, "ASYNC_COMPLETION_INVALID" },
                  { 102, "ASYNC_WAIT_OVERFLOW" },
                  { 103, "ASYNC_REGISTRATION_FAILED" },
                  { 104, "READY_QUEUE_OVERFLOW" } };
    struct worker_device *d = open_worker_device();
    struct call *c = make_call(4);
    char wanted[128], *lines;

    assert_int_equal(lib.simpler_register_callable(d, 0, act_blob.at), 0);
    for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
        int code = codes[i].code;
        bool is_scheduler = code >= 100;

        c->args.scalar[1] = (uint64_t)code;
        catch_lines(PTO_LOG_ERROR);
        assert_int_equal(run(d, c, 0), -code);
        lines = caught_lines();
        snprintf(wanted, sizeof(wanted),
                 "PTO2 runtime failed: orch_error_code=%d sched_error_code=%d runtime_status=%d\n",
                 is_scheduler ? 0 : code, is_scheduler ? code : 0, -code);
        assert_line(lines, wanted);
        snprintf(wanted, sizeof(wanted), "error detail: %s_error_code=%d %s - ",
                 is_scheduler ? "sched" : "orch", code, codes[i].name);
        assert_line(lines, wanted);
        assert_line(lines, "because");
        assert_line(lines, "error hint: ");
        free(lines);
    }
    free_call(c);
    close_worker_device(d);
}

static void rings_are_as_large_as_they_are_set(void)
{
    struct worker_device *d = open_worker_device();
    struct call *c = make_call(2);

    assert_int_equal(lib.simpler_register_callable(d, 0, act_blob.at), 0);
    assert_int_equal(run(d, c, 0), 0); /* not set: no limit */
    for (int i = 0; i < PTO_RINGS; i++)
        c->config.rings.task_window[i] = 4;
    assert_true(run(d, c, 0) < 0);
    c->args.scalar[0] = 3;
    memset(&c->config.rings, 0, sizeof(c->config.rings));
    assert_int_equal(run(d, c, 0), 0);
    for (int i = 0; i < PTO_RINGS; i++)
        c->config.rings.heap[i] = 1024;
    assert_int_equal(run(d, c, 0), PTO_EHEAP);
    c->args.scalar[0] = 0;
    assert_int_equal(run(d, c, 0), 0);
    c->args.scalar[0] =
        3; /* the environment is used where the caller gives no value, if it is valid */
    assert_int_equal(setenv("PTO2_RING_HEAP", "1048576", 1), 0);
    assert_int_equal(run(d, c, 0), PTO_EHEAP);
    memset(&c->config.rings, 0, sizeof(c->config.rings));
    assert_int_equal(run(d, c, 0), 0);
    assert_int_equal(setenv("PTO2_RING_HEAP", "1024,1024,1024,1024", 1), 0);
    assert_int_equal(run(d, c, 0), PTO_EHEAP);
    assert_int_equal(setenv("PTO2_RING_HEAP", "1024,1024", 1), 0);
    assert_int_equal(run(d, c, 0), 0);
    assert_int_equal(unsetenv("PTO2_RING_HEAP"), 0);
    free_call(c);
    close_worker_device(d);
}

/* Each slot has separate memory; its name depends on the mode. */
static void slots_are_apart(void)
{
    struct worker_device *d = open_worker_device();
    struct call *c = make_call(0);
    uint64_t (*used)(struct worker_device *, uint32_t) =
        variant->is_host ? lib.get_arena_bank_gm_heap_base_ctx : lib.get_retained_temp_addr_ctx;

    assert_int_equal(lib.get_pipeline_contract()->abi, 1);
    assert_int_equal(lib.get_pipeline_contract()->depth, 2);
    assert_int_equal(lib.get_pipeline_contract()->count, variant->is_host ? 4 : 6);
    assert_int_equal(lib.supports_concurrent_native_prepare_ctx(d), 0);
    assert_int_equal(lib.simpler_register_callable(d, 0, add_blob.at), 0);
    assert_int_equal(used(d, 0), 0);
    assert_int_equal(run(d, c, 0), 0);
    assert_int_not_equal(used(d, 0), 0);
    assert_int_equal(used(d, 1), 0);
    c->ticket.slot = c->ticket.bank = 1;
    memset(c->out, 0, sizeof(c->out));
    assert_int_equal(run(d, c, 0), 0);
    assert_added(c);
    assert_int_not_equal(used(d, 1), 0);
    assert_int_not_equal(used(d, 1), used(d, 0));
    assert_int_equal(used(d, 2), 0);
    assert_int_equal(lib.get_retained_temp_addr_ctx(d, 0) == 0, variant->is_host);
    assert_int_not_equal(lib.get_arena_bank_gm_heap_base_ctx(d, 0), 0);
    assert_int_equal(lib.get_arena_bank_gm_heap_base_ctx(d, 1) == 0, !variant->is_host);
    assert_int_equal(lib.get_run_stream_set_create_count(d), 0);
    free_call(c);
    close_worker_device(d);
}

/* A tensor that is a part of a buffer: the rest of the buffer stays unchanged. */
static void outputs_may_be_views(void)
{
    struct worker_device *d = open_worker_device();
    struct call *c = make_call(0);
    uint32_t offset = 1, shape = ELEMENTS - 2;
    struct pto_tensor whole = c->args.tensor[2];

    whole.fault = 0;
    for (int i = 0; i < 2; i++) {
        c->args.tensor[i].fault = 0;
        c->args.tensor[i] = pto_tensor_view(&c->args.tensor[i], &shape, &offset);
    }
    c->args.tensor[2] = pto_tensor_view(&whole, &shape, &offset);
    assert_int_equal(lib.simpler_register_callable(d, 0, add_blob.at), 0);
    assert_int_equal(run(d, c, 0), 0);
    assert_int_equal(c->out[0], -1);
    assert_int_equal(c->out[1], 11);
    assert_int_equal(c->out[ELEMENTS - 2], 11 * (ELEMENTS - 2));
    assert_int_equal(c->out[ELEMENTS - 1], -1);
    free_call(c);
    close_worker_device(d);
}

/*
 * Writes the part of a line that identifies act_blob by its content, which is the same under any
 * id.
 */
static void name_act_blob(char *text, size_t size)
{
    struct pto_callable *callable;
    struct pto_callable_info info;
    struct pto_error error;
    uint64_t hid;

    pto_error_init(&error);
    assert_int_equal(pto_callable_load_memory(act_blob.at, act_blob.size, NULL, &callable, &error),
                     0);
    pto_callable_info_init(&info);
    assert_int_equal(pto_callable_info(callable, &info), 0);
    memcpy(&hid, info.digest, sizeof(hid));
    assert_int_equal(pto_callable_destroy(callable), 0);
    snprintf(text, size, " hid=%" PRIx64 " depth=0 name=chip.run ts=", hid);
}

static void spans_tell_of_every_run(void)
{
    struct worker_device *d = open_worker_device();
    struct call *c = make_call(0);
    char *lines, root[80];

    assert_int_equal(lib.simpler_register_callable(d, 9, act_blob.at), 0);
    catch_lines(PTO_LOG_TIMING);
    assert_int_equal(run(d, c, 9), 0);
    assert_int_equal(prepare(d, c, 9), 0);
    assert_int_equal(lib.simpler_finalize_run(d, c->storage), 0);
    lines = caught_lines();
    assert_int_equal(count_lines(lines, "[TIMING] emit_host_span: [STRACE] v=1 pid="), 9);
    name_act_blob(root, sizeof(root));
    assert_int_equal(count_lines(lines, root), 2);
    assert_int_equal(count_lines(lines, " depth=1 name=chip.run.bind ts="), 2);
    assert_int_equal(count_lines(lines, " depth=1 name=chip.run.runner_run ts="), 1);
    assert_int_equal(count_lines(lines, " depth=1 name=chip.run.validate ts="), 2);
    assert_int_equal(count_lines(lines, " depth=2 name=chip.run.runner_run.device_wall ts=0 "), 1);
    assert_int_equal(
        count_lines(lines, " depth=3 name=chip.run.runner_run.device_wall.task_slot_3 "), 1);
    assert_line(lines, " clk=dev\n");
    free(lines);
    setenv("SIMPLER_DEVICE_STRACE_ENABLE", "0", 1);
    catch_lines(PTO_LOG_TIMING);
    assert_int_equal(run(d, c, 9), 0);
    lines = caught_lines();
    unsetenv("SIMPLER_DEVICE_STRACE_ENABLE");
    assert_int_equal(count_lines(lines, "device_wall"), 0);
    assert_int_equal(count_lines(lines, "name=chip.run "), 1);
    free(lines);
    free_call(c);
    close_worker_device(d);
}

static void the_threshold_is_the_processes(void)
{
    struct log_state wrong = threshold;
    struct worker_device *d = open_worker_device();
    struct call *c = make_call(0);
    char *lines;

    assert_int_equal(lib.simpler_register_callable(d, 0, add_blob.at), 0);
    catch_lines(PTO_LOG_ERROR);
    assert_int_equal(run(d, c, 0), 0);
    assert_true(run(d, c, 1) < 0);
    lines = caught_lines();
    assert_int_equal(count_lines(lines, "\n"), 1);
    assert_line(lines, "[ERROR] simpler_prepare_run: callable 1 cannot be prepared: it is not "
                       "registered\n");
    free(lines);
    catch_lines(PTO_LOG_OFF);
    assert_true(run(d, c, 1) < 0);
    lines = caught_lines();
    assert_string_equal(lines, "");
    free(lines);
    threshold.anchor_pid = 0;
    catch_lines(PTO_LOG_INFO);
    assert_int_equal(run(d, c, 0), 0);
    lines = caught_lines();
    assert_line(lines, "[INFO] simpler_launch_run: AicpuExecutor: Initializing");
    assert_int_equal(count_lines(lines, "clock_anchor: [CLOCK_ANCHOR] v=1 pid="), 1);
    assert_int_equal(threshold.anchor_pid, getpid());
    free(lines);
    assert_true(lib.simpler_host_log_bind_state(NULL) < 0);
    wrong.abi = 2;
    assert_true(lib.simpler_host_log_bind_state(&wrong) < 0);
    wrong = threshold;
    wrong.threshold = 11;
    assert_true(lib.simpler_host_log_bind_state(&wrong) < 0);
    free_call(c);
    close_worker_device(d);
}

/* It is called as it expects, prints through our lines, and looks at our threshold itself. */
static void orchestrations_of_the_reference_run(void)
{
    struct worker_device *d = open_worker_device();
    struct call *c = make_call(COMPAT_LOG);
    char *lines;

    assert_int_equal(lib.simpler_register_callable(d, 0, compat_blob[variant->is_host].at), 0);
    catch_lines(PTO_LOG_WARN);
    assert_int_equal(run(d, c, 0), 0);
    lines = caught_lines();
    assert_int_equal(c->a[0], PTO_LOG_WARN);
    assert_int_equal(count_lines(lines, "\n"), 2);
    assert_line(lines, "[ERROR] f: 1\n");
    assert_line(lines, "[WARN] f: 2\n");
    free(lines);
    c->a[0] = 0;
    c->args.scalar[0] = COMPAT_FATAL;
    catch_lines(PTO_LOG_ERROR);
    assert_int_equal(run(d, c, 0), -42);
    lines = caught_lines();
    assert_line(lines, "PTO2 runtime failed: orch_error_code=42 sched_error_code=0 "
                       "runtime_status=-42\n");
    assert_line(lines, "it is 42");
    assert_int_equal(c->a[0], 0);
    free(lines);
    free_call(c);
    close_worker_device(d);
}

/*
 * Counts files in the memory map whose paths contain the text. The map lists the parts of a file
 * together.
 */
static uint32_t count_mappings(const char *text)
{
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[PATH_MAX + 128], last[sizeof(line)] = "";
    uint32_t count = 0;

    assert_non_null(maps);
    while (fgets(line, sizeof(line), maps) != NULL) {
        const char *path = strchr(line, '/');

        if (path != NULL && strstr(path, text) != NULL && strcmp(path, last) != 0) {
            strcpy(last, path);
            count++;
        }
    }
    fclose(maps);
    return count;
}

/* A test of the reference counts files /tmp/orch_so_... in the memory map. */
static void orchestrations_of_the_reference_are_mapped_while_registered(void)
{
    const char *folder = getenv("TMPDIR");
    char token[PATH_MAX];
    struct worker_device *d = open_worker_device();
    const void *blob = compat_blob[variant->is_host].at;

    snprintf(token, sizeof(token), "%s/orch_so_", folder != NULL ? folder : "/tmp");
    assert_int_equal(count_mappings(token), 0);
    assert_int_equal(lib.simpler_register_callable(d, 0, blob), 0);
    assert_int_equal(count_mappings(token), 1); /* its kernels are elsewhere */
    assert_true(lib.simpler_register_callable(d, 0, blob) < 0);
    assert_int_equal(count_mappings(token), 1);
    assert_int_equal(lib.simpler_unregister_callable(d, 0), 0);
    assert_int_equal(count_mappings(token), 0);
    close_worker_device(d);
}

static void what_is_missing_is_unsupported(void)
{
    struct worker_device *d = open_worker_device();

    assert_int_equal(lib.simpler_provision_dma_workspace(d, 0, NULL, 0), 0);
    assert_int_equal(lib.simpler_provision_dma_workspace(d, 1, NULL, 0), WORKER_UNSUPPORTED);
    assert_int_equal(lib.ensure_acl_ready_ctx(d, 0), 0);
    assert_null(lib.create_comm_stream_ctx(d));
    assert_int_equal(lib.destroy_comm_stream_ctx(d, NULL), 0);
    close_worker_device(d);
}

/* Opens and closes devices with callables that were not unregistered. */
static void nothing_is_left_behind(void)
{
    uint32_t before = 0;

    for (int i = 0; i < 6; i++) {
        struct worker_device *d = open_worker_device();
        struct call *c = make_call(0);

        assert_int_equal(lib.simpler_register_callable(d, 3, add_blob.at), 0);
        assert_non_null(lib.device_malloc_ctx(d, 1000));
        assert_int_equal(run(d, c, 3), 0);
        free_call(c);
        lib.destroy_device_context(d); /* finalizes it */
        if (i == 1)
            /* everything that stays allocated permanently is there by now */
            before = count_descriptors();
    }
    assert_int_equal(count_descriptors(), before);
}

/* ---- all of them, for each library ---- */

static void test_library(const struct variant *which)
{
    load_library(which);
    runs_compute();
    device_memory_is_used_in_place();
    callables_have_ids();
    a_run_goes_through_its_phases();
    a_run_can_be_abandoned();
    calls_that_are_wrong_are_refused();
    a_failed_run_says_why();
    every_code_has_its_name();
    rings_are_as_large_as_they_are_set();
    slots_are_apart();
    outputs_may_be_views();
    spans_tell_of_every_run();
    the_threshold_is_the_processes();
    orchestrations_of_the_reference_run();
    orchestrations_of_the_reference_are_mapped_while_registered();
    what_is_missing_is_unsupported();
    nothing_is_left_behind();
    dlclose(lib.handle);
}

static void streamed_a2a3(void **state)
{
    (void)state;
    test_library(&variants[0]);
}

static void host_built_a2a3(void **state)
{
    (void)state;
    test_library(&variants[1]);
}

static void streamed_a5(void **state)
{
    (void)state;
    test_library(&variants[2]);
}

static void host_built_a5(void **state)
{
    (void)state;
    test_library(&variants[VARIANTS - 1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(streamed_a2a3),
        cmocka_unit_test(host_built_a2a3),
        cmocka_unit_test(streamed_a5),
        cmocka_unit_test(host_built_a5),
    };

    return cmocka_run_group_tests(tests, make_blobs, free_blobs);
}
