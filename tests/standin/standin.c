/* SPDX-License-Identifier: Apache-2.0 */
/* State, memory, streams, programs and launches of the stand-in; standin.h describes it. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include "tests/standin/standin.h"

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
    ERR_PARAM = 107000,
    ERR_DEVICE = 107001,
    ERR_CONTEXT = 107002,
    ERR_STREAM = 107003,
    ERR_FEATURE = 207000,
    ERR_MEMORY = 207001,
    ERR_RESET = 507007,
    ERR_CPU_LATE = 507017,
    ERR_CPU = 507018,
    ERR_LATE = 507046,
    ERR_DRIVER = 507899,
    ERR_LINK = 507901,
    COUNTERS = 64,
    PLANS = 32,
    TRACED = 1024,
    HANGS = -1, /* effects of planned calls that are not codes */
    GOES_DOWN = -2,
    KILLS = -3,
    DIES = -4,
    FLIPS = -5,
    WAITS = -6,
    FALLS = -7,
    AWAITS = -8,
    ENDS = -9,
    CPU_THREADS = 6,
    A2_CPU_MS = 28000,
    A3_CPU_MS = 60000,
    A5_CPU_MS = 28000,
    INTERVALS_MAX = 254, /* maximum number of intervals in a time limit */
    OPTION_LAZY = 1,
    OPTION_MAGIC = 2,
    OPTION_CPU_MODE = 3,
    ATTRIBUTE_SCHEM = 1,
    ATTRIBUTE_TIMEOUT_S = 7,
    ATTRIBUTE_TIMEOUT_US = 8,
    MAGIC = 0x43554245,
    MAGIC_CUBE = 0x41494343,
    MAGIC_VECTOR = 0x41415246,
    HEADROOM = 4096, /* bytes on the card in addition to a program's copy */
    STUCK_MS = 2000, /* time that a kernel gets to end when its card is reset by force */
    /* time for everything else, because other processes use the machine as well */
    FORCED_MS = 60000,
    DESTROYED_MS = 5000,
};

struct standin standin = { .lock = PTHREAD_MUTEX_INITIALIZER,
                           .changed = PTHREAD_COND_INITIALIZER,
                           .address = CARD_MEMORY };
__thread struct context *standin_here;
__thread jmp_buf *standin_escape;
__thread uint64_t standin_cpu_until_ms;
static __thread int64_t flips = -1; /* number of the byte in which the next copy has a wrong bit */

static struct {
    char name[NAME_MAX_BYTES];
    uint64_t count;
} counter[COUNTERS];

static struct planned {
    char name[NAME_MAX_BYTES];
    uint64_t first, last;
    int code;
    uint32_t number; /* parameter of the effect: milliseconds, or a byte */
} plan[PLANS];
static uint32_t plan_count;
static const char *called[TRACED]; /* the names are string literals, so they stay valid */
static char met[NAME_MAX_BYTES];   /* the planned call that was made last */

/* ---- set-up and accounts ---- */

static uint64_t number_from(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);

    return text != NULL && text[0] != '\0' ? strtoull(text, NULL, 0) : otherwise;
}

/* Parses a code, or one of the words for effects. */
static void read_what(struct planned *p, const char *text)
{
    static const struct {
        const char *word;
        int code;
    } words[] = { { "hang", HANGS }, { "down", GOES_DOWN }, { "kill", KILLS },
                  { "die", DIES },   { "flip(", FLIPS },    { "delay(", WAITS },
                  { "fall", FALLS }, { "await", AWAITS },   { "exit", ENDS } };

    p->code = (int)strtol(text, NULL, 10);
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (strncmp(text, words[i].word, strlen(words[i].word)) == 0)
            p->code = words[i].code;
    if (p->code == WAITS || p->code == FLIPS)
        p->number = (uint32_t)strtoul(strchr(text, '(') + 1, NULL, 10);
}

static void read_plan(const char *text)
{
    while (text != NULL && *text != '\0' && plan_count < PLANS) {
        struct planned *p = &plan[plan_count];
        size_t length = strcspn(text, "@");
        char *end;

        if (text[length] == '\0' || length >= NAME_MAX_BYTES)
            break;
        memcpy(p->name, text, length);
        p->name[length] = '\0';
        p->first = p->last = strtoull(text + length + 1, &end, 10);
        if (strncmp(end, "..", 2) == 0)
            p->last = strtoull(end + 2, &end, 10);
        if (*end != '=')
            break;
        read_what(p, end + 1);
        plan_count++;
        end += strcspn(end, ";");
        text = *end == ';' ? end + 1 : NULL;
    }
}

/* Under the lock. */
static void place_programs(void)
{
    const char *how = getenv("STANDIN_FOLDERS");
    bool is_moved = how != NULL && strcmp(how, "moved") == 0;
    bool is_apart = is_moved || (how != NULL && strcmp(how, "server") == 0);

    snprintf(standin.known_folder, sizeof(standin.known_folder), "%s%s", standin.disk,
             is_moved ? "/gone" : "");
    snprintf(standin.server_folder, sizeof(standin.server_folder), "%s%s", standin.disk,
             is_apart ? "/server" : "");
    snprintf(standin.program_folder, sizeof(standin.program_folder), "%s",
             is_moved ? standin.server_folder : standin.disk);
    if (is_apart && mkdir(standin.server_folder, 0700) != 0 && errno != EEXIST)
        abort();
}

EXPORT const char *standin_known_folder(void);
const char *standin_known_folder(void)
{
    return standin.known_folder;
}

/* Under the lock. */
static void get_ready(void)
{
    const char *soc = getenv("STANDIN_SOC");
    const char *disk = getenv("STANDIN_DISK");

    if (standin.is_ready)
        return;
    standin.is_ready = true;
    standin.process = getpid();
    snprintf(standin.soc, sizeof(standin.soc), "%s", soc != NULL ? soc : "Ascend910B3");
    standin.is_a5 = strncmp(standin.soc, "Ascend950", 9) == 0;
    standin.card_count = (uint32_t)number_from("STANDIN_CARDS", 2);
    standin.hbm = number_from("STANDIN_HBM", 1ull << 30);
    standin.heals = (uint32_t)number_from("STANDIN_HEALS", 1);
    standin.grace = (uint32_t)number_from("STANDIN_GRACE", 0);
    standin.op_ms = (uint32_t)number_from("STANDIN_OP_MS", 0);
    standin.cpu_ms =
        number_from("STANDIN_CPU_MS", standin.is_a5                                   ? A5_CPU_MS
                                      : strncmp(standin.soc, "Ascend910_93", 12) == 0 ? A3_CPU_MS
                                                                                      : A2_CPU_MS);
    standin.busy = (uint32_t)number_from("STANDIN_BUSY", 0);
    standin.is_mute =
        getenv("STANDIN_EVENTS") != NULL && strcmp(getenv("STANDIN_EVENTS"), "mute") == 0;
    standin.is_part = getenv("STANDIN_PART") != NULL && getenv("STANDIN_PART")[0] != '\0';
    if (disk != NULL) {
        snprintf(standin.disk, sizeof(standin.disk), "%s", disk);
    } else {
        snprintf(standin.disk, sizeof(standin.disk), "/tmp/standin-XXXXXX");
        standin.is_own_disk = mkdtemp(standin.disk) != NULL;
    }
    place_programs();
    standin_map_sync();
    standin_open_cards();
    read_plan(getenv("STANDIN_PLAN"));
    standin.cpu_command = getenv("STANDIN_AICPU");
    if (standin.cpu_command != NULL)
        standin.memory = standin_memory_file();
}

