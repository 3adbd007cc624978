/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Structs with a size field, as programs with older and newer headers pass them. Each of the public
 * headers (`make tidy` compares the list) is passed to a function that takes it, cut off at each
 * word, and with additional words that this library does not know. The page after it cannot be
 * accessed.
 */
#include <signal.h>
#include <sys/mman.h>

#include "base/sized.h"
#include "artefact/artefact.h"
#include "pto/build.h"
#include "pto/collective.h"
#include "pto/comm.h"
#include "pto/worker.h"
#include "pto/worker_domain.h"
#include "pto/worker_region.h"
#include "pto/worker_virtual.h"
#include "pto/log.h"
#include "pto/store.h"
#include "pto/virtual.h"
#include "tree/child.h"
#include "tests/fixture/fixture.h"

enum { WORD = sizeof(size_t), AREA = 1 << 16, FILLING = 0xee };

static char *area; /* AREA bytes, followed by a page that cannot be accessed */
static struct pto_device *device;
static struct pto_device *virtual_device; /* one kernel has run on it */
static struct pto_callable *functions, *packed;
static struct pto_comm *comm;
static struct pto_domain *domain;
static struct pto_worker *worker, *virtual_worker;
static uint64_t worker_domain;
static struct pto_worker_queue *worker_queue;
static char folder[] = "/tmp/pto-sized-XXXXXX";

static void orchestrate(struct pto_orch *o, const struct pto_entry *entry)
{
    (void)o;
    (void)entry;
}

/* ---- functions that take them: PTO_EINVAL if the struct is refused, else PTO_OK ---- */

static int use_device_params(void *given)
{
    struct pto_device *opened = NULL;
    int status = pto_device_open(given, &opened);

    pto_device_close(opened);
    return status;
}

static int use_callable_params(void *given)
{
    struct pto_callable *made = NULL;
    int status = pto_callable_create(given, &made);

    pto_callable_destroy(made);
    return status;
}

static int use_load_options(void *given)
{
    struct pto_callable *loaded = NULL;
    int status = pto_callable_load_memory("nothing", 7, given, &loaded, NULL);

    return status == PTO_EFORMAT ? PTO_OK : status;
}

static int use_run_options(void *given)
{
    return pto_run(device, functions, NULL, given, NULL);
}

static int use_build_params(void *given)
{
    struct pto_error error = { .size = sizeof(error) };
    size_t size;
    void *bytes;
    int status = pto_build(given, &bytes, &size, &error);

    return strstr(error.text, "orchestration") != NULL ? PTO_OK : status; /* it has no sources */
}

static int use_log(void *given)
{
    int status = pto_log_set(given);

    (void)pto_log_set(NULL);
    return status;
}

static int use_virtual_options(void *given)
{
    return pto_virtual_set(virtual_device, given, NULL);
}

static int use_virtual_report(void *given)
{
    return pto_virtual_report(virtual_device, given);
}

static int use_virtual_kernel(void *given)
{
    return pto_virtual_kernel(virtual_device, 0, given);
}

static int use_comm_params(void *given)
{
    struct pto_comm *opened = NULL;
    int status = pto_comm_open(given, &opened);

    pto_comm_close(opened);
    return status;
}

static int use_domain_params(void *given)
{
    struct pto_domain *opened = NULL;
    int status = pto_domain_open(comm, given, &opened);

    pto_domain_close(opened, 0, NULL);
    return status;
}

static int use_comm_info(void *given)
{
    return pto_comm_info(comm, given);
}

static int use_comm_backend(void *given)
{
    return pto_comm_backend_at(0, given);
}

static int use_domain_info(void *given)
{
    return pto_domain_info(domain, given);
}

static int use_worker_params(void *given)
{
    struct pto_worker *opened = NULL;
    int status = pto_worker_open(given, &opened);

    pto_worker_close(opened);
    return status;
}

static void fill_worker_region(void *given)
{
    struct pto_worker_region_params *params = given;

    params->payload_bytes = params->counter_bytes = 64;
}

static int use_worker_region(void *given)
{
    struct pto_worker_region *opened = NULL;
    int status = pto_worker_region_open(worker, given, &opened);

    (void)pto_worker_region_close(opened);
    return status;
}

static int use_worker_queue(void *given)
{
    struct pto_worker_queue *opened = NULL;
    int status = pto_worker_queue_open(worker, given, &opened);

    (void)pto_worker_queue_close(opened);
    return status;
}

static int use_worker_message(void *given)
{
    int status = pto_worker_queue_receive(worker_queue, given, 1, NULL);

    return status == PTO_ETIMEOUT ? PTO_OK : status;
}

