/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How level-3 workers and their children end: on request, by kill -9 at any moment, while stopped,
 * or with the process that started them. Nothing is left, and no process waits for a dead one.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "tests/fixture/counts_test.h"
#include "tests/fixture/tree_test.h"

static void assert_nothing_left(int descriptors)
{
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    assert_int_equal(errno, ECHILD);
    assert_int_equal(count_descriptors(), descriptors);
}

static void closing_leaves_nothing(void **state)
{
    int descriptors = count_descriptors();

    (void)state;
    for (int i = 0; i < 3; i++) {
        open_worker(1, 2);
        close_worker();
        assert_nothing_left(descriptors);
    }
}

static void what_cannot_be_opened_leaves_nothing(void **state)
{
    struct pto_worker_params params;
    struct pto_error error;
    int descriptors = count_descriptors();

    (void)state;
    pto_error_init(&error);
    pto_worker_params_init(&params);
    params.platform = "nonsense";
    params.sub_count = 2;
    params.error = &error;
    assert_int_equal(pto_worker_open(&params, &worker), PTO_ENOSUP);
    assert_non_null(strstr(error.text, "child 0"));
    assert_nothing_left(descriptors);
    params.chip_count = params.sub_count = 0;
    assert_int_equal(pto_worker_open(&params, &worker), PTO_EINVAL);
    params.chip_count = 60;
    params.sub_count = 5;
    assert_int_equal(pto_worker_open(&params, &worker), PTO_EINVAL);
    assert_nothing_left(descriptors);
}

/* ---- a program of the user's ---- */

static const char *const self[] = { "/proc/self/exe", "child", NULL };

static void children_can_be_a_program_of_the_users(void **state)
{
    struct one one = { .count = 1, .scalar = 5 };
    struct pto_worker_params params;
    struct pto_error error;
    char link[64], path[256] = "";
    static const char *const absent[] = { "/nowhere/at/all", NULL }, *const nothing[] = { NULL };

    (void)state;
    pto_error_init(&error);
    pto_worker_params_init(&params);
    params.platform = "a2a3sim";
    params.sub_count = 1;
    params.error = &error;
    params.child_program = nothing;
    assert_int_equal(pto_worker_open(&params, &worker), PTO_EINVAL);
    params.child_program = absent;
    assert_int_equal(pto_worker_open(&params, &worker), PTO_ESYSTEM);
    assert_non_null(strstr(error.text, "/nowhere/at/all"));
    params.child_program = self;
    if (pto_worker_open(&params, &worker) < 0)
        fail_msg("%s", error.text);
    for (uint32_t i = 0; i < 2; i++) {
        snprintf(link, sizeof(link), "/proc/%d/exe", child(i).pid);
        assert_true(readlink(link, path, sizeof(path) - 1) > 0);
        assert_non_null(strstr(path, "test_tree_ends"));
    }
    one.callable = register_sub("mix");
    one.tensor[0] = numbers(make_numbers());
    run_well(submit_one, &one);
    assert_int_equal(*(int *)pto_tensor_data(&one.tensor[0]), 5);
    assert_int_equal(kill(child(1).pid, SIGKILL), 0);
    await_death(1);
    reopen(1);
    run_well(submit_one, &one);
    assert_int_equal(*(int *)pto_tensor_data(&one.tensor[0]), 20);
    close_worker();
}

/* ---- a child dies ---- */

struct dying {
    uint64_t dies, mix;
    int *word;
};

static void submit_dying(struct pto_level *level, void *context)
{
    struct dying *x = context;
    struct one one = { .callable = x->dies, .children = PTO_ON(0), .count = 1 };

    one.tensor[0] = numbers(x->word);
    submit_one(level, &one);
    one.callable = x->mix;
    one.children = 0;
    for (int i = 0; i < 5; i++)
        submit_one(level, &one);
}