/* Waits until a card is reset by force, or there is another plan. The lock is held. */
static int hang(void)
{
    uint64_t epoch = standin.epoch;

    while (standin.epoch == epoch)
        pthread_cond_wait(&standin.changed, &standin.lock);
    return ERR_LINK;
}

/* Kills control processors that are processes; no other thread is notified. The lock is held. */
static void kill_processors(void)
{
    for (uint32_t i = 0; i < CARDS_MAX; i++)
        if (standin.card[i].cpu != 0)
            (void)kill(standin.card[i].cpu, SIGKILL);
}

/* Under the lock. */
static int go_down(void)
{
    for (uint32_t i = 0; i < CARDS_MAX; i++)
        if (standin.card[i].references != 0) {
            standin_worsen(i, DOWN);
            __atomic_store_n(&standin.card[i].is_aborting, 1, __ATOMIC_RELEASE);
        }
    return ERR_LINK;
}

void standin_plan(const char *text)
{
    pthread_mutex_lock(&standin.lock);
    get_ready();
    plan_count = 0;
    met[0] = '\0';
    read_plan(text);
    memset(counter, 0, sizeof(counter));
    standin.calls = 0;
    standin.epoch++;
    pthread_cond_broadcast(&standin.changed);
    pthread_mutex_unlock(&standin.lock);
}

const char *standin_call(uint64_t number)
{
    return number - 1 < standin.calls && number <= TRACED ? called[number - 1] : NULL;
}

const char *standin_met(void)
{
    return met[0] != '\0' ? met : NULL;
}

/* The lock is held, and released during the wait. */
static int delay(uint32_t ms)
{
    pthread_mutex_unlock(&standin.lock);
    usleep(1000 * ms);
    pthread_mutex_lock(&standin.lock);
    return 0;
}

static bool has_failed(const struct card *c)
{
    for (const struct stream *s = c->streams; s != NULL; s = s->next)
        if (s->error != 0)
            return true;
    return false;
}

/*
 * Waits until a launch on the card of the calling thread has failed, or there is another plan. The
 * lock is held.
 */
static void await_failure(void)
{
    uint64_t epoch = standin.epoch;

    while (standin_here != NULL && standin.epoch == epoch &&
           !has_failed(&standin.card[standin_here->card]))
        pthread_cond_wait(&standin.changed, &standin.lock);
}

/* Executes the planned effect. The lock is held. */
static int follow_plan(const struct planned *p)
{
    switch (p->code) {
    case HANGS:
        return hang();
    case GOES_DOWN:
        return go_down();
    case KILLS:
        kill_processors();
        return 0;
    case DIES:
        return kill(getpid(), SIGKILL);
    case ENDS:
        _exit(3);
    case FLIPS:
        flips = (int64_t)p->number;
        return 0;
    case WAITS:
        return delay(p->number);
    case FALLS:
        (void)go_down();
        return 0;
    case AWAITS:
        await_failure();
        return 0;
    default:
        return p->code;
    }
}

/*
 * Counts a call of this name, and returns its planned effect; NULL: nothing is planned. The lock is
 * held.
 */
static const struct planned *find_plan(const char *name, bool is_call)
{
    const struct planned *found = NULL;
    uint32_t i = 0;

    while (i < COUNTERS - 1 && counter[i].name[0] != '\0' && strcmp(counter[i].name, name) != 0)
        i++;
    snprintf(counter[i].name, sizeof(counter[i].name), "%s", name);
    counter[i].count++;
    for (uint32_t k = 0; k < plan_count; k++) {
        bool is_any = strcmp(plan[k].name, "*") == 0;
        uint64_t number = is_any ? standin.calls : counter[i].count;

        if ((is_any ? is_call : strcmp(plan[k].name, name) == 0) && number >= plan[k].first &&
            number <= plan[k].last)
            found = &plan[k];
    }
    if (found != NULL)
        snprintf(met, sizeof(met), "%s", name);
    return found;
}

/* Returns the code with which the call is planned to fail. The lock is held. */
static int take_plan(const char *name, bool is_call)
{
    const struct planned *p = find_plan(name, is_call);

    return p != NULL ? follow_plan(p) : 0;
}

enum core_plan standin_core_plan(void)
{
    const struct planned *p;

    pthread_mutex_lock(&standin.lock);
    p = find_plan("core", false);
    pthread_mutex_unlock(&standin.lock);
    return p == NULL ? CORE_RUNS : p->code == HANGS ? CORE_IS_SILENT : CORE_FAILS;
}

uint32_t standin_cond_delay(void)
{
    const struct planned *p;

    pthread_mutex_lock(&standin.lock);
    p = find_plan("cond", false);
    pthread_mutex_unlock(&standin.lock);
    return p == NULL ? 0 : p->code == HANGS ? UINT32_MAX : p->number;
}

int standin_enter(enum standin_call call)
{
    static const char *const names[] = {
#define X(library, returns, name, parameters) #name,
        STANDIN_MAP(X)
#undef X
    };
    const char *name = names[call];
    int code;

    pthread_mutex_lock(&standin.lock);
    get_ready();
    if (standin.process != getpid()) {
        fprintf(stderr, "standin: %s in a process that was forked from one that used it\n", name);
        abort();
    }
    if (standin.is_over && call != CALL_aclInit && call != CALL_dlog_setlevel) {
        fprintf(stderr, "standin: %s after the last reference to ACL was given back\n", name);
        abort();
    }
    if (standin.calls < TRACED)
        called[standin.calls] = name;
    standin.calls++;
    standin.moment++;
    if (standin_here != NULL)
        standin_age(standin_here->card);
    code = take_plan(name, true);
    pthread_mutex_unlock(&standin.lock);
    if (code != 0)
        standin_fail(name, code);
    return code;
}

void standin_violation(const char *format, ...)
{
    va_list values;

    __atomic_fetch_add(&standin.violations, 1, __ATOMIC_RELAXED);
    fprintf(stderr, "standin: ");
    va_start(values, format);
    vfprintf(stderr, format, values);
    va_end(values);
    fputc('\n', stderr);
}

static uint64_t count_streams(void)
{
    uint64_t count = 0;

    for (uint32_t i = 0; i < CARDS_MAX; i++)
        for (const struct stream *s = standin.card[i].streams; s != NULL; s = s->next)
            count++;
    return count;
}

static uint64_t count_things(const char *what)
{
    uint64_t count = 0;

    if (strcmp(what, "calls") == 0)
        return standin.calls;
    if (strcmp(what, "violations") == 0)
        return standin.violations;
    if (strcmp(what, "streams") == 0)
        return count_streams();
    if (strcmp(what, "acl") == 0)
        return standin.acl_references;
    if (strcmp(what, "log_level") == 0)
        return standin.card_level;
    if (strcmp(what, "shared") == 0)
        return standin_count_shared();
    if (strcmp(what, "events") == 0)
        return standin_count_events();
    if (strcmp(what, "allocations") == 0 || strcmp(what, "modules") == 0) {
        for (const struct allocation *a = standin.allocations; a != NULL; a = a->next)
            count += a->is_module == (what[0] == 'm');
        return count;
    }
    if (strcmp(what, "binaries") == 0) {
        for (const struct binary *b = standin.binaries; b != NULL; b = b->next)
            count++;
        return count;
    }
    for (uint32_t i = 0; i < CARDS_MAX; i++)
        count += strcmp(what, "references") == 0 ? standin.card[i].references
                 : strcmp(what, "used") == 0     ? standin.card[i].used
                 : strcmp(what, "peak") == 0     ? standin.card[i].peak
                 : strcmp(what, "launched") == 0 ? standin.card[i].launched
                 : strcmp(what, "runs") == 0     ? standin.card[i].runs_ended
                 : strcmp(what, "behind") == 0   ? standin.card[i].runs_behind
                 : strcmp(what, "idle_us") == 0  ? standin.card[i].idle_ns / 1000
                                                 : 0;
    for (uint32_t i = 0; i < COUNTERS; i++)
        if (strcmp(counter[i].name, what) == 0)
            return counter[i].count;
    return count;
}

