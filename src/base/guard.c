/* SPDX-License-Identifier: Apache-2.0 */
#include "base/guard.h"

#include <dlfcn.h>

guard_fn guard_find(void)
{
    void *runtime = dlopen("libstdc++.so.6", RTLD_NOW | RTLD_NOLOAD);
    void *guard;

    if (runtime == NULL)
        return NULL;
    dlclose(runtime);
    guard = dlopen("libptoguard.so.0", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (guard == NULL)
        return NULL;

    guard_fn fn = (guard_fn)(uintptr_t)dlsym(guard, "pto_guard_call");

    dlclose(guard); /* it stays */
    return fn;
}
