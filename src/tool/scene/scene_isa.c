/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE /* for memfd_create */
#include "tool/scene/scene_isa.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "pto/platform.h"

/* Clock of the cores of a2a3 in MHz, by which the library converts its cycles to times. */
enum { ISA_MHZ = 1850, ISA_SECONDS_MAX = 60, ISA_CSV_MAX = 1 << 20, ISA_PATH_BYTES = 512 };

/* CSV file, below the current folder, to which the tile library's cost model writes its results. */
#define ISA_FIGURES "perf_sim_output/cost_run_pipeline_summary.csv"

typedef void isa_entry(int64_t *args);

struct isa_kernel {
    const char *name; /* name of the kernel; NULL: the cost model does not measure it */
    /*
     * value of the column "unit" in the rows of the CSV file that are about this kernel's type of
     * core
     */
    const char *unit;
    int file;
    void *object;
    isa_entry *entry;
};

struct scene_isa {
    struct isa_kernel *kernel;
    uint32_t kernel_count;
    /* folder in which the cost model writes its CSV file; "": not created */
    char folder[ISA_PATH_BYTES];
};

/* ---- building the kernels with the cost model ---- */

static bool isa_is_given(const struct pto_virtual_options *given, const char *kernel)
{
    for (uint32_t i = 0; i < given->cost_count; i++)
        if (strcmp(given->cost[i].kernel, kernel) == 0)
            return true;
    return false;
}

static bool isa_is_c(const char *path)
{
    const char *dot = strrchr(path, '.');

    return dot == NULL || strcmp(dot, ".c") == 0;
}

/*
 * Loads an object. Its file descriptor stays open, so that no other object gets the same path in
 * /proc.
 */
static int isa_load(struct isa_kernel *k, const void *bytes, size_t size, struct pto_error *error)
{
    char path[64];

    k->file = memfd_create(k->name, MFD_CLOEXEC);
    if (k->file < 0 || !file_put(k->file, bytes, size))
        return error_setf(error, PTO_ESYSTEM, "the cost build of kernel %.80s cannot be loaded: %s",
                          k->name, strerror(errno));
    snprintf(path, sizeof(path), "/proc/%ld/fd/%d", (long)getpid(), k->file);
    k->object = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (k->object == NULL)
        return error_setf(error, PTO_ELOAD, "the cost build of kernel %.80s: %s", k->name,
                          dlerror());
    *(void **)&k->entry = dlsym(k->object, "cost_entry");
    return k->entry != NULL
               ? PTO_OK
               : error_setf(error, PTO_ELOAD, "the cost build of kernel %.80s lacks cost_entry",
                            k->name);
}

static int build_kernel(struct isa_kernel *k, const struct scene *scene,
                        const struct scene_kernel *from, const char *platform,
                        const struct scene_build_options *options, struct pto_error *error)
{
    void *bytes = NULL;
    size_t size;
    int status = scene_build_costs(scene, from, platform, options, &bytes, &size, error);

    if (status < 0)
        return status == PTO_EBUILD
                   ? error_setf(
                         error, PTO_EBUILD,
                         "kernel %.80s does not compile with the cost model of the tile "
                         "library, whose messages are above; --isa or PTO_ISA_ROOT must name "
                         "a revision of the library whose cost model this compiler accepts, "
                         "or --cost %.80s=FORMULA the duration",
                         from->name, from->name)
                   : status;
    k->unit = from->core == PTO_CORE_AIC ? "AIC" : "AIV0";
    k->name = from->name;
    status = isa_load(k, bytes, size, error);
    free(bytes);
    return status;
}

int scene_isa_open(const struct scene *scene, const char *platform,
                   const struct scene_build_options *options,
                   const struct pto_virtual_options *given, struct scene_isa **isa_out,
                   struct pto_error *error)
{
    const char *generation = pto_platform_find(platform)->generation;
    struct scene_isa *isa = calloc(1, sizeof(*isa));
    uint32_t counted = 0;
    int status = PTO_OK;

    if (isa != NULL)
        isa->kernel = calloc(scene->kernel_count + 1, sizeof(*isa->kernel));
    if (isa == NULL || isa->kernel == NULL)
        status = error_setf(error, PTO_ENOMEM, "out of memory");
    else if (strcmp(generation, "a2a3") != 0)
        status = error_setf(error, PTO_ENOSUP,
                            "--durations isa: the cost model of the tile library counts kernels of "
                            "a2a3, not of %s; give a recording, or formulas by --cost",
                            generation);
    for (uint32_t i = 0; status >= 0 && i < scene->kernel_count; i++) {
        const struct scene_kernel *from = &scene->kernel[i];

        isa->kernel[i].file = -1;
        isa->kernel_count++;
        if (isa_is_c(from->source.path) || isa_is_given(given, from->name))
            continue;
        status = build_kernel(&isa->kernel[i], scene, from, platform, options, error);
        counted++;
    }
    if (status >= 0 && counted == 0)
        status =
            error_setf(error, PTO_ENOSUP,
                       "--durations isa: %.100s has no kernel in C++ without a --cost, and the "
                       "tile library's cost model counts no other",
                       scene->name);
    if (status < 0) {
        scene_isa_close(isa);
        return status;
    }
    *isa_out = isa;
    return PTO_OK;
}

void scene_isa_close(struct scene_isa *isa)
{
    if (isa == NULL)
        return;
    for (uint32_t i = 0; i < isa->kernel_count; i++) {
        if (isa->kernel[i].object != NULL)
            (void)dlclose(isa->kernel[i].object);
        if (isa->kernel[i].file >= 0)
            (void)close(isa->kernel[i].file);
    }
    if (isa->folder[0] != '\0')
        file_remove_tree(isa->folder);
    free(isa->kernel);
    free(isa);
}

