/* SPDX-License-Identifier: Apache-2.0 */
#include "compat/orch/compat_source.h"

#include "compat/orch/compat_log.h"

/* The function that include/simpler/pto_orchestration_api.h defines in C++. */
typedef pto_orch_fn (*bind_fn)(void *entry, void *config,
                               void (*log)(int level, const char *function, const char *format,
                                           va_list values));

pto_orch_fn compat_source_bind(const struct object *object, void *entry, const char *config)
{
    void *symbol = object_symbol(object, OBJECT_SOURCE_SYMBOL);
    bind_fn bind;

    if (symbol == NULL)
        return NULL;
    *(void **)&bind = symbol;
    if (config == NULL || config[0] == '\0')
        config = "aicpu_orchestration_config";
    return bind(entry, object_symbol(object, config), compat_log);
}
