/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The vendor's functions that the stand-in has: library, type, name, parameters. The table gives
 * their prototypes, their numbers, by which calls are counted, logged and made to fail
 * (standin_enter), and the names that each library has to export (row onboard-strict).
 */
#ifndef PTO_STANDIN_TABLE_H
#define PTO_STANDIN_TABLE_H

#include <stddef.h>
#include <stdint.h>

struct access;
struct config;
struct memory;
struct options;
struct program;
struct resource;
struct rt_args;
struct rt_task;

/* clang-format off */
#define STANDIN_MAP(X) \
    X(ACL, int, aclInit, (const char *config))                                                                                 \
    X(ACL, int, aclFinalizeReference, (uint64_t *left))                                                                        \
    X(ACL, int, aclFinalize, (void))                                                                                           \
    X(ACL, const char *, aclGetRecentErrMsg, (void))                                                                           \
    X(ACL, const char *, aclrtGetSocName, (void))                                                                              \
    X(ACL, int, aclrtSetDevice, (int32_t device))                                                                              \
    X(ACL, int, aclrtResetDevice, (int32_t device))                                                                            \
    X(ACL, int, aclrtResetDeviceForce, (int32_t device))                                                                       \
    X(ACL, int, aclrtGetCurrentContext, (void **context))                                                                      \
    X(ACL, int, aclrtSetCurrentContext, (void *context))                                                                       \
    X(ACL, int, aclrtGetDevice, (int32_t *device))                                                                             \
    X(ACL, int, aclrtMalloc, (void **at, size_t bytes, int policy))                                                            \
    X(ACL, int, aclrtFree, (void *at))                                                                                         \
    X(ACL, int, aclrtMemcpy, (void *to, size_t room, const void *from, size_t bytes, int kind))                                \
    X(ACL, int, aclrtMemset, (void *at, size_t room, int32_t value, size_t bytes))                                             \
    X(ACL, int, aclrtGetMemInfo, (int kind, size_t *left, size_t *total))                                                      \
    X(ACL, int, aclrtBinaryLoadFromData, (const void *data, size_t bytes, const struct options *options, void **binary))       \
    X(ACL, int, aclrtBinaryLoadFromFile, (const char *path, struct options *options, void **binary))                           \
    X(ACL, int, aclrtBinaryGetFunction, (void *binary, const char *name, void **function))                                     \
    X(ACL, int, aclrtBinaryGetFunctionByEntry, (void *binary, uint64_t entry, void **function))                                \
    X(ACL, int, aclrtBinaryUnLoad, (void *binary))                                                                             \
    X(ACL, int, aclrtCreateStream, (void **stream))                                                                            \
    X(ACL, int, aclrtDestroyStream, (void *stream))                                                                            \
    X(ACL, int, aclrtSynchronizeStreamWithTimeout, (void *stream, int32_t ms))                                                 \
    X(ACL, int, aclrtSynchronizeStream, (void *stream))                                                                        \
    X(ACL, int, aclrtStreamQuery, (void *stream, int32_t *status))                                                             \
    X(ACL, int, aclrtSetStreamFailureMode, (void *stream, uint64_t mode))                                                      \
    X(ACL, int, aclrtSetOpExecuteTimeOutV2, (uint64_t us, uint64_t *actual_us))                                                \
    X(ACL, int, aclrtSynchronizeDeviceWithTimeout, (int32_t ms))                                                               \
    X(ACL, int, aclrtGetStreamResLimit, (void *stream, int kind, uint32_t *value))                                             \
    X(ACL, int, aclrtGetHardwareSyncAddr, (void **at))                                                                         \
    X(ACL, int, aclrtLaunchKernelWithHostArgs,                                                                                 \
      (void *function, uint32_t blocks, void *stream, const struct config *config, void *args, size_t bytes,                   \
       void *places, size_t place_count))                                                                                      \
    X(ACL, int, aclrtCreateEventExWithFlag, (void **event, uint32_t flags))                                                    \
    X(ACL, int, aclrtDestroyEvent, (void *event))                                                                              \
    X(ACL, int, aclrtRecordEvent, (void *event, void *stream))                                                                 \
    X(ACL, int, aclrtStreamWaitEvent, (void *stream, void *event))                                                             \
    X(ACL, int, aclrtSynchronizeEventWithTimeout, (void *event, int32_t ms))                                                   \
    X(ACL, int, aclrtMemGetAllocationGranularity, (const struct memory *kind, int option, size_t *bytes))                      \
    X(ACL, int, aclrtMallocPhysical, (void **physical, size_t bytes, const struct memory *kind, uint64_t flags))               \
    X(ACL, int, aclrtFreePhysical, (void *physical))                                                                           \
    X(ACL, int, aclrtReserveMemAddress, (void **at, size_t bytes, size_t align, void *hint, uint64_t flags))                   \
    X(ACL, int, aclrtReleaseMemAddress, (void *at))                                                                            \
    X(ACL, int, aclrtMapMem, (void *at, size_t bytes, size_t offset, void *physical, uint64_t flags))                          \
    X(ACL, int, aclrtUnmapMem, (void *at))                                                                                     \
    X(ACL, int, aclrtMemSetAccess, (void *at, size_t bytes, const struct access *access, size_t count))                        \
    X(ACL, int, aclrtMemExportToShareableHandle, (void *physical, int kind, uint64_t flags, uint64_t *handle))                 \
    X(ACL, int, aclrtMemImportFromShareableHandle, (uint64_t handle, int32_t device, void **physical))                         \
    X(ACL, int, aclrtMemExportToShareableHandleV2, (void *physical, uint64_t flags, int kind, void *handle))                   \
    X(ACL, int, aclrtMemImportFromShareableHandleV2, (void *handle, int kind, uint64_t flags, void **physical))                \
    X(ACL, int, aclrtDeviceEnablePeerAccess, (int32_t peer, uint32_t flags))                                                   \
    X(ACL, int, aclrtDevicePeerAccessStatus, (int32_t device, int32_t peer, int32_t *status))                                  \
    X(HAL, int, halMemCtl, (int type, void *in, size_t in_bytes, void *out, size_t *out_bytes))                                \
    X(HAL, int, halGetDeviceInfoByBuff, (uint32_t device, int32_t module, int32_t info, void *at, int32_t *bytes))             \
    X(HAL, int, halGetDeviceInfo, (uint32_t device, int32_t module, int32_t info, int64_t *value))                             \
    X(HAL, int, halResMap, (unsigned device, struct resource *resource, unsigned long *at, unsigned *bytes))                   \
    X(HAL, int, halResUnmap, (unsigned device, struct resource *resource))                                                     \
    X(RT, int, rtRegisterAllKernel, (const struct program *program, void **binary))                                            \
    X(RT, int, rtDevBinaryUnRegister, (void *binary))                                                                          \
    X(RT, int, rtKernelLaunchWithHandleV2,                                                                                     \
      (void *binary, uint64_t key, uint32_t blocks, struct rt_args *args, void *shared_memory, void *stream,                   \
       const struct rt_task *task))                                                                                            \
    X(LOG, int, dlog_setlevel, (int32_t module, int32_t level, int32_t has_events))                                            \
    X(HCCL, int, HcclGetRootInfo, (void *root))                                                                                \
    X(HCCL, int, HcclCommInitRootInfo, (uint32_t count, const void *root, uint32_t rank, void **comm))                         \
    X(HCCL, int, HcclCommDestroy, (void *comm))                                                                                \
    X(HCCL, int, HcclBarrier, (void *comm, void *stream))                                                                      \
    X(HCCL, int, HcclGetCommName, (void *comm, char *name))                                                                    \
    X(HCCL, int, HcomGetCommHandleByGroup, (const char *name, void **comm))                                                    \
    X(HCCL, int, HcomGetL0TopoTypeEx, (const char *name, uint32_t *topology, uint32_t is_set))                                 \
    X(HCCL, int, HcclAllocComResourceByTiling, (void *comm, void *stream, void *tiling, void **context))
/* clang-format on */

#endif
