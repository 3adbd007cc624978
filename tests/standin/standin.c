/* SPDX-License-Identifier: Apache-2.0 */
/* State, memory, streams, programs and launches of the stand-in: standin.h tells the whole. */
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
    ERR_MEMORY = 207001,
    ERR_RESET = 507007,
    ERR_CPU = 507018,
    ERR_LATE = 507046,
    ERR_DRIVER = 507899,
    ERR_LINK = 507901,
    COUNTERS = 64,
    PLANS = 32,
    TRACED = 1024,
    HANGS = -1, /* what is planned and no code */
    GOES_DOWN = -2,
    KILLS = -3,
    DIES = -4,
    FLIPS = -5,
    WAITS = -6,
    CPU_THREADS = 6,
    HEADROOM = 4096,   /* beside a program's copy on the card */
    STUCK_MS = 2000,   /* for a kernel that is still there when its card is forced */
    FORCED_MS = 60000, /* for all else, on a machine that others use as well */
    DESTROYED_MS = 5000,
};

struct standin standin = { .lock = PTHREAD_MUTEX_INITIALIZER,
                           .changed = PTHREAD_COND_INITIALIZER,
                           .address = CARD_MEMORY };
__thread struct context *standin_here;
__thread jmp_buf *standin_escape;
static __thread int64_t flips = -1; /* the byte with a wrong bit of the copy that follows */

static struct {
    char name[NAME_MAX_BYTES];
    uint64_t count;
} counter[COUNTERS];

static struct planned {
    char name[NAME_MAX_BYTES];
    uint64_t first, last;
    int code;
    uint32_t number; /* of milliseconds, or of a byte */
} plan[PLANS];
static uint32_t plan_count;
static const char *called[TRACED]; /* names are those of the code: they stay */
static char met[NAME_MAX_BYTES];   /* the planned call that came */

/* ---- set-up and accounts ---- */

static uint64_t number_from(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);

    return text != NULL && text[0] != '\0' ? strtoull(text, NULL, 0) : otherwise;
}

/* A code, or one of the words. */
static void read_what(struct planned *p, const char *text)
{
    static const struct {
        const char *word;
        int code;
    } words[] = { { "hang", HANGS }, { "down", GOES_DOWN }, { "kill", KILLS },
                  { "die", DIES },   { "flip(", FLIPS },    { "delay(", WAITS } };

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
    standin.busy = (uint32_t)number_from("STANDIN_BUSY", 0);
    standin.is_part = getenv("STANDIN_PART") != NULL && getenv("STANDIN_PART")[0] != '\0';
    if (disk != NULL) {
        snprintf(standin.disk, sizeof(standin.disk), "%s", disk);
    } else {
        snprintf(standin.disk, sizeof(standin.disk), "/tmp/standin-XXXXXX");
        standin.is_own_disk = mkdtemp(standin.disk) != NULL;
    }
    standin_open_cards();
    read_plan(getenv("STANDIN_PLAN"));
    standin.cpu_command = getenv("STANDIN_AICPU");
    if (standin.cpu_command != NULL)
        standin.memory = standin_memory_file();
}

/* Until a card is forced, or there is another plan. Under the lock. */
static int hang(void)
{
    uint64_t epoch = standin.epoch;

    while (standin.epoch == epoch)
        pthread_cond_wait(&standin.changed, &standin.lock);
    return ERR_LINK;
}

/* Those that are processes; nobody else notices. Under the lock. */
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

/* Under the lock, which is left for that time. */
static int delay(uint32_t ms)
{
    pthread_mutex_unlock(&standin.lock);
    usleep(1000 * ms);
    pthread_mutex_lock(&standin.lock);
    return 0;
}

/* The planned thing happens. Under the lock. */
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
    case FLIPS:
        flips = (int64_t)p->number;
        return 0;
    case WAITS:
        return delay(p->number);
    default:
        return p->code;
    }
}

/* What is planned for the next time by this name, which is counted; NULL: nothing. Under the lock. */
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