static void a_child_that_dies_ends_its_task_only(void **state)
{
    struct dying x;
    struct one one;
    int descriptors = count_descriptors();

    (void)state;
    open_worker(0, 2);
    x.dies = register_sub("dies");
    x.mix = register_sub("mix");
    x.word = make_numbers();
    assert_int_equal(run(submit_dying, &x), PTO_EPEER);
    assert_non_null(
        strstr(run_report.error.text, "callable 'dies': the child was ended by signal 9"));
    assert_int_equal(run_report.failed, 1);
    assert_int_equal(run_report.child, 0);
    assert_int_equal(run_report.failed + run_report.skipped, run_report.tasks);
    assert_int_equal(x.word[0], 0);
    one = (struct one){ .callable = x.mix, .children = PTO_ON(0), .count = 1, .scalar = 5 };
    one.tensor[0] = numbers(x.word);
    assert_int_equal(run(submit_one, &one), PTO_EPEER); /* refused */
    assert_non_null(strstr(run_report.error.text, "pto_worker_reopen"));
    one.children = 0;
    run_well(submit_one, &one); /* on the other one */
    assert_int_equal(x.word[0], 5);
    assert_int_equal(pto_worker_reopen(worker, 1, NULL), PTO_EBUSY);
    reopen(0);
    assert_int_equal(child(0).generation, 2);
    one.children = PTO_ON(0);
    run_well(submit_one, &one); /* the new child has loaded its callables */
    assert_int_equal(x.word[0], 20);
    close_worker();
    assert_nothing_left(descriptors);
}

/*
 * Another child could run the task, but it is not tried there, because the killed child may have
 * done half of its work.
 */
static void a_task_that_killed_its_child_is_not_tried_again(void **state)
{
    (void)state;
    for (int is_busy = 0; is_busy <= 1; is_busy++) {
        struct one one = { .count = 1 }, hold = { .count = 1, .children = PTO_ON(1) };
        struct pto_worker_run *handle, *held;
        int pid[2], left, *word, *busy;
        uint64_t tell;

        open_worker(0, 2);
        pid[0] = child(0).pid, pid[1] = child(1).pid;
        word = make_numbers(), busy = make_numbers();
        one.callable = register_sub("dies");
        one.tensor[0] = numbers(word);
        tell = register_sub("child");
        hold.callable = register_sub("hold");
        hold.tensor[0] = numbers(busy);
        __atomic_store_n(busy, !is_busy, __ATOMIC_RELEASE);
        assert_int_equal(pto_worker_launch(worker, submit_one, &hold, &held), PTO_OK);
        wait_word(busy + 1, 1);
        assert_int_equal(pto_worker_launch(worker, submit_one, &one, &handle), PTO_OK);
        assert_int_equal(pto_worker_run_wait(handle, 0), PTO_EPEER);
        pto_worker_report_init(&run_report);
        assert_int_equal(pto_worker_run_finish(handle, &run_report), PTO_EPEER);
        assert_in_range(run_report.child, 0, 1 - is_busy);
        /* the parent has even waited for it, so it is no zombie */
        assert_int_equal(kill(pid[run_report.child], 0), -1);
        assert_int_equal(errno, ESRCH);
        __atomic_store_n(busy, 1, __ATOMIC_RELEASE);
        assert_int_equal(pto_worker_run_wait(held, 0), PTO_OK);
        assert_int_equal(pto_worker_run_finish(held, NULL), PTO_OK);
        left = 1 - run_report.child;
        one.callable = tell;
        one.children = PTO_ON(left);
        run_well(submit_one, &one); /* tasks that the other child got before have completed */
        assert_int_equal(word[0], left);
        assert_int_equal(word[1], 1);
        close_worker();
    }
}

/* A chain over two children, so that each task needs the message about the one before. */
static void submit_steps(struct pto_level *level, void *context)
{
    struct one *one = context;

    for (int i = 0; i < 20; i++) {
        one->children = PTO_ON(i % 2);
        submit_one(level, one);
    }
}

static void a_child_can_be_killed_at_any_moment(void **state)
{
    struct one one = { .count = 1, .scalar = 1 };
    int descriptors = count_descriptors();

    (void)state;
    open_worker(0, 2);
    one.callable = register_sub("mix");
    one.tensor[0] = numbers(make_numbers());
    for (uint64_t i = 0; i < (IS_SANITIZED ? 6 : 24); i++) {
        uint32_t victim = i % 2;
        uint64_t until = child(victim).tasks + i / 2;
        struct pto_worker_run *handle;
        int status;

        assert_int_equal(pto_worker_launch(worker, submit_steps, &one, &handle), PTO_OK);
        while (child(victim).tasks < until && pto_worker_run_poll(handle) == PTO_RUN_PENDING) {
        }
        assert_int_equal(kill(child(victim).pid, SIGKILL), 0);
        status = pto_worker_run_wait(handle, 60000 * MS);
        assert_true(status == PTO_OK || status == PTO_EPEER);
        pto_worker_report_init(&run_report);
        assert_int_equal(pto_worker_run_finish(handle, &run_report), status);
        assert_true(status == PTO_OK || run_report.child == (int)victim ||
                    strstr(run_report.error.text, "reopen") !=
                        NULL); /* refused while its graph was built */
        assert_int_equal(run_report.done + run_report.failed + run_report.skipped,
                         run_report.tasks);
        await_death(victim);
        reopen(victim);
        run_well(submit_steps, &one);
    }
    close_worker();
    assert_nothing_left(descriptors);
}

