/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cores of the stand-in: threads, each with a page of registers at the vendor's strides. An access
 * to a page outside of the registers crashes, and one core of the older generation is missing, as
 * on real cards.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <dlfcn.h>
#include <elf.h>
#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "tests/standin/standin.h"
#include "tests/standin/sync_page.h"

enum {
    MIB = 1 << 20,
    A2_CORES = 25,
    A2_ABSENT = 7, /* number of the missing core */
    A5_CORES = 36,
    A5_PER_DIE = 18,
    WINDOW_BYTES = 0x6000,
    SPINS = 200,
    /* longest sleep of the control processor, because requests ring no doorbell */
    IDLE_NS = 1000000,
    DOZE_NS = 64000000, /* longest sleep of a core, which its doorbell wakes */
    CORE_LATE = 507014,
    CORE_EXCEPTION = 507015,
    LOOK_US = 20, /* interval between two checks of bells that another process rings */
    FLAGS = 16,   /* flags by which cores signal each other */
    FLAG_MAX = 15,
    SYNC_LOOK_NS = 1000000,
    CORES_OF_BLOCK = 3,
};

/* As published: a message has the mode in bits 4 and 5, and the flag in bits 8 to 11. */
enum sync_mode { SYNC_ALIKE, SYNC_VECTORS, SYNC_CLUSTER, SYNC_MODES };

struct core_here {
    uint32_t block;
    uint32_t sub_block;
    uint32_t number;
    uint32_t card;
    uint32_t seen;      /* of the bell */
    uint64_t main_base; /* value that was read last, and how often it was read */
    uint32_t reads;
    uint64_t ctrl;
    char *window;
    bool is_aiv;
    void (*entry)(void *board);
    void *args;
    pthread_t thread;
    bool has_come;
    bool is_in_kernel;
    bool has_ended; /* the entry of the core has returned; atomic */
    enum core_plan plan;
    uint32_t bell_reported; /* bell on the way to the core, if the control processor is a process */
    /* Signals; all fields are protected by sync_lock. */
    struct core_here *all; /* cores of the launch: those of block 0, then those of block 1 ... */
    uint32_t all_count;
    uint64_t sync_base;
    /* number of signals that have arrived and that no core has waited for */
    uint32_t flag[FLAGS];
    uint32_t sent[SYNC_MODES]
                 [FLAGS]; /* number of cores that have sent it and wait for the other senders */
};

static __thread struct core_here *here;
static __thread uint32_t cpu_event; /* value that the control processor saw last */

static void futex_wait(uint32_t *word, uint32_t value, uint32_t most_ns)
{
    struct timespec most = { 0, most_ns };

    (void)syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, &most, NULL, 0);
}

static void futex_wake(uint32_t *word)
{
    (void)syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL, NULL, 0);
}

/* ---- registers ---- */

static uint32_t bell_offset(void)
{
    return standin.is_a5 ? 0xd0 : 0xa0;
}

static uint32_t cond_offset(void)
{
    return standin.is_a5 ? 0x5108 : 0x4c8;
}

static size_t stride(void)
{
    return (standin.is_a5 ? 3 : 8) * (size_t)MIB;
}

bool standin_has_core(uint32_t index)
{
    return standin.is_a5 ? index < A5_CORES : index < A2_CORES && index != A2_ABSENT;
}

uint32_t standin_core_numbers(void)
{
    return standin.is_a5 ? A5_CORES : A2_CORES;
}

int standin_map_registers(uint32_t card)
{
    struct card *c = &standin.card[card];
    size_t bytes = standin_core_numbers() * stride();

    if (c->registers != NULL)
        return 0;
    pthread_mutex_lock(&standin.lock);
    c->registers = standin_map(bytes, PROT_NONE);
    pthread_mutex_unlock(&standin.lock);
    c->register_bytes = bytes;
    for (uint32_t i = 0; i < standin_core_numbers(); i++)
        for (uint32_t sub = 0; sub < 3 && standin_has_core(i); sub++)
            if (mprotect(c->registers + i * stride() + sub * (size_t)MIB, WINDOW_BYTES,
                         PROT_READ | PROT_WRITE) != 0)
                return 6;
    return 0;
}

