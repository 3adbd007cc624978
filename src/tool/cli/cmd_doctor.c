/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `pto doctor` looks for problems that stop programs or slow them down, and prints a remedy for
 * each. A check prints one line: `FAIL` for a broken part, `warn` for one that works with a drawback,
 * `info` for an optional one.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/file.h"
#include "base/os.h"
#include "pto/pto.h"
#include "pto/store.h"
#include "tool/cli/commands.h"
#include "tool/cli/json.h"
#include "tool/cli/machine.h"
#include "tool/cli/probe.h"
#include "tool/scene/scene.h"
#include "tool/scene/scene_find.h"
#include "tool/scene/terminal.h"

enum {
    CHECKS_MAX = 64,
    NAME_BYTES = 32,
    TEXT_BYTES = 512,
    CHIP_CORES = 108, /* cores of the largest chip: 36 clusters of three */
    MEMORY_MIB_MIN = 64,
    MEMORY_MIB_GOOD = 1024,
    CLOCK_READS = 20000,
    CLOCK_NS_GOOD = 500,
    GCC_HALF = 12,     /* first version of GCC with _Float16 in C++ */
    GCC_BFLOAT16 = 14, /* first version of GCC with std::bfloat16_t */
    DESCRIPTORS_GOOD = 256
};
/* size of the shared memory file of an isolated device or a worker */
#define FILE_BYTES_GOOD (32ull << 30)

enum state { STATE_OK, STATE_INFO, STATE_WARN, STATE_FAIL, STATES };

struct check {
    enum state state;
    char name[NAME_BYTES];
    char text[TEXT_BYTES];
    char fix[TEXT_BYTES]; /* remedy, printed after the text; empty: no remedy is needed */
};

struct doctor {
    struct machine machine;
    bool is_json;
    /* whether a device could not be opened because `ulimit -v` is too low */
    bool lacks_address_space;
    /* address space that a device reserved when the command opened one; 0: none was opened */
    uint64_t address_bytes;
    uint32_t count;
    struct check check[CHECKS_MAX];
};

static int do_doctor(void *context, int count, char **operands);
static void check_compiler(struct doctor *d);
static void check_bfloat16(struct doctor *d);
static void check_platforms(struct doctor *d);
static void check_cpus(struct doctor *d);
static void check_address_space(struct doctor *d);
static void doctor_check_files(struct doctor *d);
static void check_memory(struct doctor *d);
static void check_threads(struct doctor *d);
static void check_membarrier(struct doctor *d);
static void check_clock(struct doctor *d);
static void check_examples(struct doctor *d);
static void check_store(struct doctor *d);
static void check_tools(struct doctor *d);
static void check_code(struct doctor *d);
static void print_doctor_json(const struct doctor *d);

static const struct cli_option options[] = {
    CLI_OPTION_JSON(struct doctor, is_json, "a table"),
    CLI_OPTIONS_END,
};

const struct cli_command cmd_doctor = {
    .name = "doctor",
    .summary = "find problems of this machine, and how to fix them",
    .synopsis = "[--json]",
    .description = "Checks this machine and this installation, and prints a remedy for each "
                   "problem. The exit code is 1 if a check fails; a warning is not a failure.",
    .options = options,
    .request_bytes = sizeof(struct doctor),
    .run = do_doctor,
};

static int do_doctor(void *context, int count, char **operands)
{
    struct doctor *d = context;
    uint32_t counts[STATES] = { 0 };

    (void)count;
    (void)operands;
    /* flush, because the child would print buffered output of its parent again */
    fflush(stdout);
    cli_machine_read(&d->machine);
    check_compiler(d);
    check_bfloat16(d);
    check_platforms(d);
    check_cpus(d);
    check_address_space(d);
    doctor_check_files(d);
    check_memory(d);
    check_threads(d);
    check_membarrier(d);
    check_clock(d);
    check_examples(d);
    check_store(d);
    check_tools(d);
    check_code(d);
    for (uint32_t i = 0; i < d->count; i++)
        counts[d->check[i].state]++;
    if (d->is_json)
        print_doctor_json(d);
    else
        printf("%u ok, %u warn, %u FAIL\n", counts[STATE_OK], counts[STATE_WARN],
               counts[STATE_FAIL]);
    return counts[STATE_FAIL] == 0 ? EXIT_OK : EXIT_FAILED;
}