uint64_t standin_count(const char *what)
{
    uint64_t count;

    pthread_mutex_lock(&standin.lock);
    count = count_things(what);
    pthread_mutex_unlock(&standin.lock);
    return count;
}

/* Each process can write its own report, because %p in the path is its number. */
static void find_report(char *path, size_t bytes)
{
    const char *text = getenv("STANDIN_REPORT");
    const char *at = text != NULL ? strstr(text, "%p") : NULL;

    if (at != NULL)
        snprintf(path, bytes, "%.*s%d%s", (int)(at - text), text, (int)getpid(), at + 2);
    else if (text != NULL)
        snprintf(path, bytes, "%s", text);
}

/* Reports what a process has left on the card, and where it was allocated. */
__attribute__((destructor)) static void report(void)
{
    static const char *const things[] = { "calls",       "violations", "streams",  "acl",
                                          "allocations", "modules",    "binaries", "references",
                                          "used",        "peak",       "shared",   "launched",
                                          "events",      "runs",       "behind",   "idle_us",
                                          "log_level" };
    char path[512] = "";
    FILE *file;

    find_report(path, sizeof(path));
    file = path[0] != '\0' && standin.is_ready ? fopen(path, "we") : NULL;

    for (size_t i = 0; file != NULL && i < sizeof(things) / sizeof(things[0]); i++)
        fprintf(file, "%s %llu\n", things[i], (unsigned long long)count_things(things[i]));
    for (uint32_t i = 0; file != NULL && i < COUNTERS && counter[i].name[0] != '\0'; i++)
        fprintf(file, "%s %llu\n", counter[i].name, (unsigned long long)counter[i].count);
    if (file != NULL)
        fclose(file);
    for (uint32_t i = 0; i < CARDS_MAX; i++)
        standin_process_end(&standin.card[i]);
    if (standin.is_own_disk && standin.process == getpid()) {
        char command[300];

        snprintf(command, sizeof(command), "rm -rf %s", standin.disk);
        (void)!system(command);
    }
}

/* ---- ACL, devices, contexts ---- */

int aclInit(const char *config)
{
    int code;

    (void)config;
    ENTER(aclInit);
    pthread_mutex_lock(&standin.lock);
    code = standin.acl_references++ == 0 ? 0 : 100002;
    standin.is_over = false;
    pthread_mutex_unlock(&standin.lock);
    return code;
}

int aclFinalizeReference(uint64_t *left)
{
    int code = 0;

    ENTER(aclFinalizeReference);
    pthread_mutex_lock(&standin.lock);
    if (standin.acl_references == 0)
        code = 100037;
    else
        standin.is_over = --standin.acl_references == 0;
    if (left != NULL)
        *left = standin.acl_references;
    pthread_mutex_unlock(&standin.lock);
    return code;
}

/* Releases all references to the card at once, of all threads. */
int aclFinalize(void)
{
    int code = 0;

    ENTER(aclFinalize);
    pthread_mutex_lock(&standin.lock);
    if (standin.acl_references == 0)
        code = 100037;
    standin.acl_references = 0;
    standin.is_over = true;
    pthread_mutex_unlock(&standin.lock);
    return code;
}

const char *aclrtGetSocName(void)
{
    (void)standin_enter(CALL_aclrtGetSocName);
    return standin.soc;
}

static bool is_card(int32_t device)
{
    return device >= 0 && (uint32_t)device < standin.card_count && device < CARDS_MAX;
}

int aclrtSetDevice(int32_t device)
{
    struct card *c;

    ENTER(aclrtSetDevice);
    standin_log("aclrtSetDevice: device %d", device);
    if (!is_card(device)) {
        standin_fail("aclrtSetDevice", ERR_DEVICE);
        return ERR_DEVICE;
    }
    pthread_mutex_lock(&standin.lock);
    c = &standin.card[device];
    if (standin_health((uint32_t)device) == DOWN) {
        pthread_mutex_unlock(&standin.lock);
        return 507033;
    }
    if (c->context == NULL) {
        c->context = calloc(1, sizeof(*c->context));
        if (c->context == NULL)
            abort();
        c->context->card = (uint32_t)device;
        standin.card_level = standin.log_level;
        c->context->next = standin.contexts;
        standin.contexts = c->context;
    }
    c->references++;
    standin_here = c->context;
    pthread_mutex_unlock(&standin.lock);
    return 0;
}

/*
 * Ends everything that is left on the card, and reports what was not released, unless the card was
 * reset by force.
 */
static void tear_down(uint32_t card, bool is_forced);

int aclrtResetDevice(int32_t device)
{
    struct card *c;

    ENTER(aclrtResetDevice);
    if (!is_card(device))
        return ERR_DEVICE;
    c = &standin.card[device];
    if (c->references == 0) {
        standin_violation("card %d is given back more often than it was taken", device);
        return ERR_RESET;
    }
    if (--c->references == 0)
        tear_down((uint32_t)device, false);
    return 0;
}

int aclrtResetDeviceForce(int32_t device)
{
    struct card *c;

    ENTER(aclrtResetDeviceForce);
    if (!is_card(device))
        return ERR_DEVICE;
    c = &standin.card[device];
    pthread_mutex_lock(&standin.lock);
    standin.epoch++;
    pthread_cond_broadcast(&standin.changed);
    pthread_mutex_unlock(&standin.lock);
    tear_down((uint32_t)device, true);
    c->references = 0;
    return standin_heal((uint32_t)device) ? 0 : ERR_DRIVER;
}

int aclrtGetCurrentContext(void **context)
{
    ENTER(aclrtGetCurrentContext);
    if (standin_here == NULL || standin_here->is_dead)
        return ERR_CONTEXT;
    *context = standin_here;
    return 0;
}

int aclrtSetCurrentContext(void *context)
{
    ENTER(aclrtSetCurrentContext);
    if (context == NULL || ((struct context *)context)->is_dead)
        return ERR_CONTEXT;
    standin_here = context;
    return 0;
}

int aclrtGetDevice(int32_t *device)
{
    int code;

    ENTER(aclrtGetDevice);
    code = standin_check_bound();
    if (code == 0)
        *device = (int32_t)standin_here->card;
    return code;
}

/* Called at the beginning of nearly every function. */
static int check_bound(void)
{
    return standin_here == NULL || standin_here->is_dead ? ERR_CONTEXT : 0;
}

static int check_well(void)
{
    int code = check_bound();

    return code != 0 ? code : standin_is_answering(standin_here->card) ? 0 : ERR_DRIVER;
}

int standin_check_bound(void)
{
    return check_bound();
}

int standin_check_well(void)
{
    return check_well();
}

struct context *standin_bound(void)
{
    return standin_here;
}