/* Returns the core with this physical number. */
char *standin_window(uint32_t card, uint32_t number)
{
    uint32_t per_die = standin.is_a5 ? A5_PER_DIE : A2_CORES;
    uint32_t die = number / (3 * per_die), rest = number % (3 * per_die);
    uint32_t core = die * per_die + (rest < per_die ? rest : (rest - per_die) / 2);
    uint32_t sub = rest < per_die ? 0 : 1 + (rest - per_die) % 2;

    return standin.card[card].registers + core * stride() + sub * (size_t)MIB;
}

uint32_t standin_list_windows(uint32_t card, struct cpu_range *range)
{
    const struct card *c = &standin.card[card];
    uint32_t count = 0;

    for (uint32_t i = 0; i < standin_core_numbers() && c->registers != NULL; i++)
        for (uint32_t sub = 0; sub < 3 && standin_has_core(i); sub++)
            range[count++] = (struct cpu_range){
                (uint64_t)(uintptr_t)c->registers + i * stride() + sub * (uint64_t)MIB, WINDOW_BYTES
            };
    return count;
}

static uint32_t *word_at(char *at)
{
    return (uint32_t *)(void *)at;
}

EXPORT uint32_t standin_register(uint64_t addr)
{
    return __atomic_load_n(word_at((char *)(uintptr_t)addr), __ATOMIC_ACQUIRE);
}

EXPORT void standin_set_register(uint64_t addr, uint32_t value)
{
    __atomic_store_n(word_at((char *)(uintptr_t)addr), value, __ATOMIC_RELEASE);
    futex_wake(word_at((char *)(uintptr_t)addr));
}

/* The control processor is idle: waits until a core answers, or for a moment. */
EXPORT void standin_idle(uint32_t times)
{
    struct context *context = standin_here;
    struct card *card = &standin.card[context != NULL ? context->card : 0];
    uint32_t *event = &card->event;
    uint32_t now = __atomic_load_n(event, __ATOMIC_ACQUIRE);

    if (standin_escape != NULL &&
        (__atomic_load_n(&card->is_aborting, __ATOMIC_ACQUIRE) != 0 || standin_is_cpu_late()))
        longjmp(*standin_escape, 1);
    if (times > SPINS && now == cpu_event)
        futex_wait(event, now, IDLE_NS);
    cpu_event = now;
}

void standin_wake(uint32_t card)
{
    __atomic_fetch_add(&standin.card[card].event, 1, __ATOMIC_ACQ_REL);
    futex_wake(&standin.card[card].event);
}

/* ---- what the executor sees ---- */

uint64_t standin_now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static bool is_ending(struct card *c)
{
    uint32_t none = 0;

    if (standin.op_ms != 0 && standin_now_ms() - c->core_begin_ms > standin.op_ms)
        (void)__atomic_compare_exchange_n(&c->core_error, &none, CORE_LATE, false, __ATOMIC_ACQ_REL,
                                          __ATOMIC_ACQUIRE);
    return __atomic_load_n(&c->is_aborting, __ATOMIC_ACQUIRE) != 0 ||
           __atomic_load_n(&c->core_error, __ATOMIC_ACQUIRE) != 0;
}

EXPORT uint32_t standin_core_block(void);
EXPORT uint32_t standin_core_sub_block(void);
EXPORT uint32_t standin_core_number(void);
EXPORT uint32_t standin_core_bell(void);
EXPORT void standin_core_set_cond(uint32_t value);
EXPORT void standin_core_idle(uint32_t times);

uint32_t standin_core_block(void)
{
    return here->block;
}

uint32_t standin_core_sub_block(void)
{
    return here->sub_block;
}

uint32_t standin_core_number(void)
{
    return here->number;
}

void standin_core_enter_kernel(void)
{
    here->is_in_kernel = true;
    (void)__atomic_fetch_add(&standin.card[here->card].in_kernels, 1, __ATOMIC_ACQ_REL);
}

