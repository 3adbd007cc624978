/* SPDX-License-Identifier: Apache-2.0 */
/* What compilers call without being asked to: a core has no library. Weak: a program may have several parts. */
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