/* ---- measuring a kernel ---- */

struct isa_call {
    isa_entry *entry;
    int64_t *args;
};

static void *isa_call_main(void *context)
{
    const struct isa_call *call = context;

    call->entry(call->args);
    return NULL;
}

/*
 * Measures one invocation of a kernel in a child process, which protects this process from what the
 * kernel does to memory. The kernel gets its own thread, because the caller's stack may be small.
 */
static _Noreturn void isa_child(const struct scene_isa *isa, struct isa_call *call)
{
    static const int fatal[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGALRM };
    int nothing = open("/dev/null", O_WRONLY | O_CLOEXEC);
    pthread_t thread;
    sigset_t none;

    for (size_t i = 0; i < sizeof(fatal) / sizeof(fatal[0]); i++)
        (void)signal(fatal[i], SIG_DFL);
    (void)sigemptyset(&none);
    (void)pthread_sigmask(SIG_SETMASK, &none, NULL);
    (void)alarm(ISA_SECONDS_MAX);
    if (nothing < 0 || dup2(nothing, STDOUT_FILENO) < 0 || chdir(isa->folder) < 0 ||
        pthread_create(&thread, NULL, isa_call_main, call) != 0 || pthread_join(thread, NULL) != 0)
        _exit(1);
    _exit(0);
}

/*
 * Returns the field with this index of a line of comma-separated values; NULL: the line has fewer
 * fields.
 */
static const char *isa_field(const char *line, uint32_t index)
{
    for (; index != 0; index--) {
        line += strcspn(line, ",\n");
        if (*line++ != ',')
            return NULL;
    }
    return line;
}

static bool isa_field_is(const char *field, const char *text)
{
    size_t length = strlen(text);

    return field != NULL && strncmp(field, text, length) == 0 && strcspn(field, ",\r\n") == length;
}

/* Returns the index of the column with this name, or UINT32_MAX. */
static uint32_t isa_column(const char *head, const char *name)
{
    const char *field;

    for (uint32_t i = 0; (field = isa_field(head, i)) != NULL; i++)
        if (isa_field_is(field, name))
            return i;
    return UINT32_MAX;
}

/* Reads from the cost model's CSV file how many cycles the kernel took on its core. */
static bool read_cycles(const struct scene_isa *isa, const struct isa_kernel *k, uint64_t *cycles)
{
    char path[ISA_PATH_BYTES + sizeof(ISA_FIGURES) + 1], *text = NULL;
    uint32_t unit, total;
    size_t size;
    bool is_found = false;

    snprintf(path, sizeof(path), "%s/%s", isa->folder, ISA_FIGURES);
    if (file_read(path, ISA_CSV_MAX, &text, &size) < 0)
        return false;
    unit = isa_column(text, "unit");
    total = isa_column(text, "total_cycles");
    for (const char *line = strchr(text, '\n'); line != NULL && !is_found && unit != UINT32_MAX;
         line = strchr(line + 1, '\n')) {
        const char *number = total != UINT32_MAX ? isa_field(line + 1, total) : NULL;

        if (number == NULL || !isa_field_is(isa_field(line + 1, unit), k->unit))
            continue;
        *cycles = strtoull(number, NULL, 10);
        is_found = true;
    }
    free(text);
    (void)unlink(path); /* removes the file, so that the next invocation does not read it again */
    return is_found;
}

static int refuse_count(const struct isa_kernel *k, const char *what, int number)
{
    fprintf(stderr,
            "--durations isa: the tile library's cost model did not count kernel %.80s: ", k->name);
    fprintf(stderr, what, number);
    fprintf(stderr, "; give its duration by --cost\n");
    return PTO_ENOSUP;
}

int scene_isa_measure(void *context, const char *kernel, int64_t *args, uint64_t *ns_out)
{
    struct scene_isa *isa = context;
    const struct isa_kernel *k = NULL;
    struct isa_call call = { .args = args };
    uint64_t cycles = 0;
    int state = 0;
    pid_t child;

    for (uint32_t i = 0; i < isa->kernel_count && k == NULL; i++)
        if (isa->kernel[i].name != NULL && strcmp(isa->kernel[i].name, kernel) == 0)
            k = &isa->kernel[i];
    if (k == NULL)
        return 0;
    if (isa->folder[0] == '\0') {
        snprintf(isa->folder, sizeof(isa->folder), "%.400s/pto-isa-XXXXXX",
                 file_temporary_folder());
        if (mkdtemp(isa->folder) == NULL) {
            isa->folder[0] = '\0';
            return refuse_count(k, "no temporary folder can be created (errno %d)", errno);
        }
    }
    call.entry = k->entry;
    fflush(NULL);
    child = fork();
    if (child == 0)
        isa_child(isa, &call);
    while (child > 0 && waitpid(child, &state, 0) < 0 && errno == EINTR) {
    }
    if (child < 0)
        return refuse_count(k, "no process can be created (errno %d)", errno);
    if (WIFSIGNALED(state))
        return refuse_count(k, "it ended with signal %d", WTERMSIG(state));
    if (!WIFEXITED(state) || WEXITSTATUS(state) != 0)
        return refuse_count(k, "it ended with exit code %d", WEXITSTATUS(state));
    if (!read_cycles(isa, k, &cycles))
        return refuse_count(k, "its table of figures lacks a column or a row (core type %d)",
                            k->unit[2] == 'V');
    *ns_out = (cycles * 1000 + ISA_MHZ / 2) / ISA_MHZ;
    return 1;
}
