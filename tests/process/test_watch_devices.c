/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Devices seen by observers: what is shown of a run that hangs, in this process and in another;
 * records that change while they are read, and records that the library has not made.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "chip/status_record.h"
#include "tests/fixture/isolated_test.h"

enum { ROOM = 8, LOOKS = 20000 };

/* Copies of what was shown of the first device of a process. */
struct seen {
    uint32_t count;
    struct pto_watch_device device;
    struct pto_watch_run run;
    struct pto_watch_kernel kernel[ROOM];
    struct pto_watch_task task[ROOM];
    char mode[32];
};

static void keep_device(void *context, const struct pto_watch_device *device)
{
    struct seen *seen = context;

    if (seen->count++ != 0 || device->is_other_build)
        return;
    seen->device = *device;
    snprintf(seen->mode, sizeof(seen->mode), "%s", device->mode);
    if (device->run_count != 0)
        seen->run = device->run[0];
    for (uint32_t i = 0; i < device->kernel_count && i < ROOM; i++)
        seen->kernel[i] = device->kernel[i];
    for (uint32_t i = 0; i < device->task_count && i < ROOM; i++)
        seen->task[i] = device->task[i];
}

static struct seen look(void)
{
    struct seen seen = { .count = 0 };
    int found = pto_watch_devices(getpid(), keep_device, &seen);

    assert_int_equal(found, seen.count);
    return seen;
}

/* Polls until this many kernels run, tasks wait and runs are queued. */
static struct seen look_until(uint32_t kernels, uint32_t tasks, uint32_t queued)
{
    struct seen seen = look();

    for (uint32_t i = 0;
         i < LOOKS && (seen.device.kernel_count != kernels || seen.device.task_count != tasks ||
                       seen.device.queued != queued);
         i++) {
        nap_ns(10 * MS);
        seen = look();
    }
    assert_int_equal(seen.count, 1);
    assert_int_equal(seen.device.kernel_count, kernels);
    assert_int_equal(seen.device.task_count, tasks);
    assert_int_equal(seen.device.queued, queued);
    return seen;
}

/* ---- devices ---- */

static uint32_t gate;

static void stand(int64_t *args)
{
    (void)args;
    wait_until(&gate, 1, false);
}

static void touch(int64_t *args)
{
    (void)args;
}

static const struct pto_kernel stand_kernels[] = { { "stand", stand, PTO_CORE_AIV },
                                                   { "touch", touch, PTO_CORE_AIC } };
static uint32_t first_line;

static void orchestrate_stand(struct pto_orch *o, const struct pto_entry *entry)
{
    store(&first_line, __LINE__ + 1);
    pto_aiv(o, 0, PTO_INOUT(&entry->tensor[0]));
    pto_aic(o, 1, PTO_INOUT(&entry->tensor[0]));
    pto_aic(o, 1, PTO_INOUT(&entry->tensor[0]));
}

static struct pto_run *launch_on(struct pto_device *device, struct pto_callable *callable,
                                 const struct pto_entry *entry)
{
    struct pto_run *run = NULL;

    assert_int_equal(pto_run_prepare(device, callable, entry, NULL, &run), PTO_OK);
    assert_int_equal(pto_run_launch(run), PTO_OK);
    return run;
}

static void finish_run(struct pto_run *run)
{
    pto_run_report_init(&report);
    assert_int_equal(pto_run_wait(run, UINT64_MAX / 2), PTO_OK);
    assert_int_equal(pto_run_finish(run, &report), PTO_OK);
}

static void assert_ends(const char *text, const char *end)
{
    assert_true(strlen(text) >= strlen(end));
    assert_string_equal(text + strlen(text) - strlen(end), end);
}