/* ---- lines ---- */

static void print_check(const struct check *check)
{
    static const char *const words[STATES] = { "ok", "info", "warn", "FAIL" };
    static const char *const colours[STATES] = { TERMINAL_GREEN, "", TERMINAL_YELLOW,
                                                 TERMINAL_RED };

    printf("%s%-4s%s  %-15s %s", terminal_code(stdout, colours[check->state]), words[check->state],
           terminal_code(stdout, TERMINAL_PLAIN), check->name, check->text);
    if (check->fix[0] != '\0')
        printf("; fix: %s", check->fix);
    printf("\n");
    fflush(stdout); /* show each line as soon as it is known, and before the next fork */
}

/* Appends and prints the result of a check. `fix` may be NULL. */
__attribute__((format(printf, 5, 6))) static void add_check(struct doctor *d, enum state state,
                                                            const char *name, const char *fix,
                                                            const char *format, ...)
{
    struct check *check = &d->check[d->count];
    va_list values;

    if (d->count == CHECKS_MAX)
        return;
    d->count++;
    check->state = state;
    snprintf(check->name, sizeof(check->name), "%s", name);
    snprintf(check->fix, sizeof(check->fix), "%s", fix != NULL ? fix : "");
    va_start(values, format);
    vsnprintf(check->text, sizeof(check->text), format, values);
    va_end(values);
    if (!d->is_json)
        print_check(check);
}

static void print_doctor_json(const struct doctor *d)
{
    static const char *const words[STATES] = { "ok", "info", "warn", "fail" };
    struct json j = cli_json_start(stdout);
    bool is_ok = true;

    for (uint32_t i = 0; i < d->count; i++)
        is_ok = is_ok && d->check[i].state != STATE_FAIL;
    cli_json_open(&j, NULL, '{');
    cli_json_string(&j, "version", pto_version());
    cli_json_bool(&j, "ok", is_ok);
    cli_json_open(&j, "checks", '[');
    for (uint32_t i = 0; i < d->count; i++) {
        const struct check *check = &d->check[i];

        cli_json_open(&j, NULL, '{');
        cli_json_string(&j, "state", words[check->state]);
        cli_json_string(&j, "name", check->name);
        cli_json_string(&j, "text", check->text);
        cli_json_string(&j, "fix", check->fix[0] != '\0' ? check->fix : NULL);
        cli_json_close(&j, '}');
    }
    cli_json_close(&j, ']');
    cli_json_close(&j, '}');
}

/* ---- checks ---- */

static double gib(uint64_t bytes)
{
    return (double)bytes / (1 << 30);
}

static void check_compiler(struct doctor *d)
{
    static const char *const names[] = { "cc", "gcc", "clang" };
    char path[PATH_MAX];
    char version[MACHINE_LINE_MAX];

    for (uint32_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (cli_machine_find_program(names[i], path) &&
            cli_machine_program_version(path, version)) {
            add_check(d, STATE_OK, "compiler", NULL, "%.240s (%s)", path, version);
            return;
        }
    }
    add_check(d, STATE_FAIL, "compiler", "apt-get install gcc libc6-dev, or add a compiler to PATH",
              "no cc, gcc or clang in PATH; kernels cannot be compiled");
}

/* Reads the major version from the output of GCC: "g++ (Debian 14.2.0-19) 14.2.0". */
static unsigned long read_major(const char *version)
{
    const char *bracket = strrchr(version, ')');

    return strtoul(bracket != NULL ? bracket + 1 : version, NULL, 10);
}

