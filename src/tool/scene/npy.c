/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A .npy file is a magic, a version, the length of a header, the header as a
 * literal of a Python dictionary, and the elements:
 *
 *     \x93NUMPY 1 0 length {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }
 */
#include "tool/scene/npy.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pto/pto.h"
#include "base/file.h"
#include "pto/build.h"

#define NPY_BYTES_MAX (1ull << 40)

enum { MAGIC_BYTES = 6, HEADER_MAX = 1 << 16, ALIGNMENT = 64 };

static const char magic[MAGIC_BYTES + 1] = "\x93NUMPY";

/* Cursor over the part of the header that is not parsed yet. */
struct text {
    const char *at;
    const char *end;
};

struct header {
    char descr[16];
    bool is_fortran;
    uint32_t seen; /* bit 0 descr, 1 fortran_order, 2 shape */
};

static int parse_header(const char *name, struct text text, struct npy *npy,
                        struct pto_error *error);
static int arrange(const char *name, struct npy *npy, const char *descr, bool is_fortran,
                   struct pto_error *error);

int scene_npy_read(const char *path, struct npy *npy, struct pto_error *error)
{
    char *bytes;
    size_t size;
    int status = file_load(path, NPY_BYTES_MAX, &bytes, &size, error);

    return status < 0 ? status : scene_npy_parse(path, bytes, size, npy, error);
}

int scene_npy_parse(const char *name, void *bytes, size_t size, struct npy *npy,
                    struct pto_error *error)
{
    const unsigned char *b = bytes;
    size_t length, begin;
    int status;

    *npy = (struct npy){ .file = bytes };
    if (size < 12 || memcmp(b, magic, MAGIC_BYTES) != 0 || b[6] < 1 || b[6] > 3) {
        scene_npy_free(npy);
        return error_setf(error, PTO_EFORMAT, "%.1000s is not a .npy file of version 1 to 3", name);
    }
    begin = b[6] == 1 ? 10 : 12;
    length = b[8] | (size_t)b[9] << 8;
    if (b[6] != 1)
        length |= (size_t)b[10] << 16 | (size_t)b[11] << 24;
    if (length > HEADER_MAX || length > size - begin) {
        scene_npy_free(npy);
        return error_setf(error, PTO_EFORMAT, "%.1000s: the header is truncated or too long", name);
    }

    const struct text text = { (const char *)b + begin, (const char *)b + begin + length };

    npy->data = (char *)bytes + begin + length;
    /*
     * number of bytes of the elements until the header is parsed; afterwards the number of elements
     */
    npy->count = size - begin - length;
    status = parse_header(name, text, npy, error);
    if (status < 0)
        scene_npy_free(npy);
    return status;
}

void scene_npy_free(struct npy *npy)
{
    free(npy->file);
    npy->file = npy->data = NULL;
}

/* ---- the header ---- */

static void skip_space(struct text *t)
{
    while (t->at < t->end && (*t->at == ' ' || *t->at == '\n' || *t->at == '\t'))
        t->at++;
}

static bool parse_token(struct text *t, const char *word)
{
    size_t length = strlen(word);

    skip_space(t);
    if ((size_t)(t->end - t->at) < length || memcmp(t->at, word, length) != 0)
        return false;
    t->at += length;
    return true;
}

/* Parses a quoted word of at most bytes - 1 characters. */
static bool parse_quoted(struct text *t, char *word, size_t bytes)
{
    char quote;
    size_t length = 0;

    skip_space(t);
    if (t->at == t->end || (*t->at != '\'' && *t->at != '"'))
        return false;
    quote = *t->at++;
    while (t->at < t->end && *t->at != quote && length < bytes - 1)
        word[length++] = *t->at++;
    word[length] = '\0';
    if (t->at == t->end || *t->at != quote)
        return false;
    t->at++;
    return true;
}