/* Tasks that wait for a task of the killed child fail, too; other tasks continue. */
static void what_waits_for_a_dead_child_ends(void **state)
{
    struct one hold = { .count = 1, .children = PTO_ON(0) }, after = { .children = PTO_ON(1) };
    struct pto_worker_run *first, *second;
    int *word;

    (void)state;
    open_worker(0, 2);
    word = make_numbers();
    hold.callable = register_sub("hold");
    hold.tensor[0] = numbers(word);
    after.callable = register_sub("empty");
    assert_int_equal(pto_worker_launch(worker, submit_one, &hold, &first), PTO_OK);
    wait_word(word + 1, 1);
    assert_int_equal(pto_worker_launch(worker, submit_one, &hold, &second), PTO_OK); /* behind it */
    assert_int_equal(kill(child(0).pid, SIGKILL), 0);
    assert_int_equal(pto_worker_run_wait(first, 60000 * MS), PTO_EPEER);
    assert_int_equal(pto_worker_run_wait(second, 60000 * MS), PTO_EPEER);
    run_well(submit_one, &after);
    assert_int_equal(pto_worker_run_finish(first, NULL), PTO_EPEER);
    assert_int_equal(pto_worker_run_finish(second, NULL), PTO_EPEER);
    close_worker();
}

static void a_child_that_is_stopped_does_not_stop_the_worker(void **state)
{
    struct one one = { .children = PTO_ON(0) };
    struct pto_worker_run *handle;
    int descriptors = count_descriptors();

    (void)state;
    open_worker(0, 2);
    one.callable = register_sub("empty");
    assert_int_equal(kill(child(0).pid, SIGSTOP), 0);
    assert_int_equal(pto_worker_launch(worker, submit_one, &one, &handle), PTO_OK);
    assert_int_equal(pto_worker_run_wait(handle, 50 * MS), PTO_ETIMEOUT);
    one.children = PTO_ON(1);
    run_well(submit_one, &one);
    assert_int_equal(kill(child(0).pid, SIGCONT), 0);
    assert_int_equal(pto_worker_run_wait(handle, 0), PTO_OK);
    assert_int_equal(pto_worker_run_finish(handle, NULL), PTO_OK);
    assert_int_equal(kill(child(0).pid, SIGSTOP), 0);
    close_worker(); /* by force */
    assert_nothing_left(descriptors);
}

/* ---- what takes too long ---- */

struct late {
    struct one one;
    uint64_t run_ns, task_ns;
};

static void submit_late(struct pto_level *level, void *context)
{
    struct late *x = context;

    assert_int_equal(pto_level_set_timeout(level, x->run_ns), PTO_OK);
    assert_int_equal(pto_level_set_task_timeout(level, x->task_ns), PTO_OK);
    submit_one(level, &x->one);
    submit_one(level, &x->one); /* it waits for the first */
}

/* A function that does not return: its child is killed, and can be started again. */
static void a_task_that_does_not_end_is_ended(void **state)
{
    struct late x = { .one = { .count = 1, .children = PTO_ON(0) }, .task_ns = 20 * MS };
    struct one other = { .children = PTO_ON(0) };
    int descriptors = count_descriptors();

    (void)state;
    open_worker(0, 2);
    x.one.callable = register_sub("hold");
    x.one.tensor[0] = numbers(make_numbers());
    other.callable = register_sub("empty");
    assert_int_equal(run(submit_late, &x), PTO_ETIMEOUT);
    assert_non_null(strstr(run_report.error.text, "SUB worker 0: callable 'hold'"));
    assert_non_null(strstr(run_report.error.text, "its time-out, and the child was killed"));
    assert_int_equal(run_report.child, 0);
    assert_int_equal(run_report.failed, 1);
    assert_int_equal(run_report.failed + run_report.skipped, run_report.tasks);
    assert_int_equal(run(submit_one, &other), PTO_EPEER);
    assert_non_null(strstr(run_report.error.text, "a task had not ended in time"));
    reopen(0);
    run_well(submit_one, &other);
    close_worker();
    assert_nothing_left(descriptors);
}

