/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A switch in user space that delays, loses and repeats frames, for kernels without netem:
 *
 *     lossy_switch DELAY_US LOSS_PPM TWICE_PPM INTERFACE...
 *
 * A frame of one interface goes to all others after the delay. What a host has left to its network
 * card to do, checksums and segments, travels in the header in front of a frame (PACKET_VNET_HDR).
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { WAITING_MAX = 8192, FRAME_MAX = 65536 + 128, PORTS_MAX = 8, MILLION = 1000000 };

struct waiting {
    uint64_t due_ns;
    int from;
    ssize_t bytes;
    char *frame;
};

static struct waiting waiting[WAITING_MAX];
static uint32_t first,
    next; /* ring of frames that wait: from `first` to `next` - 1, in the order of their times */
static int port[PORTS_MAX];
static int port_count;
static uint64_t seed = 1;

static uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static bool happens(uint32_t ppm)
{
    seed = seed * 6364136223846793005ull + 1442695040888963407ull;
    return (seed >> 33) % MILLION < ppm;
}

static int open_port(const char *interface)
{
    struct sockaddr_ll at = { .sll_family = AF_PACKET,
                              .sll_protocol = htons(ETH_P_ALL),
                              .sll_ifindex = (int)if_nametoindex(interface) };
    struct packet_mreq all = { .mr_ifindex = at.sll_ifindex, .mr_type = PACKET_MR_PROMISC };
    int made = socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, htons(ETH_P_ALL));
    int one = 1, large = 16 << 20;

    (void)setsockopt(made, SOL_PACKET, PACKET_VNET_HDR, &one, sizeof(one));
    (void)setsockopt(made, SOL_PACKET, PACKET_IGNORE_OUTGOING, &one, sizeof(one));
    (void)setsockopt(made, SOL_SOCKET, SO_RCVBUFFORCE, &large, sizeof(large));
    (void)setsockopt(made, SOL_SOCKET, SO_SNDBUFFORCE, &large, sizeof(large));
    (void)setsockopt(made, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &all, sizeof(all));
    if (bind(made, (struct sockaddr *)&at, sizeof(at)) != 0) {
        perror(interface);
        exit(1);
    }
    return made;
}

static void send_due(void)
{
    for (; first != next && waiting[first % WAITING_MAX].due_ns <= now_ns(); first++) {
        struct waiting *w = &waiting[first % WAITING_MAX];

        for (int i = 0; i < port_count; i++)
            if (i != w->from)
                (void)!send(port[i], w->frame, (size_t)w->bytes, 0);
        free(w->frame);
    }
}

static void keep(const char *frame, ssize_t bytes, int from, uint64_t delay_ns)
{
    struct waiting *w = &waiting[next % WAITING_MAX];

    if (next - first == WAITING_MAX)
        return; /* dropped, as in a switch whose queue is full */
    *w = (struct waiting){ now_ns() + delay_ns, from, bytes, malloc((size_t)bytes) };
    if (w->frame == NULL)
        exit(1);
    memcpy(w->frame, frame, (size_t)bytes);
    next++;
}

int main(int argc, char **argv)
{
    static char frame[FRAME_MAX];
    struct pollfd look[PORTS_MAX];
    uint64_t delay_ns;
    uint32_t loss, twice;

    if (argc < 5 || argc - 4 > PORTS_MAX)
        return 2;
    delay_ns = (uint64_t)atoi(argv[1]) * 1000;
    loss = (uint32_t)atoi(argv[2]);
    twice = (uint32_t)atoi(argv[3]);
    port_count = argc - 4;
    for (int i = 0; i < port_count; i++) {
        port[i] = open_port(argv[4 + i]);
        look[i] = (struct pollfd){ port[i], POLLIN, 0 };
    }
    for (;;) {
        struct timespec pause = { 0, first != next ? 100000 : 100000000 };
        ssize_t bytes;

        (void)ppoll(look, (nfds_t)port_count, &pause, NULL);
        for (int i = 0; i < port_count; i++)
            while ((bytes = recv(port[i], frame, sizeof(frame), 0)) > 0) {
                if (happens(loss))
                    continue;
                keep(frame, bytes, i, delay_ns);
                if (happens(twice))
                    keep(frame, bytes, i, delay_ns);
            }
        send_due();
    }
}
