/* SPDX-License-Identifier: Apache-2.0 */
#include "tool/see/page_lanes.h"

#include <stdio.h>
#include <stdlib.h>

enum { SPLITS_MAX = 256 };

/* A slice with the keys by which slices are sorted: lane, then begin. */
struct placed {
    uint64_t begin_ns, end_ns;
    uint64_t slice;
    uint32_t lane;
    uint32_t split;
};

const char *see_lane_kind(uint8_t kind)
{
    static const char *const text[] = {
#define X(name, text) text,
        PTO_RECORDING_LANE_MAP(X)
#undef X
    };

    return kind < PTO_RECORDING_LANE_COUNT ? text[kind] : "other";
}

void see_layout_name(const struct see_recording *r, const struct see_page_lane *lane, char *name,
                     size_t bytes)
{
    const struct see_lane *of = &r->lane[lane->lane];
    const char *kind = see_lane_kind(of->kind);

    if (of->kind > PTO_RECORDING_LANE_CHIP && of->kind != PTO_RECORDING_LANE_WORKER)
        snprintf(name, bytes, "%s", kind);
    else if (lane->split == 0)
        snprintf(name, bytes, "%s %u", kind, of->index);
    else
        snprintf(name, bytes, "%s %u (%u)", kind, of->index, lane->split + 1);
}

static int by_lane_and_begin(const void *a, const void *b)
{
    const struct placed *p = a, *q = b;

    if (p->lane != q->lane)
        return p->lane < q->lane ? -1 : 1;
    if (p->begin_ns != q->begin_ns)
        return p->begin_ns < q->begin_ns ? -1 : 1;
    if (p->end_ns != q->end_ns)
        return p->end_ns < q->end_ns ? -1 : 1;
    return p->slice < q->slice ? -1 : p->slice > q->slice;
}

/*
 * Distributes the slices of one lane, sorted by begin, over sublanes in which none overlap. If
 * SPLITS_MAX sublanes are not enough, slices in the last one may overlap. Returns the number of
 * sublanes.
 */
static uint32_t split_lane(struct placed *slice, uint64_t count)
{
    uint64_t end_ns[SPLITS_MAX];
    uint32_t splits = 0;

    for (uint64_t i = 0; i < count; i++) {
        uint32_t split = 0;

        while (split < splits && end_ns[split] > slice[i].begin_ns) /* mutation: page-lanes */
            split++;
        if (split == splits && splits < SPLITS_MAX)
            splits++;
        else if (split == splits)
            split--;
        end_ns[split] = slice[i].end_ns;
        slice[i].split = split;
    }
    return splits;
}

/*
 * Appends a lane of the page for each sublane of a lane of the recording, and the slices of each
 * sublane to `order`.
 */
static int append_lane(struct see_layout *l, uint32_t lane, const struct placed *slice,
                       uint64_t count, uint32_t splits)
{
    struct see_page_lane *more;
    uint64_t *order = l->order;

    splits += splits == 0; /* a lane without slices becomes one empty part */
    more = realloc(l->lane, (l->lane_count + (size_t)splits) * sizeof(*more));
    if (more == NULL)
        return PTO_ENOMEM;
    l->lane = more;
    for (uint32_t i = 0; i < l->lane_count; i++)
        order += more[i].count;
    for (uint32_t split = 0; split < splits; split++) {
        struct see_page_lane *made = &more[l->lane_count++];

        *made = (struct see_page_lane){ .lane = lane, .split = split };
        for (uint64_t i = 0; i < count; i++)
            if (slice[i].split == split)
                order[made->count++] = slice[i].slice;
        order += made->count;
    }
    return PTO_OK;
}

static int append_lanes(const struct see_recording *r, struct see_layout *l, struct placed *slice)
{
    uint64_t from = 0, end = 0;
    int status = PTO_OK;

    for (uint32_t lane = 0; status >= 0 && lane < r->lane_count; lane++, from = end) {
        while (end < r->slice_count && slice[end].lane == lane)
            end++;
        status =
            append_lane(l, lane, slice + from, end - from, split_lane(slice + from, end - from));
    }
    return status;
}

int see_layout_make(const struct see_recording *r, struct see_layout *out)
{
    struct see_layout l = { .lane_count = 0 };
    struct placed *slice = calloc(r->slice_count + 1, sizeof(*slice));
    int status = PTO_ENOMEM;

    l.order = calloc(r->slice_count + 1, sizeof(*l.order));
    if (slice == NULL || l.order == NULL)
        goto out;
    for (uint64_t i = 0; i < r->slice_count; i++)
        slice[i] = (struct placed){ .begin_ns = r->slice[i].begin_ns,
                                    .end_ns = r->slice[i].end_ns,
                                    .slice = i,
                                    .lane = r->slice[i].lane };
    qsort(slice, r->slice_count, sizeof(*slice), by_lane_and_begin);
    status = append_lanes(r, &l, slice);
out:
    free(slice);
    if (status < 0)
        see_layout_free(&l);
    else
        *out = l;
    return status;
}

void see_layout_free(struct see_layout *l)
{
    free(l->lane);
    free(l->order);
    *l = (struct see_layout){ .lane_count = 0 };
}
