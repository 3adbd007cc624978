/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `pto run`: runs an example on each platform and in each mode that was asked
 * for. Examples are shared objects in ../lib/pto/examples, seen from the
 * executable, so a build tree and an installation work alike.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/commands.h"
#include "examples/example.h"

struct run_request {
    const char *example;
    const char *platform; /* NULL: all */
    uint32_t modes;       /* bit by enum pto_mode */
    uint32_t workers;     /* 0: the default */
    uint32_t clusters;    /* 0: the default */
    const char *trace;    /* NULL: no timeline */
    bool is_list;
};

enum { CLUSTER_CORES = 3 }; /* 1 AIC and 2 AIV */

static const char *const mode_names[] = { [PTO_MODE_STREAM] = "stream", [PTO_MODE_HOST] = "host" };

static int parse_options(int argc, char **argv, struct run_request *request);
static int list_examples(void);
static const struct pto_example *load_example(const char *name, void **handle_out);
static int run_platforms(const struct pto_example *example, const struct run_request *request);
static int run_platform(const struct pto_example *example, const struct pto_platform *platform,
                        const struct run_request *request);
static int run_mode(const struct pto_example *example, struct pto_device *device,
                    const char *platform, enum pto_mode mode, const char *trace);
static int write_timeline(struct pto_device *device, const char *name, const char *platform,
                          const char *mode);

static void print_usage(FILE *to)
{
    fprintf(to, "usage: pto run [EXAMPLE] [OPTION...]\n\n"
                "Runs an example (vector, if none is named) and checks its result.\n\n"
                "  --platform P|all        which simulated chip (all)\n"
                "  --mode stream|host|all  tasks run while the graph is built, or after it (all)\n"
                "  --threads K             threads that run tasks (one per CPU)\n"
                "  --clusters N            clusters of 1 AIC and 2 AIV (the platform's default)\n"
                "  --trace NAME            write timelines NAME-PLATFORM-MODE.json for Perfetto\n"
                "  --list                  name the examples\n");
}

int cmd_run(int argc, char **argv)
{
    struct run_request request = { .example = "vector", .modes = 3 };
    int code = parse_options(argc, argv, &request);

    if (code >= 0)
        return code;
    if (request.is_list)
        return list_examples();

    void *handle;
    const struct pto_example *example = load_example(request.example, &handle);

    if (example == NULL)
        return EXIT_USAGE;
    printf("%s: %s\n", example->name, example->summary);
    code = run_platforms(example, &request);
    dlclose(handle);
    return code;
}

static int parse_count(const char *option, const char *text, uint32_t *value_out)
{
    char *end;
    unsigned long value = strtoul(text, &end, 10);

    if (*text < '0' || *text > '9' || *end != '\0' || value == 0 || value > INT_MAX) {
        fprintf(stderr, "pto run: --%s wants a number from 1, not '%s'\n", option, text);
        return EXIT_USAGE;
    }
    *value_out = (uint32_t)value;
    return -1;
}

static int parse_mode(const char *text, uint32_t *modes_out)
{
    if (strcmp(text, "all") == 0)
        return -1;
    for (uint32_t mode = PTO_MODE_STREAM; mode <= PTO_MODE_HOST; mode++) {
        if (strcmp(text, mode_names[mode]) == 0) {
            *modes_out = 1u << mode;
            return -1;
        }
    }
    fprintf(stderr, "pto run: --mode is stream, host or all, not '%s'\n", text);
    return EXIT_USAGE;
}

