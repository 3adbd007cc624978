/* SPDX-License-Identifier: Apache-2.0 */
/* Publishes the state of a device and its queue for observers in other processes. */
#include <string.h>

#include "base/lock.h"
#include "base/os.h"
#include "chip/status_record.h"
#include "host/host.h"

static enum status_mode mode_of(const struct device *device)
{
    const struct chip_properties *about = chip_properties(device->chip);

    if (about->has_virtual_time)
        return STATUS_VIRTUAL;
    if (!device->platform->is_simulated)
        return STATUS_CARD;
    return about->process != 0 ? STATUS_ISOLATED : STATUS_IN_PROCESS;
}

void device_status_open(struct device *device)
{
    const struct chip_properties *about = chip_properties(device->chip);
    struct status_host *shown = chip_show(device->chip);

    if (shown == NULL)
        return;
    device->shown = shown;
    status_write_begin(&shown->turn);
    shown->mode = mode_of(device);
    shown->chip_pid = about->process;
    shown->workers = about->workers;
    shown->aic_count = about->aic_count;
    shown->aiv_count = about->aiv_count;
    shown->opened_ns = os_now_ns();
    status_record_text(shown->platform, sizeof(shown->platform), device->platform->name, false);
    status_write_end(&shown->turn);
}

static void show_run(struct pto_watch_run *shown, const struct run *run)
{
    if (shown->number == run->number)
        return;
    shown->number = run->number;
    shown->running_ns = os_now_ns();
    shown->mode = (uint32_t)run->options.mode;
    shown->builds = run->purpose == CHIP_BUILD;
    shown->launches = run->purpose == CHIP_LAUNCH;
    status_record_text(shown->callable, sizeof(shown->callable),
                       run->callable->kernel_name[run->callable->kernel_count], false);
}

void device_status_update(struct device *device)
{
    struct status_host *shown = device->shown;
    const struct run *run = device->head;
    uint32_t count = 0;

    assert_held(&device->lock);
    if (shown == NULL)
        return;
    status_write_begin(&shown->turn);
    for (; run != NULL && run->state == RUN_RUNNING && count < PTO_WATCH_RUNS; run = run->next) {
        if (count == 0 && shown->run[0].number != run->number)
            /* the second run that observers see has become the first one */
            shown->run[0] = shown->run[1];
        show_run(&shown->run[count++], run);
    }
    shown->run_count = count;
    shown->queued = device->queue_count - device->running;
    shown->ended = device->run_number - device->running;
    if (device->loss != NULL && shown->is_lost == 0) {
        shown->is_lost = 1;
        status_record_text(shown->loss, sizeof(shown->loss), device->loss, false);
    }
    status_write_end(&shown->turn);
}