void standin_count_bytes(uint32_t card, int64_t bytes)
{
    struct card *c = &standin.card[card];

    c->used += (size_t)bytes;
    if (c->used > c->peak)
        c->peak = c->used;
}

/* Under the lock. */
static bool charge(uint32_t card, int64_t bytes)
{
    bool has_room = standin_take(card, bytes);

    if (has_room)
        standin_count_bytes(card, bytes);
    return has_room;
}

bool standin_charge(uint32_t card, int64_t bytes)
{
    bool has_room;

    pthread_mutex_lock(&standin.lock);
    has_room = charge(card, bytes);
    pthread_mutex_unlock(&standin.lock);
    return has_room;
}

uint32_t standin_driver_card(uint32_t card)
{
    const char *text = getenv("ASCEND_RT_VISIBLE_DEVICES");

    for (uint32_t i = 0; text != NULL && *text != '\0'; i++) {
        char *end;
        uint32_t driver = (uint32_t)strtoul(text, &end, 10);

        if (i == card)
            return driver;
        text = *end == ',' ? end + 1 : NULL;
    }
    return card;
}

#define BOUND()                     \
    do {                            \
        int bound_ = check_bound(); \
        if (bound_ != 0)            \
            return bound_;          \
    } while (0)
#define ON_WELL_CARD()            \
    do {                          \
        int well_ = check_well(); \
        if (well_ != 0)           \
            return well_;         \
    } while (0)

/* ---- memory ---- */

/*
 * Returns addresses of a card that were never used. The memory is private, unless the control
 * processor is a process.
 */
char *standin_map(size_t bytes, int protection)
{
    enum { GAP = 4096 };
    bool is_shared = standin.cpu_command != NULL;
    char *at = mmap((void *)(uintptr_t)standin.address, bytes, protection,
                    (is_shared ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS) | MAP_NORESERVE |
                        MAP_FIXED_NOREPLACE,
                    is_shared ? standin.memory : -1,
                    is_shared ? (off_t)(standin.address - CARD_MEMORY) : 0);

    if (at == MAP_FAILED)
        abort();
    standin.address += bytes + GAP;
    return at;
}

char *standin_reserve(size_t bytes)
{
    char *at;

    pthread_mutex_lock(&standin.lock);
    at = standin_map(bytes, PROT_NONE);
    pthread_mutex_unlock(&standin.lock);
    return at;
}

/* Addresses are never reused, have gaps between them, and are aligned to 512 bytes only. */
static struct allocation *give(uint32_t card, size_t bytes, bool is_module)
{
    enum { PAGE = 4096, SHIFT = 512 };
    struct allocation *a = calloc(1, sizeof(*a));
    size_t map = (bytes + SHIFT + PAGE - 1) / PAGE * PAGE;

    if (a == NULL)
        return NULL;
    pthread_mutex_lock(&standin.lock);
    if (!charge(card, (int64_t)bytes)) {
        pthread_mutex_unlock(&standin.lock);
        free(a);
        return NULL;
    }
    a->map = standin_map(map, PROT_READ | PROT_WRITE | PROT_EXEC);
    a->map_bytes = map;
    a->at = a->map + SHIFT;
    a->bytes = bytes;
    a->card = card;
    a->is_module = is_module;
    a->next = standin.allocations;
    standin.allocations = a;
    pthread_mutex_unlock(&standin.lock);
    if (bytes <= 1 << 20)
        memset(a->at, 0xa5, bytes); /* nobody gets zeros */
    return a;
}

/* Under the lock. */
static void drop(struct allocation **link)
{
    struct allocation *a = *link;

    *link = a->next;
    (void)charge(a->card, -(int64_t)a->bytes);
    if (!standin.card[a->card].is_haunted) {
        if (standin.cpu_command != NULL)
            (void)madvise(a->map, a->map_bytes, MADV_REMOVE);
        munmap(a->map, a->map_bytes);
    }
    free(a);
}

/*
 * Returns the pointer to the allocation that contains all of these bytes; it points to NULL if
 * there is none. The lock is held.
 */
static struct allocation **find(const void *at, size_t bytes)
{
    struct allocation **link = &standin.allocations;

    while (*link != NULL && ((const char *)at < (*link)->at ||
                             (const char *)at + bytes > (*link)->at + (*link)->bytes))
        link = &(*link)->next;
    return link;
}

void *standin_give(uint32_t card, size_t bytes)
{
    struct allocation *a = give(card, bytes, false);

    return a != NULL ? a->at : NULL;
}

void standin_take_back(void *at)
{
    struct allocation **link;

    pthread_mutex_lock(&standin.lock);
    link = find(at, 1);
    if (*link != NULL)
        drop(link);
    pthread_mutex_unlock(&standin.lock);
}

/*
 * Cores keep cached instructions until their stream is created again. This is known for the older
 * generation; for the newer one, the reference keeps the stream and works.
 */
void standin_check_code(uint64_t addr)
{
    struct allocation *a;

    pthread_mutex_lock(&standin.lock);
    a = *find((const void *)(uintptr_t)addr, 1);
    if (a == NULL)
        standin_violation("a core is to run what is no memory of its card");
    else if (!standin.is_a5 && a->written > standin.card[a->card].stream_made)
        standin_violation("a core runs code that was written since its stream was made");
    pthread_mutex_unlock(&standin.lock);
    standin_core_enter_kernel();
}

int aclrtMalloc(void **at, size_t bytes, int policy)
{
    struct allocation *a;

    ENTER(aclrtMalloc);
    ON_WELL_CARD();
    if (at == NULL || bytes == 0 || policy != 0)
        return 100000;
    a = give(standin_here->card, bytes, false);
    if (a == NULL)
        return ERR_MEMORY;
    *at = a->at;
    return 0;
}

int aclrtFree(void *at)
{
    struct allocation **link;
    int code = 0;

    ENTER(aclrtFree);
    BOUND();
    pthread_mutex_lock(&standin.lock);
    link = find(at, 1);
    if (*link == NULL || (*link)->at != at || (*link)->is_module)
        code = 100000;
    else
        drop(link);
    pthread_mutex_unlock(&standin.lock);
    if (code != 0)
        standin_violation("aclrtFree of %p, which is no allocation", at);
    return code;
}

int aclrtMemcpy(void *to, size_t room, const void *from, size_t bytes, int kind)
{
    const void *device = kind == 1 ? to : from;
    const void *host = kind == 1 ? from : to;
    bool is_right;

    ENTER(aclrtMemcpy);
    BOUND();
    if (standin_health(standin_here->card) == DOWN)
        return ERR_LINK;
    ON_WELL_CARD();
    if (bytes > room || (kind != 1 && kind != 2))
        return 100000;
    pthread_mutex_lock(&standin.lock);
    is_right = (*find(device, bytes) != NULL || standin_is_mapped(device, bytes)) &&
               *find(host, 1) == NULL && !standin_is_mapped(host, 1);
    if (kind == 1 && *find(device, bytes) != NULL)
        (*find(device, bytes))->written = standin.moment;
    pthread_mutex_unlock(&standin.lock);
    if (!is_right) {
        standin_violation("aclrtMemcpy of %zu bytes, kind %d: %p is not on the card, or %p is",
                          bytes, kind, device, host);
        return ERR_PARAM;
    }
    memcpy(to, from, bytes);
    if (flips >= 0 && (uint64_t)flips < bytes)
        ((char *)to)[flips] ^= 1;
    flips = -1;
    return 0;
}

