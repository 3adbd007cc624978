/* SPDX-License-Identifier: Apache-2.0 */
/* variants: plain asan */
/*
 * Kernels and functions that end their process with exit, quick_exit or abort: the report has their
 * name, task and line, in this process and at level 3. test_isolated_ends.c tests isolated devices.
 */
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/fixture/tree_test.h"

/* ---- a device of this process ---- */

static void (*leave)(int code);

static void quits(int64_t *args)
{
    (void)args;
    leave(5);
}

static void submit_quits(struct pto_orch *o, const struct pto_entry *entry)
{
    (void)entry;
    pto_aiv(o, 0, PTO_BLOCKS(4)); /* several threads may call exit at the same time */
}

static void submit_and_quit(struct pto_orch *o, const struct pto_entry *entry)
{
    (void)entry;
    (void)o;
    leave(5);
}

static void do_abort(int code)
{
    (void)code;
    abort();
}

/*
 * Runs the orchestration in a child process; *text gets the child's stderr. Returns its wait
 * status.
 */
static int run_in_child(pto_orch_fn orchestration, char *text, size_t size)
{
    static const struct pto_kernel kernels[] = { { "quits", quits, PTO_CORE_AIV } };
    const struct pto_entry entry = { 0 };
    int ends[2], end;
    size_t used = 0;
    ssize_t got;
    pid_t pid;

    assert_int_equal(pipe(ends), 0);
    pid = fork();
    if (pid == 0) {
        dup2(ends[1], STDERR_FILENO);
        close(ends[0]);
        close(ends[1]);
        _exit(pto_call("a2a3sim", orchestration, kernels, 1, &entry, NULL) < 0 ? 1 : 2);
    }
    close(ends[1]);
    while (used < size - 1 && (got = read(ends[0], text + used, size - 1 - used)) > 0)
        used += (size_t)got;
    text[used] = '\0';
    close(ends[0]);
    assert_int_equal(waitpid(pid, &end, 0), pid);
    return end;
}

static void assert_has(const char *text, const char *part)
{
    if (strstr(text, part) == NULL)
        fail_msg("no \"%s\" in \"%s\"", part, text);
}

static void exit_in_a_kernel_is_reported_with_its_line(void **state)
{
    static char text[4096];
    int end;

    (void)state;
    for (int is_quick = 0; is_quick <= 1; is_quick++) {
        leave = is_quick ? quick_exit : exit;
        end = run_in_child(submit_quits, text, sizeof(text));
        assert_true(WIFEXITED(end) && (WEXITSTATUS(end) == 5 || IS_SANITIZED)); /* leaks */
        assert_has(text, "pto: exit in kernel \"quits\" in block ");
        assert_has(text, "of task 0 (tests/process/test_exits.c:");
        assert_has(text, ", in quits (test_exits.c:");
        assert_null(strstr(strstr(text, "pto: exit") + 1, "pto: exit")); /* only once */
        end = run_in_child(submit_and_quit, text, sizeof(text));
        assert_true(WIFEXITED(end) && (WEXITSTATUS(end) == 5 || IS_SANITIZED)); /* leaks */
        assert_has(text, "pto: exit in the orchestration, before its first submit, in "
                         "submit_and_quit (test_exits.c:");
    }
}

static void abort_in_a_kernel_is_reported_with_its_line(void **state)
{
    static char text[4096];
    int end;

    (void)state;
    if (IS_SANITIZED)
        return; /* the sanitizer reports it */
    leave = do_abort;
    end = run_in_child(submit_quits, text, sizeof(text));
    assert_true(WIFSIGNALED(end) && WTERMSIG(end) == SIGABRT);
    assert_has(text, "pto: abort, or a failed assertion, in kernel \"quits\" in block ");
    assert_has(text, ", in do_abort (test_exits.c:");
    assert_has(text, "called from quits (test_exits.c:");
}

/* ---- level 3 ---- */

static const char sub_source[] =
    "#include <pto/worker.h>\n"
    "#include <stdlib.h>\n"
    "static void leave(int code) { if (code < 0) abort(); exit(code); }\n"
    "int quits(const struct pto_sub_call *c) { leave((int)c->scalar[0]); return 1; }\n";

