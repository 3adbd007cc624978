/* SPDX-License-Identifier: Apache-2.0 */
/* Opens a device in a child process. The parent has no device, so the fork is safe. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include "tool/cli/probe.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tool/drill/drill.h"

enum { PROBE_SECONDS = 20, NO_RUN = -1, SEED = 41 };
enum { KERNEL_SEED, KERNEL_NEXT, KERNELS };

static void probe_in_child(const char *platform, int mode, struct probe *probe_out);
static void probe_device(const char *platform, int mode, struct probe *p);
static void run_graph(struct pto_device *device, enum pto_mode mode, struct probe *p);

void cli_probe_open(const char *platform, struct probe *probe_out)
{
    probe_in_child(platform, NO_RUN, probe_out);
}

void cli_probe_run(const char *platform, enum pto_mode mode, struct probe *probe_out)
{
    probe_in_child(platform, (int)mode, probe_out);
}

static void probe_in_child(const char *platform, int mode, struct probe *probe_out)
{
    int ends[2];
    int state = 0;

    memset(probe_out, 0, sizeof(*probe_out));
    snprintf(probe_out->platform, sizeof(probe_out->platform), "%s", platform);
    if (pipe2(ends, O_CLOEXEC) != 0) {
        probe_out->status = PTO_ESYSTEM;
        return;
    }

    pid_t child = fork();

    if (child == 0) {
        struct probe p = *probe_out;

        alarm(PROBE_SECONDS);
        probe_device(platform, mode, &p);
        _exit(write(ends[1], &p, sizeof(p)) == sizeof(p) ? 0 : 1);
    }
    close(ends[1]);
    if (child < 0) {
        probe_out->status = PTO_ESYSTEM;
    } else {
        /*
         * struct probe is smaller than an atomic write to a pipe, so it arrives completely or not
         * at all.
         */
        _Static_assert(sizeof(*probe_out) <= PIPE_BUF, "a probe is written at once");
        ssize_t got = read(ends[0], probe_out, sizeof(*probe_out));

        waitpid(child, &state, 0);
        if (got != sizeof(*probe_out)) {
            probe_out->status = PTO_OK;
            probe_out->is_open = probe_out->is_right = false;
            probe_out->signal = WIFSIGNALED(state) ? WTERMSIG(state) : SIGABRT;
        }
    }
    close(ends[0]);
}

static void probe_device(const char *platform, int mode, struct probe *p)
{
    struct pto_device_params params;
    struct pto_device *device;
    struct pto_error error;

    pto_error_init(&error);
    pto_device_params_init(&params);
    params.platform = platform;
    params.error = &error;
    p->status = pto_device_open(&params, &device);
    if (p->status < 0) {
        snprintf(p->text, sizeof(p->text), "%s", error.text);
        return;
    }
    p->is_open = true;
    p->is_right = mode == NO_RUN;
    p->address_bytes = drill_address_bytes();
    if (mode != NO_RUN)
        run_graph(device, (enum pto_mode)mode, p);
    pto_device_close(device);
}

/* ---- the graph: seed (AIC) -> an intermediate tensor -> next (AIV) -> the result ---- */

static void kernel_seed(int64_t *args)
{
    *(int32_t *)pto_tensor_data(pto_arg_tensor(args, 0)) = (int32_t)args[1];
}

static void kernel_next(int64_t *args)
{
    const int32_t *in = pto_tensor_data(pto_arg_tensor(args, 0));

    *(int32_t *)pto_tensor_data(pto_arg_tensor(args, 1)) = *in + 1;
}

static void submit_graph(struct pto_orch *o, const struct pto_entry *entry)
{
    const uint32_t shape[] = { 1 };
    const struct pto_tensor_info info = pto_tensor_info_make(shape, 1, PTO_INT32);
    struct pto_args args;
    struct pto_outputs seed;

    pto_args_init(&args);
    pto_add_output(&args, &info);
    pto_add_scalar(&args, SEED);
    seed = pto_submit_aic(o, KERNEL_SEED, &args);
    if (seed.count != 1)
        return;
    pto_args_init(&args);
    pto_add_input(&args, &seed.tensor[0]);
    pto_add_output_existing(&args, &entry->tensor[0]);
    pto_submit_aiv(o, KERNEL_NEXT, &args);
}

static void run_graph(struct pto_device *device, enum pto_mode mode, struct probe *p)
{
    static const struct pto_kernel kernels[KERNELS] = {
        [KERNEL_SEED] = { "seed", kernel_seed, PTO_CORE_AIC },
        [KERNEL_NEXT] = { "next", kernel_next, PTO_CORE_AIV },
    };
    const uint32_t shape[] = { 1 };
    int32_t result = 0;
    const struct pto_tensor tensor = pto_tensor_external(&result, shape, 1, PTO_INT32);
    const struct pto_entry entry = { .tensor_count = 1, .tensor = &tensor };
    struct pto_callable_params params;
    struct pto_run_options options;
    struct pto_run_report report;
    struct pto_callable *callable;

    pto_callable_params_init(&params);
    params.name = "probe";
    params.orchestration = submit_graph;
    params.kernels = kernels;
    params.kernel_count = KERNELS;
    p->status = pto_callable_create(&params, &callable);
    if (p->status < 0)
        return;
    pto_run_options_init(&options);
    options.mode = mode;
    pto_run_report_init(&report);
    p->status = pto_run(device, callable, &entry, &options, &report);
    pto_callable_destroy(callable);
    p->workers = report.workers;
    p->is_right = p->status == PTO_OK && result == SEED + 1 && report.executions == 2;
    if (p->status < 0)
        snprintf(p->text, sizeof(p->text), "%s", report.error.text);
    else
        snprintf(p->text, sizeof(p->text), "result %d after %" PRIu64 " of 2 tasks", (int)result,
                 report.executions);
}

/* ---- words ---- */

void cli_probe_explain(const struct probe *probe, const struct machine *m, char *why,
                       size_t why_bytes, const char **fix_out)
{
    *fix_out = "please report it with the output of `pto info`";
    if (probe->signal == SIGALRM) {
        snprintf(why, why_bytes, "it did not finish within %d seconds", PROBE_SECONDS);
        *fix_out = "find the process that keeps the CPUs busy (`top`); if there is none, please "
                   "report this";
    } else if (probe->signal != 0) {
        snprintf(why, why_bytes, "the process died: %s", strsignal(probe->signal));
    } else if (!pto_platform_find(probe->platform)->is_simulated) {
        snprintf(why, why_bytes, "%s", probe->text);
        *fix_out = "docs/internals/onboard.md";
    } else if (probe->status == PTO_ENOMEM && m->address_bytes != MACHINE_UNLIMITED) {
        snprintf(why, why_bytes, "the limit of address space is too low (%.1f GiB)",
                 (double)m->address_bytes / (1 << 30));
        *fix_out = "ulimit -v unlimited";
    } else if (probe->status == PTO_ENOMEM) {
        snprintf(why, why_bytes, "not enough memory");
        *fix_out = "close other programs, or raise the memory limit of the container";
    } else if (probe->status == PTO_ESYSTEM) {
        snprintf(why, why_bytes, "cannot start a thread");
        *fix_out = "raise `ulimit -u`, or the pids limit of the container";
    } else if (probe->status == PTO_ENOSUP) {
        snprintf(why, why_bytes, "the library was built without it");
        *fix_out = "use another platform of `pto info`";
    } else {
        snprintf(why, why_bytes, "%s",
                 probe->text[0] != '\0' ? probe->text : pto_strerror(probe->status));
    }
}