static void a_run_that_hangs_shows_why(void **state)
{
    struct pto_device *device = open_device("a2a3sim", 2, 2);
    struct pto_callable *callable = make_callable(stand_kernels, 2, orchestrate_stand);
    int data[4] = { 0 };
    struct pto_tensor tensor = pto_tensor_external(data, PTO_DIMS(4), 1, PTO_INT32);
    struct pto_entry entry = { .tensor_count = 1, .tensor = &tensor };
    struct pto_run *run[2];
    struct seen seen = look();

    (void)state;
    assert_int_equal(seen.count, 1);
    assert_int_equal(seen.device.pid, getpid());
    assert_int_equal(seen.device.parent, getppid());
    assert_string_equal(seen.mode, "in process");
    assert_int_equal(seen.device.aiv_count, 4);
    assert_int_equal(seen.device.run_count, 0);
    assert_false(seen.device.has_tasks);
    run[0] = launch_on(device, callable, &entry);
    run[1] = launch_on(device, callable, &entry);
    seen = look_until(1, 2, 1);
    assert_int_equal(seen.device.run_count, 1);
    assert_string_equal(seen.run.callable, "under test");
    assert_int_equal(seen.run.number, 1);
    assert_true(seen.run.running_ns > 0);
    assert_int_equal(seen.device.submitted, 3);
    assert_int_equal(seen.device.live, 3);
    assert_int_equal(seen.device.builder, PTO_WATCH_NO_BUILDER);
    assert_true(seen.device.still_ns > 0);
    assert_string_equal(seen.kernel[0].name, "stand");
    assert_int_equal(seen.kernel[0].task, 0);
    assert_int_equal(seen.kernel[0].is_aiv, 1);
    assert_int_equal(seen.kernel[0].line, load(&first_line));
    assert_ends(seen.kernel[0].file, "test_watch_devices.c");
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(seen.task[i].task, i + 1);
        assert_int_equal(seen.task[i].cause, PTO_WATCH_WAITS);
        assert_int_equal(seen.task[i].awaited_count, 1);
        assert_int_equal(seen.task[i].awaited[0], i);
        assert_string_equal(seen.task[i].name, "touch");
        assert_int_equal(seen.task[i].line, load(&first_line) + 1 + i);
    }
    store(&gate, 1);
    finish_run(run[0]);
    finish_run(run[1]);
    seen = look();
    assert_int_equal(seen.device.ended, 2);
    assert_int_equal(seen.device.run_count, 0);
    assert_false(seen.device.has_tasks);
    assert_int_equal(pto_device_close(device), PTO_OK);
    assert_int_equal(pto_callable_destroy(callable), PTO_OK);
    assert_int_equal(look().count, 0);
}

static void an_isolated_device_shows_the_same(void **state)
{
    struct pto_device *device = open_isolated(2);
    struct rig r = set_rig(device);
    struct pto_run *run = launch_on(device, wild, entry_of(&r, WAIT));
    struct seen seen = look_until(1, 1, 0);
    pid_t chip = 0;

    (void)state;
    assert_int_equal(children_of(getpid(), &chip), 1);
    assert_string_equal(seen.mode, "isolated");
    assert_int_equal(seen.device.chip_pid, chip);
    assert_string_equal(seen.run.callable, "isolated");
    assert_int_equal(seen.device.submitted, 3);
    assert_int_equal(seen.device.live, 2);
    assert_string_equal(seen.kernel[0].name, "wild");
    assert_int_equal(seen.kernel[0].task, 1);
    assert_true(seen.kernel[0].line != 0);
    assert_string_equal(seen.task[0].name, "count");
    assert_int_equal(seen.task[0].awaited[0], 1);
    set_element(&r, 2, 1);
    finish_run(run);
    assert_int_equal(pto_mem_free(device, r.addr, NULL), PTO_OK);
    assert_int_equal(pto_device_close(device), PTO_OK);
}

/* ---- records ---- */

/* Reads every byte that an observer may read. */
static void read_all(void *context, const struct pto_watch_device *device)
{
    uint64_t *sum = context;

    *sum += device->size + strlen(device->program);
    if (device->is_other_build)
        return;
    *sum += strlen(device->platform) + strlen(device->mode);
    *sum += device->loss != NULL ? strlen(device->loss) : 0;
    for (uint32_t i = 0; i < device->run_count; i++)
        *sum += strlen(device->run[i].callable) + strlen(pto_mode_name(device->run[i].mode));
    assert_true(device->live <= device->submitted && device->kernel_count <= device->running);
    for (uint32_t i = 0; i < device->kernel_count; i++)
        *sum += strlen(device->kernel[i].name) + strlen(device->kernel[i].file);
    for (uint32_t i = 0; i < device->task_count; i++) {
        assert_true(device->task[i].cause <= PTO_WATCH_TOGETHER);
        *sum += strlen(device->task[i].name) + strlen(device->task[i].file);
    }
}