/* Reports the C++ compiler and whether it can compile tile kernels with bfloat16_t. */
static void check_bfloat16(struct doctor *d)
{
    static const char *const names[] = { "g++-17", "g++-16", "g++-15", "g++-14", "g++" };
    static const char fix[] = "apt-get install g++-12 or later, or set CXX";
    char path[PATH_MAX];
    char version[MACHINE_LINE_MAX];
    const char *named = getenv("CXX");

    if (named != NULL && named[0] != '\0') {
        add_check(d, STATE_INFO, "bfloat16", NULL,
                  "CXX is %.200s; tile kernels need GCC 12 or later", named);
        return;
    }
    for (uint32_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (!cli_machine_find_program(names[i], path) ||
            !cli_machine_program_version(path, version))
            continue;
        if (read_major(version) >= GCC_BFLOAT16)
            add_check(d, STATE_OK, "bfloat16", NULL, "%.240s (%s) has bfloat16_t", path, version);
        else if (read_major(version) >= GCC_HALF)
            add_check(d, STATE_OK, "bfloat16", NULL,
                      "%.240s (%s) gets a bfloat16_t from the runtime's headers", path, version);
        else
            add_check(d, STATE_INFO, "bfloat16", fix,
                      "%.240s (%s) has no _Float16; tile kernels cannot be compiled", path,
                      version);
        return;
    }
    add_check(d, STATE_INFO, "bfloat16", fix, "no g++ in PATH; tile kernels cannot be compiled");
}

static void check_mode(struct doctor *d, const char *platform, enum pto_mode mode)
{
    struct probe probe;
    char name[NAME_BYTES];
    char why[TEXT_BYTES];
    const char *fix;

    snprintf(name, sizeof(name), "%.20s %s", platform, pto_mode_name(mode));
    cli_probe_run(platform, mode, &probe);
    if (probe.is_open && d->address_bytes == 0)
        d->address_bytes = probe.address_bytes;
    if (probe.is_right) {
        add_check(d, STATE_OK, name, NULL, "a graph of two tasks gives the right result, %u %s",
                  probe.workers, probe.workers == 1 ? "worker" : "workers");
        return;
    }
    cli_probe_explain(&probe, &d->machine, why, sizeof(why), &fix);
    if (!probe.is_open && probe.status == PTO_ENOMEM)
        d->lacks_address_space = d->machine.address_bytes != MACHINE_UNLIMITED;
    add_check(d, STATE_FAIL, name, fix, "%s: %.400s",
              probe.is_open || probe.signal != 0 ? "does not run" : "cannot be opened", why);
}

/* Reports whether a real card can be opened. A machine has cards of one generation, if any. */
static void doctor_check_card(struct doctor *d, const char *platform)
{
    struct probe probe;
    char why[TEXT_BYTES];
    const char *fix;

    cli_probe_open(platform, &probe);
    if (probe.is_right) {
        add_check(d, STATE_OK, platform, NULL, "card 0 can be opened");
        return;
    }
    cli_probe_explain(&probe, &d->machine, why, sizeof(why), &fix);
    add_check(d, STATE_INFO, platform, fix, "cannot be opened: %.400s", why);
}

static void check_platforms(struct doctor *d)
{
    const struct pto_platform *platform;

    for (uint32_t i = 0; (platform = pto_platform_at(i)) != NULL; i++)
        for (uint32_t mode = 0; platform->missing == NULL && mode < PTO_MODE_COUNT; mode++)
            if (platform->is_simulated)
                check_mode(d, platform->name, (enum pto_mode)mode);
            else if (mode == 0)
                doctor_check_card(d, platform->name);
}

