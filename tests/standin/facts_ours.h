/* SPDX-License-Identifier: Apache-2.0 */
/* For tests/standin/facts.sh: prints our tables as rows "kind, name, form". */
#ifndef PTO_STANDIN_FACTS_OURS_H
#define PTO_STANDIN_FACTS_OURS_H

/* Functions that the generations call, here without the vendor's software and with all cores. */
enum { FACTS_BASE = 1 << 30, FACTS_CORES = 64 };
static uint32_t facts_window_bytes;

uint64_t vendor_begin(const struct vendor *v, const char *name, uint64_t wait_ms)
{
    (void)v;
    (void)name;
    return wait_ms;
}

int vendor_end(struct vendor *v, const char *name, uint64_t begin_ns, int code,
               const struct vendor_shown *shown, uint32_t count)
{
    (void)v;
    (void)name;
    (void)begin_ns;
    (void)shown;
    (void)count;
    return code;
}

int vendor_status(int code)
{
    return code;
}

void vendor_note(const struct vendor *v, const char *kind, const char *format, ...)
{
    (void)v;
    (void)kind;
    (void)format;
}

static int facts_mem_ctl(int type, void *in, size_t in_bytes, void *out, size_t *out_bytes)
{
    (void)type;
    (void)in;
    (void)in_bytes;
    (void)out_bytes;
    ((struct vendor_map_out *)out)->at = FACTS_BASE;
    return 0;
}

static int facts_info(uint32_t device, int32_t module, int32_t info, void *at, int32_t *bytes)
{
    (void)device;
    (void)module;
    (void)info;
    memset(at, 0xff, (size_t)*bytes);
    return 0;
}

static int facts_map(unsigned device, struct vendor_resource *resource, unsigned long *at,
                     unsigned *bytes)
{
    (void)device;
    facts_window_bytes = *bytes;
    *at = FACTS_BASE + resource->id * (unsigned long)*bytes;
    return 0;
}

static void print_register(const char *generation, const char *what, uint64_t value)
{
    printf("register\t%s.%s\t%llu\n", generation, what, (unsigned long long)value);
}

/* Prints offsets, and positions of windows by the numbers of cores. */
static void print_registers(void)
{
    static const char *const names[] = { "a2a3", "a5" };
    struct vendor vendor = { .halMemCtl = facts_mem_ctl,
                             .halGetDeviceInfoByBuff = facts_info,
                             .halResMap = facts_map };

    for (int i = 0; i < 2; i++) {
        const struct cann_generation *g = cann_generation_find(names[i]);
        uint64_t base[3 * FACTS_CORES] = { 0 };
        const char *call = "";
        uint32_t per_die;

        (void)g->map_windows(&vendor, 0, g->cores, base, &call);
        for (per_die = 1; base[per_die] > base[per_die - 1] + (2 << 20); per_die++) {
        }
        print_register(g->name, "bell", g->bell_offset);
        print_register(g->name, "cond", g->cond_offset);
        print_register(g->name, "fast", g->fast_offset);
        print_register(g->name, "fast.open", g->fast_open);
        print_register(g->name, "fast.close", g->fast_close);
        print_register(g->name, "cores", g->cores);
        print_register(g->name, "cores.per.die", per_die);
        print_register(g->name, "stride", base[1] - base[0]);
        print_register(g->name, "vector.0", base[per_die] - base[0]);
        print_register(g->name, "vector.1", base[per_die + 1] - base[0]);
    }
    print_register("a5", "window.bytes", facts_window_bytes);
}

static void print_flags(void)
{
#define X(name, clusters, most, cube, vector, flags)                                              \
    printf("flags\t%s.cube\t%s\nflags\t%s.vector\t%s\nflags\t%s.kernels\t%s\n", name, cube, name, \
           vector, name, flags);
    GENERATION_MAP(X)
#undef X
}

/* Prints return type and parameters as they are written. */
static int print_prototypes(void)
{
#define X(library, returns, name, parameters) \
    printf("function\t%s\t%s\t%s\n", #name, #returns, #parameters);
    VENDOR_MAP(X)
    VENDOR_OPTIONAL_MAP(X)
    STANDIN_MAP(X)
#undef X
#define X(returns, name, parameters) printf("function\t%s\t%s\t%s\n", #name, #returns, #parameters);
    VENDOR_HCCL_MAP(X)
#undef X
    return 0;
}

#endif