static bool npy_parse_size(struct text *t, uint32_t *value_out)
{
    uint64_t value = 0;
    const char *begin;

    skip_space(t);
    for (begin = t->at; t->at < t->end && *t->at >= '0' && *t->at <= '9'; t->at++) {
        value = value * 10 + (uint64_t)(*t->at - '0');
        if (value > UINT32_MAX)
            return false;
    }
    *value_out = (uint32_t)value;
    return t->at != begin;
}

static bool parse_header_shape(struct text *t, struct npy *npy)
{
    if (!parse_token(t, "("))
        return false;
    while (!parse_token(t, ")")) {
        if (npy->ndims == PTO_MAX_DIMS || !npy_parse_size(t, &npy->shapes[npy->ndims]))
            return false;
        (void)parse_token(t, "L"); /* files written by Python 2 have the suffix L after integers */
        npy->ndims++;
        if (!parse_token(t, ",")) {
            if (!parse_token(t, ")"))
                return false;
            break;
        }
    }
    if (npy->ndims == 0)
        npy->shapes[npy->ndims++] = 1;
    return true;
}

static bool parse_header_entry(struct text *t, struct npy *npy, struct header *header)
{
    char key[16];
    uint32_t bit;
    bool is_good;

    if (!parse_quoted(t, key, sizeof(key)) || !parse_token(t, ":"))
        return false;
    if (strcmp(key, "descr") == 0) {
        bit = 1;
        is_good = parse_quoted(t, header->descr, sizeof(header->descr));
    } else if (strcmp(key, "fortran_order") == 0) {
        bit = 2;
        header->is_fortran = parse_token(t, "True");
        is_good = header->is_fortran || parse_token(t, "False");
    } else {
        bit = 4;
        is_good =
            strcmp(key, "shape") == 0 && (header->seen & bit) == 0 && parse_header_shape(t, npy);
    }
    is_good = is_good && (header->seen & bit) == 0;
    header->seen |= bit;
    return is_good;
}

static int parse_header(const char *name, struct text text, struct npy *npy,
                        struct pto_error *error)
{
    struct header header = { .seen = 0 };
    bool is_good = parse_token(&text, "{");

    while (is_good && !parse_token(&text, "}")) {
        is_good = parse_header_entry(&text, npy, &header);
        if (is_good && !parse_token(&text, ",")) {
            is_good = parse_token(&text, "}");
            break;
        }
    }
    if (!is_good || header.seen != 7)
        return error_setf(
            error, PTO_EFORMAT,
            "%.1000s: unsupported header: it must have up to 5 dimensions and one simple "
            "element type",
            name);
    return arrange(name, npy, header.descr, header.is_fortran, error);
}

/* ---- the elements ---- */

static void swap_bytes(struct npy *npy)
{
    char *item = npy->data;

    for (uint64_t i = 0; i < npy->count; i++, item += npy->item_bytes)
        for (uint32_t low = 0, high = npy->item_bytes - 1; low < high; low++, high--) {
            char byte = item[low];

            item[low] = item[high];
            item[high] = byte;
        }
}

/* Converts column-major data to row-major. */
static int transpose(const char *name, struct npy *npy, struct pto_error *error)
{
    char *rows = malloc(npy->count * npy->item_bytes + 1);
    const char *columns = npy->data;
    uint32_t at[PTO_MAX_DIMS] = { 0 };

    if (rows == NULL)
        return error_setf(error, PTO_ENOMEM, "not enough memory for %.1000s", name);
    for (uint64_t i = 0; i < npy->count; i++) {
        uint64_t from = 0;

        for (uint32_t d = npy->ndims; d-- > 0;)
            from = from * npy->shapes[d] + at[d];
        memcpy(rows + i * npy->item_bytes, columns + from * npy->item_bytes, npy->item_bytes);
        for (uint32_t d = npy->ndims; d-- > 0 && ++at[d] == npy->shapes[d];)
            at[d] = 0;
    }
    free(npy->file);
    npy->file = npy->data = rows;
    return PTO_OK;
}