static void check_cpus(struct doctor *d)
{
    const struct machine *m = &d->machine;
    char fix[TEXT_BYTES];

    if (m->cpu_quota > 0 && m->cpu_quota < m->cpus_allowed) {
        snprintf(fix, sizeof(fix), "set workers (`--threads`) to %.0f, or `taskset` as many CPUs",
                 m->cpu_quota < 1 ? 1 : m->cpu_quota);
        add_check(d, STATE_WARN, "cpus", fix,
                  "%u are usable, but a cgroup limits them to the time of %.2f", m->cpus_allowed,
                  m->cpu_quota);
    } else if (m->cpus_allowed < m->cpus_online) {
        snprintf(fix, sizeof(fix), "taskset -a -p -c 0-%u $$, if that is not intended",
                 m->cpus_online - 1);
        add_check(d, STATE_WARN, "cpus", fix, "%u of %u online CPUs are usable (affinity)",
                  m->cpus_allowed, m->cpus_online);
    } else if (m->cpus_allowed == 1) {
        add_check(d, STATE_WARN, "cpus", "give the machine or container a second CPU",
                  "only one; tasks do not run in parallel");
    } else {
        add_check(d, STATE_OK, "cpus", NULL, "%u, all that are online", m->cpus_allowed);
    }
}

static void check_address_space(struct doctor *d)
{
    const struct machine *m = &d->machine;
    char takes[64] = "";

    if (d->address_bytes != 0)
        snprintf(takes, sizeof(takes), "; a device reserves %.0f GiB", gib(d->address_bytes));
    if (d->lacks_address_space)
        add_check(d, STATE_FAIL, "address space",
                  "ulimit -v unlimited; a hard limit is in /etc/security/limits.conf (`as`)",
                  "limited to %.1f GiB (ulimit -v); a device reserves more", gib(m->address_bytes));
    else if (m->address_bytes != MACHINE_UNLIMITED)
        add_check(d, STATE_OK, "address space", NULL, "limited to %.0f GiB%s",
                  gib(m->address_bytes), takes);
    else
        add_check(d, STATE_OK, "address space", NULL, "unlimited%s", takes);
    if (m->overcommit == 2)
        add_check(d, STATE_WARN, "overcommit", "sysctl vm.overcommit_memory=0",
                  "vm.overcommit_memory is 2; allocations fail long before memory is used up");
    else
        add_check(d, STATE_OK, "overcommit", NULL, "vm.overcommit_memory is %u", m->overcommit);
}

/*
 * Checks limits on files and descriptors: shared memory is a file, and each connection to a process
 * needs descriptors.
 */
static void doctor_check_files(struct doctor *d)
{
    const struct machine *m = &d->machine;

    if (m->file_bytes < FILE_BYTES_GOOD)
        add_check(d, STATE_FAIL, "file sizes",
                  "ulimit -f unlimited; a hard limit is in /etc/security/limits.conf (`fsize`)",
                  "limited to %.3g GiB (ulimit -f): isolated devices and workers share files of "
                  "%.0f GiB and cannot be opened",
                  gib(m->file_bytes), gib(FILE_BYTES_GOOD));
    else if (m->file_bytes != MACHINE_UNLIMITED)
        add_check(d, STATE_OK, "file sizes", NULL, "limited to %.0f GiB", gib(m->file_bytes));
    else
        add_check(d, STATE_OK, "file sizes", NULL, "unlimited");
    if (m->descriptors_max < DESCRIPTORS_GOOD)
        add_check(d, STATE_WARN, "descriptors",
                  "ulimit -n 1024; a hard limit is in /etc/security/limits.conf (`nofile`)",
                  "limited to %" PRIu64 " (ulimit -n): isolated devices, workers and ranks may "
                  "need more",
                  m->descriptors_max);
    else
        add_check(d, STATE_OK, "descriptors", NULL, "enough");
}

static void check_memory(struct doctor *d)
{
    const struct machine *m = &d->machine;
    uint64_t mib = m->available_bytes >> 20;
    enum state state = mib < MEMORY_MIB_MIN    ? STATE_FAIL
                       : mib < MEMORY_MIB_GOOD ? STATE_WARN
                                               : STATE_OK;

    add_check(
        d, state, "memory",
        state == STATE_OK ? NULL : "close other programs, or raise the limit of the container",
        "%.2f GiB available of %.2f GiB", gib(m->available_bytes), gib(m->memory_bytes));
}

/*
 * Checks limits on threads. In the worst case every core of the largest chip waits in a kernel, in
 * addition to the worker threads and the monitor. Root is exempt from `ulimit -u`.
 */