/* The same when the time limit of the run is over, while no thread waits for the run. */
static void a_run_that_does_not_end_is_ended(void **state)
{
    struct late x = { .one = { .count = 1, .children = PTO_ON(0) }, .run_ns = 20 * MS };
    struct one other = { .children = PTO_ON(1) };
    struct pto_worker_run *handle;
    struct pollfd on = { .events = POLLIN };

    (void)state;
    open_worker(0, 2);
    x.one.callable = register_sub("hold");
    x.one.tensor[0] = numbers(make_numbers());
    other.callable = register_sub("empty");
    assert_int_equal(pto_worker_launch(worker, submit_late, &x, &handle), PTO_OK);
    on.fd = pto_worker_run_fd(handle);
    assert_int_equal(poll(&on, 1, 60000), 1);
    pto_worker_report_init(&run_report);
    assert_int_equal(pto_worker_run_finish(handle, &run_report), PTO_ETIMEOUT);
    assert_non_null(strstr(run_report.error.text, "the run was not over"));
    assert_int_equal(run_report.done, 0);
    run_well(submit_one, &other); /* a child that had no task of the run */
    reopen(0);
    x.run_ns = 60000 * MS; /* a process that finishes in time is not affected */
    *(int *)pto_tensor_data(&x.one.tensor[0]) = 1;
    run_well(submit_late, &x);
    close_worker();
}

/*
 * A chip ends its run itself, and reports which kernel hangs; its device is lost, and so is the
 * child.
 */
static void a_kernel_that_does_not_end_is_ended(void **state)
{
    static const char object[] =
        "#include <pto/orch.h>\n"
        "#include <pto/callable.h>\n"
        "static void spin(int64_t *args) { (void)args; for (volatile int i = 0;; i++) ; }\n"
        "static void orchestrate(struct pto_orch *o, const struct pto_entry *e)\n"
        "{ (void)e; pto_aiv(o, 0); }\n"
        "static const struct pto_kernel kernels[] = { { .name = \"spin\", .fn = spin, .core = "
        "PTO_CORE_AIV } };\n"
        "const struct pto_callable_params pto_callable = { .size = sizeof(pto_callable),\n"
        "    .name = \"spinner\", .kernels = kernels, .kernel_count = 1, .orchestration = "
        "orchestrate };\n";
    struct late x = { .one = { .children = PTO_ON(0) }, .task_ns = 50 * MS };
    struct bytes spinner = compile(object, "");
    int descriptors = count_descriptors();

    (void)state;
    open_worker(1, 0);
    x.one.callable = register_bytes(spinner, PTO_CHILD_CHIP, NULL);
    assert_int_equal(run(submit_late, &x), PTO_ETIMEOUT);
    assert_non_null(strstr(run_report.error.text, "chip 0"));
/* skipped with a sanitizer, which keeps its own signal handlers */
#if !defined(__SANITIZE_ADDRESS__)
    assert_non_null(strstr(run_report.error.text, ", in spin ("));
#endif
    await_death(0);
    reopen(0);
    assert_int_equal(run(submit_late, &x), PTO_ETIMEOUT);
    await_death(0);
    reopen(0);
    assert_int_equal(kill(child(0).pid, SIGSTOP), 0); /* it cannot end a run by itself */
    assert_int_equal(run(submit_late, &x), PTO_ETIMEOUT);
    if (strstr(run_report.error.text, "it had not ended after 0.050 s, its time-out and 1 s more "
                                      "to end by itself, and the child was killed") == NULL)
        fail_msg("%s", run_report.error.text);
    close_worker();
    assert_nothing_left(descriptors);
    free(spinner.at);
}

/*
 * A stopped child does not answer; its number is not used again, and another child gets the tasks.
 */
static void a_child_that_does_not_answer_is_told(void **state)
{
    struct pto_worker_params params;
    struct pto_worker_callable callable;
    struct pto_error error;
    struct one one = { 0 };

    (void)state;
    pto_error_init(&error);
    pto_worker_params_init(&params);
    params.chip_count = 0;
    params.sub_count = 2;
    /* other children answer in time, also on a busy machine */
    params.control_timeout_ns = 500 * MS;
    assert_int_equal(pto_worker_open(&params, &worker), PTO_OK);
    assert_int_equal(kill(child(0).pid, SIGSTOP), 0);
    pto_worker_callable_init(&callable);
    callable.kind = PTO_CHILD_SUB;
    callable.bytes = sub_object.at;
    callable.byte_count = sub_object.size;
    callable.symbol = "empty";
    callable.error = &error;
    assert_int_equal(pto_worker_register(worker, &callable, &one.callable), PTO_ETIMEOUT);
    assert_non_null(strstr(error.text, "child 0: no answer"));
    assert_int_equal(kill(child(0).pid, SIGKILL), 0);
    await_death(0);
    reopen(0);
    one.callable = 0;
    while (one.callable == 0) /* on a busy machine other children may be late as well */
        (void)pto_worker_register(worker, &callable, &one.callable);
    run_well(submit_one, &one);
    close_worker();
}