int aclrtMemset(void *at, size_t room, int32_t value, size_t bytes)
{
    ENTER(aclrtMemset);
    ON_WELL_CARD();
    if (bytes > room)
        return 100000;
    if (value != 0 || !standin_clear_shared(at, bytes))
        memset(at, value, bytes);
    return 0;
}

int aclrtGetMemInfo(int kind, size_t *left, size_t *total)
{
    ENTER(aclrtGetMemInfo);
    ON_WELL_CARD();
    if (kind != 1)
        return 100000;
    *total = standin.hbm;
    *left = standin.hbm - standin_used(standin_here->card);
    return 0;
}

/* ---- programs ---- */

/* Loads a program from a file with a unique name, as the loader and a debugger need it. */
static int load_elf(struct binary *b)
{
    char path[300];
    FILE *file;

    snprintf(path, sizeof(path), "%s/executor.%ld.%p.so", standin.disk, (long)getpid(), (void *)b);
    file = fopen(path, "we");
    if (file == NULL || fwrite(b->bytes, 1, b->size, file) != b->size || fclose(file) != 0)
        return 507015;
    b->handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (b->handle == NULL)
        fprintf(stderr, "standin: %s\n", dlerror());
    unlink(path);
    return b->handle != NULL ? 0 : 507015;
}

struct options {
    const struct {
        int32_t id;
        uint32_t value[4];
    } * option;
    size_t count;
};

/*
 * The options with which a program is loaded. read_options returns a code if an option is unknown or
 * has an invalid value.
 */
struct load {
    bool is_cpu;
    uint32_t mode; /* option of a program for the control processor */
    bool is_lazy;
};

static int read_options(const struct options *options, bool is_file, struct load *load)
{
    *load = (struct load){ 0 };
    if (options == NULL)
        return 0;
    if (options->option == NULL)
        return ERR_PARAM;
    for (size_t i = 0; i < options->count; i++) {
        uint32_t value = options->option[i].value[0];

        switch (options->option[i].id) {
        case OPTION_LAZY:
            if (value > 1)
                return ERR_PARAM;
            load->is_lazy = value == 1;
            break;
        case OPTION_MAGIC:
            if (is_file || (value != MAGIC && value != MAGIC_CUBE && value != MAGIC_VECTOR))
                return ERR_PARAM;
            break;
        case OPTION_CPU_MODE:
            if (is_file ? value > 1 : value != 2)
                return ERR_PARAM;
            load->is_cpu = true;
            load->mode = value;
            break;
        default:
            return ERR_PARAM;
        }
    }
    return 0;
}

static struct binary *add_binary(enum kind kind, struct entry *entries)
{
    struct binary *b = calloc(1, sizeof(*b));

    if (b == NULL)
        abort();
    b->kind = kind;
    b->entries = entries;
    b->card = standin_here->card;
    pthread_mutex_lock(&standin.lock);
    b->next = standin.binaries;
    standin.binaries = b;
    pthread_mutex_unlock(&standin.lock);
    return b;
}

static int not_modelled(const char *what)
{
    fprintf(stderr, "standin: %s: the vendor's can do that, the stand-in cannot\n", what);
    return ERR_PARAM;
}

int standin_add_executor(const void *data, size_t bytes, bool is_lazy, void **binary)
{
    struct entry *entries = NULL;
    struct binary *b;

    if (!standin_read_entries(data, bytes, &entries))
        return ERR_PARAM;
    b = add_binary(KIND_CORES, entries);
    b->bytes = malloc(bytes);
    if (b->bytes == NULL)
        abort();
    memcpy(b->bytes, data, bytes);
    b->size = bytes;
    b->is_lazy = is_lazy;
    *binary = b;
    return 0;
}

int aclrtBinaryLoadFromData(const void *data, size_t bytes, const struct options *options,
                            void **binary)
{
    struct load load;

    ENTER(aclrtBinaryLoadFromData);
    BOUND();
    if (read_options(options, false, &load) != 0)
        return ERR_PARAM;
    if (load.is_cpu)
        return not_modelled("a library for the control processor that is loaded from memory");
    return standin_add_executor(data, bytes, load.is_lazy, binary);
}

/* Returns a whole file, followed by a zero byte. NULL: it cannot be read. */
static char *read_text(const char *path)
{
    FILE *file = fopen(path, "re");
    char *text = NULL;
    size_t bytes = 0, more;

    if (file == NULL)
        return NULL;
    do {
        text = realloc(text, bytes + 4097);
        if (text == NULL)
            abort();
        more = fread(text + bytes, 1, 4096, file);
        bytes += more;
    } while (more != 0);
    fclose(file);
    text[bytes] = '\0';
    return text;
}

/*
 * Whatever the name of the file is, the description is read from the file with its name and the
 * suffix .json.
 */
int aclrtBinaryLoadFromFile(const char *path, struct options *options, void **binary)
{
    char json[4096], *text;
    const char *dot = strrchr(path, '.');
    struct entry *ops = NULL;
    struct load load;
    bool is_right;

    ENTER(aclrtBinaryLoadFromFile);
    BOUND();
    if (read_options(options, true, &load) != 0)
        return ERR_PARAM;
    if (!load.is_cpu || load.mode != 0)
        return not_modelled("a program that is loaded from a file");
    snprintf(json, sizeof(json), "%.*s.json", dot != NULL ? (int)(dot - path) : 0, path);
    text = read_text(json);
    is_right = text != NULL && standin_read_description(text, &ops);
    free(text);
    if (!is_right)
        return ERR_PARAM;
    *binary = add_binary(KIND_CPU, ops);
    return 0;
}

/*
 * Makes the copy of a program on the card, which stays until the program is unloaded: when a
 * function is looked up (CopySoAndNameToCurrentDevice of the published runtime) or, for a program
 * that is loaded lazily, at its first launch.
 */
static int ready_module(struct binary *b)
{
    bool is_answering = standin_is_answering(standin_here->card);

    if (b->kind != KIND_CORES) /* the card has only names of its functions */
        return is_answering ? 0 : ERR_MEMORY;
    if (b->module != NULL)
        return 0;
    if (is_answering)
        b->module = give(standin_here->card, b->size + HEADROOM, true);
    if (b->module == NULL) {
        standin_worsen(standin_here->card, POISONED); /* later calls report another error */
        return ERR_MEMORY;
    }
    return load_elf(b);
}

static int add_function(struct binary *b, const struct entry *entry, void **function)
{
    struct function *f = calloc(1, sizeof(*f));

    if (f == NULL)
        abort();
    f->binary = b;
    f->entry = entry;
    pthread_mutex_lock(&standin.lock);
    f->next = standin.functions;
    standin.functions = f;
    pthread_mutex_unlock(&standin.lock);
    *function = f;
    return 0;
}

/* Every failure has the same code, also that of the copy. */
int aclrtBinaryGetFunction(void *binary, const char *name, void **function)
{
    struct binary *b = binary;
    const struct entry *entry;

    ENTER(aclrtBinaryGetFunction);
    BOUND();
    if (!b->is_lazy && ready_module(b) != 0)
        return ERR_PARAM;
    entry = standin_find_entry(b->entries, name);
    return entry != NULL ? add_function(b, entry, function) : ERR_PARAM;
}

static const struct entry *find_key(const struct binary *b, uint64_t key)
{
    const struct entry *entry = b->entries;

    while (entry != NULL && (entry->kind != KIND_CORES || entry->key != key))
        entry = entry->next;
    return entry;
}

