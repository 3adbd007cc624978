/* SPDX-License-Identifier: Apache-2.0 */
/* Where lines of log go. A lock guards who takes them; the threshold is read without one. */
#include "compat/door/door_log.h"

#include <pthread.h>
#include <stdio.h>

#include "base/sized.h"
#include "compat/door/layout.h"
#include "pto/door.h"

enum { LINE_BYTES = 1024 };

static struct door_log_state own_state = { 1, sizeof(own_state), PTO_LOG_TIMING, 0 };

static struct {
    pthread_mutex_t lock;
    struct pto_log log;
    struct door_log_state *state; /* is looked at without the lock: a pointer that is swapped */
} sink = { .lock = PTHREAD_MUTEX_INITIALIZER, .state = &own_state };

int pto_log_set(const struct pto_log *given)
{
    struct door_log_state *state;
    struct pto_log log;

    pto_log_init(&log);
    if (given != NULL && sized_read(&log, sizeof(log), given) < 0)
        return PTO_EINVAL;
    state = log.state != NULL ? log.state : &own_state;
    pthread_mutex_lock(&sink.lock);
    sink.log = log;
    if (state == &own_state)
        __atomic_store_n(&own_state.threshold, log.threshold, __ATOMIC_RELAXED); /* a number */
    __atomic_store_n(&sink.state, state, __ATOMIC_RELEASE); /* filled in by the caller before */
    pthread_mutex_unlock(&sink.lock);
    return PTO_OK;
}

static struct door_log_state *current_state(void)
{
    return __atomic_load_n(&sink.state, __ATOMIC_ACQUIRE);
}

static const char *door_level_name(int level)
{
    return level >= PTO_LOG_ERROR    ? "error"
           : level >= PTO_LOG_WARN   ? "warning"
           : level >= PTO_LOG_TIMING ? "timing"
           : level >= PTO_LOG_INFO   ? "info"
                                     : "debug";
}

void door_log(int level, const char *function, const char *format, va_list values)
{
    char text[LINE_BYTES];
    struct pto_log log;

    if (level < __atomic_load_n(&current_state()->threshold, __ATOMIC_RELAXED) || format == NULL)
        return;
    if (function == NULL)
        function = "";
    vsnprintf(text, sizeof(text), format, values);
    pthread_mutex_lock(&sink.lock);
    log = sink.log;
    pthread_mutex_unlock(&sink.lock);
    if (log.fn != NULL)
        log.fn(log.context, level, function, text);
    else
        fprintf(stderr, "%s: %s: %s\n", door_level_name(level), function, text);
}

void door_log_text(int level, const char *function, const char *format, ...)
{
    va_list values;

    va_start(values, format);
    door_log(level, function, format, values);
    va_end(values);
}

void door_log_bind(void *symbol)
{
    int (*bind)(struct door_log_state *) = NULL;

    *(void **)&bind = symbol;
    if (bind != NULL)
        (void)bind(current_state()); /* one that refuses it logs as it likes */
}
