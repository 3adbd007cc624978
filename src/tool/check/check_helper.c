/* SPDX-License-Identifier: Apache-2.0 */
/* A helper thread, which completes invocations of deferred tasks. */
#include <stdlib.h>
#include <unistd.h>

#include "tool/check/check_trial.h"

static void helper_do(struct check_job *job)
{
    struct check_run_task *t = job->task;
    struct check_run_call *call = &t->calls[job->call];

    if (job->sleep_us != 0)
        usleep(job->sleep_us);
    if (t->run->g->is_compared)
        check_effect_write(t, job->call, job->regions, call->hash);
    call->mail = check_mail(t);
    call->end = check_tick(t->run);
    pto_notify_add(&t->counter, 1);
}

static void *helper_main(void *arg)
{
    struct check_helper *h = arg;

    pthread_mutex_lock(&h->lock);
    while (!h->is_ending || h->first != NULL) {
        struct check_job *job = h->first;

        if (job == NULL) {
            pthread_cond_wait(&h->changed, &h->lock);
            continue;
        }
        h->first = job->next;
        if (h->first == NULL)
            h->last = &h->first;
        h->is_busy = true;
        pthread_mutex_unlock(&h->lock);
        helper_do(job);
        free(job);
        pthread_mutex_lock(&h->lock);
        h->is_busy = false;
        pthread_cond_broadcast(&h->changed);
    }
    pthread_mutex_unlock(&h->lock);
    return NULL;
}

int check_helper_start(struct check_helper *h)
{
    pthread_mutex_init(&h->lock, NULL);
    pthread_cond_init(&h->changed, NULL);
    h->last = &h->first;
    return pthread_create(&h->thread, NULL, helper_main, h) == 0 ? PTO_OK : PTO_ESYSTEM;
}

void check_helper_end(struct check_helper *h)
{
    pthread_mutex_lock(&h->lock);
    h->is_ending = true;
    pthread_cond_broadcast(&h->changed);
    pthread_mutex_unlock(&h->lock);
    pthread_join(h->thread, NULL);
    pthread_cond_destroy(&h->changed);
    pthread_mutex_destroy(&h->lock);
}

void check_helper_add(struct check_helper *h, struct check_job *job)
{
    pthread_mutex_lock(&h->lock);
    *h->last = job;
    h->last = &job->next;
    pthread_cond_broadcast(&h->changed);
    pthread_mutex_unlock(&h->lock);
}

void check_helper_drain(struct check_helper *h)
{
    pthread_mutex_lock(&h->lock);
    while (h->first != NULL || h->is_busy)
        pthread_cond_wait(&h->changed, &h->lock);
    pthread_mutex_unlock(&h->lock);
}
