/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels that change floating-point rounding, flushing and traps, or the signal mask: neither the
 * caller of a run nor the kernels of the next run are affected. Runs of code that cannot change the
 * signal mask make no system call for it.
 */
#include <errno.h>
#include <fenv.h>
#include <pthread.h>
#include <signal.h>

#include <sys/syscall.h>

#include "base/elf.h"
#include "base/thread_state.h"
#include "tests/fixture/artefact_test.h"

enum { TASKS = 64, RUNS = 20 };

static uint64_t mask_calls; /* of the thread that counts */
static _Thread_local bool is_counted;

/* Replaces libc's function. */
int pthread_sigmask(int how, const sigset_t *set, sigset_t *old)
{
    mask_calls += is_counted;
    return syscall(SYS_rt_sigprocmask, how, set, old, 8) == 0 ? 0 : EINVAL;
}

static uint64_t floats_wanted;
static uint32_t dirty; /* number of kernels that found a changed state */

static void kernel_spoil(int64_t *args)
{
    sigset_t set;

    (void)args;
    fesetround(FE_UPWARD);
    feenableexcept(FE_DIVBYZERO);
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
}

static void kernel_look(int64_t *args)
{
    (void)args;
    if (thread_state_floats() != floats_wanted)
        __atomic_fetch_add(&dirty, 1, __ATOMIC_RELAXED);
}

static void submit_all(struct pto_orch *o, const struct pto_entry *entry)
{
    for (int i = 0; i < TASKS; i++)
        pto_aiv(o, (int32_t)entry->scalar[0], PTO_INT(i));
}

static void run_once(struct pto_device *device, struct pto_callable *callable, uint64_t kernel)
{
    const struct pto_entry entry = { 0, 1, NULL, &kernel };
    struct pto_run_report report;

    pto_run_report_init(&report);
    assert_int_equal(pto_run(device, callable, &entry, NULL, &report), PTO_OK);
}

static void spoil_and_look(uint32_t workers)
{
    static const struct pto_kernel kernels[] = { { "spoil", kernel_spoil, PTO_CORE_AIV },
                                                 { "look", kernel_look, PTO_CORE_AIV } };
    struct pto_callable_params callable_params;
    struct pto_device_params params;
    struct pto_callable *callable;
    struct pto_device *device;
    sigset_t now;

    pto_callable_params_init(&callable_params);
    callable_params.orchestration = submit_all;
    callable_params.kernels = kernels;
    callable_params.kernel_count = 2;
    assert_int_equal(pto_callable_create(&callable_params, &callable), PTO_OK);
    pto_device_params_init(&params);
    params.workers = workers;
    assert_int_equal(pto_device_open(&params, &device), PTO_OK);
    floats_wanted = thread_state_floats();
    for (int i = 0; i < RUNS; i++) {
        run_once(device, callable, 0);
        assert_int_equal(thread_state_floats(), floats_wanted);
        assert_int_equal(fegetround(), FE_TONEAREST);
        pthread_sigmask(SIG_BLOCK, NULL, &now);
        assert_false(sigismember(&now, SIGUSR1));
        run_once(device, callable, 1);
        assert_int_equal(dirty, 0);
    }
    assert_int_equal(pto_device_close(device), PTO_OK);
    assert_int_equal(pto_callable_destroy(callable), PTO_OK);
}

static void a_caller_gets_its_thread_back_as_it_was(void **state)
{
    (void)state;
    spoil_and_look(1);
}

static void kernels_of_the_next_run_find_every_thread_as_it_was(void **state)
{
    (void)state;
    spoil_and_look(3);
}

/* ---- who pays for it ---- */

static bool keeps_signals(const char *text, const char *flags)
{
    struct bytes object = compile(text, flags);
    struct elf_changes changes;

    assert_int_equal(elf_isolate(object.at, object.size, &changes, NULL), PTO_OK);
    free(object.at);
    return changes.keeps_signals;
}

#define KERNEL(before, body) before "\nvoid kernel_entry(long *args) { " body " }\n"