/* ---- the parent dies ---- */

/* A socket with a name, abstract or not. */
static bool is_named_socket(unsigned long wanted)
{
    FILE *list = fopen("/proc/net/unix", "re");
    char line[512], name[256];
    unsigned long inode;
    bool is_named = false;

    while (list != NULL && !is_named && fgets(line, sizeof(line), list) != NULL)
        is_named = sscanf(line, "%*s %*s %*s %*s %*s %*s %lu %255s", &inode, name) == 2 &&
                   inode == wanted && strstr(name, "pto") != NULL;
    if (list != NULL)
        fclose(list);
    return is_named;
}

/*
 * Whether a process has shared memory or sockets with names, which would be left if it were killed.
 */
static bool has_lasting_names(pid_t pid)
{
    static const char shared[] = "/dev/shm/";
    char path[64], link[512];
    unsigned long inode;
    bool has_one;
    DIR *list;

    snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
    has_one = proc_has(path, shared, strlen(shared));
    snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
    list = opendir(path);
    assert_non_null(list);
    for (struct dirent *e; !has_one && (e = readdir(list)) != NULL;) {
        ssize_t length = readlinkat(dirfd(list), e->d_name, link, sizeof(link) - 1);

        link[length > 0 ? length : 0] = '\0';
        has_one = strncmp(link, shared, strlen(shared)) == 0 ||
                  (sscanf(link, "socket:[%lu]", &inode) == 1 && is_named_socket(inode));
    }
    closedir(list);
    return has_one;
}

/* Shows that the check above can find such an object. */
static void names_that_last_are_seen(void **state)
{
    struct sockaddr_un name = { .sun_family = AF_UNIX };
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    char path[64];

    (void)state;
    assert_false(has_lasting_names(getpid()));
    snprintf(name.sun_path + 1, sizeof(name.sun_path) - 1, "pto-ends-%d", (int)getpid());
    assert_int_equal(bind(fd, (struct sockaddr *)&name, sizeof(name)), 0);
    assert_true(has_lasting_names(getpid()));
    close(fd);
    snprintf(path, sizeof(path), "/dev/shm/pto-ends-%d", (int)getpid());
    fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(unlink(path), 0);
    assert_true(has_lasting_names(getpid()));
    close(fd);
}

static void children_end_with_their_parent(void **state)
{
    int pipe_end[2], pids[3], descriptor[3];
    pid_t parent;

    (void)state;
    assert_int_equal(pipe(pipe_end), 0);
    parent = fork();
    if (parent == 0) { /* a separate process, so that this fork loses no thread */
        struct one one = { .count = 1 };
        struct pto_worker_run *handle;

        open_worker(1, 2);
        one.callable = register_sub("hold");
        one.tensor[0] = numbers(make_numbers());
        (void)pto_worker_launch(worker, submit_one, &one, &handle); /* one of them is busy */
        for (uint32_t i = 0; i < 3; i++)
            pids[i] = child(i).pid;
        (void)!write(pipe_end[1], pids, sizeof(pids));
        for (;;)
            pause();
    }
    assert_int_equal(read(pipe_end[0], pids, sizeof(pids)), sizeof(pids));
    for (int i = 0; i < 3; i++) {
        descriptor[i] = (int)syscall(SYS_pidfd_open, pids[i], 0);
        assert_true(descriptor[i] >= 0);
        assert_false(has_lasting_names(pids[i]));
    }
    assert_false(has_lasting_names(parent)); /* so nothing is left of them */
    assert_int_equal(kill(pids[1], SIGSTOP), 0);
    assert_int_equal(kill(parent, SIGKILL), 0);
    assert_int_equal(waitpid(parent, NULL, 0), parent);
    for (int i = 0; i < 3; i++) {
        struct pollfd on = { .fd = descriptor[i], .events = POLLIN };

        assert_int_equal(poll(&on, 1, 60000), 1);
        close(descriptor[i]);
    }
    close(pipe_end[0]);
    close(pipe_end[1]);
}

