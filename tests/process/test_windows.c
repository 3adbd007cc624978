/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Windows as memory of a device: tasks use tensors in them in place, a device with windows stays
 * open, and what does not fit is refused. Scenes with ranks test windows between several ranks.
 */

#include "pto/comm.h"
#include "tests/fixture/open_test.h"

enum { COUNT = 256, WINDOW = 4096 };

static struct pto_device *device;
static struct pto_comm *comm;
static struct pto_domain *domain;
static struct pto_domain_info about;

static int open_comm(const char *backend, struct pto_device *of, struct pto_error *error)
{
    struct pto_comm_params params;

    pto_comm_params_init(&params);
    params.backend = backend;
    params.rank = 0;
    params.rank_count = 1;
    params.device = of;
    params.error = error;
    return pto_comm_open(&params, &comm);
}

static struct pto_domain *open_domain(uint64_t id, uint64_t bytes, struct pto_domain *parent)
{
    struct pto_domain_params params;
    struct pto_domain *opened = NULL;

    pto_domain_params_init(&params);
    params.id = id;
    params.window_bytes = bytes;
    params.parent = parent;
    assert_int_equal(pto_domain_open(comm, &params, &opened), PTO_OK);
    return opened;
}

/* Runs the test with the backend whose name is in *state. */
static int set_up(void **state)
{
    device = open_device(NULL, 0, 1);
    assert_int_equal(open_comm(*state, device, NULL), PTO_OK);
    domain = open_domain(1, WINDOW, NULL);
    pto_domain_info_init(&about);
    assert_int_equal(pto_domain_info(domain, &about), PTO_OK);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    assert_int_equal(pto_comm_close(comm), PTO_OK);
    assert_int_equal(pto_device_close(device), PTO_OK);
    return 0;
}

/* Computes b = a + 1 through the addresses of the arguments, and stores these addresses. */
static void add_one(int64_t *args)
{
    const struct pto_tensor *a = pto_arg_tensor(args, 0), *b = pto_arg_tensor(args, 1);
    const struct pto_comm_context *context = (const struct pto_comm_context *)(uintptr_t)args[2];
    const int32_t *from = (const int32_t *)(uintptr_t)a->addr;
    int32_t *to = (int32_t *)(uintptr_t)b->addr;

    for (int i = 0; i < COUNT; i++)
        to[i] = from[i] + 1;
    if (context->window_in[0] != a->addr || context->rank_count != 1)
        to[0] = -1;
}

static void orchestrate(struct pto_orch *o, const struct pto_entry *entry)
{
    pto_aiv(o, 0, PTO_IN(&entry->tensor[0]), PTO_INOUT(&entry->tensor[1]),
            PTO_INT(entry->scalar[0]));
}

static int run(struct pto_tensor tensor[2])
{
    static const struct pto_kernel kernel = { .fn = add_one, .core = PTO_CORE_AIV, .name = "add" };
    struct pto_callable_params params;
    struct pto_callable *callable;
    const struct pto_entry entry = {
        .tensor = tensor, .tensor_count = 2, .scalar = &about.context, .scalar_count = 1
    };
    int status;

    pto_callable_params_init(&params);
    params.orchestration = orchestrate;
    params.kernels = &kernel;
    params.kernel_count = 1;
    assert_int_equal(pto_callable_create(&params, &callable), PTO_OK);
    status = pto_run(device, callable, &entry, NULL, NULL);
    assert_int_equal(pto_callable_destroy(callable), PTO_OK);
    return status;
}

static void tasks_use_windows_in_place(void **state)
{
    const uint32_t shapes[1] = { COUNT };
    int32_t wrote[COUNT], got[COUNT];
    struct pto_tensor tensor[2];

    (void)state;
    for (int i = 0; i < COUNT; i++)
        wrote[i] = 3 * i;
    assert_int_equal(pto_mem_write(device, about.window, wrote, sizeof(wrote)), PTO_OK);
    assert_int_equal(pto_domain_tensor(domain, 0, 0, shapes, 1, PTO_INT32, &tensor[0]), PTO_OK);
    assert_int_equal(
        pto_domain_tensor(domain, 0, WINDOW - sizeof(got), shapes, 1, PTO_INT32, &tensor[1]),
        PTO_OK);
    assert_int_equal(tensor[0].addr, about.window);
    assert_int_equal(run(tensor), PTO_OK);
    assert_int_equal(pto_comm_get(domain, 0, WINDOW - sizeof(got), got, sizeof(got)), PTO_OK);
    for (int i = 0; i < COUNT; i++)
        assert_int_equal(got[i], wrote[i] + 1);
    memset(got, 0, sizeof(got));
    assert_int_equal(pto_mem_read(device, about.window + WINDOW - sizeof(got), got, sizeof(got)),
                     PTO_OK);
    assert_int_equal(got[COUNT - 1], wrote[COUNT - 1] + 1);
}

