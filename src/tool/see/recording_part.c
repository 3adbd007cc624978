/* SPDX-License-Identifier: Apache-2.0 */
#include "tool/see/recording_part.h"

#include <stdlib.h>
#include <string.h>

/* ---- reading numbers ---- */

uint64_t see_part_fault(struct recording_part *p, const char *fault)
{
    if (p->fault == NULL)
        p->fault = fault;
    return 0;
}

uint64_t see_part_number(struct recording_part *p, uint32_t kind)
{
    struct recording_cursor *c = &p->section[kind];
    uint64_t number = 0;

    for (uint32_t shift = 0; shift < 64 && c->at < c->end; shift += 7) {
        uint8_t byte = *c->at++;

        if (shift == 63 && byte > 1)
            break;
        number |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80)
            return number;
    }
    return see_part_fault(p, "the recording is damaged: a number is not terminated");
}

int64_t see_part_signed(struct recording_part *p, uint32_t kind)
{
    uint64_t number = see_part_number(p, kind);

    return (int64_t)(number >> 1 ^ (0 - (number & 1)));
}

uint32_t see_part_below(struct recording_part *p, uint32_t kind, uint64_t limit)
{
    uint64_t number = see_part_number(p, kind);

    return (
        uint32_t)(number < limit
                      ? number
                      : see_part_fault(p, "the recording is damaged: an index is out of range"));
}

uint32_t see_part_before(struct recording_part *p, uint32_t kind, uint32_t task)
{
    uint32_t distance = see_part_below(p, kind, task + 1ull);

    if (distance == 0)
        (void)see_part_fault(
            p,
            "the recording is damaged: a task refers to itself where an earlier task is expected");
    return task - distance;
}

uint32_t see_part_optional(struct recording_part *p, uint32_t kind, uint64_t limit)
{
    uint32_t number = see_part_below(p, kind, limit + 1);

    return number != 0 ? number - 1 : PTO_RECORDING_NONE;
}

uint64_t see_part_next(struct recording_part *p, uint32_t kind, uint64_t limit, uint64_t *last)
{
    *last += (uint64_t)see_part_signed(p, kind);
    if (*last >= limit) {
        *last = 0;
        (void)see_part_fault(
            p, "the recording is damaged: a difference leads to a number that is out of range");
    }
    return *last;
}

void *see_part_grow(struct recording_part *p, void *array_at, uint64_t count, uint64_t more,
                    size_t bytes)
{
    void *old, *grown;

    memcpy(&old, array_at, sizeof(old));
    grown = more < SIZE_MAX / bytes - count - 1 ? realloc(old, (count + more + 1) * bytes) : NULL;
    if (grown == NULL) {
        (void)see_part_fault(p, "");
        return NULL;
    }
    memcpy(array_at, &grown, sizeof(grown));
    memset((char *)grown + count * bytes, 0, (more + 1) * bytes);
    return grown;
}

/* ---- properties and strings of a part ---- */

static void recording_read_meta(struct recording_part *p)
{
    for (uint64_t i = 0; i < p->section[PTO_RECORDING_SECTION_META].rows; i++) {
        uint64_t number = see_part_number(p, PTO_RECORDING_SECTION_META);

        if (i < PTO_RECORDING_META_COUNT)
            p->meta[i] = number;
    }
}

static void recording_read_texts(struct recording_part *p)
{
    struct recording_cursor *c = &p->section[PTO_RECORDING_SECTION_STRINGS];

    if (see_part_grow(p, &p->text, 0, c->rows, sizeof(*p->text)) == NULL)
        return;
    for (; p->text_count < c->rows && p->fault == NULL; p->text_count++) {
        uint64_t length = see_part_number(p, PTO_RECORDING_SECTION_STRINGS);
        char *text;

        if (length > (uint64_t)(c->end - c->at)) {
            (void)see_part_fault(p, "the recording is damaged: a text reaches beyond its section");
            return;
        }
        text = strndup((const char *)c->at, length);
        c->at += length;
        if (text == NULL)
            (void)see_part_fault(p, "");
        else
            p->text[p->text_count] = pto_text_clean(text, true);
    }
}

/* ---- the list of parts ---- */

static uint64_t recording_checksum(const uint8_t *at, uint64_t bytes)
{
    uint64_t sum = 0xcbf29ce484222325ull;

    for (uint64_t i = 0; i < bytes; i++)
        sum = (sum ^ at[i]) * 0x100000001b3ull;
    return sum;
}

/*
 * Reads the head of the part that begins at `bytes`. Returns what is wrong with the head; NULL:
 * nothing.
 */
static const char *check_head(const uint8_t *bytes, uint64_t size, struct pto_recording_head *out)
{
    if (size < sizeof(*out))
        return "this is no recording: it is too short; record a run with --trace NAME.ptrec";
    memcpy(out, bytes, sizeof(*out));
    if (out->magic != PTO_RECORDING_MAGIC)
        return "this is no recording; record a run with --trace NAME.ptrec";
    if (out->version != PTO_RECORDING_VERSION)
        return "the recording is of another version of pto; use the version that wrote it, or "
               "record the run again";
    if (out->sections != PTO_RECORDING_SECTION_COUNT)
        return "the recording has sections that this version of pto does not know; use the version "
               "that wrote it, or record the run again";
    if (out->bytes > size ||
        out->bytes < sizeof(*out) + out->sections * sizeof(struct pto_recording_section))
        return "the recording is truncated; copy it again, or record the run again";
    return NULL;
}

