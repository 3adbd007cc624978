/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The queue of a device: decides when a run starts, on the caller's thread or on a runner, and ends
 * runs that are too late to start. Runs end in the order of the queue.
 */
#include "host/run.h"

#include <errno.h>
#include <unistd.h>

#include "base/lock.h"
#include "base/os.h"
#include "host/error_text.h"

static void run_begin(struct run *run);
static bool may_begin(const struct run *run);
static void enqueue_run(struct run *run);
static void forget_due(struct run *run);
static int start_runners(struct device *device);
static void *run_runner_main(void *arg);
static void *run_watcher_main(void *arg);
static void set_launch_deadline(struct run *run);
static void fail_in_queue(struct run *run);

enum run_turn run_take_turn(struct run *run)
{
    struct device *device = run->device;
    uint64_t deadline_ns = os_now_ns() + PTO_TIMEOUT_DEFAULT_NS;
    bool is_there = true, is_own;
    enum run_turn turn = TURN_ENDED;

    set_launch_deadline(run);
    is_own = run->launch_deadline_ns != 0 && run->launch_deadline_ns < deadline_ns;
    pthread_mutex_lock(&device->lock);
    if (run->state != RUN_PREPARED) {
        pthread_mutex_unlock(&device->lock);
        return TURN_REFUSED;
    }
    enqueue_run(run);
    while (is_there && run->state == RUN_QUEUED && !may_begin(run))
        is_there = os_cond_wait(&device->changed, &device->lock,
                                is_own ? run->launch_deadline_ns : deadline_ns);
    if (run->state == RUN_QUEUED && may_begin(run)) {
        run_begin(run); /* start the run even if its turn came together with the time-out */
        turn = TURN_BEGUN;
        /* if the run is not queued any more, it was cancelled during the wait */
    } else if (run->state == RUN_QUEUED) {
        run_dequeue(run);
        if (is_own)
            fail_in_queue(run);
        else
            run_fail(run, PTO_ETIMEOUT,
                     "the device was busy with other runs for a minute; wait for them, or cancel "
                     "them");
        run_end(run); /* also lets the next run check whether its turn has come */
    }
    pthread_mutex_unlock(&device->lock);
    return turn;
}

int run_launch(struct run *run)
{
    struct device *device = run->device;
    int status;

    pthread_mutex_lock(&device->lock);
    status = run->state == RUN_PREPARED ? start_runners(device) : PTO_EINVAL;
    if (status == PTO_OK && run->options.launch_timeout_ns != 0 && !device->has_watcher) {
        status = os_thread_start(&device->watcher, run_watcher_main, device);
        device->has_watcher = status == PTO_OK;
    }
    if (status == PTO_OK) {
        set_launch_deadline(run);
        run->is_launched = true;
        enqueue_run(run);
        pthread_cond_broadcast(&device->changed);
    }
    pthread_mutex_unlock(&device->lock);
    return status;
}

void run_await_turn_to_end(struct run *run)
{
    struct device *device = run->device;

    if (!chip_properties(device->chip)->takes_next)
        return;
    pthread_mutex_lock(&device->lock);
    while (device->head != run)
        (void)os_cond_wait(&device->changed, &device->lock, UINT64_MAX);
    if (device->loss != NULL)
        run->loss = device->loss;
    pthread_mutex_unlock(&device->lock);
}

void run_end_turn(struct run *run)
{
    struct device *device = run->device;

    run_await_turn_to_end(run);
    pthread_mutex_lock(&device->lock);
    assert(run->state == RUN_RUNNING && device->head == run && device->running > 0);
    run_dequeue(run);
    device->running--;
    device->loss = run->loss;
    run_end(run);
    pthread_mutex_unlock(&device->lock);
}

void run_end(struct run *run)
{
    uint64_t one = 1;

    assert_held(&run->device->lock);
    assert(run->state != RUN_ENDED);
    run->state = RUN_ENDED;
    device_status_update(run->device);
    while (run->descriptor >= 0 && write(run->descriptor, &one, sizeof(one)) < 0 &&
           errno == EINTR) {
    } /* a signal may interrupt the write; otherwise an eventfd accepts it */
    pthread_cond_broadcast(&run->device->changed);
}

void run_dequeue(struct run *run)
{
    struct device *device = run->device;

    if (run->before == NULL)
        device->head = run->next;
    else
        run->before->next = run->next;
    if (run->next == NULL)
        device->tail = run->before;
    else
        run->next->before = run->before;
    device->queue_count--;
    forget_due(run);
}

/* ---- the queue ---- */

/* Marks the run as executing, because its turn has come. */
static void run_begin(struct run *run)
{
    struct device *device = run->device;

    assert_held(&device->lock);
    assert(run->state == RUN_QUEUED && device->running < RUNS_MAX);
    run->state = RUN_RUNNING;
    run->number = ++device->run_number;
    run->place = chip_properties(device->chip)->takes_next ? run->number % RUNS_MAX : 0;
    run->loss = device->loss;
    device->running++;
    device_status_update(device);
}

