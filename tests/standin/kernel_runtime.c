/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions that compilers call implicitly, because a core has no library. Weak, because a program
 * may have several parts.
 */
#include <stddef.h>

__attribute__((weak, visibility("hidden"))) void *memcpy(void *to, const void *from, size_t bytes);
__attribute__((weak, visibility("hidden"))) void *memset(void *at, int value, size_t bytes);

void *memcpy(void *to, const void *from, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        ((char *)to)[i] = ((const char *)from)[i];
    return to;
}

void *memset(void *at, int value, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        ((char *)at)[i] = (char)value;
    return at;
}