/* The code of a call that is planned to fail. Under the lock. */
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
    if (standin.is_over && strcmp(name, "aclInit") != 0) {
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

/* Several processes can have one each. */
static void find_report(char *path, size_t bytes)
{
    const char *text = getenv("STANDIN_REPORT");
    const char *at = text != NULL ? strstr(text, "%p") : NULL;

    if (at != NULL)
        snprintf(path, bytes, "%.*s%d%s", (int)(at - text), text, (int)getpid(), at + 2);
    else if (text != NULL)
        snprintf(path, bytes, "%s", text);
}

/* What a process leaves behind is told, and where it asked for it. */
__attribute__((destructor)) static void report(void)
{
    static const char *const things[] = { "calls",       "violations", "streams",  "acl",
                                          "allocations", "modules",    "binaries", "references",
                                          "used",        "peak",       "shared",   "launched",
                                          "events",      "runs",       "behind",   "idle_us" };
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

/* All references at once, whoever has them. */
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
    if (!is_card(device))
        return ERR_DEVICE;
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
        c->context->next = standin.contexts;
        standin.contexts = c->context;
    }
    c->references++;
    standin_here = c->context;
    pthread_mutex_unlock(&standin.lock);
    return 0;
}

/* Ends all that is left on the card; what was not given back is told, unless it was forced. */
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

/* What nearly every call begins with. */
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

/* Addresses of a card's that nobody had before. Private, unless the control processor is a process. */
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

/* Addresses are never used twice, have gaps between them, and are aligned to 512 bytes only. */
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

/* The link to the allocation that has all of these bytes; to NULL: there is none. Under the lock. */
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