static int arrange(const char *name, struct npy *npy, const char *descr, bool is_fortran,
                   struct pto_error *error)
{
    uint64_t there = npy->count, count = 1;
    char order = descr[0];
    bool is_known = strchr("<>|=", order) != NULL && order != '\0' &&
                    strchr("fiubV", descr[1]) != NULL && descr[1] != '\0' && descr[2] >= '1' &&
                    descr[2] <= '8' && descr[3] == '\0';

    if (!is_known)
        return error_setf(error, PTO_EFORMAT, "%.1000s: unsupported element type '%s'", name,
                          descr);
    npy->kind = descr[1];
    npy->item_bytes = (uint32_t)(descr[2] - '0');
    for (uint32_t d = 0; d < npy->ndims; d++)
        if (__builtin_mul_overflow(count, (uint64_t)npy->shapes[d], &count) ||
            count > NPY_BYTES_MAX)
            return error_setf(error, PTO_EFORMAT, "%.1000s: the shape is too large", name);
    if (there != count * npy->item_bytes)
        return error_setf(error, PTO_EFORMAT,
                          "%.1000s has %llu bytes of data, and its shape needs %llu", name,
                          (unsigned long long)there, (unsigned long long)(count * npy->item_bytes));
    npy->count = count;
    if (order == '>')
        swap_bytes(npy);
    return is_fortran && npy->ndims > 1 ? transpose(name, npy, error) : PTO_OK;
}

/* ---- types ---- */

bool scene_npy_fits(const struct npy *npy, enum pto_dtype dtype)
{
    const struct pto_dtype_info *info = pto_dtype_info((uint32_t)dtype);

    return npy->item_bytes == info->bytes &&
           (npy->kind == info->npy || (info->npy == 'V' && npy->kind == 'u'));
}

/*
 * Returns the data type of the file, by kind and size of its elements; -1 if not exactly one type
 * has them.
 */
int scene_npy_dtype(const struct npy *npy)
{
    int found = -1;

    for (uint32_t i = 0; i < PTO_DTYPE_COUNT; i++) {
        const struct pto_dtype_info *info = pto_dtype_info(i);

        if (info->npy != npy->kind || info->bytes != npy->item_bytes)
            continue;
        if (found >= 0)
            return -1;
        found = (int)i;
    }
    return found;
}

int scene_npy_write(const char *path, enum pto_dtype dtype, const uint32_t *shapes, uint32_t ndims,
                    const void *data, struct pto_error *error)
{
    const struct pto_dtype_info *info = pto_dtype_info((uint32_t)dtype);
    size_t bytes = info->bytes, used;
    char header[256];
    char *file;
    int status;

    for (uint32_t d = 0; d < ndims; d++)
        bytes *= shapes[d];
    memcpy(header, "\x93NUMPY\1\0\0\0", 10);
    used =
        10 + (size_t)sprintf(header + 10, "{'descr': '%c%c%u', 'fortran_order': False, 'shape': (",
                             info->bytes > 1 ? '<' : '|', info->npy, info->bytes);
    for (uint32_t d = 0; d < ndims; d++)
        used += (size_t)sprintf(header + used, "%u, ", shapes[d]);
    used += (size_t)sprintf(header + used, "), }");
    assert(used + ALIGNMENT <= sizeof(header));
    while ((used + 1) % ALIGNMENT != 0)
        header[used++] = ' ';
    header[used++] = '\n';
    header[8] = (char)((used - 10) & 255);
    header[9] = (char)((used - 10) >> 8);
    file = malloc(used + bytes);
    if (file == NULL)
        return error_setf(error, PTO_ENOMEM, "out of memory while writing %.1000s", path);
    memcpy(file, header, used);
    memcpy(file + used, data, bytes);
    status = pto_file_write(path, file, used + bytes, error);
    free(file);
    return status;
}
