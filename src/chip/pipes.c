/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that the simulated cores of a cluster share: pipes.h. */
#include "chip/pipes.h"

#include <stdlib.h>
#include <string.h>

enum { PIPE_BYTES_MAX = 1 << 30 };

struct pipe {
    struct pipe *next;
    uint64_t key;
    size_t size;
    uint32_t cluster;
    _Alignas(64) char data[];
};

void *pipes_find(struct pipes *pipes, uint32_t cluster, uint64_t key, size_t size)
{
    struct pipe *p;

    for (p = pipes->first; p != NULL; p = p->next)
        if (p->cluster == cluster && p->key == key)
            break;
    if (p == NULL && size <= PIPE_BYTES_MAX) {
        size_t bytes = (sizeof(*p) + size + 63) / 64 * 64;

        p = aligned_alloc(64, bytes);
        if (p != NULL) {
            memset(p, 0, bytes);
            p->cluster = cluster;
            p->key = key;
            p->size = size;
            p->next = pipes->first;
            pipes->first = p;
        }
    }
    return p != NULL && p->size >= size ? p->data : NULL;
}

void pipes_drop(struct pipes *pipes)
{
    while (pipes->first != NULL) {
        struct pipe *p = pipes->first;

        pipes->first = p->next;
        free(p);
    }
}