static void what_is_not_inside_is_refused(void **state)
{
    const uint32_t all[1] = { WINDOW / 4 }, more[1] = { WINDOW / 4 + 1 };
    const uint32_t huge[5] = { UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX };
    struct pto_tensor tensor;
    struct pto_error error;
    uint32_t word = 0;

    (void)state;
    assert_int_equal(pto_domain_tensor(domain, 0, 0, all, 1, PTO_INT32, &tensor), PTO_OK);
    assert_int_equal(pto_domain_tensor(domain, 0, 4, all, 1, PTO_INT32, &tensor), PTO_EINVAL);
    assert_int_equal(pto_domain_tensor(domain, 0, 0, more, 1, PTO_INT32, &tensor), PTO_EINVAL);
    assert_int_equal(pto_domain_tensor(domain, 0, 0, huge, 5, PTO_INT32, &tensor), PTO_EINVAL);
    assert_int_equal(pto_domain_tensor(domain, 1, 0, all, 1, PTO_INT32, &tensor), PTO_EINVAL);
    assert_int_equal(pto_domain_tensor(domain, 0, 2, all, 1, PTO_INT32, &tensor), PTO_EINVAL);
    assert_int_equal(pto_domain_tensor(domain, 0, 0, all, 0, PTO_INT32, &tensor), PTO_EINVAL);
    assert_int_equal(pto_domain_tensor(domain, 0, 0, all, 6, PTO_INT32, &tensor), PTO_EINVAL);
    assert_int_equal(pto_domain_tensor(domain, 0, 0, NULL, 1, PTO_INT32, &tensor), PTO_EINVAL);
    assert_int_equal(pto_domain_tensor(domain, 0, 0, all, 1, PTO_INT32, NULL), PTO_EINVAL);
    assert_int_equal(pto_mem_write(device, about.window + WINDOW - 2, &word, 4), PTO_EMEMORY);
    pto_error_init(&error);
    assert_int_equal(pto_mem_free(device, about.window, &error), PTO_EMEMORY);
    assert_non_null(strstr(error.text, "close its domain instead"));
    assert_int_equal(pto_mem_check(device, NULL), PTO_OK);
}

static void a_window_is_memory_until_its_domain_closes(void **state)
{
    struct pto_domain *part = open_domain(2, 64, domain), *empty = open_domain(3, 0, NULL);
    uint32_t word = 0;

    (void)state;
    assert_int_equal(pto_device_close(device), PTO_EBUSY);
    assert_int_equal(pto_domain_close(empty, 0, NULL), PTO_OK);
    assert_int_equal(pto_domain_close(part, 0, NULL), PTO_OK);
    assert_int_equal(pto_mem_read(device, about.window, &word, 4), PTO_OK);
    assert_int_equal(pto_domain_close(domain, 0, NULL), PTO_OK);
    assert_int_equal(pto_mem_read(device, about.window, &word, 4), PTO_EMEMORY);
    /* the communicator may create more memory */
    assert_int_equal(pto_device_close(device), PTO_EBUSY);
}

static void a_device_that_cannot_is_refused(void **state)
{
    struct pto_device *isolated = open_device_with(.workers = 1, .is_isolated = true);
    struct pto_error error;

    (void)state;
    pto_error_init(&error);
    assert_int_equal(open_comm("shm", isolated, &error), PTO_ENOSUP);
    assert_non_null(strstr(error.text, "is in a separate process"));
    assert_int_equal(pto_device_close(isolated), PTO_OK);
    assert_int_equal(open_comm("shm", isolated, &error), PTO_EINVAL);
    assert_non_null(strstr(error.text, "not open here"));
}

#define WITH(test, backend)                                                       \
    {                                                                             \
        .name = #test ", " backend, .test_func = (test), .setup_func = set_up,    \
        .teardown_func = tear_down, .initial_state = (void *)(uintptr_t)(backend) \
    }

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH(tasks_use_windows_in_place, "shm"),
        WITH(tasks_use_windows_in_place, "null"),
        WITH(what_is_not_inside_is_refused, "shm"),
        WITH(a_window_is_memory_until_its_domain_closes, "shm"),
        WITH(a_window_is_memory_until_its_domain_closes, "null"),
        cmocka_unit_test(a_device_that_cannot_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
