/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plays a scenario over the stand-in again and again: a device, two callables, runs, also two in
 * flight, closing. Each time one call of the vendor's fails, hangs, or finds the card gone. Every
 * time somebody is told, in time, nothing is left - not on the card, no thread, no descriptor - and the next one works.
 *
 *     sweep ARTEFACT rules FOLDER     as it is, and with another scheduler, written to the folder
 *     sweep ARTEFACT first TEXT FOLDER...   with programs of each folder, the first of which have a
 *                                     dispatcher that answers otherwise: refused with the text
 *     sweep ARTEFACT [few] CODE...    each call answers the code; few: the first call of each name
 *                          hang       hangs
 *                          down       all cards go down with it
 *                          kill       the control processor, if it is a process, is killed
 */
#define _GNU_SOURCE
#include <pto/pto.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/standin/client.h"
#include "tests/fixture/counts_test.h"

enum { ELEMENTS = 1001, QUEUED = 3, TEXT = 1024, NAMES = 64, LATE_MS = 60000 };

static uint64_t (*count)(const char *what);
static void (*plan)(const char *text);
static const char *(*met)(void);
static const char *(*call_of)(uint64_t number);
static const char *artefact;
static uint64_t stall_ns; /* time limit of runs; 0: the default */

struct outcome {
    int status; /* status of the first step that failed */
    char text[TEXT];
    bool is_right; /* the runs computed the right results */
    bool is_open;  /* the device was */
    bool is_lost;  /* the device was lost before it was closed */
    double ms;
};

static double now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

static void note(struct outcome *o, int status, const char *text)
{
    if (status >= 0 || o->status < 0)
        return;
    o->status = status;
    snprintf(o->text, sizeof(o->text), "%s", text[0] != '\0' ? text : pto_strerror(status));
}

/* ---- the scenario ---- */

static void run_once(struct pto_device *device, struct pto_callable *callable, struct outcome *o)
{
    static float a[ELEMENTS], b[ELEMENTS], f[ELEMENTS];
    const uint32_t shape[1] = { ELEMENTS };
    struct pto_tensor tensor[3];
    struct pto_entry entry = { .tensor_count = 3, .tensor = tensor };
    struct pto_run_options options;
    struct pto_run_report report;
    int status;

    for (int i = 0; i < ELEMENTS; i++) {
        a[i] = (float)(i % 7);
        b[i] = (float)(i % 5);
        f[i] = -1;
    }
    tensor[0] = pto_tensor_external(a, shape, 1, PTO_FLOAT32);
    tensor[1] = pto_tensor_external(b, shape, 1, PTO_FLOAT32);
    tensor[2] = pto_tensor_external(f, shape, 1, PTO_FLOAT32);
    pto_run_report_init(&report);
    pto_run_options_init(&options);
    options.stall_timeout_ns = stall_ns;
    status = pto_run(device, callable, &entry, &options, &report);
    note(o, status, report.error.text);
    for (int i = 0; status >= 0 && i < ELEMENTS; i++) {
        float c = a[i] + b[i];

        o->is_right = o->is_right && f[i] == (c + 1) * (c + 2) + c;
    }
}

static struct pto_device *open_device(uint32_t card, struct outcome *o)
{
    struct pto_device *device = NULL;
    struct pto_device_params params;
    struct pto_error error;

    pto_error_init(&error);
    pto_device_params_init(&params);
    params.platform = getenv("SWEEP_PLATFORM") != NULL ? getenv("SWEEP_PLATFORM") : "a2a3";
    params.error = &error;
    params.card = card;
    params.clusters = 1;
    params.memory_max = 16 << 20;
    note(o, pto_device_open(&params, &device), error.text);
    o->is_open = device != NULL;
    return device;
}

/* Loads the callable and runs it once. */
static struct pto_callable *use_callable(struct pto_device *device, struct outcome *o)
{
    struct pto_callable *callable = NULL;
    struct pto_error error;
    int status;

    pto_error_init(&error);
    if (pto_callable_load_file(artefact, NULL, &callable, &error) < 0)
        fail("%s: %s", artefact, error.text);
    status = pto_register(device, callable, &error);
    note(o, status, error.text);
    if (status >= 0)
        run_once(device, callable, o);
    return callable;
}