static void damaged_records_do_no_harm(void **state)
{
    static struct status_record record;
    int file = memfd_create(STATUS_NAME, MFD_CLOEXEC);
    uint64_t sum = 0, seed = 1;
    uint32_t shown = 0;

    (void)state;
    assert_true(file >= 0);
    for (uint32_t i = 0; i < often(200, 100); i++) {
        uint8_t *bytes = (uint8_t *)&record;
        size_t size = sizeof(record);
        int found;

        for (size_t k = 0; k < sizeof(record); k++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            bytes[k] = i % 3 == 0 ? 0xff : (uint8_t)(seed >> 56);
        }
        record.head = (struct status_head){ STATUS_MAGIC, sizeof(record), getpid(), 0 };
        if (i % 100 !=
            0) /* otherwise it seems to be written forever, which costs the reader time */
            a32_store_relaxed(&record.host.turn, 4);
        a32_store_relaxed(&record.chip.turn, 4);
        if (i % 5 < 3) { /* the chip's part describes the first run */
            record.host.run_count = 1 + i % 7;
            record.chip.run = record.host.run[0].number;
        }
        record.host.chip_pid = i % 2 == 0 ? getppid() : (int32_t)seed;
        if (i % 11 == 10)
            size = (size_t)(seed >> 33) % sizeof(record);
        if (i % 13 == 12)
            record.head.bytes--;
        assert_int_equal(ftruncate(file, 0), 0);
        assert_int_equal(pwrite(file, &record, size, 0), size);
        found = pto_watch_devices(getpid(), read_all, &sum);
        assert_true(found == 0 || found == 1);
        shown += (uint32_t)found;
    }
    assert_true(shown > 0 && sum > 0);
    close(file);
}

static uint32_t is_over;

/* Writes parts in which all numbers agree. */
static void *write_parts(void *arg)
{
    struct status_record *record = arg;

    for (uint32_t i = 1; load(&is_over) == 0; i++) {
        struct status_host *host = &record->host;
        struct status_chip *chip = &record->chip;

        status_write_begin(&host->turn);
        host->workers = i;
        host->ended = i;
        status_write_end(&host->turn);
        status_write_begin(&chip->turn);
        chip->submitted = chip->live = chip->builder_task = i;
        for (uint32_t k = 0; k < STATUS_KERNELS; k++)
            chip->kernel[k].task = chip->kernel[k].core = i;
        status_write_end(&chip->turn);
        for (uint32_t k = 0; k < 200; k++) /* the reader's turn */
            __atomic_thread_fence(__ATOMIC_SEQ_CST);
    }
    return NULL;
}

static void check_agreement(void *context, const struct pto_watch_device *device)
{
    uint32_t *looks = context;

    if (device->is_torn)
        return;
    ++*looks;
    assert_int_equal(device->workers, device->ended);
    assert_true(device->has_tasks);
    assert_int_equal(device->submitted, device->live);
    assert_int_equal(device->submitted, device->builder_task);
    for (uint32_t i = 0; i < device->kernel_count; i++) {
        assert_int_equal(device->kernel[i].task, device->submitted);
        assert_int_equal(device->kernel[i].core, device->submitted);
    }
}

static void records_that_change_are_read_whole(void **state)
{
    struct status status;
    uint32_t looks = 0;
    pthread_t writer;

    (void)state;
    status_record_open(&status, false);
    assert_non_null(status.record);
    status.record->host.run_count = 1;
    status.record->host.run[0].number = status.record->chip.run = 7;
    status.record->chip.kernel_count = status.record->chip.running = STATUS_KERNELS;
    assert_int_equal(pthread_create(&writer, NULL, write_parts, status.record), 0);
    for (uint32_t i = 0; i < often(100, 50); i++)
        assert_int_equal(pto_watch_devices(getpid(), check_agreement, &looks), 1);
    store(&is_over, 1);
    pthread_join(writer, NULL);
    status_record_close(&status);
    assert_true(looks != 0);
}

/* ---- processes ---- */

static void what_has_no_devices_is_told_apart(void **state)
{
    struct pto_device *device;
    uint64_t sum = 0;
    pid_t child;

    (void)state;
    assert_int_equal(pto_watch_devices(0, NULL, NULL), PTO_EINVAL);
    assert_int_equal(pto_watch_devices(-1, read_all, &sum), PTO_EINVAL);
    assert_int_equal(pto_watch_devices(INT32_MAX, read_all, &sum), PTO_EPEER);
    assert_int_equal(pto_watch_devices(getpid(), read_all, &sum), 0);
    /* a forked child inherits the file, but not the device */
    device = open_device("a2a3sim", 1, 1);
    child = fork();
    if (child == 0) {
        pause();
        _exit(0);
    }
    assert_int_equal(pto_watch_devices(child, read_all, &sum), 0);
    assert_int_equal(pto_watch_devices(getpid(), read_all, &sum), 1);
    assert_true(pto_watch_devices(0, read_all, &sum) >= 1);
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_int_equal(pto_watch_devices(child, read_all, &sum), PTO_EPEER);
    assert_int_equal(pto_device_close(device), PTO_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_run_that_hangs_shows_why),
        cmocka_unit_test(an_isolated_device_shows_the_same),
        cmocka_unit_test(damaged_records_do_no_harm),
        cmocka_unit_test(records_that_change_are_read_whole),
        cmocka_unit_test(what_has_no_devices_is_told_apart),
    };

    return cmocka_run_group_tests(tests, set_up_isolated, tear_down_isolated);
}