static void fill_worker_domain(void *given)
{
    ((struct pto_worker_domain_params *)given)->name = "sized";
}

static int use_worker_domain(void *given)
{
    uint64_t opened = 0;
    int status = pto_worker_domain_open(worker, given, &opened);

    (void)pto_worker_domain_release(worker, opened);
    return status;
}

static int use_worker_member(void *given)
{
    return pto_worker_domain_member(worker, worker_domain, 0, given);
}

static int use_worker_domain_info(void *given)
{
    return pto_worker_domain_info(worker, worker_domain, given);
}

static int use_child_info(void *given)
{
    return pto_worker_child(worker, 0, given);
}

static void fill_worker_callable(void *given)
{
    ((struct pto_worker_callable *)given)->path = "/nowhere";
}

static int use_worker_callable(void *given)
{
    uint64_t callable;
    int status = pto_worker_register(worker, given, &callable);

    return status == PTO_ELOAD ? PTO_OK : status;
}

static void submit_nothing(struct pto_level *level, void *context)
{
    (void)level;
    (void)context;
}

static int use_worker_report(void *given)
{
    return pto_worker_run(worker, submit_nothing, NULL, given);
}

static int use_worker_virtual_report(void *given)
{
    return pto_worker_virtual_report(virtual_worker, given);
}

static int use_collective(void *given)
{
    return pto_comm_broadcast(domain, NULL, 0, given);
}

static int use_routing(void *given)
{
    return pto_comm_dispatch(domain, given, NULL, NULL, NULL);
}

static int use_error(void *given)
{
    int status = pto_mem_free(device, 12345, given);

    return status == PTO_EMEMORY ? PTO_OK : status;
}

static int use_run_report(void *given)
{
    return pto_run(device, functions, NULL, NULL, given);
}

static int use_device_info(void *given)
{
    return pto_device_info(device, given);
}

static int use_callable_info(void *given)
{
    return pto_callable_info(packed, given);
}

static int use_kernel_info(void *given)
{
    return pto_callable_kernel(packed, 0, given);
}

static int use_file_info(void *given)
{
    return pto_callable_file(packed, 0, given);
}

static int use_store_info(void *given)
{
    return pto_store_show(folder, given, NULL);
}

static int call_hook(void *context, void *function, const struct pto_sub_call *call)
{
    (void)context;
    (void)function;
    (void)call;
    return PTO_OK;
}

static int load_hook(void *context, const struct pto_child_code *code, void **function_out,
                     struct pto_error *error)
{
    (void)context;
    (void)code;
    (void)function_out;
    (void)error;
    return PTO_OK;
}

static void unload_hook(void *context, void *function)
{
    (void)context;
    (void)function;
}

static void fill_hooks(void *given)
{
    struct pto_child_hooks *hooks = given;

    hooks->load = load_hook;
    hooks->call = call_hook;
    hooks->unload = unload_hook;
}

/* This process was not started as a child, but that is noticed later. */
static int use_hooks(void *given)
{
    return pto_child_serve_with(given) == CHILD_EXIT_HELLO ? PTO_OK : PTO_EINVAL;
}

struct row {
    const char *name;
    size_t size;
    size_t least; /* with the fields that must be set */
    void (*init)(void *given);
    void (*fill)(void *given); /* fields that must be set */
    int (*use)(void *given);
    bool is_input;
};

static void fill_callable_params(void *given)
{
    ((struct pto_callable_params *)given)->orchestration = orchestrate;
}

#define INIT(name)                       \
    static void init_##name(void *given) \
    {                                    \
        name##_init(given);              \
    }
INIT(pto_device_params)
INIT(pto_callable_params)
INIT(pto_load_options)
INIT(pto_run_options)
INIT(pto_build_params)
INIT(pto_log)
INIT(pto_error)
INIT(pto_run_report)
INIT(pto_device_info)
INIT(pto_callable_info)
INIT(pto_kernel_info)
INIT(pto_file_info)
INIT(pto_store_info)
INIT(pto_comm_params)
INIT(pto_domain_params)
INIT(pto_comm_info)
INIT(pto_comm_backend)
INIT(pto_domain_info)
INIT(pto_collective)
INIT(pto_routing)
INIT(pto_worker_params)
INIT(pto_worker_region_params)
INIT(pto_worker_queue_params)
INIT(pto_worker_message)
INIT(pto_worker_domain_params)
INIT(pto_worker_member)
INIT(pto_worker_domain_info)
INIT(pto_child_info)
INIT(pto_child_hooks)
INIT(pto_worker_callable)
INIT(pto_worker_report)
INIT(pto_worker_virtual_report)
INIT(pto_virtual_options)
INIT(pto_virtual_report)
INIT(pto_virtual_kernel)