static void leave_kernel(void)
{
    if (here->is_in_kernel)
        (void)__atomic_fetch_sub(&standin.card[here->card].in_kernels, 1, __ATOMIC_ACQ_REL);
    here->is_in_kernel = false;
}

uint32_t standin_core_bell(void)
{
    leave_kernel();
    if (!here->has_come) {
        here->has_come = true;
        (void)__atomic_fetch_add(&standin.card[here->card].cores_come, 1, __ATOMIC_ACQ_REL);
    }
    here->seen = __atomic_load_n(word_at(here->window + bell_offset()), __ATOMIC_ACQUIRE);
    return here->seen;
}

/* The plan can delay what a core writes: for a while, or until its card is reset. */
static void wait_as_planned(void)
{
    for (uint32_t left_ms = standin_cond_delay(); left_ms != 0; left_ms -= left_ms != UINT32_MAX) {
        if (is_ending(&standin.card[here->card]))
            pthread_exit(NULL);
        usleep(1000);
    }
}

void standin_core_set_cond(uint32_t value)
{
    leave_kernel();
    wait_as_planned();
    __atomic_store_n(word_at(here->window + cond_offset()), value, __ATOMIC_RELEASE);
    standin_wake(here->card);
}

/*
 * A core without a job checks less and less often whether its card is reset. Each check takes CPU
 * time from working cores: four cards have a hundred cores.
 */
static uint32_t doze_ns(uint32_t times)
{
    return times < DOZE_NS / IDLE_NS ? times * IDLE_NS : DOZE_NS;
}

void standin_core_idle(uint32_t times)
{
    leave_kernel();
    if (is_ending(&standin.card[here->card]))
        pthread_exit(NULL);
    if (times > SPINS)
        futex_wait(word_at(here->window + bell_offset()), here->seen, doze_ns(times - SPINS));
}

/* ---- signals between cores ---- */

static pthread_mutex_t sync_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t sync_changed = PTHREAD_COND_INITIALIZER;

static _Noreturn void fail_core(void)
{
    __atomic_store_n(&standin.card[here->card].core_error, CORE_EXCEPTION, __ATOMIC_RELEASE);
    leave_kernel();
    pthread_exit(NULL);
}

/* What a real core does then is unknown; a kernel must not do this. */
static void check_sync(const char *doing, uint64_t flag)
{
    const char *sync = standin.card[here->card].sync;

    if (sync != NULL && here->sync_base == (uint64_t)(uintptr_t)sync && flag < FLAGS)
        return;
    standin_violation("core %u %s flag %llu, and its sync address is %#llx, not %p", here->number,
                      doing, (unsigned long long)flag, (unsigned long long)here->sync_base,
                      (const void *)sync);
    fail_core();
}

static void arrive(struct core_here *core, uint64_t flag)
{
    if (core->flag[flag]++ >= FLAG_MAX)
        standin_violation("flag %llu of core %u has more signals than it can count",
                          (unsigned long long)flag, core->number);
}

/* Whether a core takes part in a signal of the calling core in this mode. */
static bool is_sender(const struct core_here *core, enum sync_mode mode)
{
    return core->is_aiv == here->is_aiv && (mode == SYNC_ALIKE || core->block == here->block);
}

/*
 * The signal arrives when all senders have sent it: the cores of this type in the launch, or those
 * of a cluster.
 */
static void combine(enum sync_mode mode, uint64_t flag)
{
    for (uint32_t i = 0; i < here->all_count; i++)
        if (is_sender(&here->all[i], mode) && here->all[i].sent[mode][flag] == 0)
            return;
    for (uint32_t i = 0; i < here->all_count; i++) {
        struct core_here *core = &here->all[i];
        bool is_receiver = mode == SYNC_CLUSTER
                               ? core->block == here->block && core->is_aiv != here->is_aiv
                               : is_sender(core, mode);

        if (is_sender(core, mode))
            core->sent[mode][flag]--;
        if (is_receiver)
            arrive(core, flag);
    }
}

static uint64_t sync_set_base(uint64_t at)
{
    return here->sync_base = at;
}

