/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Linked into a program for the control processor with --wrap: its allocations are counted in the
 * stand-in's account.
 */
#include <stddef.h>

void *standin_heap_keep(void *at);
void standin_heap_free(void *at);

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__real_aligned_alloc(size_t align, size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_aligned_alloc(size_t align, size_t bytes);
void __wrap_free(void *at);

void *__wrap_malloc(size_t bytes)
{
    return standin_heap_keep(__real_malloc(bytes));
}

void *__wrap_calloc(size_t count, size_t bytes)
{
    return standin_heap_keep(__real_calloc(count, bytes));
}

void *__wrap_aligned_alloc(size_t align, size_t bytes)
{
    return standin_heap_keep(__real_aligned_alloc(align, bytes));
}

void __wrap_free(void *at)
{
    standin_heap_free(at);
}
