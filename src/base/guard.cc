// SPDX-License-Identifier: Apache-2.0
//
// Reads what was caught by guard.c. The one C++ file of the runtime, in a library of
// its own (libptoguard), which is loaded when a C++ exception was thrown.
#include <cstdio>
#include <cxxabi.h>
#include <exception>

extern "C" __attribute__((visibility("default"))) void pto_guard_take(void *exception, char *text,
                                                                      size_t size)
{
    __cxxabiv1::__cxa_begin_catch(exception);
    try {
        throw;
    } catch (const std::exception &e) {
        std::snprintf(text, size, "%s", e.what());
    } catch (...) {
        std::snprintf(text, size, "not a std::exception");
    }
    __cxxabiv1::__cxa_end_catch();
}