/* Returns -1 to go on, or the exit code. */
static int parse_options(int argc, char **argv, struct run_request *request)
{
    static const struct option options[] = {
        { "platform", required_argument, NULL, 'p' }, { "mode", required_argument, NULL, 'm' },
        { "threads", required_argument, NULL, 't' },  { "clusters", required_argument, NULL, 'c' },
        { "trace", required_argument, NULL, 'T' },    { "list", no_argument, NULL, 'l' },
        { "help", no_argument, NULL, 'h' },           { NULL, 0, NULL, 0 },
    };
    int letter;
    int code = -1;

    while (code < 0 && (letter = getopt_long(argc, argv, "h", options, NULL)) != -1) {
        switch (letter) {
        case 'p':
            request->platform = strcmp(optarg, "all") == 0 ? NULL : optarg;
            break;
        case 'm':
            code = parse_mode(optarg, &request->modes);
            break;
        case 't':
            code = parse_count("threads", optarg, &request->workers);
            break;
        case 'c':
            code = parse_count("clusters", optarg, &request->clusters);
            break;
        case 'T':
            request->trace = optarg;
            break;
        case 'l':
            request->is_list = true;
            break;
        case 'h':
            print_usage(stdout);
            return EXIT_OK;
        default:
            fprintf(stderr, "`pto run --help` lists the options\n");
            return EXIT_USAGE;
        }
    }
    if (code >= 0)
        return code;
    if (optind < argc)
        request->example = argv[optind++];
    if (optind < argc) {
        fprintf(stderr, "pto run: one example at a time; '%s' is too many\n", argv[optind]);
        return EXIT_USAGE;
    }
    return -1;
}

/* Where the examples are. The path ends in a slash; false if the executable cannot be found. */
static bool find_examples(char path[PATH_MAX])
{
    static const char below[] = "/lib/pto/examples/";
    ssize_t length = readlink("/proc/self/exe", path, PATH_MAX - 1);

    if (length < 0) {
        perror("pto run: /proc/self/exe");
        return false;
    }
    path[length] = '\0';
    for (int levels = 0; levels < 2; levels++) { /* the program, then its folder */
        char *slash = strrchr(path, '/');

        if (slash != NULL)
            *slash = '\0';
    }
    if (strlen(path) + sizeof(below) > PATH_MAX) {
        fprintf(stderr, "pto run: the path of the executable is too long\n");
        return false;
    }
    strcat(path, below);
    return true;
}

/* Says why on stderr and returns NULL if there is no such example. */
static const struct pto_example *load_example(const char *name, void **handle_out)
{
    char folder[PATH_MAX];
    char path[PATH_MAX + NAME_MAX];

    if (!find_examples(folder))
        return NULL;
    snprintf(path, sizeof(path), "%s%s.so", folder, name);
    if (strchr(name, '/') != NULL || access(path, R_OK) != 0) {
        fprintf(stderr, "pto run: there is no example '%s'; `pto run --list` names them\n", name);
        return NULL;
    }

    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);

    if (handle == NULL) {
        fprintf(stderr, "pto run: %s\n", dlerror());
        return NULL;
    }

    const struct pto_example *example = dlsym(handle, "pto_example");

    if (example == NULL) {
        fprintf(stderr, "pto run: %s\n", dlerror());
        dlclose(handle);
        return NULL;
    }
    *handle_out = handle;
    return example;
}

static int is_example(const struct dirent *entry)
{
    const char *dot = strrchr(entry->d_name, '.');

    return dot != NULL && strcmp(dot, ".so") == 0;
}

static int list_examples(void)
{
    char folder[PATH_MAX];
    struct dirent **entries;
    int code = EXIT_OK;

    if (!find_examples(folder))
        return EXIT_FAILED;

    int count = scandir(folder, &entries, is_example, alphasort);

    if (count < 0) {
        perror(folder);
        return EXIT_FAILED;
    }
    for (int i = 0; i < count; i++) {
        void *handle;

        *strrchr(entries[i]->d_name, '.') = '\0';

        const struct pto_example *example = load_example(entries[i]->d_name, &handle);

        if (example != NULL) {
            printf("%-16s %s\n", example->name, example->summary);
            dlclose(handle);
        } else {
            code = EXIT_FAILED;
        }
        free(entries[i]);
    }
    free(entries);
    return code;
}

static int run_platforms(const struct pto_example *example, const struct run_request *request)
{
    const struct pto_platform *platform;
    bool is_known = false;
    int code = EXIT_OK;

    for (uint32_t i = 0; (platform = pto_platform_at(i)) != NULL; i++) {
        if (request->platform != NULL && strcmp(request->platform, platform->name) != 0)
            continue;
        is_known = true;
        if (run_platform(example, platform, request) != EXIT_OK)
            code = EXIT_FAILED;
    }
    if (is_known)
        return code;

    fprintf(stderr, "pto run: there is no platform '%s'; there are:",
            request->platform != NULL ? request->platform : "all");
    for (uint32_t i = 0; (platform = pto_platform_at(i)) != NULL; i++)
        fprintf(stderr, " %s", platform->name);
    fprintf(stderr, "\n");
    return EXIT_USAGE;
}

