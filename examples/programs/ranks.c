/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks: each process has a device and a window. A kernel of each rank writes to the window of the next
 * rank and signals it; then all ranks add up what they received.
 *
 *     pto launch -n 4 -- ./ranks
 */
#include <pto/collective.h>
#include <pto/comm.h>
#include <pto/pto.h>
#include <pto/window.h>
#include <stdio.h>

/* A window, as every rank lays it out. */
struct window {
    int32_t is_there; /* set when `value` was written */
    float value;
};

/* Sends a value to the window of the next rank, then waits for that of the previous one. */
static void pass_on(int64_t *args)
{
    float *received = pto_tensor_data(pto_arg_tensor(args, 0));
    const struct pto_comm_context *c = pto_arg_context(args, 1);
    struct window *own = PTO_WINDOW_OWN(c, struct window);
    uint32_t next = (c->rank + 1) % c->rank_count;
    float value = (float)(10 * c->rank);

    pto_window_put_signal(c, next, &own->value, &value, sizeof(value), &own->is_there,
                          PTO_SIGNAL_SET, 1);
    *received = pto_window_wait(c, &own->is_there, PTO_COMPARE_EQ, 1) == PTO_OK ? own->value : -1;
}

static void orchestrate(struct pto_orch *o, const struct pto_entry *entry)
{
    pto_aiv(o, 0, PTO_WRITE(&entry->tensor[0]), PTO_INT(entry->scalar[0]));
}

/* Opens the windows, runs the kernel, and reduces over all ranks. */
static int exchange(struct pto_device *device, struct pto_comm *comm, struct pto_error *error)
{
    static const struct pto_kernel kernels[] = { { "pass_on", pass_on, PTO_CORE_AIV } };
    struct pto_callable_params made_of;
    struct pto_domain_params params;
    struct pto_domain_info info;
    struct pto_run_report report;
    struct pto_callable *callable;
    struct pto_domain *domain;
    float received = 0, sum = 0;
    struct pto_tensor tensor = pto_tensor_external(&received, PTO_DIMS(1), 1, PTO_FLOAT32);
    struct pto_entry entry = { 1, 1, &tensor, &info.context };
    int status;

    pto_callable_params_init(&made_of);
    made_of.name = "pass_on";
    made_of.orchestration = orchestrate;
    made_of.kernels = kernels;
    made_of.kernel_count = 1;
    made_of.error = error;
    pto_domain_params_init(&params);
    params.window_bytes = sizeof(struct window);
    params.error = error;
    pto_domain_info_init(&info);
    pto_run_report_init(&report);

    status = pto_callable_create(&made_of, &callable);
    if (status < 0)
        return status;
    status = pto_domain_open(comm, &params, &domain);
    if (status < 0)
        goto destroy_callable;
    status = pto_domain_info(domain, &info);
    if (status == PTO_OK)
        status = pto_run(device, callable, &entry, NULL, &report);
    if (status < 0)
        *error = report.error;
    else
        status = pto_comm_all_reduce(domain, &received, &sum, 1, NULL);
    if (status == PTO_OK && info.rank == 0)
        printf("%u ranks: rank 0 received %g, the sum is %g\n", info.rank_count, received, sum);
    pto_domain_close(domain, 0, NULL);
destroy_callable:
    pto_callable_destroy(callable);
    return status;
}

int main(void)
{
    struct pto_device_params device_params;
    struct pto_comm_params params;
    struct pto_device *device;
    struct pto_comm *comm;
    struct pto_error error;
    int status;

    pto_error_init(&error);
    pto_device_params_init(&device_params);
    device_params.workers = 1; /* the ranks share the CPUs */
    device_params.error = &error;
    pto_comm_params_init(&params); /* rank and number of ranks come from pto launch */
    params.error = &error;

    status = pto_device_open(&device_params, &device);
    if (status == PTO_OK) {
        params.device = device; /* windows are memory of this device */
        status = pto_comm_open(&params, &comm);
        if (status == PTO_OK) {
            status = exchange(device, comm, &error);
            pto_comm_close(comm);
        }
        pto_device_close(device);
    }
    if (status < 0)
        fprintf(stderr, "ranks: %s\n", error.text[0] != '\0' ? error.text : pto_strerror(status));
    return status < 0;
}
