/* SPDX-License-Identifier: Apache-2.0 */
/* Windows that stay mapped after their domain was closed: pto_domain_keep. */
#include <stdlib.h>
#include <sys/mman.h>

#include "base/lock.h"
#include "comm/comm.h"

static struct pto_windows *keep_make_windows(struct domain *domain)
{
    struct pto_windows *w =
        calloc(1, sizeof(*w) + (size_t)domain->rank_count * sizeof(w->piece[0]));

    assert_held(&domain->comm->lock);
    if (w == NULL)
        return NULL;
    pthread_mutex_init(&w->lock, NULL);
    w->users = 1;
    if (domain->comm->ops->keep != NULL)
        domain->comm->ops->keep(domain, w);
    return w;
}

int pto_domain_keep(struct pto_domain *handle, struct pto_windows **windows_out)
{
    int status;
    struct domain *domain = comm_domain_of(handle, &status);
    struct pto_windows *w;

    if (domain == NULL || windows_out == NULL)
        return domain == NULL ? status : PTO_EINVAL;
    for (uint32_t i = 0; i < domain->rank_count; i++)
        if (!comm_reaches(domain->comm, domain->ranks[i]) || domain->comm->ops->is_on_device)
            return PTO_ENOSUP;
    while (domain->parent != NULL)
        domain = domain->parent; /* goes up to the domain that owns the windows */
    pthread_mutex_lock(&domain->comm->lock);
    if (domain->kept == NULL)
        domain->kept = keep_make_windows(domain);
    w = domain->kept;
    pthread_mutex_unlock(&domain->comm->lock);
    if (w == NULL)
        return PTO_ENOMEM;
    pthread_mutex_lock(&w->lock);
    w->users++;
    pthread_mutex_unlock(&w->lock);
    *windows_out = w;
    return PTO_OK;
}

bool comm_is_kept(const struct domain *domain)
{
    struct pto_windows *w = domain->kept;
    bool is_kept;

    if (w == NULL)
        return false;
    pthread_mutex_lock(&w->lock);
    is_kept = w->users > 1;
    pthread_mutex_unlock(&w->lock);
    return is_kept;
}

void comm_keep_piece(struct pto_windows *windows, char *at, uint64_t bytes)
{
    windows->piece[windows->piece_count++] = (struct comm_piece){ at, bytes };
}

void pto_windows_free(struct pto_windows *windows)
{
    bool is_last;

    if (windows == NULL)
        return;
    pthread_mutex_lock(&windows->lock);
    is_last = --windows->users == 0;
    pthread_mutex_unlock(&windows->lock);
    if (!is_last)
        return;
    for (uint32_t i = 0; i < windows->piece_count; i++)
        if (windows->piece[i].bytes == 0)
            free(windows->piece[i].at);
        else
            (void)munmap(windows->piece[i].at, windows->piece[i].bytes);
    if (windows->end != NULL)
        windows->end(windows->context);
    pthread_mutex_destroy(&windows->lock);
    free(windows);
}