/* Several runs at once: the second one is launched after the first, the third after the second. */
static void run_queue(struct pto_device *device, struct pto_callable *callable, struct outcome *o)
{
    static float a[ELEMENTS], b[ELEMENTS], f[QUEUED][ELEMENTS];
    const uint32_t shape[1] = { ELEMENTS };
    struct pto_run *run[QUEUED] = { NULL };

    for (int i = 0; i < ELEMENTS; i++)
        a[i] = b[i] = (float)(i % 7);
    for (int k = 0; k < QUEUED; k++) {
        struct pto_tensor tensor[3] = { pto_tensor_external(a, shape, 1, PTO_FLOAT32),
                                        pto_tensor_external(b, shape, 1, PTO_FLOAT32),
                                        pto_tensor_external(f[k], shape, 1, PTO_FLOAT32) };
        const struct pto_entry entry = { .tensor_count = 3, .tensor = tensor };
        struct pto_run_options options;
        struct pto_error error;

        pto_error_init(&error);
        pto_run_options_init(&options);
        options.stall_timeout_ns = stall_ns;
        options.error = &error;
        memset(f[k], 0, sizeof(f[k]));
        note(o, pto_run_prepare(device, callable, &entry, &options, &run[k]), error.text);
        if (run[k] != NULL)
            note(o, pto_run_launch(run[k]), "a launch");
    }
    for (int k = 0; k < QUEUED; k++) {
        struct pto_run_report report;
        int status = PTO_EINVAL;

        pto_run_report_init(&report);
        if (run[k] != NULL && pto_run_wait(run[k], 0) != PTO_ETIMEOUT)
            status = pto_run_finish(run[k], &report);
        note(o, status, report.error.text);
        for (int i = 0; status >= 0 && i < ELEMENTS; i++) {
            float c = a[i] + b[i];

            o->is_right = o->is_right && f[k][i] == (c + 1) * (c + 2) + c;
        }
    }
}

static void use_device(uint32_t card, struct outcome *o)
{
    struct pto_callable *callable[2] = { NULL, NULL };
    struct pto_device *device = open_device(card, o);

    for (int i = 0; device != NULL && i < 2; i++) /* opens the second device after a run */
        callable[i] = use_callable(device, o);
    if (callable[1] != NULL)
        run_queue(device, callable[1], o);
    for (int i = 0; i < 2; i++)
        if (callable[i] != NULL)
            (void)pto_callable_destroy(callable[i]);
    if (device != NULL) {
        struct pto_device_info info;

        pto_device_info_init(&info);
        (void)pto_device_info(device, &info);
        o->is_lost = info.is_lost;
        (void)pto_device_close(device);
    }
}

static struct outcome play(uint32_t cards)
{
    struct outcome o = { .is_right = true };
    double begin = now_ms();

    for (uint32_t i = 0; i < cards; i++)
        use_device(i, &o);
    o.ms = now_ms() - begin;
    return o;
}

/* Two cards at a time; the second one is still used after the first is closed. */
static struct outcome play_both(void)
{
    struct outcome o = { .is_right = true };
    struct pto_device *device[2] = { open_device(0, &o), open_device(1, &o) };
    struct pto_callable *callable[3] = { NULL, NULL, NULL };

    if (o.status >= 0) {
        callable[0] = use_callable(device[0], &o);
        callable[1] = use_callable(device[1], &o);
    }
    if (callable[0] != NULL)
        (void)pto_callable_destroy(callable[0]);
    if (device[0] != NULL)
        (void)pto_device_close(device[0]);
    if (o.status >= 0)
        callable[2] = use_callable(device[1], &o);
    for (int i = 1; i < 3; i++)
        if (callable[i] != NULL)
            (void)pto_callable_destroy(callable[i]);
    if (device[1] != NULL)
        (void)pto_device_close(device[1]);
    return o;
}

/* ---- what is left ---- */

static uint64_t threads_before, files_before, violations_before, acl_before;

/* Called when the stand-in has all the threads that it will ever have. */
static void remember_around(void)
{
    threads_before = count_threads();
    files_before = count_entries("/proc/self/fd");
}