/*
 * Whether a run needs the chip exclusively: the records of a recorded run are read until the next
 * run starts, and a built graph is fetched after the end of the run.
 */
static bool run_is_alone(const struct run *run)
{
    return run->options.trace != PTO_TRACE_OFF || run->purpose == CHIP_BUILD;
}

/*
 * Whether `run` may start while `going_on` is executing. A run with a deadline that counts from its
 * launch may not, because the chip does not know when the other run ends.
 */
static bool may_follow(const struct run *run, const struct run *going_on)
{
    return going_on->state == RUN_RUNNING && going_on->is_on_chip && !run_is_alone(going_on) &&
           !run_is_alone(run) && run->launch_deadline_ns == 0 && !staging_reads_from(run, going_on);
}

static bool may_begin(const struct run *run)
{
    const struct device *device = run->device;

    assert_held(&device->lock);
    if (device->head == run)
        return true;
    return chip_properties(device->chip)->takes_next && device->head->next == run &&
           may_follow(run, device->head);
}

static void enqueue_run(struct run *run)
{
    struct device *device = run->device;

    assert_held(&device->lock);
    assert(run->state == RUN_PREPARED);
    run->state = RUN_QUEUED;
    run->next = NULL;
    run->before = device->tail;
    if (device->head == NULL)
        device->head = run;
    else
        device->tail->next = run;
    device->tail = run;
    device->queue_count++;
    run->is_due = run->is_launched && run->launch_deadline_ns != 0;
    if (run->is_due)
        due_add(&device->due, run);
    /* the first run of the queue begins at once, and run_begin publishes the queue */
    if (device->head != run)
        device_status_update(device);
}

/* Removes the run from the heap of deadlines, because the run starts or leaves the queue. */
static void forget_due(struct run *run)
{
    assert_held(&run->device->lock);
    if (run->is_due)
        due_remove(&run->device->due, run);
    run->is_due = false;
}

/* ---- deadlines counted from the launch ---- */

static void set_launch_deadline(struct run *run)
{
    uint64_t now = os_now_ns(), ns = run->options.launch_timeout_ns;

    run->launch_deadline_ns = ns != 0 && ns < UINT64_MAX - now ? now + ns : 0;
}

static void fail_in_queue(struct run *run)
{
    char time[ERROR_TEXT_TIME];

    error_text_time(run->options.launch_timeout_ns, time);
    run_fail(
        run, PTO_ETIMEOUT,
        "the run had not started %s after its launch: the device was busy with other runs; wait "
        "for them, or raise the time-out",
        time);
}

/* Ends the queued runs whose deadline for the start has passed. Returns the next such deadline. */
static uint64_t end_late_runs(struct device *device)
{
    assert_held(&device->lock);
    while (device->due != NULL && os_now_ns() >= device->due->launch_deadline_ns) {
        struct run *run = device->due;

        run_dequeue(run);
        fail_in_queue(run);
        run_end(run);
    }
    return device->due != NULL ? device->due->launch_deadline_ns : UINT64_MAX;
}

/* ---- threads of a device ---- */

/* Starts the runner threads: as many as runs can execute at the same time. */
static int start_runners(struct device *device)
{
    uint32_t wanted = chip_properties(device->chip)->takes_next ? RUNS_MAX : 1;
    int status = PTO_OK;

    assert_held(&device->lock);
    while (status == PTO_OK && device->runner_count < wanted) {
        status = os_thread_start(&device->runner[device->runner_count], run_runner_main, device);
        device->runner_count += status == PTO_OK;
    }
    return device->runner_count != 0 ? PTO_OK : status;
}

/*
 * Thread that ends queued runs at their deadlines; runner threads cannot, because they execute
 * runs.
 */
static void *run_watcher_main(void *arg)
{
    struct device *device = arg;

    pthread_mutex_lock(&device->lock);
    while (!device->is_closing)
        (void)os_cond_wait(&device->changed, &device->lock, end_late_runs(device));
    pthread_mutex_unlock(&device->lock);
    return NULL;
}

static struct run *first_queued(const struct device *device)
{
    struct run *run = device->head;

    assert_held(&device->lock);
    while (run != NULL && run->state != RUN_QUEUED)
        run = run->next;
    return run;
}

/* Runner thread: executes launched runs, in the order of the queue, until the device is closed. */
static void *run_runner_main(void *arg)
{
    struct device *device = arg;

    pthread_mutex_lock(&device->lock);
    while (!device->is_closing) {
        struct run *run;

        (void)end_late_runs(device);
        run = first_queued(device);
        if (run == NULL || !run->is_launched || !may_begin(run)) {
            os_cond_wait(&device->changed, &device->lock, UINT64_MAX);
            continue;
        }
        forget_due(run);
        run_begin(run);
        pthread_mutex_unlock(&device->lock);
        run_execute(run);
        run_end_turn(run);
        pthread_mutex_lock(&device->lock);
    }
    pthread_mutex_unlock(&device->lock);
    return NULL;
}
