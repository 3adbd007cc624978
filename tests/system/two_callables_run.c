/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs the add and the subtract callable of two artefacts in turn, from two threads on two
 * devices, and adds up what they give: 2a. With a file that replaces the first
 * one after it was loaded, nothing changes.
 *
 *     two_callables_run ADD SUBTRACT RUNS
 */
#include <pthread.h>
#include <pto/pto.h>
#include <stdio.h>
#include <stdlib.h>

enum { N = 64, THREADS = 2 };

static struct pto_callable *add, *subtract;
static int runs;

static void check(int status, const char *what, const struct pto_error *error)
{
    if (status >= 0)
        return;
    fprintf(stderr, "%s: %s\n", what, error != NULL ? error->text : pto_strerror(status));
    exit(1);
}

static struct pto_callable *load(const char *path)
{
    struct pto_error error = { .size = sizeof(error) };
    struct pto_callable *callable = NULL;

    check(pto_callable_load(path, NULL, &callable, &error), "load", &error);
    return callable;
}

static void *reduce(void *arg)
{
    struct pto_device_params params;
    struct pto_device *device;
    struct pto_tensor tensor[3];
    const uint32_t shape[] = { N };
    int a[N], b[N], plus[N], minus[N];
    int seed = (int)(intptr_t)arg;

    pto_device_params_init(&params);
    params.workers = 2;
    check(pto_device_open(&params, &device), "open", NULL);
    tensor[0] = pto_tensor_external(a, shape, 1, PTO_INT32);
    tensor[1] = pto_tensor_external(b, shape, 1, PTO_INT32);
    for (int run = 0; run < runs; run++) {
        const struct pto_entry entry = { 3, 0, tensor, NULL };

        for (int i = 0; i < N; i++) {
            a[i] = seed + run + i;
            b[i] = 7 * run - i;
        }
        tensor[2] = pto_tensor_external(plus, shape, 1, PTO_INT32);
        check(pto_run(device, add, &entry, NULL, NULL), "add", NULL);
        tensor[2] = pto_tensor_external(minus, shape, 1, PTO_INT32);
        check(pto_run(device, subtract, &entry, NULL, NULL), "subtract", NULL);
        for (int i = 0; i < N; i++)
            if (plus[i] + minus[i] != 2 * a[i] || plus[i] - minus[i] != 2 * b[i]) {
                fprintf(stderr, "run %d: %d and %d of %d and %d\n", run, plus[i], minus[i], a[i],
                        b[i]);
                exit(1);
            }
    }
    check(pto_device_close(device), "close", NULL);
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t thread[THREADS];

    if (argc != 4)
        return 2;
    runs = atoi(argv[3]);
    add = load(argv[1]);
    if (rename(argv[2], argv[1]) != 0) { /* another file replaces it, under the same name */
        perror(argv[1]);
        return 1;
    }
    subtract = load(argv[1]);
    for (intptr_t i = 0; i < THREADS; i++)
        if (pthread_create(&thread[i], NULL, reduce, (void *)(i * 1000)) != 0)
            return 1;
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    check(pto_callable_destroy(add), "destroy", NULL);
    check(pto_callable_destroy(subtract), "destroy", NULL);
    printf("%d runs\n", THREADS * 2 * runs);
    return 0;
}