static void check_threads(struct doctor *d)
{
    const struct machine *m = &d->machine;
    uint64_t need = CHIP_CORES + m->cpus_allowed + 1;
    uint64_t user = geteuid() == 0 ? MACHINE_UNLIMITED : m->threads_max;

    if (user < need)
        add_check(d, STATE_WARN, "threads",
                  "ulimit -u unlimited; a hard limit is in /etc/security/limits.conf (`nproc`)",
                  "%" PRIu64 " for this user, the %d cores of the largest chip may need %" PRIu64,
                  user, CHIP_CORES, need);
    else if (m->group_threads < need)
        add_check(d, STATE_WARN, "threads",
                  "raise the pids limit of the container (docker: --pids-limit)",
                  "%" PRIu64 " left in this cgroup, the %d cores of the largest chip may need "
                  "%" PRIu64,
                  m->group_threads, CHIP_CORES, need);
    else
        add_check(d, STATE_OK, "threads", NULL,
                  "enough for the %d cores of the largest chip (%" PRIu64 ")", CHIP_CORES, need);
}

static void check_membarrier(struct doctor *d)
{
    if (d->machine.has_membarrier)
        add_check(d, STATE_OK, "membarrier", NULL, "available");
    else
        add_check(d, STATE_WARN, "membarrier",
                  "Linux 4.14 or later; allow it in the seccomp profile of the container",
                  "not available: each task costs one more memory fence");
}

static void check_clock(struct doctor *d)
{
    char source[MACHINE_LINE_MAX];
    bool is_monotonic = true;
    uint64_t start = os_now_ns();
    uint64_t last = start;

    for (int i = 0; i < CLOCK_READS; i++) {
        uint64_t now = os_now_ns();

        is_monotonic = is_monotonic && now >= last;
        last = now;
    }

    double cost_ns = (double)(last - start) / CLOCK_READS;

    if (!cli_machine_read_line("/sys/devices/system/clocksource/clocksource0/current_clocksource",
                               source))
        snprintf(source, sizeof(source), "unknown source");
    if (!is_monotonic)
        add_check(d, STATE_FAIL, "clock", "boot with another clocksource (tsc=unstable)",
                  "CLOCK_MONOTONIC went backwards (%s)", source);
    else if (cost_ns > CLOCK_NS_GOOD)
        add_check(d, STATE_WARN, "clock", "boot with clocksource=tsc if the machine has one",
                  "monotonic, but a reading takes %.0f ns (%s): short runs look longer", cost_ns,
                  source);
    else
        add_check(d, STATE_OK, "clock", NULL, "monotonic, %.0f ns per reading (%s)", cost_ns,
                  source);
}

/* ---- files ---- */

/* Counts the examples whose scene.yaml is valid; `text` describes the first invalid one. */
static uint32_t count_examples(const char *folder, char *text, size_t text_bytes)
{
    struct scene_paths paths = { NULL, 0 };
    struct pto_error error = { .size = sizeof(error) };
    uint32_t count = 0;

    if (scene_find_below(folder, &paths, &error) < 0)
        snprintf(text, text_bytes, "%.400s", error.text);
    for (uint32_t i = 0; i < paths.count; i++) {
        struct scene *scene;

        if (scene_open(paths.path[i], &scene, &error) < 0) {
            snprintf(text, text_bytes, "%.400s", error.text);
            break;
        }
        scene_close(scene);
        count++;
    }
    scene_paths_free(&paths);
    return count;
}

static bool doctor_has_file(const char *root, const char *below)
{
    char path[2 * PATH_MAX];

    snprintf(path, sizeof(path), "%s/%s", root, below);
    return access(path, R_OK) == 0;
}