static uint64_t sync_signal(uint64_t message)
{
    enum sync_mode mode = (enum sync_mode)(message >> 4 & 3);
    uint64_t flag = message >> 8 & (FLAGS - 1);

    check_sync("signals", mode < SYNC_MODES ? flag : FLAGS);
    pthread_mutex_lock(&sync_lock);
    here->sent[mode][flag]++;
    combine(mode, flag);
    pthread_cond_broadcast(&sync_changed);
    pthread_mutex_unlock(&sync_lock);
    return 0;
}

static uint64_t sync_wait(uint64_t flag)
{
    bool is_over = false;

    check_sync("waits for", flag);
    pthread_mutex_lock(&sync_lock);
    while (here->flag[flag] == 0 && !is_over) {
        struct timespec at;

        clock_gettime(CLOCK_REALTIME, &at);
        at.tv_nsec += SYNC_LOOK_NS;
        at.tv_sec += at.tv_nsec / 1000000000;
        at.tv_nsec %= 1000000000;
        (void)pthread_cond_timedwait(&sync_changed, &sync_lock, &at);
        is_over = is_ending(&standin.card[here->card]);
    }
    if (!is_over)
        here->flag[flag]--;
    pthread_mutex_unlock(&sync_lock);
    if (is_over) {
        leave_kernel();
        pthread_exit(NULL);
    }
    return 0;
}

/* ---- other registers ---- */

static uint64_t count_blocks(uint64_t unused)
{
    (void)unused;
    return here->all_count / CORES_OF_BLOCK;
}

static uint64_t get_ctrl(uint64_t unused)
{
    (void)unused;
    return here->ctrl;
}

static uint64_t set_ctrl(uint64_t value)
{
    return here->ctrl = value;
}

/*
 * Returns the bell register as the instruction reads it: the bell and the word after it. A polling
 * core sleeps a little when nothing has changed for a while. The sleeps are short, because a
 * control processor that only stores wakes no thread.
 */
static uint64_t read_main_base(uint64_t unused)
{
    uint64_t low = standin_core_bell();
    uint64_t value =
        low | (uint64_t)__atomic_load_n(word_at(here->window + bell_offset() + 4), __ATOMIC_ACQUIRE)
                  << 32;

    (void)unused;
    here->reads = value == here->main_base ? here->reads + 1 : 0;
    here->main_base = value;
    if (is_ending(&standin.card[here->card]))
        pthread_exit(NULL);
    if (here->reads > SPINS)
        futex_wait(word_at(here->window + bell_offset()), here->seen, IDLE_NS);
    return value;
}

/*
 * Kernels have no library and are not linked with the stand-in: intrinsics that are more than an
 * instruction are called through a page at an address that is free in every variant of a program.
 */