static void look_around(const char *doing, bool keeps_acl)
{
    static const char *const things[] = { "streams",  "allocations", "modules",
                                          "binaries", "references",  "events" };
    double begin = now_ms();

    for (size_t i = 0; i < sizeof(things) / sizeof(things[0]); i++)
        if (count(things[i]) != 0)
            fail("%s leaves %llu %s", doing, (unsigned long long)count(things[i]), things[i]);
    if (count("acl") != acl_before && !keeps_acl)
        fail("%s leaves a reference to ACL", doing);
    acl_before = count("acl");
    if (count("violations") != violations_before)
        fail("%s breaks a rule", doing);
    violations_before = count("violations");
    while (count_threads() > threads_before) { /* threads that end by themselves */
        if (now_ms() - begin > 30000)
            fail("%s leaves a thread", doing);
        usleep(1000);
    }
    if (count_entries("/proc/self/fd") > files_before)
        fail("%s leaves a file open", doing);
}

/* ---- one call at a time ---- */

static bool is_giving_back(const char *name)
{
    static const char *const names[] = { "aclrtFree", "aclrtDestroyStream", "aclrtBinaryUnLoad",
                                         "aclrtResetDevice", "aclFinalizeReference" };

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}

static bool is_new(const char *name)
{
    static char seen[NAMES][64];
    static int used;

    for (int i = 0; i < used; i++)
        if (strcmp(seen[i], name) == 0)
            return false;
    if (used < NAMES)
        snprintf(seen[used++], sizeof(seen[0]), "%s", name);
    return true;
}

/* Whether the report names the call or its code. */
static bool is_reported(const struct outcome *o, const char *what, const char *name)
{
    char answered[64];

    if (strcmp(what, "hang") == 0)
        return strstr(o->text, name) != NULL && strstr(o->text, "has not returned") != NULL;
    if (strcmp(what, "down") == 0)
        return strstr(o->text, "answered") != NULL;
    if (strcmp(what, "kill") == 0 && strstr(o->text, "aclrtMemcpy answered 507899") != NULL)
        return true; /* the previous run has ended, and its results are fetched too late */
    if (strcmp(name, "aclrtSetCurrentContext") == 0 && strstr(o->text, "answered 107002") != NULL)
        return true; /* calls of a thread that could not be bound to a card */
    snprintf(answered, sizeof(answered), "answered %s",
             strcmp(what, "kill") == 0 ? "507018" : what);
    return strstr(o->text, answered) != NULL;
}

static uint32_t recorded, silent;
static double longest;

static void try_call(uint64_t number, const char *what)
{
    char doing[128], text[64];
    struct outcome o;
    char name[64];
    bool gives_back;

    snprintf(text, sizeof(text), "*@%llu=%s", (unsigned long long)number, what);
    plan(text);
    o = play(1);
    snprintf(name, sizeof(name), "%s", met() != NULL ? met() : "");
    gives_back = is_giving_back(name);
    snprintf(doing, sizeof(doing), "call %llu (%s): %s", (unsigned long long)number, name, what);
    if (o.status >= 0 && !o.is_right)
        fail("%s: nothing is told, and the result is wrong", doing);
    if (o.status < 0 && !is_reported(&o, what, name))
        fail("%s: something else is told: %s", doing, o.text);
    if (o.status >= 0 && !gives_back && name[0] != '\0' && strcmp(what, "down") != 0)
        silent++;
    if (o.ms > LATE_MS)
        fail("%s: takes %.0f ms", doing, o.ms);
    recorded += o.status < 0;
    longest = o.ms > longest ? o.ms : longest;
    plan(NULL);
    look_around(doing, strcmp(name, "aclFinalizeReference") == 0 || strcmp(what, "down") == 0);
}

/*
 * SWEEP_PART=K/N: makes every Nth of the selected calls fail, beginning with the Kth, so that
 * several processes share the work.
 */
static bool is_in_part(uint64_t chosen)
{
    const char *text = getenv("SWEEP_PART");
    unsigned part = 0, parts = 1;

    if (text != NULL && (sscanf(text, "%u/%u", &part, &parts) != 2 || parts == 0))
        fail("SWEEP_PART is %s, and not K/N", text);
    return chosen % parts == part;
}