/* Cores keep instructions that they have seen until their stream is made anew. */
void standin_check_code(uint64_t addr)
{
    struct allocation *a;

    pthread_mutex_lock(&standin.lock);
    a = *find((const void *)(uintptr_t)addr, 1);
    if (a == NULL)
        standin_violation("a core is to run what is no memory of its card");
    else if (a->written > standin.card[a->card].stream_made)
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

/* From a file with a name of its own, as the loader and a debugger want it. */
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

/* Global functions are entries: NAME_KEY_mix_aic and _mix_aiv, and no others. */
static bool has_good_names(const void *bytes, size_t size)
{
    const Elf64_Ehdr *header = bytes;
    const Elf64_Shdr *section;
    uint32_t entries = 0;

    if (size < sizeof(*header) || memcmp(header->e_ident, ELFMAG, SELFMAG) != 0)
        return false;
    section = (const Elf64_Shdr *)(const void *)((const char *)bytes + header->e_shoff);
    for (uint32_t i = 0; i < header->e_shnum; i++) {
        const Elf64_Sym *symbol;
        const char *names;

        if (section[i].sh_type != SHT_DYNSYM)
            continue;
        symbol = (const Elf64_Sym *)(const void *)((const char *)bytes + section[i].sh_offset);
        names = (const char *)bytes + section[section[i].sh_link].sh_offset;
        for (uint64_t k = 0; k < section[i].sh_size / sizeof(*symbol); k++) {
            const char *name = names + symbol[k].st_name;
            size_t length = strlen(name);

            if (ELF64_ST_BIND(symbol[k].st_info) != STB_GLOBAL || symbol[k].st_shndx == SHN_UNDEF)
                continue;
            if (length < 8 || (strcmp(name + length - 8, "_mix_aic") != 0 &&
                               strcmp(name + length - 8, "_mix_aiv") != 0))
                return false;
            entries++;
        }
    }
    return entries == 2;
}

struct options {
    const struct {
        int32_t id;
        uint32_t value[4];
    } * option;
    size_t count;
};

static struct binary *add_binary(enum kind kind)
{
    struct binary *b = calloc(1, sizeof(*b));

    if (b == NULL)
        abort();
    b->kind = kind;
    b->card = standin_here->card;
    pthread_mutex_lock(&standin.lock);
    b->next = standin.binaries;
    standin.binaries = b;
    pthread_mutex_unlock(&standin.lock);
    return b;
}

int aclrtBinaryLoadFromData(const void *data, size_t bytes, const struct options *options,
                            void **binary)
{
    struct binary *b;

    ENTER(aclrtBinaryLoadFromData);
    BOUND();
    if (options == NULL || options->count != 1 || options->option[0].id != 2 ||
        options->option[0].value[0] != 0x43554245 || !has_good_names(data, bytes))
        return ERR_PARAM;
    b = add_binary(KIND_CORES);
    b->bytes = malloc(bytes);
    if (b->bytes == NULL)
        abort();
    memcpy(b->bytes, data, bytes);
    b->size = bytes;
    *binary = b;
    return 0;
}

/* The value of a key of the description; only what the vendor reads. */
static bool take_key(const char *text, const char *key, char *value, size_t bytes)
{
    char quoted[80];
    const char *at, *end;

    snprintf(quoted, sizeof(quoted), "\"%s\"", key);
    at = strstr(text, quoted);
    at = at != NULL ? strchr(at + strlen(quoted), '"') : NULL;
    end = at != NULL ? strchr(at + 1, '"') : NULL;
    if (end == NULL || (size_t)(end - at - 1) >= bytes)
        return false;
    memcpy(value, at + 1, (size_t)(end - at - 1));
    value[end - at - 1] = '\0';
    return true;
}

static bool is_good_so(const char *so)
{
    return strlen(so) <= 100 &&
           strspn(so, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.") ==
               strlen(so);
}

int aclrtBinaryLoadFromFile(const char *path, struct options *options, void **binary)
{
    char text[4096] = "", library[32], user[16], so[128], function[NAME_MAX_BYTES];
    size_t length = strlen(path);
    FILE *file;
    struct binary *b;

    ENTER(aclrtBinaryLoadFromFile);
    BOUND();
    if (options == NULL || options->count != 1 || options->option[0].id != 3 ||
        options->option[0].value[0] != 0 || length < 5 || strcmp(path + length - 5, ".json") != 0)
        return ERR_PARAM;
    file = fopen(path, "re");
    if (file == NULL)
        return ERR_PARAM;
    (void)!fread(text, 1, sizeof(text) - 1, file);
    fclose(file);
    if (!take_key(text, "functionName", function, sizeof(function)) ||
        !take_key(text, "kernelSo", so, sizeof(so)) || !is_good_so(so) ||
        !take_key(text, "opKernelLib", library, sizeof(library)) ||
        !take_key(text, "userDefined", user, sizeof(user)) || strcmp(user, "False") != 0)
        return ERR_PARAM;
    b = add_binary(strcmp(library, "KFCKernel") == 0 ? KIND_EXTEND : KIND_CPU);
    snprintf(b->so, sizeof(b->so), "%s", so);
    snprintf(b->function, sizeof(b->function), "%s", function);
    sscanf(text, "{\"%63[^\"]\"", b->op);
    *binary = b;
    return 0;
}

static int add_function(struct binary *b, void **function)
{
    struct function *f = calloc(1, sizeof(*f));

    if (f == NULL)
        abort();
    f->binary = b;
    pthread_mutex_lock(&standin.lock);
    f->next = standin.functions;
    standin.functions = f;
    pthread_mutex_unlock(&standin.lock);
    *function = f;
    return 0;
}

int aclrtBinaryGetFunction(void *binary, const char *name, void **function)
{
    ENTER(aclrtBinaryGetFunction);
    BOUND();
    if (strcmp(((struct binary *)binary)->op, name) != 0)
        return ERR_PARAM;
    return add_function(binary, function);
}

int aclrtBinaryGetFunctionByEntry(void *binary, uint64_t entry, void **function)
{
    ENTER(aclrtBinaryGetFunctionByEntry);
    BOUND();
    if (((struct binary *)binary)->kind != KIND_CORES || entry != 0)
        return ERR_PARAM;
    return add_function(binary, function);
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
    free(b->bytes);
    free(b);
}

int aclrtBinaryUnLoad(void *binary)
{
    struct binary **link = &standin.binaries;
    int code = 0;

    ENTER(aclrtBinaryUnLoad);
    BOUND();
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

/* ---- the control processor ---- */

static uint32_t run_program(struct binary *b, uint32_t card, struct task *t)
{
    struct cpu_programs *programs = &standin.card[card].programs;
    struct cpu_request request = { .is_extend = b->kind == KIND_EXTEND };

    if (standin.cpu_command == NULL)
        return b->kind == KIND_EXTEND
                   ? cpu_programs_extend(programs, standin.disk, t->args)
                   : cpu_programs_run(programs, standin.disk, b->so, b->function, t->args);
    snprintf(request.so, sizeof(request.so), "%s", b->so);
    snprintf(request.function, sizeof(request.function), "%s", b->function);
    memcpy(request.args, t->args, sizeof(request.args));
    return standin_process_run(card, &request, t->cores_due);
}

static int run_cpu(struct binary *b, uint32_t card, struct task *t)
{
    int code;

    if (b->kind == KIND_EXTEND && (strcmp(b->so, "libaicpu_extend_kernels.so") != 0 ||
                                   strcmp(b->function, "DynTileFwkKernelServerInit") != 0))
        return ERR_CPU;
    pthread_mutex_lock(&standin.lock);
    code = take_plan("aicpu", false);
    pthread_mutex_unlock(&standin.lock);
    return code == 0 && run_program(b, card, t) == 0 ? 0 : ERR_CPU;
}

/* ---- streams ---- */

static int run_task(struct stream *s, struct task *t)
{
    struct binary *b = t->function != NULL ? t->function->binary : NULL;

    if (b == NULL)
        return t->work(t->arg);
    return b->kind == KIND_CORES ? standin_run_cores(b, s->context->card, t->blocks, t->args)
                                 : run_cpu(b, s->context->card, t);
}

/* A forced reset ends it wherever it waits, as it would end the vendor's process. */
static int run_task_until_forced(struct stream *s, struct task *t)
{
    jmp_buf escape;
    volatile int code = ERR_CPU;

    standin_escape = &escape;
    if (setjmp(escape) == 0)
        code = run_task(s, t);
    standin_escape = NULL;
    return code;
}

/* Nothing of it is begun any more. Under the lock. */
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
 * What it has to do next; NULL: nothing, or it waits for an event, or it ends. A forced reset begins
 * nothing: cores would start while the program before them is still on its way out. Under the lock.
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

    standin_here = s->context; /* as if it were the card */
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
            code = run_task_until_forced(s, t);
            pthread_mutex_lock(&standin.lock);
            standin_note_end(c, t);
            s->is_busy = false;
        }
        free(t);
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

/* Nothing is left to do, or it has failed. */
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
 * Under the lock. False: it is still busy, and left alone. Kernels cannot be ended, and are not waited
 * for much longer; all else ends by itself, however long the machine takes.
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

int aclrtSynchronizeStreamWithTimeout(void *stream, int32_t ms)
{
    struct stream *s = stream;
    int code;

    ENTER(aclrtSynchronizeStreamWithTimeout);
    BOUND();
    if (s->context != standin_here)
        return ERR_STREAM;
    pthread_mutex_lock(&standin.lock);
    code = !standin_await(is_stream_done, s, ms) ? ERR_LATE : s->error;
    if (code == s->error && code != 0 && s->is_told)
        standin_violation("a second wait for a stream that failed: the vendor's never returns");
    if (code == s->error && code != 0)
        s->is_told = true;
    pthread_mutex_unlock(&standin.lock);
    return code;
}

int aclrtSynchronizeDeviceWithTimeout(int32_t ms)
{
    (void)ms;
    ENTER(aclrtSynchronizeDeviceWithTimeout);
    BOUND();
    return 0; /* also on a card that has failed */
}

int aclrtGetStreamResLimit(void *stream, int kind, uint32_t *value)
{
    (void)stream;
    ENTER(aclrtGetStreamResLimit);
    BOUND();
    *value = (standin.is_a5 ? 36u : 24u) * (kind == 0 ? 1 : 2);
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

/* The first launch on a card puts a copy there, which stays until the program is given back. */
static int ready_module(struct binary *b)
{
    if (b->kind != KIND_CORES || b->module != NULL)
        return 0;
    if (standin_is_answering(standin_here->card))
        b->module = give(standin_here->card, b->size + HEADROOM, true);
    if (b->module == NULL) {
        standin_worsen(standin_here->card, POISONED); /* what follows says something else */
        return ERR_MEMORY;
    }
    return load_elf(b);
}

int aclrtLaunchKernelWithHostArgs(void *function, uint32_t blocks, void *stream,
                                  const struct config *config, void *args, size_t bytes,
                                  void *places, size_t place_count)
{
    struct function *f = function;
    struct stream *s = stream;
    struct card *c;
    struct task *t;
    int code;

    (void)places;
    ENTER(aclrtLaunchKernelWithHostArgs);
    BOUND();
    c = &standin.card[standin_here->card];
    if (s->context != standin_here)
        return ERR_STREAM;
    if ((config != NULL && config->attribute == NULL) || place_count != 0 || blocks == 0 ||
        bytes > sizeof(t->args))
        return ERR_PARAM;
    if (!standin_is_answering(standin_here->card))
        return ERR_MEMORY;
    code = ready_module(f->binary);
    if (code != 0)
        return code;
    if (f->binary->kind == KIND_CORES &&
        (config == NULL || config->count != 1 || config->attribute[0].id != 1 ||
         config->attribute[0].value[0] != 1))
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
    t->bytes = bytes;
    memcpy(t->args, args, bytes);
    memset(args, 0xdd, bytes); /* the caller's are nobody's any more */
    pthread_mutex_lock(&standin.lock);
    if (f->binary->kind == KIND_CORES) {
        c->stream_made = s->made;
        c->launched = c->used;
        c->cores_due += 3 * blocks;
        standin_note_launch(c);
    }
    t->cores_due = c->cores_due;
    s->kind = (int)f->binary->kind;
    standin_push(s, t);
    pthread_mutex_unlock(&standin.lock);
    return 0;
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