int aclrtBinaryGetFunctionByEntry(void *binary, uint64_t key, void **function)
{
    struct binary *b = binary;
    const struct entry *entry;
    int code;

    ENTER(aclrtBinaryGetFunctionByEntry);
    BOUND();
    code = b->is_lazy ? 0 : ready_module(b);
    if (code != 0)
        return code;
    entry = find_key(b, key);
    return entry != NULL ? add_function(b, entry, function) : ERR_PARAM;
}

/* Under the lock. */
static void drop_binary(struct binary **link)
{
    struct binary *b = *link;
    struct function **f = &standin.functions;

    *link = b->next;
    while (*f != NULL)
        if ((*f)->binary == b) {
            struct function *gone = *f;

            *f = gone->next;
            free(gone);
        } else {
            f = &(*f)->next;
        }
    if (b->module != NULL)
        drop(find(b->module->at, b->module->bytes));
    if (b->handle != NULL)
        dlclose(b->handle);
    standin_free_entries(b->entries);
    free(b->bytes);
    free(b);
}

int standin_remove_binary(void *binary)
{
    struct binary **link = &standin.binaries;
    int code = 0;

    pthread_mutex_lock(&standin.lock);
    while (*link != NULL && *link != binary)
        link = &(*link)->next;
    if (*link == NULL)
        code = ERR_PARAM;
    else
        drop_binary(link);
    pthread_mutex_unlock(&standin.lock);
    return code;
}

int aclrtBinaryUnLoad(void *binary)
{
    ENTER(aclrtBinaryUnLoad);
    BOUND();
    return standin_remove_binary(binary);
}

/* ---- the control processor ---- */