static const char chip_source[] =
    "#include <stdlib.h>\n"
    "#include <pto/orch.h>\n"
    "#include <pto/callable.h>\n"
    "static void quits(int64_t *args) { (void)args; exit(3); }\n"
    "static void orchestrate(struct pto_orch *o, const struct pto_entry *e)\n"
    "{ (void)e; pto_aiv(o, 0); }\n"
    "static const struct pto_kernel kernels[] = { { .name = \"leaver\", .fn = quits, .core = "
    "PTO_CORE_AIV } };\n"
    "const struct pto_callable_params pto_callable = { .size = sizeof(pto_callable),\n"
    "    .orchestration = orchestrate, .kernels = kernels, .kernel_count = 1 };\n";

static void exit_in_a_function_is_reported_with_its_line(void **state)
{
    struct one one = { .children = PTO_ON(0), .scalar = 3 };

    (void)state;
    open_worker(0, 1);
    one.callable = register_bytes(keep(compile(sub_source, "-g")), PTO_CHILD_SUB, "quits");
    assert_int_equal(run(submit_one, &one), PTO_EPEER);
    assert_has(run_report.error.text, "has ended with exit code 3 while it had the task");
    assert_has(run_report.error.text, "exit in the function of the task, in leave (");
    assert_has(run_report.error.text, "called from quits (");
    reopen(0);
    if (!IS_SANITIZED) {
        one.scalar = (uint64_t)-1;
        assert_int_equal(run(submit_one, &one), PTO_EPEER);
        assert_has(run_report.error.text, "abort, or a failed assertion, in the function of the "
                                          "task, in leave (");
    }
    close_worker();
}

static void exit_in_a_kernel_of_a_child_is_reported_with_its_line(void **state)
{
    struct one one = { .children = PTO_ON(0) };

    (void)state;
    open_worker(1, 0);
    one.callable = register_bytes(keep(compile(chip_source, "-g")), PTO_CHILD_CHIP, "pto_callable");
    assert_int_equal(run(submit_one, &one), PTO_EPEER);
    assert_has(run_report.error.text, "exit in kernel \"leaver\" in block 0 of task 0 (");
    assert_has(run_report.error.text, ", in quits (");
    close_worker();
}

/* ---- inlined functions ---- */

static const char inlined_source[] =
    "#include <pto/orch.h>\n"
    "#include <pto/callable.h>\n"
    "static inline __attribute__((always_inline)) void poke(volatile int *at)\n"
    "{\n"
    "    *at = 1;\n"
    "}\n"
    "static void pokes(int64_t *args)\n"
    "{\n"
    "    (void)args;\n"
    "    poke((volatile int *)8);\n"
    "}\n"
    "static void orchestrate(struct pto_orch *o, const struct pto_entry *e)\n"
    "{ (void)e; pto_aiv(o, 0); }\n"
    "static const struct pto_kernel kernels[] = { { .name = \"pokes\", .fn = pokes, .core = "
    "PTO_CORE_AIV } };\n"
    "const struct pto_callable_params pto_callable = { .size = sizeof(pto_callable),\n"
    "    .orchestration = orchestrate, .kernels = kernels, .kernel_count = 1 };\n";

/* The report has the line of the calling function, not that of the inlined one. */
static void the_caller_of_an_inlined_function_is_reported_with_its_line(void **state)
{
    struct one one = { .children = PTO_ON(0) };

    (void)state;
    if (IS_SANITIZED)
        return; /* the sanitizer reports crashes */
    open_worker(1, 0);
    one.callable =
        register_bytes(keep(compile(inlined_source, "-g")), PTO_CHILD_CHIP, "pto_callable");
    assert_int_equal(run(submit_one, &one), PTO_ECRASH);
    assert_has(run_report.error.text, ", in poke (source:5), called from pokes (source:10)");
    close_worker();
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        TEST(exit_in_a_kernel_is_reported_with_its_line),
        TEST(abort_in_a_kernel_is_reported_with_its_line),
        TEST(exit_in_a_function_is_reported_with_its_line),
        TEST(exit_in_a_kernel_of_a_child_is_reported_with_its_line),
        TEST(the_caller_of_an_inlined_function_is_reported_with_its_line),
    };

    if (argc == 2)
        cmocka_set_test_filter(argv[1]);
    alarm(HANG_SECONDS);
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