/* Reports whether the headers are installed. In a build tree they are in another folder. */
static void check_installation(struct doctor *d, const char *root)
{
    static const char *const files[] = {
        "include/pto/pto.h",    "include/pto/orch.h", "include/pto/kernel.h",
        "include/pto/tensor.h", "lib/libpto.so",      "lib/pkgconfig/pto.pc",
    };

    if (doctor_has_file(root, "obj/tool/cli/main.o")) {
        add_check(d, STATE_OK, "installation", NULL, "none: this is the build tree %.300s", root);
        return;
    }
    for (uint32_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        if (!doctor_has_file(root, files[i])) {
            add_check(d, STATE_FAIL, "installation", "make install",
                      "%.300s/%s is missing; programs cannot be compiled", root, files[i]);
            return;
        }
    }
    add_check(d, STATE_OK, "installation", NULL, "headers, library and pto.pc in %.300s", root);
}

static void check_examples(struct doctor *d)
{
    char root[PATH_MAX];
    char folder[PATH_MAX];
    char error[TEXT_BYTES] = "";
    uint32_t count;

    if (!scene_find_root(root)) {
        add_check(d, STATE_FAIL, "examples", "mount /proc",
                  "the folder of the executable is unknown");
        return;
    }
    if (!scene_find_examples(folder)) {
        add_check(d, STATE_FAIL, "examples", "make install", "none in share/pto/examples of %.300s",
                  root);
        return;
    }
    count = count_examples(folder, error, sizeof(error));
    if (error[0] != '\0')
        add_check(d, STATE_FAIL, "examples", "make install", "%.400s", error);
    else
        add_check(d, STATE_OK, "examples", NULL, "%u in %.400s", count, folder);
    check_installation(d, root);
}

static void check_store(struct doctor *d)
{
    struct pto_store_info info;
    struct pto_error error;

    pto_store_info_init(&info);
    pto_error_init(&error);
    if (pto_store_show(NULL, &info, &error) < 0)
        add_check(d, STATE_WARN, "store", NULL, "%s", error.text);
    else if (info.refusal[0] != '\0')
        add_check(d, STATE_WARN, "store", NULL, "%s", info.refusal);
    else if (!info.is_writable)
        add_check(d, STATE_WARN, "store", "set PTO_STORE to a folder that you can write to",
                  "cannot write to %.300s; no compiled objects are kept", info.folder);
    else
        add_check(d, STATE_OK, "store", NULL, "%.300s", info.folder);
}

static void check_tools(struct doctor *d)
{
    static const struct {
        const char *name;
        const char *purpose;
        const char *fix;
    } tools[] = {
        { "valgrind", "counts instructions", "apt-get install valgrind" },
        { "perf", "profiles", "apt-get install linux-perf" },
    };
    char path[PATH_MAX];

    for (uint32_t i = 0; i < sizeof(tools) / sizeof(tools[0]); i++) {
        if (cli_machine_find_program(tools[i].name, path))
            add_check(d, STATE_INFO, tools[i].name, NULL, "%.400s", path);
        else
            add_check(d, STATE_INFO, tools[i].name, tools[i].fix, "not found; optional, %s",
                      tools[i].purpose);
    }
}

/*
 * Reports whether kernels can be loaded from files in the temporary folder, where debuggers find
 * them; otherwise they are loaded from memory.
 */
static void check_code(struct doctor *d)
{
    const char *folder = file_temporary_folder();
    size_t page = os_page_bytes();
    void *at = MAP_FAILED;
    char path[PATH_MAX];
    int file;

    snprintf(path, sizeof(path), "%s/pto-doctor-XXXXXX", folder);
    file = mkstemp(path);
    if (file >= 0) {
        (void)unlink(path);
        if (page <= d->machine.file_bytes && ftruncate(file, (off_t)page) == 0)
            at = mmap(NULL, page, PROT_READ | PROT_EXEC, MAP_PRIVATE, file, 0);
        close(file);
    }
    if (at == MAP_FAILED) {
        add_check(d, STATE_WARN, "code",
                  "set TMPDIR to a folder with room, on a file system without noexec",
                  "cannot load code from %s; debuggers do not see kernels", folder);
        return;
    }
    munmap(at, page);
    add_check(d, STATE_OK, "code", NULL, "is loaded from files in %s, where debuggers find it",
              folder);
}