void standin_map_sync(void)
{
    static uint64_t (*const functions[SYNC_FUNCTIONS])(uint64_t) = {
        [SYNC_SET_BASE] = sync_set_base,  [SYNC_SIGNAL] = sync_signal, [SYNC_WAIT] = sync_wait,
        [SYNC_BLOCKS] = count_blocks,     [SYNC_GET_CTRL] = get_ctrl,  [SYNC_SET_CTRL] = set_ctrl,
        [SYNC_MAIN_BASE] = read_main_base
    };
    void *page = mmap((void *)SYNC_PAGE, 4096, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

    if (page != (void *)SYNC_PAGE) {
        fprintf(stderr, "standin: the page at %#lx is not free\n", SYNC_PAGE);
        abort();
    }
    memcpy(page, functions, sizeof(functions));
}

/* ---- launches ---- */

/* An exception of one core ends all cores of the launch; the control processor is not notified. */
static void *core_main(void *arg)
{
    struct card *c;

    here = arg;
    c = &standin.card[here->card];
    if (here->plan == CORE_FAILS)
        __atomic_store_n(&c->core_error, CORE_EXCEPTION, __ATOMIC_RELEASE);
    while (here->plan == CORE_IS_SILENT && !is_ending(c))
        usleep(LOOK_US);
    if (here->plan == CORE_RUNS)
        here->entry(here->args);
    __atomic_store_n(&here->has_ended, true, __ATOMIC_RELEASE);
    return NULL;
}

/*
 * A control processor in another process rings by storing: this function wakes sleeping cores,
 * until all of them have ended or the card is reset.
 */
static void ring_for(struct core_here *core, uint32_t count, struct card *c)
{
    uint32_t ended = 0;

    while (ended < count && !is_ending(c)) {
        ended = 0;
        for (uint32_t i = 0; i < count; i++) {
            uint32_t *bell = word_at(core[i].window + bell_offset());
            uint32_t value = __atomic_load_n(bell, __ATOMIC_ACQUIRE);

            ended += __atomic_load_n(&core[i].has_ended, __ATOMIC_ACQUIRE);
            if (value == core[i].bell_reported)
                continue;
            core[i].bell_reported = value;
            futex_wake(bell);
        }
        usleep(LOOK_US);
    }
}

/* The last cores come first, so that the number of a block is not that of its core. */
static uint32_t core_of_block(uint32_t block)
{
    uint32_t core = standin_core_numbers() - 1;

    for (;; core--)
        if (standin_has_core(core) && block-- == 0)
            return core;
}

static uint32_t number_of(uint32_t core, uint32_t sub)
{
    uint32_t per_die = standin.is_a5 ? A5_PER_DIE : A2_CORES;
    uint32_t first = core / per_die * 3 * per_die;

    return sub == 0 ? first + core % per_die : first + per_die + 2 * (core % per_die) + sub - 1;
}

/* Returns one half of an entry. NULL: it does not exist. */
static void *find_half(const struct function *f, const char *half)
{
    char name[ENTRY_NAME + 16];

    snprintf(name, sizeof(name), "%s%s", f->entry->name, half);
    return dlsym(f->binary->handle, name);
}

int standin_run_cores(const struct function *function, uint32_t card, uint32_t blocks, void *args)
{
    struct core_here *core = calloc(3 * (size_t)blocks, sizeof(*core));
    void *entry[2] = { find_half(function, "_mix_aic"), find_half(function, "_mix_aiv") };
    void *board;
    uint32_t started = 0;
    int code;

    if (core == NULL || entry[0] == NULL || entry[1] == NULL) {
        free(core);
        return CORE_EXCEPTION;
    }
    standin.card[card].core_begin_ms = standin_now_ms();
    memcpy(&board, args, sizeof(board)); /* one pointer is all that it gets */
    for (uint32_t i = 0; i < 3 * blocks; i++) {
        uint32_t sub = i % 3;
        uint32_t number = number_of(core_of_block(i / 3), sub);

        core[i] = (struct core_here){ .block = i / 3,
                                      .sub_block = sub != 0 ? sub - 1 : 0,
                                      .number = number,
                                      .card = card,
                                      .window = standin_window(card, number),
                                      .is_aiv = sub != 0,
                                      .plan = standin_core_plan(),
                                      .all = core,
                                      .all_count = 3 * blocks,
                                      .args = board };
        *(void **)&core[i].entry = entry[sub != 0];
        standin_set_register((uint64_t)(uintptr_t)core[i].window + bell_offset() + 4, 0);
        standin_set_register((uint64_t)(uintptr_t)core[i].window + bell_offset(), 0);
        standin_set_register((uint64_t)(uintptr_t)core[i].window + cond_offset(), 0);
    }
    for (; started < 3 * blocks; started++)
        if (pthread_create(&core[started].thread, NULL, core_main, &core[started]) != 0)
            break;
    if (started < 3 * blocks)
        __atomic_store_n(&standin.card[card].is_aborting, 1, __ATOMIC_RELEASE);
    if (standin.cpu_command != NULL)
        ring_for(core, started, &standin.card[card]);
    for (uint32_t i = 0; i < started; i++)
        pthread_join(core[i].thread, NULL);
    free(core);
    code = started < 3 * blocks ? CORE_EXCEPTION : (int)standin.card[card].core_error;
    standin.card[card].core_error = 0;
    return code;
}