static void a_fork_has_no_part_in_the_worker(void **state)
{
    struct one one = { 0 };
    int status;
    pid_t pid;

    (void)state;
    open_worker(0, 1);
    one.callable = register_sub("empty");
    pid = fork();
    if (pid == 0)
        _exit(pto_worker_run(worker, submit_one, &one, NULL) == PTO_EFORKED ? 0 : 1);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    run_well(submit_one, &one);
    close_worker();
}

/* ---- many runs ---- */

static int many = IS_SANITIZED ? 500 : 8000;

static long process_resident_kib(pid_t pid)
{
    char path[64];
    long pages = 0, all = 0;
    FILE *file;

    snprintf(path, sizeof(path), "/proc/%d/statm", (int)pid);
    file = fopen(path, "re");
    assert_int_equal(fscanf(file, "%ld %ld", &all, &pages), 2);
    fclose(file);
    return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

/* Of this process and of both children. */
struct size {
    long kib[3];
    int descriptors[3], threads[3];
};

static struct size measure(void)
{
    struct size size;
    char path[64];

    for (uint32_t i = 0; i < 3; i++) {
        pid_t pid = i < 2 ? child(i).pid : getpid();

        size.kib[i] = process_resident_kib(pid);
        snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
        size.descriptors[i] = count_entries(path);
        snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
        size.threads[i] = (int)count_threads_in(path);
    }
    return size;
}

static void many_runs_leave_nothing(void **state)
{
    struct recipe recipe = make_recipe(ADD);
    struct bytes add = make_artefact(&recipe);
    struct one one = { .count = 1 }, on_chip = { .count = 3 };
    struct size before, after;

    (void)state;
    open_worker(1, 1);
    one.callable = register_sub("mix");
    one.tensor[0] = numbers(make_numbers());
    on_chip.callable = register_bytes(add, PTO_CHILD_CHIP, NULL);
    for (int i = 0; i < 3; i++)
        on_chip.tensor[i] = numbers(make_numbers());
    for (int i = -2000; i < many; i++) {
        if (i == 0)
            before = measure();
        run_well(submit_one, i % 2 == 0 ? &one : &on_chip);
    }
    after = measure();
    for (int i = 0; i < 3; i++) {
        print_message("%s: %ld KiB, then %ld; %d descriptors, %d threads\n",
                      i == 0   ? "chip"
                      : i == 1 ? "SUB worker"
                               : "worker",
                      before.kib[i], after.kib[i], after.descriptors[i], after.threads[i]);
        assert_true(IS_SANITIZED ||
                    after.kib[i] - before.kib[i] < 512); /* sanitizers keep memory that was freed */
        assert_int_equal(after.descriptors[i], before.descriptors[i]);
        assert_int_equal(after.threads[i], before.threads[i]);
    }
    close_worker();
    free(add.at);
    free_recipe(&recipe);
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "child") == 0)
        return pto_child_serve();

    const struct CMUnitTest tests[] = {
        TEST(closing_leaves_nothing),
        TEST(what_cannot_be_opened_leaves_nothing),
        TEST(children_can_be_a_program_of_the_users),
        TEST(a_child_that_dies_ends_its_task_only),
        TEST(a_task_that_killed_its_child_is_not_tried_again),
        TEST(a_child_can_be_killed_at_any_moment),
        TEST(what_waits_for_a_dead_child_ends),
        TEST(a_child_that_is_stopped_does_not_stop_the_worker),
        TEST(a_task_that_does_not_end_is_ended),
        TEST(a_run_that_does_not_end_is_ended),
        TEST(a_kernel_that_does_not_end_is_ended),
        TEST(a_child_that_does_not_answer_is_told),
        TEST(names_that_last_are_seen),
        TEST(children_end_with_their_parent),
        TEST(a_fork_has_no_part_in_the_worker),
        TEST(many_runs_leave_nothing),
    };

    if (argc == 3 && strcmp(argv[1], "many") == 0) {
        const struct CMUnitTest alone[] = { TEST(many_runs_leave_nothing) };

        many = atoi(argv[2]);
        alarm(3600);
        return cmocka_run_group_tests(alone, set_up, tear_down);
    }
    if (argc == 2)
        cmocka_set_test_filter(argv[1]);
    alarm(HANG_SECONDS);
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
