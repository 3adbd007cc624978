// SPDX-License-Identifier: Apache-2.0
//
// Calls an orchestration that may throw: an exception must not cross into C.
// The one C++ file of the runtime, in a library of its own (libptoguard), which
// is loaded when a C++ runtime is in the process anyway.
#include <cstdio>
#include <exception>

#include "pto/orch.h"

extern "C" __attribute__((visibility("default"))) int pto_guard_call(pto_orch_fn fn, pto_orch *o,
                                                                     const pto_entry *entry,
                                                                     char *text, size_t size)
{
    try {
        fn(o, entry);
        return 0;
    } catch (const std::exception &e) {
        std::snprintf(text, size, "%s", e.what());
    } catch (...) {
        std::snprintf(text, size, "not a std::exception");
    }
    return -1;
}
