/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reference's chip callable: an orchestration and its kernels in one block of memory. Its
 * layout is an ABI, so prebuilt blocks can be read.
 *
 *     struct chip_callable
 *     storage:  orchestration, binary_size bytes
 *               at child_offsets[i], a multiple of 64:
 *                   struct core_callable, then binary_size bytes of kernel i
 */
#ifndef PTO_CHIP_CALLABLE_H
#define PTO_CHIP_CALLABLE_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

enum {
    CHIP_CALLABLE_SIGNATURE_MAX = 256,
    /* number of kernels in a chip callable, and limit of func_id */
    CHIP_CALLABLE_CHILDREN_MAX = 1024,
    CHIP_CALLABLE_NAME_MAX = 64, /* size of a name in bytes, with its final zero */
    CHIP_CALLABLE_CHILD_ALIGN = 64,
    CORE_CALLABLE_SIGNATURE_MAX = 32
};

struct core_callable {
    int32_t signature[CORE_CALLABLE_SIGNATURE_MAX]; /* enum pto_direction of each parameter */
    int32_t signature_count;
    uint32_t binary_size;
    uint64_t resolved_addr; /* set by the loader; unused in a file */
    uint8_t reserved[48];
};

struct chip_callable {
    int32_t signature[CHIP_CALLABLE_SIGNATURE_MAX]; /* enum pto_direction of each parameter */
    int32_t signature_count;
    uint32_t binary_size;
    char func_name[CHIP_CALLABLE_NAME_MAX];
    uint32_t func_name_length;
    int32_t child_func_ids[CHIP_CALLABLE_CHILDREN_MAX];
    /* byte offsets of the kernels from the end of this struct */
    uint32_t child_offsets[CHIP_CALLABLE_CHILDREN_MAX];
    int32_t child_count;
    char config_name[CHIP_CALLABLE_NAME_MAX];
    uint32_t config_name_length;
    uint8_t reserved[12];
};

static_assert(offsetof(struct core_callable, signature_count) == 128, "an ABI");
static_assert(offsetof(struct core_callable, binary_size) == 132, "an ABI");
static_assert(offsetof(struct core_callable, resolved_addr) == 136, "an ABI");
static_assert(sizeof(struct core_callable) == 192, "an ABI");
static_assert(offsetof(struct chip_callable, signature_count) == 1024, "an ABI");
static_assert(offsetof(struct chip_callable, binary_size) == 1028, "an ABI");
static_assert(offsetof(struct chip_callable, func_name) == 1032, "an ABI");
static_assert(offsetof(struct chip_callable, func_name_length) == 1096, "an ABI");
static_assert(offsetof(struct chip_callable, child_func_ids) == 1100, "an ABI");
static_assert(offsetof(struct chip_callable, child_offsets) == 5196, "an ABI");
static_assert(offsetof(struct chip_callable, child_count) == 9292, "an ABI");
static_assert(offsetof(struct chip_callable, config_name) == 9296, "an ABI");
static_assert(offsetof(struct chip_callable, config_name_length) == 9360, "an ABI");
static_assert(sizeof(struct chip_callable) == 9376, "an ABI");

#endif