static void sweep(bool is_few, char **what)
{
    static bool is_chosen[1024];
    uint64_t calls, tried = 0, chosen = 0;

    plan(NULL);
    (void)play(1);
    calls = count("calls");
    for (uint64_t i = 1; i <= calls && i < 1024; i++)
        is_chosen[i] = (!is_few || is_new(call_of(i))) && is_in_part(chosen++);
    for (uint64_t i = 1; i <= calls && i < 1024; i++) {
        tried += is_chosen[i];
        for (char **w = what; is_chosen[i] && *w != NULL; w++)
            try_call(i, *w);
    }
    printf("%llu of %llu calls, %u times told, %u times it made no difference, %.0f ms at most\n",
           (unsigned long long)tried, (unsigned long long)calls, recorded, silent, longest);
}

/* ---- as it is ---- */

/* Copies a program and changes its build id, so that it counts as another program. */
static void copy_program(const char *from, const char *to, const char *name, bool is_changed)
{
    static const char note_head[16] = "\4\0\0\0\24\0\0\0\3\0\0\0GNU";
    static char bytes[8 << 20];
    char path[4096];
    FILE *file;
    char *at;
    size_t size;

    snprintf(path, sizeof(path), "%s/%s", from, name);
    file = fopen(path, "re");
    size = file != NULL ? fread(bytes, 1, sizeof(bytes), file) : 0;
    at = memmem(bytes, size, note_head, sizeof(note_head));
    if (file == NULL || (is_changed && at == NULL))
        fail("%s: no program with a build id", path);
    fclose(file);
    if (is_changed)
        at[sizeof(note_head)] ^= 1;
    snprintf(path, sizeof(path), "%s/%s", to, name);
    file = fopen(path, "we");
    if (file == NULL || fwrite(bytes, 1, size, file) != size || fclose(file) != 0)
        fail("%s cannot be written", path);
}

static void follow_rules(const char *folder)
{
    const char *programs = getenv("PTO_CANN_PROGRAMS");
    struct outcome o = play(2);

    if (o.status < 0 || !o.is_right)
        fail("two cards: %s", o.text);
    look_around("a play with two cards", false);
    o = play_both();
    if (o.status < 0 || !o.is_right)
        fail("two cards at a time: %s", o.text);
    look_around("a play with two cards at a time", false);
    copy_program(programs, folder, "libpto_dispatcher.so", false);
    copy_program(programs, folder, "libpto_scheduler.so", true);
    copy_program(programs, folder, "executor-a2a3.o", false);
    copy_program(programs, folder, "executor-a5.o", false);
    setenv("PTO_CANN_PROGRAMS", folder, 1);
    o = play(2);
    if (o.status < 0 || !o.is_right)
        fail("another scheduler: %s", o.text);
    look_around("a play with another scheduler", false);
    puts(
        "two cards, two callables each, another scheduler in the same process: every rule is kept");
}

/* The vendor's libraries do not survive a fork. */
static void fork_off(void)
{
    pid_t child;
    int status;

    fflush(stdout);
    child = fork();
    if (child == 0) {
        struct outcome o = play(1);

        _exit(o.status == PTO_EFORKED && strstr(o.text, "does not survive a fork") != NULL ? 0 : 1);
    }
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0)
        fail("a process that was forked from this one was not refused: %d", status);
    puts("a process that was forked from one with a card is refused");
}

/*
 * Failures on the card itself: the report says what failed, the device is lost, and the next one
 * works.
 */
