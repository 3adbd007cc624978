/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control processor of the stand-in as a program for aarch64, under an emulator. It has only
 * the memory of its card in common with the host, so that addresses of the host are invalid here.
 *
 *     aicpusd FOLDER    of programs; the socket and the memory are descriptors that it was given
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/standin/cpu_process.h"

static struct cpu_range *mapped;
static uint32_t mapped_count;

static _Noreturn void leave(const char *why)
{
    fprintf(stderr, "aicpusd: %s: %s\n", why, strerror(errno));
    _exit(1);
}

/* Ends the process, because the host has ended. */
static void *watch(void *none)
{
    struct pollfd socket = { .fd = CPU_SOCKET, .events = POLLRDHUP };

    while (poll(&socket, 1, -1) < 0 && errno == EINTR)
        ;
    _exit(0);
    return none;
}

static bool take(void *to, size_t bytes)
{
    for (size_t at = 0; at < bytes;) {
        ssize_t count = read(CPU_SOCKET, (char *)to + at, bytes - at);

        if (count == 0 || (count < 0 && errno != EINTR))
            return false;
        at += count > 0 ? (size_t)count : 0;
    }
    return true;
}

static bool has(const struct cpu_range *range, uint32_t count, struct cpu_range wanted)
{
    for (uint32_t i = 0; i < count; i++)
        if (range[i].addr == wanted.addr && range[i].bytes == wanted.bytes)
            return true;
    return false;
}

/* Makes memory that was freed inaccessible, and memory that was allocated accessible. */
static void set_memory(struct cpu_range *range, uint32_t count)
{
    for (uint32_t i = 0; i < mapped_count; i++)
        if (!has(range, count, mapped[i]))
            munmap((void *)(uintptr_t)mapped[i].addr, mapped[i].bytes);
    for (uint32_t i = 0; i < count; i++)
        if (!has(mapped, mapped_count, range[i]) &&
            mmap((void *)(uintptr_t)range[i].addr, range[i].bytes, PROT_READ | PROT_WRITE,
                 MAP_SHARED | MAP_FIXED | MAP_NORESERVE, CPU_MEMORY,
                 (off_t)(range[i].addr - CARD_MEMORY)) == MAP_FAILED)
            leave("memory of the card cannot be mapped");
    free(mapped);
    mapped = range;
    mapped_count = count;
}

static uint32_t call(uint32_t (*function)(void *), void *args, void *context)
{
    (void)context;
    return function(args);
}

int main(int argc, char **argv)
{
    struct cpu_programs programs = { 0 };
    struct cpu_request request;
    pthread_t watcher;

    if (argc != 2 || pthread_create(&watcher, NULL, watch, NULL) != 0)
        leave("it cannot begin");
    while (take(&request, sizeof(request))) {
        struct cpu_range *range = calloc(request.range_count + 1, sizeof(*range));
        struct cpu_launch launch = { request.blocks, request.args, call, NULL };
        uint32_t answer;

        if (range == NULL || !take(range, request.range_count * sizeof(*range)))
            leave("a request is not complete");
        set_memory(range, request.range_count);
        answer = request.is_extend
                     ? cpu_programs_extend(&programs, argv[1], &launch)
                     : cpu_programs_run(&programs, argv[1], request.so, request.function, &launch);
        if (write(CPU_SOCKET, &answer, sizeof(answer)) != sizeof(answer))
            break;
    }
    return 0;
}
