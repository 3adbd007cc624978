/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/sized.h"

/*
 * A message that is too long for a pto_error, for example because of a path, is cut in the middle,
 * because the defect is at its beginning and the remedy at its end.
 */
enum { TEXT_MAX = 4 * PTO_ERROR_TEXT_MAX, HEAD_BYTES = 120 };

int error_setf(struct pto_error *error, int status, const char *format, ...)
{
    char text[TEXT_MAX];
    struct pto_error own;
    va_list args;
    size_t length;

    if (error == NULL)
        return status;
    pto_error_init(&own);
    own.status = status;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    length = strlen(text);
    if (length < sizeof(own.text))
        memcpy(own.text, text, length + 1);
    else
        snprintf(own.text, sizeof(own.text), "%.*s...%s", HEAD_BYTES, text,
                 text + length - (sizeof(own.text) - 1 - HEAD_BYTES - 3));
    pto_text_clean(own.text, false);
    sized_write(error, &own, sizeof(own));
    return status;
}

uint32_t error_character_bytes(const unsigned char *at)
{
    uint32_t bytes = at[0] < 0x80                    ? 1
                     : at[0] >= 0xc2 && at[0] < 0xe0 ? 2
                     : at[0] >= 0xe0 && at[0] < 0xf0 ? 3
                     : at[0] >= 0xf0 && at[0] < 0xf5 ? 4
                                                     : 0;

    for (uint32_t i = 1; i < bytes; i++)
        if ((at[i] & 0xc0) != 0x80)
            return 0;
    if ((at[0] == 0xe0 && at[1] < 0xa0) || (at[0] == 0xed && at[1] >= 0xa0) ||
        (at[0] == 0xf0 && at[1] < 0x90) || (at[0] == 0xf4 && at[1] >= 0x90))
        /* invalid UTF-8: longer than necessary, a surrogate, or beyond the last character */
        return 0;
    return bytes;
}

/*
 * Whether a character is a control character (below the space, U+0080 to U+009F) or changes the
 * direction of writing (U+202A to U+202E, U+2066 to U+2069).
 */
static bool is_control(const unsigned char *at, uint32_t bytes, bool is_name)
{
    if (bytes == 1)
        return (at[0] < 0x20 && (is_name || (at[0] != '\n' && at[0] != '\t'))) || at[0] == 0x7f;
    if (bytes == 2)
        return at[0] == 0xc2 && at[1] < 0xa0;
    return bytes == 3 && at[0] == 0xe2 &&
           ((at[1] == 0x80 && at[2] >= 0xaa && at[2] <= 0xae) ||
            (at[1] == 0x81 && at[2] >= 0xa6 && at[2] <= 0xa9));
}

char *pto_text_clean(char *text, bool is_name)
{
    for (unsigned char *at = (unsigned char *)text; at != NULL && *at != '\0';) {
        uint32_t bytes = error_character_bytes(at);

        if (bytes == 0 || is_control(at, bytes, is_name))
            memset(at, '?', bytes != 0 ? bytes : 1);
        at += bytes != 0 ? bytes : 1;
    }
    return text;
}
