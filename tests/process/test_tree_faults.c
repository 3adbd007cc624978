/* SPDX-License-Identifier: Apache-2.0 */
/* variants: plain - asan: its processes are killed, which leaves nothing to look at */
/*
 * Faults of level-3 workers, at every message. A play is a process that opens a worker with a chip,
 * two SUB workers and a nested worker, which has a SUB worker of its own. It registers callables,
 * runs tasks and a group, unregisters and closes. One of the processes, including the grandchild,
 * is killed, or stops, or kills the root, when it has read its message i or when it has answered
 * it, for every i. If a process is killed, waits for it end long before a time-out; if it stops,
 * they end by a time-out. Then dead children are started again, everything is done once more, and
 * nothing may be left of any process.
 *
 * With an argument, all plays are run; else one in seven, different ones in each of the three rows.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "tree/child.h"

#include "tests/fixture/counts_test.h"
#include "tests/fixture/tree_test.h"

enum {
    CHIPS = 1,
    SUBS = 2,
    NESTED = CHIPS + SUBS, /* its number */
    CHILDREN = NESTED + 1,
    GRANDCHILD = CHILDREN, /* the only child of the nested worker, for this test */
    PROCESSES = GRANDCHILD + 1,
    CALLABLES = 5,
    PLAYS_MAX = 256,
    LONG_MS = 300000, /* no process waits for it */
    SOON_MS = 100000, /* time in which a death is noticed, on a busy machine */
    LONGER = 20,      /* factor for the time-outs of a play that is repeated */
    SUM = 1,          /* of the callables */
};
enum fault { FAULT_NONE, FAULT_KILL, FAULT_STOP, FAULT_PARENT };
static const char *const fault_name[] = { "nothing happens to", "is killed", "stops",
                                          "kills the root" };

struct play {
    enum fault fault;
    uint32_t victim;
    uint64_t number;
    bool is_done; /* when it has answered */
    bool is_repeated;
    uint32_t token;
    char folder[96];
    pid_t pid;
    /* Results of the process of a play. */
    int status;       /* of the first call that failed */
    uint64_t ns;      /* when it returned */
    int step;         /* which it was */
    int32_t children; /* bit set of the children that had to be started again */
    char text[512];
    char wrong[256];
};

static struct bytes add_artefact, nested_object;
static uint64_t messages[PROCESSES]; /* number of messages that each process gets without faults */
static uint64_t slowest_ns;          /* death to error */