static int run_platform(const struct pto_example *example, const struct pto_platform *platform,
                        const struct run_request *request)
{
    struct pto_device_params params;
    struct pto_device *device;
    int code = EXIT_OK;

    pto_device_params_init(&params);
    params.platform = platform->name;
    params.clusters = request->clusters;
    params.workers = request->workers;

    int status = pto_device_open(&params, &device);

    if (status == PTO_ENOSUP && request->platform == NULL) {
        printf("\n%s\n  skipped  %s\n", platform->name, pto_strerror(status));
        return EXIT_OK;
    }
    if (status < 0) {
        printf("\n%s\n  FAILED   %s (%d)\n", platform->name, pto_strerror(status), status);
        return EXIT_FAILED;
    }
    for (uint32_t mode = PTO_MODE_STREAM; mode <= PTO_MODE_HOST; mode++)
        if ((request->modes & (1u << mode)) != 0 &&
            run_mode(example, device, platform->name, (enum pto_mode)mode, request->trace) !=
                EXIT_OK)
            code = EXIT_FAILED;
    pto_device_close(device);
    return code;
}

/* Which cores of one type ran how many tasks, as ` AIV 0:3 1:2`. */
static void print_cores(const char *type, const uint32_t *tasks, uint32_t count)
{
    bool is_first = true;

    for (uint32_t core = 0; core < count; core++) {
        if (tasks[core] == 0)
            continue;
        if (is_first)
            printf(" %s", type);
        printf(" %u:%u", core, tasks[core]);
        is_first = false;
    }
}

static void print_report(const struct pto_run_report *report)
{
    uint32_t clusters = report->core_count / CLUSTER_CORES;

    printf("  tasks    %llu, %u thread%s\n", (unsigned long long)report->tasks, report->workers,
           report->workers == 1 ? "" : "s");
    printf("  time     %.1f us\n", (double)report->ns / 1000);
    printf("  cores   ");
    print_cores("AIC", report->core_tasks, clusters);
    print_cores("AIV", report->core_tasks + clusters, report->core_count - clusters);
    printf("\n");
}

static int run_mode(const struct pto_example *example, struct pto_device *device,
                    const char *platform, enum pto_mode mode, const char *trace)
{
    struct pto_run_report report;
    struct pto_run_options options;
    char result[256] = "";
    int code = EXIT_OK;

    pto_run_report_init(&report);
    pto_run_options_init(&options);
    options.mode = mode;
    options.trace = trace != NULL ? PTO_TRACE_TIMES : PTO_TRACE_OFF;

    int status = example->run(device, &options, &report, result, sizeof(result));

    printf("\n%s, %s\n", platform, mode_names[mode]);
    if (status == PTO_OK) {
        printf("  result   ok: %s\n", result);
        print_report(&report);
    } else {
        printf("  result   FAILED: %s (%d)\n", result[0] != '\0' ? result : pto_strerror(status),
               status);
        if (report.error.status < 0)
            printf("  error    %s\n", report.error.text);
        code = EXIT_FAILED;
    }
    if (trace != NULL && write_timeline(device, trace, platform, mode_names[mode]) != EXIT_OK)
        code = EXIT_FAILED; /* a run that failed has a timeline, too */
    return code;
}

static int write_timeline(struct pto_device *device, const char *name, const char *platform,
                          const char *mode)
{
    char path[PATH_MAX];
    struct pto_error error;

    snprintf(path, sizeof(path), "%s-%s-%s.json", name, platform, mode);
    if (pto_trace_write(device, path, &error) < 0) {
        printf("  timeline FAILED: %s\n", error.text);
        return EXIT_FAILED;
    }
    printf("  timeline %s (open it at ui.perfetto.dev)\n", path);
    return EXIT_OK;
}