#define SIZED(type, ...)                                             \
    {                                                                \
#type, sizeof(struct type), .init = init_##type, __VA_ARGS__ \
    }

static const struct row rows[] = {
    SIZED(pto_device_params, .use = use_device_params, .is_input = true),
    SIZED(pto_callable_params, .use = use_callable_params, .is_input = true,
          .fill = fill_callable_params,
          .least = offsetof(struct pto_callable_params, orchestration) + WORD),
    SIZED(pto_load_options, .use = use_load_options, .is_input = true),
    SIZED(pto_run_options, .use = use_run_options, .is_input = true),
    SIZED(pto_build_params, .use = use_build_params, .is_input = true),
    SIZED(pto_log, .use = use_log, .is_input = true),
    SIZED(pto_error, .use = use_error),
    SIZED(pto_run_report, .use = use_run_report),
    SIZED(pto_device_info, .use = use_device_info),
    SIZED(pto_callable_info, .use = use_callable_info),
    SIZED(pto_kernel_info, .use = use_kernel_info),
    SIZED(pto_file_info, .use = use_file_info),
    SIZED(pto_store_info, .use = use_store_info),
    SIZED(pto_comm_params, .use = use_comm_params, .is_input = true),
    SIZED(pto_domain_params, .use = use_domain_params, .is_input = true),
    SIZED(pto_comm_info, .use = use_comm_info),
    SIZED(pto_comm_backend, .use = use_comm_backend),
    SIZED(pto_domain_info, .use = use_domain_info),
    SIZED(pto_collective, .use = use_collective, .is_input = true),
    SIZED(pto_routing, .use = use_routing, .is_input = true),
    SIZED(pto_worker_params, .use = use_worker_params, .is_input = true),
    SIZED(pto_worker_region_params, .use = use_worker_region, .is_input = true,
          .fill = fill_worker_region,
          .least = offsetof(struct pto_worker_region_params, counter_bytes) + WORD),
    SIZED(pto_worker_queue_params, .use = use_worker_queue, .is_input = true),
    SIZED(pto_worker_message, .use = use_worker_message, .is_input = true),
    SIZED(pto_worker_domain_params, .use = use_worker_domain, .is_input = true,
          .fill = fill_worker_domain,
          .least = offsetof(struct pto_worker_domain_params, name) + WORD),
    SIZED(pto_worker_member, .use = use_worker_member),
    SIZED(pto_worker_domain_info, .use = use_worker_domain_info),
    SIZED(pto_child_info, .use = use_child_info),
    SIZED(pto_child_hooks, .use = use_hooks, .is_input = true, .fill = fill_hooks,
          .least = offsetof(struct pto_child_hooks, unload) + WORD),
    SIZED(pto_worker_callable, .use = use_worker_callable, .is_input = true,
          .fill = fill_worker_callable, .least = offsetof(struct pto_worker_callable, path) + WORD),
    SIZED(pto_worker_report, .use = use_worker_report),
    SIZED(pto_worker_virtual_report, .use = use_worker_virtual_report),
    SIZED(pto_virtual_options, .is_input = true, .use = use_virtual_options),
    SIZED(pto_virtual_report, .use = use_virtual_report),
    SIZED(pto_virtual_kernel, .use = use_virtual_kernel),
};

#define EACH_ROW(row) \
    for (const struct row *row = rows; row < rows + sizeof(rows) / sizeof(rows[0]); row++)

/*
 * Places a struct at the end of the area, as a program passes it whose header has `size` bytes of
 * it.
 */
static void *place(const struct row *row, size_t size)
{
    char whole[AREA] = { 0 };
    char *given = area + AREA - size;

    signal(SIGSEGV, SIG_DFL); /* do not return to cmocka, because locks of the library are held */
    row->init(whole);
    if (row->fill != NULL)
        row->fill(whole);
    memcpy(whole, &size, sizeof(size));
    memset(area, FILLING, AREA);
    memcpy(given, whole, size);
    return given;
}

static void assert_untouched(const char *from, size_t bytes, const struct row *row)
{
    for (size_t i = 0; i < bytes; i++)
        if (from[i] != (char)FILLING)
            fail_msg("%s: byte %zu was written", row->name, i);
}

/* ---- tests ---- */