#define MUST(p, condition)                                                                         \
    do {                                                                                           \
        if (!(condition) && (p)->wrong[0] == '\0')                                                 \
            snprintf((p)->wrong, sizeof((p)->wrong), "line %d: not so: %s", __LINE__, #condition); \
    } while (0)

/* ---- a child ---- */

struct order {
    int fault, root;
    unsigned victim, is_done;
    unsigned long number;
};

/* When a fault happens to a child, and how many messages each child has had. */
static void write_number(const char *name, uint32_t child, uint64_t value)
{
    char path[128], text[32];

    snprintf(path, sizeof(path), "%s/%s%u", getenv("TMPDIR"), name, child);
    snprintf(text, sizeof(text), "%llu", (unsigned long long)value);
    (void)file_write(path, text, strlen(text));
}

static bool is_written(const char *name, uint32_t child)
{
    char path[128];

    snprintf(path, sizeof(path), "%s/%s%u", getenv("TMPDIR"), name, child);
    return access(path, F_OK) == 0;
}

static uint64_t read_number(const char *folder, const char *name, uint32_t child)
{
    char path[128], *text;
    size_t size;
    uint64_t value;

    snprintf(path, sizeof(path), "%s/%s%u", folder, name, child);
    if (file_read(path, 32, &text, &size) < 0)
        return 0;
    value = strtoull(text, NULL, 10);
    free(text);
    (void)unlink(path);
    return value;
}

static void at_message(void *context, uint32_t child, uint64_t number, bool is_done)
{
    const struct order *o = context;

    if (getppid() != o->root)
        child = GRANDCHILD;
    if (o->fault == FAULT_NONE) {
        write_number("count", child, number);
        return;
    }
    if (child != o->victim || number != o->number || is_done != (o->is_done != 0) ||
        /* a nested worker starts its children with the environment of its own start */
        is_written("when", child))
        return;
    write_number("process", child, (uint64_t)getpid());
    write_number("when", child, now_ns());
    if (o->fault == FAULT_KILL)
        (void)raise(SIGKILL);
    if (o->fault == FAULT_STOP)
        (void)raise(SIGSTOP);
    if (o->fault == FAULT_PARENT)
        (void)kill(o->root, SIGKILL);
}

static int run_child(void)
{
    const char *text = getenv("PTO_TEST_FAULT");
    struct order o = { .victim = PROCESSES };
    const struct child_watch watch = { at_message, &o };

    if (text == NULL ||
        sscanf(text, "%d %u %lu %u %d", &o.fault, &o.victim, &o.number, &o.is_done, &o.root) != 5)
        return child_serve(NULL, NULL);
    return child_serve(NULL, &watch);
}

/* ---- the scenario ---- */

/* The function that the nested worker calls: sums its tensors on a SUB worker of its own. */
static const char nested_text[] = "#include <pto/worker.h>\n"
                                  "int pass(struct pto_level *l, const struct pto_sub_call *c)\n"
                                  "{\n"
                                  "    struct pto_args args;\n"
                                  "    pto_args_init(&args);\n"
                                  "    pto_add_input(&args, &c->tensor[0]);\n"
                                  "    pto_add_input(&args, &c->tensor[1]);\n"
                                  "    pto_add_output_existing(&args, &c->tensor[2]);\n"
                                  "    pto_level_submit(l, c->scalar[0], 0, &args);\n"
                                  "    return 0;\n"
                                  "}\n";

struct stage {
    struct play *play;
    uint64_t callable[CALLABLES]; /* add, sum, meet; pass, and sum for the grandchild */
    int *a, *b, *f, *g, *word;
};

static void orchestrate(struct pto_level *level, void *context)
{
    const struct stage *s = context;
    const uint32_t shape[] = { COUNT }, group[] = { 1, 2 };
    struct pto_tensor_info info = pto_tensor_info_make(shape, 1, PTO_INT32);
    struct pto_tensor a = numbers(s->a), b = numbers(s->b), f = numbers(s->f);
    struct pto_tensor g = numbers(s->g), word = numbers(s->word);
    struct pto_args args[2];

    for (int i = 0; i < 2; i++) {
        struct pto_outputs half;

        pto_args_init(&args[0]);
        pto_add_input(&args[0], &a);
        pto_add_input(&args[0], &b);
        pto_add_output(&args[0], &info);
        half = pto_level_submit(level, s->callable[0], PTO_ON(0), &args[0]);
        if (half.count != 1)
            return;
        pto_args_init(&args[0]);
        pto_add_input(&args[0], half.tensor);
        pto_add_inout(&args[0], &f);
        (void)pto_level_submit(level, s->callable[SUM], PTO_ON(1 + i), &args[0]);
    }
    for (int i = 0; i < 2; i++) { /* they wait for each other */
        pto_args_init(&args[i]);
        pto_args_add(&args[i], &word, PTO_TAG_NO_DEP);
        pto_add_input(&args[i], &f);
        pto_add_scalar(&args[i], 2);
    }
    (void)pto_level_submit_group(level, s->callable[2], group, args, 2, NULL);
    pto_args_init(&args[0]);
    pto_add_input(&args[0], &a);
    pto_add_input(&args[0], &f);
    pto_add_output_existing(&args[0], &g);
    pto_add_scalar(&args[0], s->callable[4]);
    (void)pto_level_submit(level, s->callable[3], PTO_ON(NESTED), &args[0]);
}

static int open_play(struct play *p)
{
    static const char *const self[] = { "/proc/self/exe", "child", NULL };
    struct pto_worker_params params, below;
    const struct pto_worker_params *nested[] = { &below };
    uint64_t unit_ns = (p->is_repeated ? LONGER : 1) * MS;
    struct pto_error error;
    int status;

    pto_error_init(&error);
    pto_worker_params_init(&params);
    pto_worker_params_init(&below);
    below.chip_count = 0;
    below.sub_count = 1;
    params.nested = nested;
    params.nested_count = 1;
    params.platform = below.platform = "a2a3sim";
    params.clusters = params.chip_workers = 1;
    params.sub_count = SUBS;
    params.memory_max = 1ull << 30;
    params.child_program = self;
    params.startup_timeout_ns = p->fault == FAULT_STOP ? 3000 * unit_ns : LONG_MS * MS;
    params.task_timeout_ns = params.control_timeout_ns =
        p->fault == FAULT_STOP ? 2000 * unit_ns : LONG_MS * MS;
    below.task_timeout_ns = params.task_timeout_ns;
    below.control_timeout_ns =
        params.control_timeout_ns / 2; /* this process reports what is late, not the root */
    params.error = &error;
    status = pto_worker_open(&params, &worker);
    if (status < 0)
        snprintf(p->text, sizeof(p->text), "%s", error.text);
    return status;
}

static int register_one(struct play *p, struct stage *s, int which)
{
    static const char *const symbol[CALLABLES] = { NULL, "sum", "meet", "pass", "sum" };
    const struct bytes bytes = which == 0 ? add_artefact : which == 3 ? nested_object : sub_object;
    struct pto_worker_callable params;
    struct pto_error error;
    int status;

    pto_error_init(&error);
    pto_worker_callable_init(&params);
    params.kind = which == 0 ? PTO_CHILD_CHIP : which == 3 ? PTO_CHILD_WORKER : PTO_CHILD_SUB;
    params.is_below = which == 4;
    params.bytes = bytes.at;
    params.byte_count = bytes.size;
    params.symbol = symbol[which];
    params.error = &error;
    status = pto_worker_register(worker, &params, &s->callable[which]);
    if (status < 0)
        snprintf(p->text, sizeof(p->text), "%s", error.text);
    return status;
}

static int run_stage(struct play *p, struct stage *s)
{
    int status;

    for (int i = 0; i < COUNT; i++)
        s->a[i] = i, s->b[i] = 7, s->f[i] = s->g[i] = 0;
    s->word[0] = 0;
    status = run(orchestrate, s);
    if (status < 0)
        snprintf(p->text, sizeof(p->text), "%s", run_report.error.text);
    MUST(p, run_report.done + run_report.failed + run_report.skipped == run_report.tasks);
    for (int i = 0; i < COUNT && status >= 0; i++)
        MUST(p, s->f[i] == i + 7 && s->g[i] == 2 * i + 7); /* the second sum is of the same input */
    return status;
}

/* What is done before and after a fault. Returns the first error, and its step in p->step. */
static int act(struct play *p, struct stage *s)
{
    int status = PTO_OK;

    for (int i = 0; i < CALLABLES && status >= 0; i++, p->step++)
        status = register_one(p, s, i);
    for (int i = 0; i < 2 && status >= 0; i++, p->step++)
        status = run_stage(p, s);
    for (int i = CALLABLES; i-- > 0 && status >= 0; p->step++)
        status = pto_worker_unregister(worker, s->callable[i]);
    return status;
}

/*
 * The same for children of the nested worker, which starts its dead children itself; it may be dead
 * as well.
 */
static void recover_below(struct play *p, uint64_t end)
{
    pid_t pid = (pid_t)read_number(p->folder, "process", GRANDCHILD);
    struct pto_error error;
    int status = PTO_EBUSY; /* until it has noticed */

    if (p->fault == FAULT_STOP)
        (void)kill(pid, SIGKILL);
    while (child(NESTED).state == PTO_CHILD_READY && status < 0 && now_ns() < end) {
        pto_error_init(&error);
        status = pto_worker_reopen(worker, NESTED, &error);
        nap_ns(MS);
    }
}

/* Kills a process that was only stopped, and starts dead children again. */
static void recover(struct play *p)
{
    uint64_t end = now_ns() + LONG_MS * MS;
    struct pto_error error;

    if (p->victim == GRANDCHILD) {
        recover_below(p, end);
    } else {
        if (p->fault == FAULT_STOP && child(p->victim).state == PTO_CHILD_READY)
            (void)kill(child(p->victim).pid, SIGKILL);
        while (child(p->victim).state == PTO_CHILD_READY && now_ns() < end)
            nap_ns(MS);
    }
    for (uint32_t i = 0; i < CHILDREN; i++) {
        pto_error_init(&error);
        if (child(i).state == PTO_CHILD_READY)
            continue;
        p->children |= 1 << i;
        if (pto_worker_reopen(worker, i, &error) < 0 && p->wrong[0] == '\0')
            snprintf(p->wrong, sizeof(p->wrong), "child %u is not opened anew: %.200s", i,
                     error.text);
    }
}

static void make_memory(struct stage *s)
{
    s->a = make_numbers();
    s->b = make_numbers();
    s->f = make_numbers();
    s->g = make_numbers();
    s->word = make_numbers();
}

static void unregister_rest(const struct stage *s)
{
    for (int i = CALLABLES; i-- > 0;)
        (void)pto_worker_unregister(worker, s->callable[i]);
}

static void perform(struct play *p)
{
    struct stage s = { .play = p };
    uint32_t files = count_entries("/proc/self/fd"), threads = count_threads();
    bool is_open;

    p->status = open_play(p);
    is_open = p->status >= 0;
    if (is_open) {
        make_memory(&s);
        p->step = 1;
        p->status = act(p, &s);
    }
    p->ns = now_ns();
    (void)unsetenv("PTO_TEST_FAULT");
    if (is_open && p->status < 0) {
        recover(p);
        unregister_rest(&s);
        MUST(p, act(p, &s) == PTO_OK);
    }
    if (is_open)
        MUST(p, pto_worker_close(worker) == PTO_OK);
    /* The next process, which also removes files of those that were killed. */
    MUST(p, open_play(p) == PTO_OK);
    make_memory(&s);
    MUST(p, act(p, &s) == PTO_OK);
    MUST(p, pto_worker_close(worker) == PTO_OK);
    MUST(p, count_entries("/proc/self/fd") == files);
    MUST(p, count_threads() == threads);
    MUST(p, !proc_has("/proc/self/maps", "pto-worker", 10));
    MUST(p, waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD);
}

/* ---- plays ---- */

static void start_play(struct play *p)
{
    char order[64];
    pid_t pid;

    if (p->folder[0] == '\0') {
        snprintf(p->folder, sizeof(p->folder), "%s/play%u", folder, p->token);
        assert_int_equal(mkdir(p->folder, 0700), 0);
    }
    pid = fork(); /* the play is in shared memory */
    assert_true(pid >= 0);
    if (pid != 0) {
        p->pid = pid;
        return;
    }
    alarm(HANG_SECONDS);
    snprintf(order, sizeof(order), "%d %u %llu %d %d", (int)p->fault, p->victim,
             (unsigned long long)p->number, p->is_done, (int)getpid());
    (void)setenv("PTO_TEST_FAULT", order, 1);
    mark_processes(getppid(), p->token);
    (void)setenv("TMPDIR", p->folder, 1);
    perform(p);
    _exit(0);
}

static void note_time(struct play *p, uint64_t from, uint64_t until)
{
    if (from == 0 || until < from)
        return;
    if (until - from > slowest_ns)
        slowest_ns = until - from;
    MUST(p, until - from < SOON_MS * MS);
}

static bool is_after_last_task(const struct play *p)
{
    /* After its tasks the child gets what it has to unload, and the request to end. */
    bool has_one = p->victim == 0 || p->victim == GRANDCHILD;
    uint64_t last = messages[p->victim] - (has_one ? 1 : 2) - 1;

    return p->number > last || (p->number == last && p->is_done);
}

static void check_outcome(struct play *p, uint64_t when)
{
    char name[32];

    if (p->fault == FAULT_NONE) {
        MUST(p, p->status == PTO_OK);
        return;
    }
    if (p->number < messages[p->victim])
        MUST(p, when != 0); /* it did happen */
    if (is_after_last_task(p)) {
        MUST(p, p->status == PTO_OK);
        return;
    }
    MUST(p, p->status == (p->fault == FAULT_KILL ? PTO_EPEER : PTO_ETIMEOUT));
    snprintf(name, sizeof(name), " %u", p->victim == GRANDCHILD ? NESTED : p->victim);
    /*
     * Child 1 is SUB worker 1; if one of two group members that wait for each other stops, both are
     * late.
     */
    MUST(p, strstr(p->text, name) != NULL ||
                (p->fault == FAULT_STOP && strstr(p->text, "callable 'meet'") != NULL));
    if (p->fault == FAULT_KILL)
        note_time(p, when, p->ns);
}

/* After the death of the root no process is left, and the next one works in the same folder. */
static void check_orphans(struct play *was, struct play *p, int code)
{
    uint64_t when = read_number(was->folder, "when", was->victim);

    if (was->number < messages[was->victim])
        MUST(was, when != 0); /* it did happen */
    if (when == 0)
        return;
    MUST(was, WIFSIGNALED(code) && WTERMSIG(code) == SIGKILL);
    MUST(was, are_gone(was->token, SOON_MS));
    note_time(was, when, now_ns());
    *p = (struct play){ .token = was->token + PLAYS_MAX };
    memcpy(p->folder, was->folder, sizeof(p->folder));
    start_play(p);
}

/*
 * A child that was killed with its root may leave the folder of its code, whose lock no process
 * holds: the next process that makes such a folder removes it (base/code_file.c). Anything else
 * that is left is an error.
 */
static void remove_dead_code(const char *folder)
{
    char root[256];
    struct dirent *entry;
    DIR *list;

    snprintf(root, sizeof(root), "%s/pto-%ld", folder, (long)geteuid());
    list = opendir(root);
    if (list == NULL)
        return;
    while ((entry = readdir(list)) != NULL) {
        int at = strncmp(entry->d_name, "pto-code-", 9) == 0
                     ? openat(dirfd(list), entry->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
                     : -1;
        DIR *code = at >= 0 && flock(at, LOCK_EX | LOCK_NB) == 0 ? fdopendir(at) : NULL;
        struct dirent *file;

        while (code != NULL && (file = readdir(code)) != NULL)
            (void)unlinkat(at, file->d_name, 0);
        if (code != NULL) {
            closedir(code);
            (void)unlinkat(dirfd(list), entry->d_name, AT_REMOVEDIR);
        } else if (at >= 0) {
            close(at);
        }
    }
    closedir(list);
    (void)rmdir(root);
}

static void end_play(struct play *p, char *text, size_t size)
{
    struct play was = *p;
    int code;

    assert_int_equal(waitpid(p->pid, &code, 0), p->pid);
    if (was.fault == FAULT_PARENT) {
        check_orphans(&was, p, code);
        if (p->pid != was.pid)
            assert_int_equal(waitpid(p->pid, &code, 0), p->pid);
    } else {
        check_outcome(p, read_number(p->folder, "when", p->victim));
    }
    MUST(p, code == 0);
    MUST(p, are_gone(p->token, SOON_MS));
    for (uint32_t i = 0; i < PROCESSES; i++) {
        uint64_t count = read_number(p->folder, "count", i);

        (void)read_number(p->folder, "process", i); /* and removes it */
        if (was.fault == FAULT_NONE)
            messages[i] = count;
    }
    if (was.fault == FAULT_PARENT)
        remove_dead_code(p->folder);
    MUST(p, rmdir(p->folder) == 0);
    if (was.fault == FAULT_STOP && !was.is_repeated)
        return;
    if (p->wrong[0] != '\0' || was.wrong[0] != '\0')
        snprintf(text + strlen(text), size - strlen(text),
                 "\nprocess %u %s %s message %llu of %llu:\n  %s%s\n  step %d: %s: %s", was.victim,
                 fault_name[was.fault], was.is_done ? "after" : "at",
                 (unsigned long long)was.number, (unsigned long long)messages[was.victim],
                 was.wrong, p->wrong, p->step, pto_strerror(p->status), p->text);
}

/*
 * A stopped process is noticed by a time-out, which is short so that the test is. A busy machine
 * may exceed it where nothing has stopped: such a play is repeated alone, with longer time-outs.
 */
static void repeat_wrong(struct play *plays, uint32_t count, char *text, size_t size)
{
    uint32_t repeated = 0;

    for (uint32_t i = 0; i < count; i++) {
        struct play *p = &plays[i];

        if (p->fault != FAULT_STOP || p->wrong[0] == '\0')
            continue;
        print_message("process %u at message %llu once more: %s\n", p->victim,
                      (unsigned long long)p->number, p->wrong);
        *p = (struct play){ .fault = p->fault,
                            .victim = p->victim,
                            .number = p->number,
                            .is_done = p->is_done,
                            .is_repeated = true,
                            .token = 2 * PLAYS_MAX + ++repeated };
        start_play(p);
        end_play(p, text, size);
    }
}

static bool is_whole; /* all of it */

static void sweep(enum fault fault, uint32_t at_a_time)
{
    static char text[16384];
    struct play *plays = mmap(NULL, sizeof(*plays) * PLAYS_MAX, PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    static uint32_t token = 1;
    uint32_t count = 0, begin = 0, each = is_whole ? 1 : 7;

    assert_true(plays != MAP_FAILED);
    text[0] = '\0';
    slowest_ns = 0;
    for (uint32_t victim = 0; victim < PROCESSES; victim++)
        for (uint64_t point = 0; point <= 2 * messages[victim]; point++)
            if ((point + victim + fault) % each == 0)
                plays[count++] = (struct play){ .fault = fault,
                                                .victim = victim,
                                                .number = point / 2,
                                                .is_done = point % 2 != 0,
                                                .token = token++ };
    for (uint32_t i = 0; i < count; i++) {
        if (i - begin == at_a_time)
            end_play(&plays[begin++], text, sizeof(text));
        start_play(&plays[i]);
    }
    while (begin < count)
        end_play(&plays[begin++], text, sizeof(text));
    repeat_wrong(plays, count, text, sizeof(text));
    print_message("%u plays, the slowest %.1f ms\n", count, (double)slowest_ns / 1e6);
    munmap(plays, sizeof(*plays) * PLAYS_MAX);
    if (text[0] != '\0')
        fail_msg("%s", text);
}

static void without_faults_it_works(void **state)
{
    static char text[1024];
    struct play *p =
        mmap(NULL, sizeof(*p), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    (void)state;
    *p = (struct play){ .victim = 0 };
    start_play(p);
    end_play(p, text, sizeof(text));
    if (text[0] != '\0')
        fail_msg("%s", text);
    for (uint32_t i = 0; i < PROCESSES; i++)
        assert_true(messages[i] >= 5);
    munmap(p, sizeof(*p));
}

static void a_child_is_killed_at_any_message(void **state)
{
    (void)state;
    sweep(FAULT_KILL, 2);
}

static void a_child_stops_at_any_message(void **state)
{
    (void)state;
    sweep(FAULT_STOP, 8);
}

static void the_parent_is_killed_at_any_message(void **state)
{
    (void)state;
    sweep(FAULT_PARENT, 2);
}

static int set_up_all(void **state)
{
    if (set_up(state) != 0)
        return -1;
    nested_object = keep(compile(nested_text, ""));
    add_artefact = keep(artefact_of(ADD));
    return 0;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        TEST(without_faults_it_works),
        TEST(a_child_is_killed_at_any_message),
        TEST(a_child_stops_at_any_message),
        TEST(the_parent_is_killed_at_any_message),
    };

    if (argc == 2 && strcmp(argv[1], "child") == 0)
        return run_child();
    is_whole = argc == 2 && strcmp(argv[1], "whole") == 0;
    return cmocka_run_group_tests(tests, set_up_all, tear_down);
}
