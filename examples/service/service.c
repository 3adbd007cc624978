/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that keeps a device busy: it loads an artefact once, builds a graph for
 * each place in which a request can be, and launches them from an event loop.
 *
 *     stdin ---> a request ---> a free place: its graph is launched --+
 *       ^                                                             |
 *       +---- poll() <---- the descriptor of the run is readable <----+
 *
 * A request is a line with a number of steps; heat then spreads along a rod for so
 * many (examples/gang). The answer is a line, in the order in which runs end.
 */
#include <errno.h>
#include <poll.h>
#include <pto/pto.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { PLACES = 4, ROD = 4096, LINE_MAX_BYTES = 64 };

/* A place for one request, with its own memory and graph: a graph has one launch at a time. */
struct place {
    struct pto_graph *graph;
    struct pto_run *run; /* NULL: free */
    uint64_t steps;
    float heat[ROD];
    struct pto_tensor tensor;
    struct pto_entry entry;
};

struct service {
    struct pto_device *device;
    struct pto_callable *callable;
    struct place place[PLACES];
    uint32_t busy;
    bool is_over; /* no more requests */
    char line[LINE_MAX_BYTES];
    size_t length;
};

static bool is_failed(const char *what, int status, const struct pto_error *error)
{
    if (status < 0)
        fprintf(stderr, "service: %s: %s\n", what,
                error->text[0] != '\0' ? error->text : pto_strerror(status));
    return status < 0;
}

/* ---- before the first request, and after the last ---- */

static bool build_graph(struct service *s, struct place *p)
{
    struct pto_run_options options;
    struct pto_run_report report;

    p->tensor = pto_tensor_external(p->heat, PTO_DIMS(ROD), 1, PTO_FLOAT32);
    p->entry = (struct pto_entry){ 1, 1, &p->tensor, &p->steps };
    pto_run_options_init(&options);
    pto_run_report_init(&report);
    (void)pto_run_options_vary(&options, 0); /* the orchestration passes the steps on */
    return !is_failed(
        "no graph",
        pto_graph_build(s->device, s->callable, &p->entry, &options, &report, &p->graph),
        &report.error);
}

static bool start(struct service *s, const char *path)
{
    struct pto_device_params params;
    struct pto_error error;

    pto_error_init(&error);
    pto_device_params_init(&params);
    params.error = &error;
    if (is_failed("no device", pto_device_open(&params, &s->device), &error) ||
        is_failed(path, pto_callable_load_file(path, NULL, &s->callable, &error), &error) ||
        is_failed(path, pto_register(s->device, s->callable, &error), &error))
        return false;
    for (uint32_t i = 0; i < PLACES; i++)
        if (!build_graph(s, &s->place[i]))
            return false;
    return true;
}

/* In reverse: a graph needs its callable and its device. */
static void stop(struct service *s)
{
    for (uint32_t i = 0; i < PLACES; i++)
        if (s->place[i].graph != NULL)
            (void)pto_graph_destroy(s->place[i].graph);
    if (s->callable != NULL)
        (void)pto_callable_destroy(s->callable);
    if (s->device != NULL)
        (void)pto_device_close(s->device);
}

/* ---- requests ---- */

/* Launches it and returns at once. */
static void begin(struct service *s, const char *line)
{
    struct place *p = s->place;
    struct pto_run_options options;
    struct pto_error error;
    char *end;
    uint64_t steps = strtoull(line, &end, 10);
    int status;

    if (end == line || *end != '\0' || steps % 2 != 0) {
        printf("'%s' is not an even number of steps\n", line);
        return;
    }
    while (p->run != NULL) /* there is a free one, else nothing is read */
        p++;
    p->steps = steps;
    for (int i = 0; i < ROD; i++)
        p->heat[i] = i == 0 ? 1000 : 0;
    pto_error_init(&error);
    pto_run_options_init(&options);
    options.error = &error;
    options.timeout_ns = 10000000000; /* no wait is unlimited */
    status = pto_graph_prepare(p->graph, &p->entry, &options, &p->run);
    if (status == PTO_OK)
        status = pto_run_launch(p->run);
    if (is_failed("no launch", status, &error)) {
        if (p->run != NULL)
            (void)pto_run_finish(p->run, NULL);
        p->run = NULL;
        return;
    }
    s->busy++;
}

/* Its run has ended. */
static void finish(struct service *s, struct place *p)
{
    struct pto_run_report report;

    pto_run_report_init(&report);
    if (!is_failed("a run", pto_run_finish(p->run, &report), &report.error))
        printf("%llu steps: %g at the end of the rod\n", (unsigned long long)p->steps, p->heat[0]);
    p->run = NULL;
    s->busy--;
}

/* Reads one character, so that poll() reports the rest; a line is a request. */
static void read_request(struct service *s)
{
    char c;
    ssize_t got = read(STDIN_FILENO, &c, 1);

    s->is_over = got == 0 || (got < 0 && errno != EINTR);
    if (got == 1 && c != '\n') {
        if (s->length < sizeof(s->line) - 1)
            s->line[s->length++] = c;
    } else if (got == 1 || (s->is_over && s->length != 0)) {
        s->line[s->length] = '\0';
        s->length = 0;
        begin(s, s->line);
    }
}

/* ---- the loop ---- */

static void serve(struct service *s)
{
    while (!s->is_over || s->busy != 0) {
        struct pollfd wait[PLACES + 1];

        for (uint32_t i = 0; i < PLACES; i++) /* a negative descriptor is passed over */
            wait[i] =
                (struct pollfd){ .fd = s->place[i].run != NULL ? pto_run_fd(s->place[i].run) : -1,
                                 .events = POLLIN };
        wait[PLACES] = (struct pollfd){ .fd = s->is_over || s->busy == PLACES ? -1 : STDIN_FILENO,
                                        .events = POLLIN };
        if (poll(wait, PLACES + 1, -1) < 0 && errno != EINTR)
            return;
        for (uint32_t i = 0; i < PLACES; i++)
            if (wait[i].fd >= 0 && (wait[i].revents & POLLIN) != 0)
                finish(s, &s->place[i]);
        if (wait[PLACES].fd >= 0 && wait[PLACES].revents != 0)
            read_request(s);
        fflush(stdout);
    }
}

int main(int argc, char **argv)
{
    static struct service s;
    bool is_started;

    if (argc != 2) {
        fprintf(stderr, "usage: service GANG.ptoc <REQUESTS\n");
        return 2;
    }
    is_started = start(&s, argv[1]);
    if (is_started)
        serve(&s);
    stop(&s);
    return is_started ? 0 : 1;
}