static void an_init_function_sets_the_size_and_stays_inside(void **state)
{
    (void)state;
    EACH_ROW(row)
    {
        char *given = area + AREA - row->size;

        memset(area, FILLING, AREA);
        row->init(given);
        assert_memory_equal(given, &row->size, sizeof(row->size));
        assert_untouched(area, AREA - row->size, row);
        row->init(NULL);
    }
}

static void an_older_struct_is_taken_as_far_as_it_goes(void **state)
{
    (void)state;
    EACH_ROW(row)
    {
        for (size_t size = WORD; size <= row->size; size += WORD) {
            char *given;

            if (row->size > 1024 && size > 256 && size < row->size - 1024 && size % 512 != 0)
                continue; /* arrays */
            given = place(row, size);
            if (row->use(given) != (size < row->least ? PTO_EINVAL : PTO_OK))
                fail_msg("%s with %zu bytes of %zu", row->name, size, row->size);
            assert_memory_equal(given, &size, sizeof(size));
            assert_untouched(area, AREA - size, row);
        }
    }
}

/* Fields that do not change from call to call have the same values in a shorter struct. */
static void an_older_struct_gets_the_fields_that_it_has(void **state)
{
    (void)state;
    EACH_ROW(row)
    {
        char whole[AREA];

        if (row->is_input || row->use == use_run_report || row->use == use_worker_report)
            continue; /* these have times */
        memcpy(whole, place(row, row->size), row->size);
        assert_int_equal(row->use(whole), PTO_OK);
        for (size_t size = WORD; size < row->size; size += WORD) {
            char *given = place(row, size);

            memset(given + WORD, FILLING, size - WORD);
            assert_int_equal(row->use(given), PTO_OK);
            assert_memory_equal(given + WORD, whole + WORD, size - WORD);
        }
    }
}

static void a_report_of_any_length_tells_of_the_run(void **state)
{
    static const struct row row = SIZED(pto_run_report);
    struct pto_run_report *report = place(&row, offsetof(struct pto_run_report, warning));

    (void)state;
    assert_int_equal(pto_run(device, functions, NULL, NULL, report), PTO_OK);
    assert_true(report->workers > 0 && report->core_count > 0);
    report = place(&row, offsetof(struct pto_run_report, error) + WORD);
    assert_int_equal(pto_run(device, NULL, NULL, NULL, report), PTO_EINVAL); /* no callable */
    report = place(&row, sizeof(*report));
    report->tasks = 77;
    assert_int_equal(pto_run(device, NULL, NULL, NULL, report), PTO_EINVAL);
    assert_int_equal(report->error.status, PTO_EINVAL);
    assert_int_equal(report->tasks, 77); /* there was no run */
}

static void a_newer_struct_is_taken_unless_it_asks_for_more(void **state)
{
    (void)state;
    EACH_ROW(row)
    {
        for (size_t more = WORD; more <= 4 * WORD; more += WORD) {
            char *given = place(row, row->size + more);

            assert_int_equal(row->use(given), PTO_OK);
            for (size_t i = 0; i < more; i++) {
                given = place(row, row->size + more);
                given[row->size + i] = 1;
                if (row->use(given) != (row->is_input ? PTO_EINVAL : PTO_OK))
                    fail_msg("%s with a byte set beyond its end", row->name);
                assert_int_equal(given[row->size + i], 1);
            }
        }
    }
}

static void a_size_that_no_struct_has_is_refused(void **state)
{
    static const size_t sizes[] = { 0, 1, 4, 7, 9, 100, AREA + WORD, SIZE_MAX, SIZE_MAX - 7 };

    (void)state;
    EACH_ROW(row)
    {
        for (size_t i = 0; i <= sizeof(sizes) / sizeof(sizes[0]); i++) {
            size_t size = i < sizeof(sizes) / sizeof(sizes[0]) ? sizes[i] : row->size - 1;
            char before[AREA];
            char *given = place(row, row->size);

            memcpy(given, &size, sizeof(size));
            memcpy(before, given, row->size);
            if (row->use(given) != PTO_EINVAL)
                fail_msg("%s with the size %zu", row->name, size);
            assert_memory_equal(given, before, row->size);
        }
    }
}

static void what_is_not_given_keeps_its_default(void **state)
{
    struct example {
        size_t size;
        uint64_t first, second;
    } known = { sizeof(known), 1, 2 }, given = { offsetof(struct example, second), 10, 20 };

    (void)state;
    assert_int_equal(sized_read(&known, sizeof(known), &given), PTO_OK);
    assert_int_equal(known.size, sizeof(known));
    assert_int_equal(known.first, 10);
    assert_int_equal(known.second, 2);
    assert_int_equal(sized_read(&known, sizeof(known), NULL), PTO_EINVAL);
    sized_write(NULL, &known, sizeof(known));
    assert_true(sized_is_valid(NULL));
}

