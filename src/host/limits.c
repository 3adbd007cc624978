/* SPDX-License-Identifier: Apache-2.0 */
/* Resolves ring sizes from options and environment. */
#include "host/limits.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>

static const struct variable {
    const char *name;
    uint64_t low;
    uint64_t high;
    bool is_power_of_two;
    const char *warning;
} variables[LIMITS_VARIABLES] = {
    { "PTO2_RING_TASK_WINDOW", 4, INT32_MAX, true,
      "PTO2_RING_TASK_WINDOW is ignored: it takes one power of two from 4 to 2^30, or four of "
      "them, separated by commas" },
    { "PTO2_RING_HEAP", 1024, UINT64_MAX, false,
      "PTO2_RING_HEAP is ignored: it takes one number of bytes from 1024 on, or four of them, "
      "separated by commas" },
    { "PTO2_RING_DEP_POOL", 4, INT32_MAX, false,
      "PTO2_RING_DEP_POOL is ignored: it takes one number from 4 to 2^31 - 1, or four of them, "
      "separated by commas" },
};

static bool is_in_range(uint64_t value, const struct variable *v);
static const char *parse_number(const char *text, uint64_t *value_out);

bool limits_parse(const char *text, uint64_t low, uint64_t high, bool is_power_of_two,
                  uint64_t value[PTO_RINGS])
{
    const struct variable range = { NULL, low, high, is_power_of_two, NULL };
    uint64_t number[PTO_RINGS];
    uint32_t count = 0;

    for (bool is_last = false; !is_last; count++) {
        if (count == PTO_RINGS)
            return false;
        text = parse_number(text, &number[count]);
        if (text == NULL || !is_in_range(number[count], &range))
            return false;
        is_last = *text == '\0';
        if (!is_last && *text++ != ',')
            return false;
    }
    if (count != 1 && count != PTO_RINGS)
        return false;
    for (uint32_t i = 0; i < PTO_RINGS; i++)
        value[i] = number[count == 1 ? 0 : i];
    return true;
}

int limits_resolve(const struct pto_ring_limits *options, struct pto_ring_limits *out,
                   const char *warning[LIMITS_VARIABLES])
{
    static const struct pto_ring_limits no_options;
    uint64_t value[LIMITS_VARIABLES][PTO_RINGS] = { { 0 } };
    const uint64_t *option[LIMITS_VARIABLES];
    int count = 0;

    if (options == NULL)
        options = &no_options;
    option[0] = options->task_window;
    option[1] = options->heap;
    option[2] = options->dep_pool;
    for (uint32_t i = 0; i < LIMITS_VARIABLES; i++) {
        const struct variable *v = &variables[i];
        const char *text = getenv(v->name);

        warning[i] = NULL;
        if (text != NULL && !limits_parse(text, v->low, v->high, v->is_power_of_two, value[i]))
            warning[i] = v->warning;
        for (uint32_t ring = 0; ring < PTO_RINGS; ring++) {
            if (option[i][ring] != 0)
                value[i][ring] = option[i][ring];
            if (value[i][ring] != 0 && !is_in_range(value[i][ring], v))
                return PTO_EINVAL;
            count += value[i][ring] != 0;
        }
    }
    for (uint32_t ring = 0; ring < PTO_RINGS; ring++) {
        out->task_window[ring] = value[0][ring];
        out->heap[ring] = value[1][ring];
        out->dep_pool[ring] = value[2][ring];
    }
    return count;
}

static bool is_in_range(uint64_t value, const struct variable *v)
{
    return value >= v->low && value <= v->high &&
           (!v->is_power_of_two || (value & (value - 1)) == 0);
}

/*
 * Parses a number with spaces around it; returns the text after it, or NULL. Unlike strtoull it
 * refuses a minus sign.
 */
static const char *parse_number(const char *text, uint64_t *value_out)
{
    unsigned long long value;
    char *end;

    while (isspace((unsigned char)*text))
        text++;
    if (!isdigit((unsigned char)*text) && *text != '+')
        return NULL;
    errno = 0;
    value = strtoull(text, &end, 10);
    if (end == text || errno == ERANGE)
        return NULL;
    while (isspace((unsigned char)*end))
        end++;
    *value_out = value;
    return end;
}