static void lose_cards(void)
{
    static const struct {
        const char *plan;
        const char *text;
    } loss[] = {
        { "aicpu@1=1",
          "answered 507018 (the scheduler crashed, or refused its call) for the dispatcher" },
        { "aicpu@4=1",
          "answered 507018 (the scheduler crashed, or refused its call) for the scheduler" },
        { "aicpu@4=hang", "answered 507047 (the wait for an event timed out) and the scheduler's "
                          "heartbeat" },
        { "aclrtLaunchKernelWithHostArgs@4=207001",
          "answered 207001 (no device memory, or a program could not" },
        { "aclrtBinaryLoadFromData@1=fall",
          "aclrtBinaryGetFunctionByEntry answered 207001 (no device memory, or a program could not "
          "be put there) while launching the cores: the card has no room for their program, or it "
          "is down" },
        { "aclrtLaunchKernelWithHostArgs@5=507899",
          "answered 507899 (the driver failed: the card is down" },
        { "aclrtSynchronizeEventWithTimeout@2=507014",
          "answered 507014 (a core took too long) for the cores" },
        { "aclrtMemcpy@14=down", "the link to the card is closed" },
        { "core@2=1", "answered 507015 (a core had an exception) for the cores" },
        /* The same before the host's next call, which finds the card down. */
        { "core@2=1;aclrtRecordEvent@1=await",
          "answered 507015 (a core had an exception) for the cores" },
        { "core@2=1;aclrtLaunchKernelWithHostArgs@5=await",
          "answered 507015 (a core had an exception) for the cores" },
        { "core@2=1;aclrtRecordEvent@2=await",
          "answered 507015 (a core had an exception) for the cores" },
        { "aicpu@4=1;aclrtRecordEvent@2=await",
          "answered 507018 (the scheduler crashed, or refused its call) for the scheduler" },
        { "core@2=hang", "1 of 3 cores did not start within" },
        { "aclrtMemcpy@2=flip(100000)", "the scheduler on the card's disk is not what was sent" },
    };

    for (size_t i = 0; i < sizeof(loss) / sizeof(loss[0]); i++) {
        struct outcome o;

        plan(loss[i].plan);
        stall_ns = strstr(loss[i].plan, "hang") != NULL ? 100000000 : 0; /* during its first run */
        o = play(1);
        stall_ns = 0;
        if (o.status >= 0 || strstr(o.text, loss[i].text) == NULL)
            fail("%s: %d, %s", loss[i].plan, o.status, o.text);
        if (!o.is_lost && o.is_open)
            fail("%s: the device is not lost: %s", loss[i].plan, o.text);
        plan(NULL);
        look_around(loss[i].plan, false);
        o = play(1);
        if (o.status < 0 || !o.is_right)
            fail("after %s: %s", loss[i].plan, o.text);
    }
    puts("what goes wrong on a card is told as what it is, the device is lost, and the next one "
         "works");
}

/* The first dispatcher of a process stays loaded, whichever programs follow. */
static void come_second(const char *text, char **folder)
{
    for (; *folder != NULL; folder++) {
        struct outcome o;

        setenv("PTO_CANN_PROGRAMS", *folder, 1);
        o = play(1);
        if (o.status != PTO_ENOSUP || strstr(o.text, text) == NULL)
            fail("programs of %s: %d, %s", *folder, o.status, o.text);
        if (threads_before == 0)
            remember_around();
        look_around(*folder, false);
    }
    puts("refused, and so are the right ones after it");
}

int main(int argc, char **argv)
{
    bool is_few = argc > 2 && strcmp(argv[2], "few") == 0;
    char **what = argv + 2 + is_few;
    struct outcome o;

    if (argc < 3 + is_few)
        fail("sweep ARTEFACT rules FOLDER | first TEXT FOLDER... | [few] CODE|hang|down|kill...");
    artefact = argv[1];
    *(void **)&count = find("standin_count");
    *(void **)&plan = find("standin_plan");
    *(void **)&met = find("standin_met");
    *(void **)&call_of = find("standin_call");
    if (strcmp(*what, "first") == 0 && argc > 4) {
        come_second(what[1], what + 2);
        return 0;
    }
    o = play(1);
    if (o.status < 0 || !o.is_right)
        fail("the scenario itself: %s", o.text);
    remember_around();
    if (strcmp(*what, "rules") == 0) {
        follow_rules(what[1]);
        fork_off();
        lose_cards();
        return 0;
    }
    for (char **w = what; *w != NULL; w++)
        if (strcmp(*w, "hang") == 0)
            /* calls that do not hang take less than this time */
            setenv("PTO_CANN_CALL_MS", "2000", 1);
    sweep(is_few, what);
    return 0;
}
