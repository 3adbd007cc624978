/* SPDX-License-Identifier: Apache-2.0 */
#include "host/due.h"

#include <assert.h>

#include "host/host.h"

/* Merges two heaps whose roots have no siblings. Each may be NULL. */
static struct run *meld(struct run *a, struct run *b)
{
    struct run *later;

    if (a == NULL || b == NULL)
        return a != NULL ? a : b;
    assert(a->due.next == NULL && b->due.next == NULL);
    later = b->launch_deadline_ns < a->launch_deadline_ns ? a : b;
    a = later == a ? b : a;
    later->due.before = a;
    later->due.next = a->due.child;
    if (later->due.next != NULL)
        later->due.next->due.before = later;
    a->due.child = later;
    return a;
}

/* Merges a list of sibling heaps into one, first in pairs, which keeps the heap flat. */
static struct run *meld_all(struct run *list)
{
    struct run *pairs = NULL, *all = NULL;

    while (list != NULL) {
        struct run *a = list, *b = a->due.next;

        list = b != NULL ? b->due.next : NULL;
        a->due.next = a->due.before = NULL;
        if (b != NULL)
            b->due.next = b->due.before = NULL;
        a = meld(a, b);
        a->due.next = pairs;
        pairs = a;
    }
    while (pairs != NULL) {
        struct run *a = pairs;

        pairs = a->due.next;
        a->due.next = NULL;
        all = meld(all, a);
    }
    return all;
}

void due_add(struct run **first, struct run *run)
{
    run->due = (struct due_link){ NULL, NULL, NULL };
    *first = meld(*first, run);
}

void due_remove(struct run **first, struct run *run)
{
    struct due_link link = run->due;

    if (run == *first) {
        *first = meld_all(link.child);
        return;
    }
    if (link.before->due.child == run)
        link.before->due.child = link.next;
    else
        link.before->due.next = link.next;
    if (link.next != NULL)
        link.next->due.before = link.before;
    *first = meld(*first, meld_all(link.child));
}