static bool is_good_so(const char *so)
{
    return strlen(so) <= 100 &&
           strspn(so, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.") ==
               strlen(so);
}

bool standin_is_cpu(void)
{
    return standin_escape != NULL;
}

bool standin_is_cpu_late(void)
{
    return standin_cpu_until_ms != 0 && standin_now_ms() > standin_cpu_until_ms;
}

/* The card on which a block runs, and its time limit. */
struct cpu_place {
    struct context *context;
    uint64_t until_ms; /* 0: any time */
};

/*
 * A forced reset, or the end of its time, ends a block wherever it is, as it would end the vendor's
 * process.
 */
static uint32_t call_block(uint32_t (*function)(void *), void *args, void *arg)
{
    const struct cpu_place *place = arg;
    jmp_buf escape;
    volatile uint32_t result = 1;

    standin_here = place->context;
    standin_cpu_until_ms = place->until_ms;
    standin_escape = &escape;
    if (setjmp(escape) == 0)
        result = function(args);
    standin_escape = NULL;
    return result;
}

static uint32_t run_program(const struct entry *op, struct context *context, struct task *t)
{
    struct cpu_programs *programs = &standin.card[context->card].programs;
    struct cpu_request request = { .is_extend = op->kind == KIND_EXTEND, .blocks = t->blocks };
    struct cpu_place place = { context, standin_cpu_until_ms };
    const struct cpu_launch launch = { t->blocks, t->args, call_block, &place };

    if (standin.cpu_command == NULL)
        return op->kind == KIND_EXTEND
                   ? cpu_programs_extend(programs, standin.server_folder, &launch)
                   : cpu_programs_run(programs, standin.program_folder, op->so, op->function,
                                      &launch);
    memcpy(request.so, op->so, sizeof(request.so));
    memcpy(request.function, op->function, sizeof(request.function));
    memcpy(request.args, t->args, sizeof(request.args));
    return standin_process_run(context->card, &request, t->cores_due);
}

/* What the control processor does for a launch: only here are names checked. */
static int run_cpu(const struct entry *op, struct context *context, struct task *t)
{
    int code;

    if (op->kind == KIND_EXTEND && (strcmp(op->so, "libaicpu_extend_kernels.so") != 0 ||
                                    strcmp(op->function, "DynTileFwkKernelServerInit") != 0))
        return ERR_CPU;
    if (op->kind == KIND_OTHER || !is_good_so(op->so)) {
        fprintf(stderr,
                "standin: op %s: library %s, program \"%s\"%s: no control processor runs it\n",
                op->name, op->library, op->so, op->is_custom ? ", userDefined" : "");
        return ERR_CPU;
    }
    pthread_mutex_lock(&standin.lock);
    code = take_plan("aicpu", false);
    pthread_mutex_unlock(&standin.lock);
    standin_device_log(context->card, code != 0, "op %s, function %s of %s: %s", op->name,
                       op->function, op->so, code != 0 ? "failed" : "runs");
    standin_cpu_until_ms = t->limit_ms != 0 ? standin_now_ms() + t->limit_ms : 0;
    code = code == 0 && run_program(op, context, t) == 0 ? 0 : ERR_CPU;
    code = standin_is_cpu_late() ? ERR_CPU_LATE : code;
    standin_cpu_until_ms = 0;
    return code;
}

/* ---- streams ---- */

static int run_task(struct stream *s, struct task *t)
{
    const struct function *f = t->function;

    if (f == NULL)
        return t->work(t->arg);
    return f->entry->kind == KIND_CORES ? standin_run_cores(f, s->context->card, t->blocks, t->args)
                                        : run_cpu(f->entry, s->context, t);
}

/* Drops all work that has not begun. The lock is held. */
static void empty_stream(struct stream *s)
{
    for (struct task *t = s->first, *next; t != NULL; t = next) {
        next = t->next;
        free(t);
    }
    s->first = NULL;
    s->last = &s->first;
}

/*
 * Returns the next work of the stream; NULL: there is none, or it waits for an event, or it ends.
 * After a forced reset nothing begins, because cores would start while the program before them is
 * still ending. The lock is held.
 */
static struct task *take_task(struct stream *s)
{
    struct card *c = &standin.card[s->context->card];
    struct task *t;

    if (s->is_ending && __atomic_load_n(&c->is_aborting, __ATOMIC_ACQUIRE) != 0)
        empty_stream(s);
    t = s->first;
    if (t == NULL || (t->event != NULL && !standin_do_event(s, t)))
        return NULL;
    s->first = t->next;
    if (s->first == NULL)
        s->last = &s->first;
    return t;
}

static void *stream_main(void *arg)
{
    struct stream *s = arg;
    struct card *c = &standin.card[s->context->card];

    standin_here = s->context; /* this thread counts as a thread of the card */
    pthread_mutex_lock(&standin.lock);
    while (s->first != NULL || !s->is_ending) {
        struct task *t = take_task(s);
        int code = 0;

        if (t == NULL && (s->first != NULL || !s->is_ending))
            pthread_cond_wait(&standin.changed, &standin.lock);
        if (t == NULL)
            continue;
        if (t->event == NULL) {
            s->is_busy = true;
            standin_note_begin(c, t);
            pthread_mutex_unlock(&standin.lock);
            code = run_task(s, t);
            pthread_mutex_lock(&standin.lock);
            standin_note_end(c, t);
            s->is_busy = false;
        }
        free(t);
        if (code != 0 && s->is_stopping)
            empty_stream(s);
        if (code != 0 && s->error == 0) {
            s->error = code;
            standin_worsen(s->context->card, POISONED);
        }
        pthread_cond_broadcast(&standin.changed);
    }
    s->has_ended = true;
    pthread_cond_broadcast(&standin.changed);
    pthread_mutex_unlock(&standin.lock);
    return NULL;
}

int aclrtCreateStream(void **stream)
{
    struct stream *s;
    struct card *c;

    ENTER(aclrtCreateStream);
    ON_WELL_CARD();
    s = calloc(1, sizeof(*s));
    if (s == NULL)
        abort();
    s->context = standin_here;
    s->last = &s->first;
    s->kind = -1;
    s->made = standin.moment;
    c = &standin.card[standin_here->card];
    if (pthread_create(&s->thread, NULL, stream_main, s) != 0)
        abort();
    pthread_mutex_lock(&standin.lock);
    s->next = c->streams;
    c->streams = s;
    pthread_mutex_unlock(&standin.lock);
    *stream = s;
    return 0;
}

static struct timespec deadline_after(int32_t ms)
{
    struct timespec at;

    clock_gettime(CLOCK_REALTIME, &at);
    at.tv_sec += ms / 1000;
    at.tv_nsec += ms % 1000 * 1000000l;
    if (at.tv_nsec >= 1000000000l) {
        at.tv_sec++;
        at.tv_nsec -= 1000000000l;
    }
    return at;
}

bool standin_await(bool (*is_so)(const void *what), const void *what, int32_t ms)
{
    struct timespec at = deadline_after(ms);

    while (!is_so(what))
        if (pthread_cond_timedwait(&standin.changed, &standin.lock, &at) == ETIMEDOUT)
            return is_so(what);
    return true;
}

/* Nothing is left to do, or the stream has failed. */
static bool is_stream_done(const void *what)
{
    const struct stream *s = what;

    return (s->first == NULL && !s->is_busy) || s->error != 0;
}

void standin_push(struct stream *s, struct task *t)
{
    *s->last = t;
    s->last = &t->next;
    pthread_cond_broadcast(&standin.changed);
}

static bool has_stream_ended(const void *what)
{
    return ((const struct stream *)what)->has_ended;
}

/*
 * Waits until a stream is idle. The lock is held. False: it is still busy, and is left alone.
 * Kernels cannot be ended and get only a short time; everything else ends by itself, however long
 * the machine takes.
 */
static bool end_stream(struct stream *s, int32_t ms, int32_t most_ms)
{
    struct card *c = &standin.card[s->context->card];
    struct stream **link = &c->streams;

    s->is_ending = true;
    pthread_cond_broadcast(&standin.changed);
    while (!standin_await(has_stream_ended, s, ms) && (most_ms -= ms) > 0 &&
           __atomic_load_n(&c->in_kernels, __ATOMIC_ACQUIRE) == 0) {
    }
    while (*link != NULL && *link != s)
        link = &(*link)->next;
    if (*link != NULL)
        *link = s->next;
    standin_forget_stream(s);
    if (!s->has_ended) {
        empty_stream(s);
        pthread_detach(s->thread);
        return false;
    }
    pthread_mutex_unlock(&standin.lock);
    pthread_join(s->thread, NULL);
    pthread_mutex_lock(&standin.lock);
    free(s);
    return true;
}

int aclrtDestroyStream(void *stream)
{
    struct stream *s = stream;

    ENTER(aclrtDestroyStream);
    BOUND();
    if (s->context != standin_here)
        return ERR_STREAM;
    pthread_mutex_lock(&standin.lock);
    if (!end_stream(s, DESTROYED_MS, DESTROYED_MS))
        standin_violation(
            "aclrtDestroyStream of a stream that is busy: the vendor's never returns");
    pthread_mutex_unlock(&standin.lock);
    return 0;
}

static int wait_for_stream(struct stream *s, int32_t ms)
{
    int code;

    if (s->context != standin_here)
        return ERR_STREAM;
    pthread_mutex_lock(&standin.lock);
    code = !standin_await(is_stream_done, s, ms < 0 ? INT32_MAX : ms) ? ERR_LATE : s->error;
    if (code == s->error && code != 0 && s->is_reported)
        standin_violation("a second wait for a stream that failed: the vendor's never returns");
    if (code == s->error && code != 0)
        s->is_reported = true;
    pthread_mutex_unlock(&standin.lock);
    return code;
}

int aclrtSynchronizeStreamWithTimeout(void *stream, int32_t ms)
{
    ENTER(aclrtSynchronizeStreamWithTimeout);
    BOUND();
    return wait_for_stream(stream, ms);
}

int aclrtSynchronizeStream(void *stream)
{
    ENTER(aclrtSynchronizeStream);
    BOUND();
    return wait_for_stream(stream, -1);
}

/* Reports whether tasks of the stream are left, but not that one has failed. */
int aclrtStreamQuery(void *stream, int32_t *status)
{
    enum { COMPLETE, NOT_READY };
    const struct stream *s = stream;

    ENTER(aclrtStreamQuery);
    BOUND();
    pthread_mutex_lock(&standin.lock);
    *status = s->first == NULL && !s->is_busy ? COMPLETE : NOT_READY;
    pthread_mutex_unlock(&standin.lock);
    return 0;
}

/* If bit 0 of the mode is set, a stream ends at its first failure; this mode cannot be left. */
int aclrtSetStreamFailureMode(void *stream, uint64_t mode)
{
    struct stream *s = stream;
    bool is_stopping = (mode & 1) != 0;
    int code = 0;

    ENTER(aclrtSetStreamFailureMode);
    BOUND();
    pthread_mutex_lock(&standin.lock);
    if (s->is_stopping && !is_stopping)
        code = ERR_FEATURE;
    else
        s->is_stopping = is_stopping;
    pthread_mutex_unlock(&standin.lock);
    return code;
}

/*
 * Sets the time limit for launches that have none, on cores and on the control processor: a number
 * of intervals from 1 to 254; 0 means 254.
 */
int aclrtSetOpExecuteTimeOutV2(uint64_t us, uint64_t *actual_us)
{
    uint64_t count = INTERVALS_MAX; /* of 2^32 ns */

    ENTER(aclrtSetOpExecuteTimeOutV2);
    BOUND();
    if (us != 0 && us < ((uint64_t)INTERVALS_MAX << 32) / 1000)
        count = (us * 1000 + UINT32_MAX) >> 32;
    *actual_us = (count << 32) / 1000;
    standin.cpu_ms = *actual_us / 1000;
    standin.op_ms = (uint32_t)(*actual_us / 1000);
    return 0;
}

int aclrtSynchronizeDeviceWithTimeout(int32_t ms)
{
    (void)ms;
    ENTER(aclrtSynchronizeDeviceWithTimeout);
    BOUND();
    return 0; /* also works on a card that has failed */
}

int aclrtGetStreamResLimit(void *stream, int kind, uint32_t *value)
{
    (void)stream;
    ENTER(aclrtGetStreamResLimit);
    BOUND();
    *value = (standin.is_a5 ? 36u : 24u) * (kind == 0 ? 1 : 2);
    return 0;
}

int aclrtGetHardwareSyncAddr(void **at)
{
    struct card *c;

    ENTER(aclrtGetHardwareSyncAddr);
    BOUND();
    if (standin.is_a5)
        return ERR_FEATURE;
    c = &standin.card[standin_here->card];
    pthread_mutex_lock(&standin.lock);
    if (c->sync == NULL)
        /* addresses of registers, which only cores can access */
        c->sync = standin_map(4096, PROT_NONE);
    pthread_mutex_unlock(&standin.lock);
    *at = c->sync;
    return 0;
}

/* ---- launches ---- */

static struct task *make_task(void)
{
    struct task *t = calloc(1, sizeof(*t));

    if (t == NULL)
        abort();
    return t;
}

int standin_enqueue(void *stream, int (*work)(void *arg), void *arg)
{
    struct stream *s = stream;
    struct task *t;

    if (s->context != standin_here)
        return ERR_STREAM;
    t = make_task();
    t->work = work;
    t->arg = arg;
    pthread_mutex_lock(&standin.lock);
    standin_push(s, t);
    pthread_mutex_unlock(&standin.lock);
    return 0;
}

struct config {
    const struct {
        int32_t id;
        uint32_t value[4];
    } * attribute;
    size_t count;
};

/* Whether all cores of a launch start together: the attribute of that name has the value 1. */
static bool is_together(const struct config *config)
{
    for (size_t i = 0; config != NULL && i < config->count; i++)
        if (config->attribute[i].id == ATTRIBUTE_SCHEM)
            return (config->attribute[i].value[0] & 0xff) == 1;
    return false;
}

/* Returns the time limit of a launch in s (attribute 7) or us (8); 0 means none. Or a code. */
static int read_limit(const struct config *config, uint64_t *limit_ms)
{
    bool has_limit = false;

    *limit_ms = standin.cpu_ms;
    for (size_t i = 0; config != NULL && i < config->count; i++) {
        const uint32_t *value = config->attribute[i].value;
        uint64_t us = value[0] | (uint64_t)value[1] << 32;

        if (config->attribute[i].id != ATTRIBUTE_TIMEOUT_S &&
            config->attribute[i].id != ATTRIBUTE_TIMEOUT_US)
            continue;
        if (has_limit)
            return ERR_PARAM; /* one of them */
        has_limit = true;
        *limit_ms = config->attribute[i].id == ATTRIBUTE_TIMEOUT_S ? (value[0] & 0xffff) * 1000ull
                                                                   : (us + 999) / 1000;
    }
    return 0;
}

/* The arguments are copied before the call returns. */
static int launch(struct function *f, uint32_t blocks, void *stream, const struct config *config,
                  const void *args, size_t bytes)
{
    struct stream *s = stream;
    struct card *c;
    struct task *t;
    uint64_t limit_ms;
    int code;

    c = &standin.card[standin_here->card];
    if (s->context != standin_here)
        return ERR_STREAM;
    if ((config != NULL && config->attribute == NULL) || blocks == 0 || bytes > sizeof(t->args))
        return ERR_PARAM;
    code = read_limit(config, &limit_ms);
    if (code != 0)
        return code;
    if (!standin_is_answering(standin_here->card))
        return ERR_MEMORY;
    code = ready_module(f->binary);
    if (code != 0)
        return code;
    if (f->binary->kind == KIND_CORES && !f->entry->is_mixed)
        return not_modelled("an entry for cores of one type only");
    if (f->binary->kind == KIND_CORES && !is_together(config))
        standin_violation("cores that wait for each other are not launched together");
    if (s->kind >= 0 && (s->kind == KIND_CORES) != (f->binary->kind == KIND_CORES)) {
        standin_violation("cores and the control processor share a stream: both would wait");
        return ERR_PARAM;
    }
    if (f->binary->kind != KIND_CORES && blocks > CPU_THREADS) {
        standin_violation("%u blocks for %d threads: they would wait for each other for ever",
                          blocks, CPU_THREADS);
        return ERR_PARAM;
    }
    if (f->binary->kind == KIND_CORES && standin_map_registers(standin_here->card) != 0)
        return ERR_DRIVER;
    t = make_task();
    t->function = f;
    t->blocks = blocks;
    t->limit_ms = limit_ms;
    t->bytes = bytes;
    memcpy(t->args, args, bytes);
    pthread_mutex_lock(&standin.lock);
    if (f->binary->kind == KIND_CORES) {
        c->stream_made = s->made;
        c->launched = c->used;
        c->cores_due += 3 * blocks;
        standin_note_launch(c);
    }
    t->cores_due = c->cores_due;
    s->kind = (int)f->entry->kind;
    standin_push(s, t);
    pthread_mutex_unlock(&standin.lock);
    return 0;
}

int aclrtLaunchKernelWithHostArgs(void *function, uint32_t blocks, void *stream,
                                  const struct config *config, void *args, size_t bytes,
                                  void *places, size_t place_count)
{
    (void)places;
    ENTER(aclrtLaunchKernelWithHostArgs);
    BOUND();
    return place_count != 0 ? ERR_PARAM : launch(function, blocks, stream, config, args, bytes);
}

int standin_launch_executor(void *binary, uint64_t key, uint32_t blocks, void *stream, void *args,
                            size_t bytes, bool is_together)
{
    const struct {
        int32_t id;
        uint32_t value[4];
    } together = { ATTRIBUTE_SCHEM, { 1 } };
    struct config config = { (const void *)&together, is_together };
    const struct entry *entry;
    struct binary *b;
    struct function *f;
    void *made = NULL;

    pthread_mutex_lock(&standin.lock);
    for (b = standin.binaries; b != NULL && b != binary; b = b->next)
        ;
    pthread_mutex_unlock(&standin.lock);
    entry = b != NULL ? find_key(b, key) : NULL;
    if (entry == NULL)
        return ERR_PARAM;
    pthread_mutex_lock(&standin.lock);
    for (f = standin.functions; f != NULL && f->entry != entry; f = f->next)
        ;
    pthread_mutex_unlock(&standin.lock);
    if (f == NULL)
        (void)add_function(b, entry, &made);
    return launch(f != NULL ? f : made, blocks, stream, &config, args, bytes);
}

/* ---- the end of a card ---- */

static void tear_down(uint32_t card, bool is_forced)
{
    struct card *c = &standin.card[card];
    uint32_t streams = 0, allocations = 0, binaries = 0, events, shared, blocks;

    if (is_forced)
        __atomic_store_n(&c->is_aborting, 1, __ATOMIC_RELEASE);
    pthread_mutex_lock(&standin.lock);
    while (c->streams != NULL) {
        streams++;
        if (!end_stream(c->streams, STUCK_MS, FORCED_MS)) {
            c->is_haunted = true;
            standin_worsen(card, POISONED);
        }
    }
    for (struct binary **b = &standin.binaries; *b != NULL;) {
        if ((*b)->card == card) {
            binaries++;
            drop_binary(b);
        } else {
            b = &(*b)->next;
        }
    }
    for (struct allocation **a = &standin.allocations; *a != NULL;) {
        if ((*a)->card == card) {
            allocations++;
            drop(a);
        } else {
            a = &(*a)->next;
        }
    }
    shared = standin_forget_shared(card);
    events = standin_forget_events(c);
    blocks = standin_forget_heap(card);
    c->is_running = false;
    c->runs_ended = c->runs_launched;
    __atomic_store_n(&c->cores_come, c->cores_due, __ATOMIC_RELEASE);
    if (c->context != NULL)
        c->context->is_dead = true;
    c->context = NULL;
    pthread_mutex_unlock(&standin.lock);
    if (is_forced)
        standin_process_end(c);
    __atomic_store_n(&c->is_aborting, 0, __ATOMIC_RELEASE);
    if (!is_forced && streams + allocations + binaries + events + shared != 0)
        standin_violation("card %u was given back with %u streams, %u allocations, %u programs, "
                          "%u events, %u pieces of shared memory",
                          card, streams, allocations, binaries, events, shared);
    if (!is_forced && blocks != 0)
        standin_violation("card %u was given back while its programs had %u blocks of memory", card,
                          blocks);
}
