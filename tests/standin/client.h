/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by programs that use the library with the stand-in. */
#ifndef PTO_STANDIN_CLIENT_H
#define PTO_STANDIN_CLIENT_H

#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

__attribute__((format(printf, 1, 2))) static inline _Noreturn void fail(const char *format, ...)
{
    va_list values;

    va_start(values, format);
    vfprintf(stderr, format, values);
    va_end(values);
    fputc('\n', stderr);
    exit(1);
}

/* Looks up a function of the stand-in, for programs that are not linked with it. */
static inline void *find(const char *name)
{
    void *library = dlopen("libascendcl.so", RTLD_NOW | RTLD_GLOBAL);
    void *symbol = library != NULL ? dlsym(library, name) : NULL;

    if (symbol == NULL)
        fail("%s is not there: start it with build/standin/with", name);
    return symbol;
}

#endif
