/* SPDX-License-Identifier: Apache-2.0 */
/*
 * State of a card that several processes share: its health and its free memory. It is in a file on
 * the cards' disk that every process maps, so it outlives each of them: a card that was taken down
 * by one process is down for the next one, and two processes on one card share its memory. Memory
 * of a process is free again when the process ends, except memory that other processes have
 * imported.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/standin/standin.h"

enum { USERS = 64, LENT = 256, HOLDERS = 16 };

struct user {
    uint32_t pid;
    uint64_t bytes;
};

/* Physical memory, which is charged as long as any process holds it. */
struct lent {
    uint32_t key; /* 0: none */
    uint64_t bytes;
    uint32_t holder[HOLDERS];
};

struct shared_card {
    uint32_t health;
    uint32_t resets; /* number of forced resets since the card failed */
    uint32_t grace;  /* number of calls that are still answered as if the card worked */
    struct user user[USERS];
    struct lent lent[LENT];
};

static struct shared_card *cards; /* indexed by the driver's number of the card */
static int cards_file = -1;

void standin_open_cards(void)
{
    char path[300];

    snprintf(path, sizeof(path), "%s/cards", standin.disk);
    cards_file = open(path, O_CREAT | O_RDWR | O_CLOEXEC, 0600);
    if (cards_file < 0 || ftruncate(cards_file, CARDS_MAX * sizeof(*cards)) != 0)
        abort();
    cards =
        mmap(NULL, CARDS_MAX * sizeof(*cards), PROT_READ | PROT_WRITE, MAP_SHARED, cards_file, 0);
    if (cards == MAP_FAILED)
        abort();
}

/* Locks the file against other processes; a mutex already excludes other threads. */
static void lock_cards(short how)
{
    struct flock all = { .l_type = how, .l_whence = SEEK_SET };

    while (fcntl(cards_file, F_SETLKW, &all) != 0)
        if (errno != EINTR)
            abort();
}

static struct shared_card *card_of(uint32_t card)
{
    return &cards[standin_driver_card(card) % CARDS_MAX];
}

/* ---- health ---- */

enum health standin_health(uint32_t card)
{
    return (enum health)__atomic_load_n(&card_of(card)->health, __ATOMIC_ACQUIRE);
}

bool standin_is_answering(uint32_t card)
{
    return standin_health(card) == WELL ||
           (standin_health(card) == POISONED &&
            __atomic_load_n(&card_of(card)->grace, __ATOMIC_ACQUIRE) != 0);
}

void standin_worsen(uint32_t card, enum health health)
{
    struct shared_card *c = card_of(card);

    lock_cards(F_WRLCK);
    if (c->health == WELL)
        c->grace = standin.grace;
    if (c->health < (uint32_t)health)
        __atomic_store_n(&c->health, health, __ATOMIC_RELEASE);
    lock_cards(F_UNLCK);
}

void standin_age(uint32_t card)
{
    struct shared_card *c = card_of(card);

    if (standin_health(card) != POISONED)
        return;
    lock_cards(F_WRLCK);
    if (c->grace != 0 && --c->grace == 0)
        __atomic_store_n(&c->health, DOWN, __ATOMIC_RELEASE);
    lock_cards(F_UNLCK);
}

bool standin_heal(uint32_t card)
{
    struct shared_card *c = card_of(card);
    bool is_well;

    lock_cards(F_WRLCK);
    is_well = c->health == WELL || ++c->resets >= standin.heals;
    if (is_well) {
        c->resets = 0;
        __atomic_store_n(&c->health, WELL, __ATOMIC_RELEASE);
    }
    lock_cards(F_UNLCK);
    return is_well;
}

/* ---- memory ---- */

static bool is_alive(uint32_t pid)
{
    return pid != 0 && (pid == (uint32_t)getpid() || kill((pid_t)pid, 0) == 0 || errno != ESRCH);
}

/* Releases what ended processes have held. The lock is held, also in all following functions. */
static uint64_t used_of(struct shared_card *c)
{
    uint64_t used = 0;

    for (uint32_t i = 0; i < USERS; i++) {
        if (!is_alive(c->user[i].pid))
            c->user[i] = (struct user){ 0 };
        used += c->user[i].bytes;
    }
    for (uint32_t i = 0; i < LENT; i++) {
        bool is_held = false;

        for (uint32_t k = 0; k < HOLDERS && c->lent[i].key != 0; k++)
            is_held = is_held || is_alive(c->lent[i].holder[k]);
        if (!is_held)
            c->lent[i] = (struct lent){ 0 };
        used += c->lent[i].bytes;
    }
    return used;
}

static struct user *user_of(struct shared_card *c)
{
    const uint32_t own = (uint32_t)getpid();
    struct user *free_one = NULL;

    for (uint32_t i = 0; i < USERS; i++) {
        if (c->user[i].pid == own)
            return &c->user[i];
        if (c->user[i].pid == 0)
            free_one = &c->user[i];
    }
    if (free_one == NULL)
        abort();
    free_one->pid = own;
    return free_one;
}

uint64_t standin_used(uint32_t card)
{
    uint64_t used;

    lock_cards(F_WRLCK);
    used = used_of(card_of(card));
    lock_cards(F_UNLCK);
    return used;
}

bool standin_take(uint32_t card, int64_t bytes)
{
    struct shared_card *c = card_of(card);
    bool has_room;

    lock_cards(F_WRLCK);
    has_room = bytes <= 0 || used_of(c) + (uint64_t)bytes <= standin.hbm;
    if (has_room)
        user_of(c)->bytes += (uint64_t)bytes;
    lock_cards(F_UNLCK);
    return has_room;
}

bool standin_lend(uint32_t card, uint32_t key, uint64_t bytes)
{
    struct shared_card *c = card_of(card);
    uint32_t i = 0;
    bool has_room;

    lock_cards(F_WRLCK);
    has_room = used_of(c) + bytes <= standin.hbm;
    while (i < LENT && c->lent[i].key != 0)
        i++;
    if (i == LENT)
        abort();
    if (has_room)
        c->lent[i] = (struct lent){ key, bytes, { (uint32_t)getpid() } };
    lock_cards(F_UNLCK);
    return has_room;
}

/* Replaces a holder by another one; 0: by none. */
static void change_holder(uint32_t driver_card, uint32_t key, uint32_t from, uint32_t to)
{
    struct shared_card *c = &cards[driver_card % CARDS_MAX];

    lock_cards(F_WRLCK);
    for (uint32_t i = 0; i < LENT; i++)
        for (uint32_t k = 0; k < HOLDERS && c->lent[i].key == key; k++)
            if (c->lent[i].holder[k] == from) {
                c->lent[i].holder[k] = to;
                break;
            }
    lock_cards(F_UNLCK);
}

void standin_hold(uint32_t driver_card, uint32_t key)
{
    change_holder(driver_card, key, 0, (uint32_t)getpid());
}

void standin_let_go(uint32_t driver_card, uint32_t key)
{
    change_holder(driver_card, key, (uint32_t)getpid(), 0);
}