static void do_nothing(int64_t *args)
{
    (void)args;
}

static int run_virtual(void)
{
    static const struct pto_kernel kernel = { "nothing", do_nothing, PTO_CORE_AIV };
    struct pto_device_params device_params;
    struct pto_callable_params params;
    struct pto_callable *callable;
    int status;

    pto_device_params_init(&device_params);
    device_params.is_virtual = true;
    pto_callable_params_init(&params);
    params.orchestration = orchestrate;
    params.kernels = &kernel;
    params.kernel_count = 1;
    status = pto_device_open(&device_params, &virtual_device);
    if (status < 0 || pto_callable_create(&params, &callable) < 0)
        return -1;
    status = pto_run(virtual_device, callable, NULL, NULL, NULL);
    pto_callable_destroy(callable);
    return status;
}

static int set_up(void **state)
{
    static const struct artefact_kernel kernel = { 0, PTO_CORE_AIV, "add", "kernel", 6 };
    static const struct artefact_file file = { "orch.c", false, { { 1 } } };
    const struct artefact_parts parts = { .name = "sized",
                                          .platform = "a5sim",
                                          .orchestration = "orchestration",
                                          .orchestration_size = 13,
                                          .kernels = &kernel,
                                          .kernel_count = 1,
                                          .files = &file,
                                          .file_count = 1 };
    struct pto_device_params device_params;
    struct pto_callable_params params;
    struct pto_comm_params comm_params;
    struct pto_domain_params domain_params;
    struct pto_worker_params worker_params;
    struct pto_worker_domain_params worker_domain_params;
    struct pto_worker_queue_params worker_queue_params;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t size;
    void *bytes;

    (void)state;
    area = mmap(NULL, AREA + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (area == MAP_FAILED || mprotect(area + AREA, page, PROT_NONE) != 0 ||
        mkdtemp(folder) == NULL)
        return -1;
    pto_device_params_init(&device_params);
    device_params.workers = 1;
    pto_callable_params_init(&params);
    params.orchestration = orchestrate;
    if (pto_device_open(&device_params, &device) < 0 || run_virtual() < 0 ||
        pto_callable_create(&params, &functions) < 0 ||
        artefact_make(&parts, &bytes, &size, NULL) < 0)
        return -1;
    if (pto_callable_load_memory(bytes, size, NULL, &packed, NULL) < 0)
        return -1;
    free(bytes);
    pto_comm_params_init(&comm_params);
    pto_domain_params_init(&domain_params);
    domain_params.id = 1;
    pto_worker_params_init(&worker_params);
    worker_params.is_virtual = true;
    if (pto_worker_open(&worker_params, &virtual_worker) < 0)
        return -1;
    worker_params.is_virtual = false;
    pto_worker_queue_params_init(&worker_queue_params);
    pto_worker_domain_params_init(&worker_domain_params);
    worker_domain_params.name = "first";
    return pto_comm_open(&comm_params, &comm) < 0 ||
                   pto_domain_open(comm, &domain_params, &domain) < 0 ||
                   pto_worker_open(&worker_params, &worker) < 0 ||
                   pto_worker_queue_open(worker, &worker_queue_params, &worker_queue) < 0 ||
                   pto_worker_domain_open(worker, &worker_domain_params, &worker_domain) < 0
               ? -1
               : 0;
}

static int tear_down(void **state)
{
    (void)state;
    pto_worker_close(worker);
    pto_worker_close(virtual_worker);
    pto_comm_close(comm);
    pto_callable_destroy(packed);
    pto_callable_destroy(functions);
    pto_device_close(device);
    pto_device_close(virtual_device);
    munmap(area, AREA + (size_t)sysconf(_SC_PAGESIZE));
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_init_function_sets_the_size_and_stays_inside),
        cmocka_unit_test(an_older_struct_is_taken_as_far_as_it_goes),
        cmocka_unit_test(an_older_struct_gets_the_fields_that_it_has),
        cmocka_unit_test(a_report_of_any_length_tells_of_the_run),
        cmocka_unit_test(a_newer_struct_is_taken_unless_it_asks_for_more),
        cmocka_unit_test(a_size_that_no_struct_has_is_refused),
        cmocka_unit_test(what_is_not_given_keeps_its_default),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
