/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control processor of a card as a separate process (STANDIN_AICPU), which is started when it
 * is first needed. A forced reset of the card ends it, and a new one is started.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/standin/standin.h"

enum { WORDS_MAX = 16, LOOK_MS = 20, FIRST_FREE = 10, CORES_US = 200, CORES_LOOKS = 100000 };

extern char **environ;

/* As large as all addresses of a card; only pages that are written use memory. */
int standin_memory_file(void)
{
    int file = memfd_create("standin", MFD_CLOEXEC);

    if (file < 0 || ftruncate(file, 1ll << 44) != 0)
        abort();
    return file;
}

static bool start(struct card *c)
{
    char words[1024], *argv[WORDS_MAX + 2], *rest = NULL;
    posix_spawn_file_actions_t actions;
    int pair[2], count = 0, error, given, memory;

    snprintf(words, sizeof(words), "%s", standin.cpu_command);
    for (char *word = strtok_r(words, " ", &rest); word != NULL && count < WORDS_MAX;
         word = strtok_r(NULL, " ", &rest))
        argv[count++] = word;
    argv[count++] = standin.disk;
    argv[count] = NULL;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
        return false;
    /* Descriptor numbers that the other side does not use. */
    given = fcntl(pair[1], F_DUPFD_CLOEXEC, FIRST_FREE);
    memory = fcntl(standin.memory, F_DUPFD_CLOEXEC, FIRST_FREE);
    close(pair[1]);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, given, CPU_SOCKET);
    posix_spawn_file_actions_adddup2(&actions, memory, CPU_MEMORY);
    error = given < 0 || memory < 0 ? EMFILE
                                    : posix_spawnp(&c->cpu, argv[0], &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(given);
    close(memory);
    if (error != 0) {
        fprintf(stderr, "standin: %s: %s\n", argv[0], strerror(error));
        close(pair[0]);
        c->cpu = 0;
        return false;
    }
    c->cpu_socket = pair[0];
    return true;
}

void standin_process_end(struct card *c)
{
    if (c->cpu == 0)
        return;
    (void)kill(c->cpu, SIGKILL);
    while (waitpid(c->cpu, NULL, 0) < 0 && errno == EINTR)
        ;
    close(c->cpu_socket);
    c->cpu = 0;
}

/*
 * Lists all memory that the card's control processor may access: allocations and registers. The
 * lock is held.
 */
static struct cpu_range *list_memory(uint32_t card, uint32_t *count_out)
{
    uint32_t count = 0;
    struct cpu_range *range;

    for (const struct allocation *a = standin.allocations; a != NULL; a = a->next)
        count++;
    range = calloc(count + 3 * standin_core_numbers() + 1, sizeof(*range));
    if (range == NULL)
        abort();
    count = 0;
    for (const struct allocation *a = standin.allocations; a != NULL; a = a->next)
        if (a->card == card)
            range[count++] = (struct cpu_range){ (uint64_t)(uintptr_t)a->map, a->map_bytes };
    count += standin_list_windows(card, range + count);
    *count_out = count;
    return range;
}

static bool put(int socket, const void *from, size_t bytes)
{
    return send(socket, from, bytes, MSG_NOSIGNAL) == (ssize_t)bytes;
}

/* Returns 0 if there is no answer yet; -1: the process has ended. */
static int look_for_answer(struct card *c, uint32_t *answer)
{
    struct pollfd socket = { .fd = c->cpu_socket, .events = POLLIN };

    if (poll(&socket, 1, LOOK_MS) <= 0)
        return 0;
    return read(c->cpu_socket, answer, sizeof(*answer)) == sizeof(*answer) ? 1 : -1;
}

/*
 * Programs give cores 2 s to start, which is long for a card but short for threads of a busy
 * machine.
 */
static void await_cores(const struct card *c, uint32_t due)
{
    for (uint32_t i = 0; i < CORES_LOOKS &&
                         (int32_t)(__atomic_load_n(&c->cores_come, __ATOMIC_ACQUIRE) - due) < 0 &&
                         __atomic_load_n(&c->is_aborting, __ATOMIC_ACQUIRE) == 0;
         i++)
        usleep(CORES_US);
}

/* The lock of the process is held. */
static uint32_t run(uint32_t card, const struct cpu_request *wanted, uint32_t cores_due)
{
    struct card *c = &standin.card[card];
    struct cpu_request request = *wanted;
    struct cpu_range *range;
    uint32_t answer = 1;
    int got = 0;
    bool is_sent;

    if (c->cpu == 0 && !start(c))
        return 1;
    await_cores(c, cores_due);
    pthread_mutex_lock(&standin.lock);
    range = list_memory(card, &request.range_count);
    pthread_mutex_unlock(&standin.lock);
    is_sent = put(c->cpu_socket, &request, sizeof(request)) &&
              put(c->cpu_socket, range, request.range_count * sizeof(*range));
    free(range);
    while (is_sent && got == 0 && __atomic_load_n(&c->is_aborting, __ATOMIC_ACQUIRE) == 0 &&
           !standin_is_cpu_late())
        got = look_for_answer(c, &answer);
    if (got != 1)
        standin_process_end(c); /* the card was reset, or the process has already ended */
    return got == 1 ? answer : 1;
}

uint32_t standin_process_run(uint32_t card, const struct cpu_request *wanted, uint32_t cores_due)
{
    uint32_t answer;

    pthread_mutex_lock(&standin.card[card].cpu_lock);
    answer = run(card, wanted, cores_due);
    pthread_mutex_unlock(&standin.card[card].cpu_lock);
    return answer;
}