static void code_that_could_block_signals_is_known(void **state)
{
    (void)state;
    assert_true(keeps_signals(KERNEL("", "args[0] = 0;"), ""));
    assert_true(keeps_signals(KERNEL("#include <math.h>", "args[0] = exp(args[1]);"),
                              "-Wl,--no-as-needed -lm"));
    assert_true(keeps_signals(KERNEL("int pto_sim_x(void);", "args[0] = pto_sim_x();"), ""));
    assert_false(
        keeps_signals(KERNEL("#include <signal.h>", "pthread_sigmask(0, (void *)args, 0);"), ""));
    assert_false(
        keeps_signals(KERNEL("#include <signal.h>", "sigprocmask(0, (void *)args, 0);"), ""));
    assert_false(keeps_signals(
        KERNEL("#include <dlfcn.h>", "args[0] = (long)dlsym((void *)args[1], \"sigprocmask\");"),
        ""));
    assert_false(keeps_signals(
        KERNEL("#include <unistd.h>\n#include <sys/syscall.h>", "syscall(args[0], args[1]);"), ""));
    assert_false(keeps_signals(KERNEL("void other(void);", "other();"), ""));
    assert_false(keeps_signals(KERNEL("", "args[0] = 0;"), "-Wl,--no-as-needed -lelf"));
#if defined(__x86_64__)
    assert_false(keeps_signals(KERNEL("", "__asm__ volatile(\"syscall\");"), ""));
#elif defined(__aarch64__)
    assert_false(keeps_signals(KERNEL("", "__asm__ volatile(\"svc #0\");"), ""));
#endif
}

static const char kernel_blocks[] = "#include <signal.h>\n"
                                    "void kernel_entry(long *args)\n"
                                    "{\n"
                                    "    sigset_t set;\n"
                                    "    (void)args;\n"
                                    "    sigemptyset(&set);\n"
                                    "    sigaddset(&set, SIGUSR1);\n"
                                    "    sigprocmask(SIG_BLOCK, &set, 0);\n"
                                    "}\n";

static struct pto_callable *load_kernel(const char *text)
{
    struct recipe r = make_recipe(ADD);
    struct pto_callable *callable;

    if (text != NULL) {
        free(r.kernel_bytes.at);
        r.kernel_bytes = compile(text, "");
        r.kernel.bytes = r.kernel_bytes.at;
        r.kernel.size = r.kernel_bytes.size;
    }
    callable = load_recipe(&r);
    free_recipe(&r);
    return callable;
}

/* Returns how many calls the runs made; the first run may make additional calls. */
static uint64_t count_calls(struct pto_device *device, const char *kernel)
{
    static int data[3][4];
    struct pto_tensor tensor[3];
    const struct pto_entry entry = { 3, 0, tensor, NULL };
    struct pto_callable *callable = load_kernel(kernel);

    for (int i = 0; i < 3; i++)
        tensor[i] = pto_tensor_external(data[i], (const uint32_t[]){ 4 }, 1, PTO_INT32);
    assert_int_equal(pto_run(device, callable, &entry, NULL, NULL), PTO_OK);
    mask_calls = 0;
    is_counted = true;
    for (int i = 0; i < RUNS; i++)
        assert_int_equal(pto_run(device, callable, &entry, NULL, NULL), PTO_OK);
    is_counted = false;
    assert_int_equal(pto_callable_destroy(callable), PTO_OK);
    return mask_calls;
}

static void only_runs_that_could_block_signals_make_calls_for_it(void **state)
{
    struct pto_device_params params;
    struct pto_device *device;
    sigset_t now;

    (void)state;
    pto_device_params_init(&params);
    params.workers = 1;
    assert_int_equal(pto_device_open(&params, &device), PTO_OK);
    assert_int_equal(count_calls(device, NULL), 0);
    assert_int_equal(count_calls(device, kernel_blocks), 2 * RUNS);
    pthread_sigmask(SIG_BLOCK, NULL, &now);
    assert_false(sigismember(&now, SIGUSR1));
    assert_int_equal(pto_device_close(device), PTO_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_caller_gets_its_thread_back_as_it_was),
        cmocka_unit_test(kernels_of_the_next_run_find_every_thread_as_it_was),
        cmocka_unit_test(code_that_could_block_signals_is_known),
        cmocka_unit_test(only_runs_that_could_block_signals_make_calls_for_it),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