/* Sets the cursors to the begin of each section of the part, and checks the sections' checksums. */
static void find_sections(struct recording_part *p, const struct pto_recording_head *head)
{
    uint64_t at = sizeof(*head) + head->sections * sizeof(struct pto_recording_section);

    for (uint32_t i = 0; i < PTO_RECORDING_SECTION_COUNT; i++) {
        struct pto_recording_section section;

        memcpy(&section, p->from + sizeof(*head) + i * sizeof(section), sizeof(section));
        if (section.kind != i || section.bytes > head->bytes - at) {
            (void)see_part_fault(p, "the recording is damaged: its table of sections is wrong");
            return;
        }
        if (section.rows > section.bytes || section.rows >= PTO_RECORDING_NONE / 8)
            (void)see_part_fault(p, "the recording is damaged: a section has more rows than bytes");
        if (recording_checksum(p->from + at, section.bytes) != section.checksum)
            (void)see_part_fault(p,
                                 "the recording is damaged: a checksum differs; copy it again, or "
                                 "record the run again");
        p->section[i] =
            (struct recording_cursor){ p->from + at, p->from + at + section.bytes, section.rows };
        at += section.bytes;
    }
    if (at != head->bytes)
        (void)see_part_fault(p,
                             "the recording is damaged: there are extra bytes after its sections");
}

void see_part_free(struct recording_part *p)
{
    for (uint32_t i = 0; i < p->text_count; i++)
        free(p->text[i]);
    free(p->text);
    free(p->kernel);
    free(p->lane);
    free(p->file);
    free(p->key_kernel);
    free(p->region);
}

void see_part_open(struct recording_part *p, const uint8_t *from)
{
    *p = (struct recording_part){ .from = from };
    memcpy(&p->head, from, sizeof(p->head));
    find_sections(p, &p->head);
    if (p->fault == NULL)
        recording_read_meta(p);
    if (p->fault == NULL)
        recording_read_texts(p);
    if (p->fault == NULL && p->meta[PTO_RECORDING_META_GROUP_NAME] >= p->text_count)
        (void)see_part_fault(p, "the recording is damaged: a text is missing");
}

/* Returns the name of the part's group. The part must have been opened without a fault. */
static const char *part_name(const struct recording_part *p)
{
    return p->text[p->meta[PTO_RECORDING_META_GROUP_NAME]];
}

/* Orders parts by the first occurrence of their group in the file, then by time. */
static int compare_places(const void *a, const void *b)
{
    const struct part_place *p = a, *q = b;

    if (p->group_at != q->group_at)
        return p->group_at < q->group_at ? -1 : 1;
    if (p->begin_ns != q->begin_ns)
        return p->begin_ns < q->begin_ns ? -1 : 1;
    return p->from < q->from ? -1 : p->from > q->from;
}

/* Finds for each part the first part of its group in the file. Returns the fault; NULL: none. */
static const char *find_first_parts(struct part_place *place, uint64_t count)
{
    /* first parts of the groups found so far */
    struct recording_part *first = calloc(count, sizeof(*first));
    uint64_t groups = 0, *at = calloc(count, sizeof(*at));
    const char *fault = first == NULL || at == NULL ? "" : NULL;

    for (uint64_t i = 0; fault == NULL && i < count; i++) {
        uint64_t k = 0;

        see_part_open(&first[groups], place[i].from);
        fault = first[groups].fault;
        while (fault == NULL && k < groups &&
               strcmp(part_name(&first[k]), part_name(&first[groups])))
            k++;
        if (fault != NULL || k < groups)
            see_part_free(&first[groups]);
        else
            at[groups++] = i;
        place[i].group_at = fault == NULL ? at[k] : 0;
    }
    for (uint64_t i = 0; first != NULL && i < groups; i++)
        see_part_free(&first[i]);
    free(first);
    free(at);
    return fault;
}

/* Lists the parts of the file. Returns the fault; NULL: none. The caller frees the list. */
const char *see_part_list(const uint8_t *bytes, uint64_t size, struct part_place **place_out,
                          uint64_t *count_out)
{
    struct pto_recording_head head;
    struct part_place *grown;
    uint64_t count = 0;

    for (uint64_t at = 0; count == 0 || at < size; at += head.bytes) {
        const char *fault = check_head(bytes + at, size - at, &head);

        if (fault != NULL)
            return fault;
        /* the list grows when it has 0, 1, 2, 4, ... parts */
        if ((count & (count - 1)) == 0) {
            grown = realloc(*place_out, (2 * count + 1) * sizeof(*grown));
            if (grown == NULL)
                return "";
            *place_out = grown;
        }
        (*place_out)[count++] = (struct part_place){ bytes + at, head.begin_ns, 0 };
    }
    *count_out = count;
    if (count > 1) {
        const char *fault = find_first_parts(*place_out, count);

        if (fault != NULL)
            return fault;
        qsort(*place_out, count, sizeof(**place_out), compare_places);
    }
    return NULL;
}
