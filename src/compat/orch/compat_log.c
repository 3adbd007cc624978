/* SPDX-License-Identifier: Apache-2.0 */
/* Where log lines go. A lock guards the destination; the threshold is read without the lock. */
#include "compat/orch/compat_log.h"

#include <pthread.h>
#include <stdio.h>

#include "base/sized.h"
#include "compat/orch/layout.h"
#include "pto/log.h"

enum { LINE_BYTES = 1024 };

static struct compat_log_state own_state = { 1, sizeof(own_state), PTO_LOG_TIMING, 0 };

static struct {
    pthread_mutex_t lock;
    struct pto_log log;
    struct compat_log_state *state; /* read without the lock, so it is replaced as a whole */
} sink = { .lock = PTHREAD_MUTEX_INITIALIZER, .state = &own_state };

int pto_log_set(const struct pto_log *given)
{
    struct compat_log_state *state;
    struct pto_log log;

    pto_log_init(&log);
    if (given != NULL && sized_read(&log, sizeof(log), given) < 0)
        return PTO_EINVAL;
    state = log.state != NULL ? log.state : &own_state;
    pthread_mutex_lock(&sink.lock);
    sink.log = log;
    if (state == &own_state)
        /* orders no other memory */
        __atomic_store_n(&own_state.threshold, log.threshold, __ATOMIC_RELAXED);
    /* Release: the caller has filled in the state before. */
    __atomic_store_n(&sink.state, state, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&sink.lock);
    return PTO_OK;
}

static struct compat_log_state *current_state(void)
{
    return __atomic_load_n(&sink.state, __ATOMIC_ACQUIRE);
}

static const char *compat_level_name(int level)
{
    return level >= PTO_LOG_ERROR    ? "error"
           : level >= PTO_LOG_WARN   ? "warning"
           : level >= PTO_LOG_TIMING ? "timing"
           : level >= PTO_LOG_INFO   ? "info"
                                     : "debug";
}

void compat_log(int level, const char *function, const char *format, va_list values)
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
        fprintf(stderr, "%s: %s: %s\n", compat_level_name(level), function, text);
}

void compat_log_text(int level, const char *function, const char *format, ...)
{
    va_list values;

    va_start(values, format);
    compat_log(level, function, format, values);
    va_end(values);
}

void compat_log_bind(void *symbol)
{
    int (*bind)(struct compat_log_state *) = NULL;

    *(void **)&bind = symbol;
    if (bind != NULL)
        /* if the object has no such function, it prints its log lines itself */
        (void)bind(current_state());
}
