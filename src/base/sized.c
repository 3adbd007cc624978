/* SPDX-License-Identifier: Apache-2.0 */
#include "base/sized.h"

#include <string.h>

#include "pto/status.h"

enum { SIZE_LIMIT = 1 << 16 }; /* upper limit for `size`, far larger than any public struct */

static size_t size_of(const void *given)
{
    size_t size;

    memcpy(&size, given, sizeof(size));
    return size;
}

bool sized_is_valid(const void *given)
{
    size_t size = given != NULL ? size_of(given) : sizeof(size);

    return size >= sizeof(size) && size <= SIZE_LIMIT && size % sizeof(size) == 0;
}

int sized_read(void *known, size_t known_size, const void *given)
{
    const char *bytes = given;
    size_t size;

    if (given == NULL || !sized_is_valid(given))
        return PTO_EINVAL;
    size = size_of(given);
    for (size_t i = known_size; i < size; i++)
        if (bytes[i] != 0)
            return PTO_EINVAL;
    memcpy(known, given, size < known_size ? size : known_size);
    memcpy(known, &known_size, sizeof(known_size));
    return PTO_OK;
}

void sized_write(void *given, const void *known, size_t known_size)
{
    sized_write_field(given, sizeof(size_t), (const char *)known + sizeof(size_t),
                      known_size - sizeof(size_t));
}

void sized_write_field(void *given, size_t offset, const void *field, size_t bytes)
{
    size_t room;

    if (given == NULL || !sized_is_valid(given) || size_of(given) <= offset)
        return;
    room = size_of(given) - offset;
    memcpy((char *)given + offset, field, bytes < room ? bytes : room); /* mutation: beyond-size */
}
