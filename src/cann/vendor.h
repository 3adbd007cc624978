/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The vendor's libraries, which are loaded at run time: building needs no part of CANN. Tables list
 * the functions in use with their libraries and prototypes. No declaration comes from the vendor's
 * headers; values that the vendor fixes are asserted. Facts come from the published headers of
 * versions 8.5.0 to 9.2.0: each is a row of tests/standin/facts.tsv. Never run on hardware.
 */
#ifndef PTO_VENDOR_H
#define PTO_VENDOR_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pto/pto.h"

enum vendor_library { VENDOR_ACL, VENDOR_HAL, VENDOR_LIBRARIES };

/* The functions that every version from 8.5.0 on has: X(library, returns, name, parameters). */
#define VENDOR_MAP(X)                                                                           \
    X(ACL, int, aclInit, (const char *config))                                                  \
    X(ACL, int, aclFinalizeReference, (uint64_t * left))                                        \
    X(ACL, const char *, aclrtGetSocName, (void))                                               \
    X(ACL, int, aclrtSetDevice, (int32_t device))                                               \
    X(ACL, int, aclrtResetDevice, (int32_t device))                                             \
    X(ACL, int, aclrtResetDeviceForce, (int32_t device))                                        \
    X(ACL, int, aclrtGetCurrentContext, (void **context))                                       \
    X(ACL, int, aclrtSetCurrentContext, (void *context))                                        \
    X(ACL, int, aclrtSynchronizeDeviceWithTimeout, (int32_t ms))                                \
    X(ACL, int, aclrtMalloc, (void **at, size_t bytes, int policy))                             \
    X(ACL, int, aclrtFree, (void *at))                                                          \
    X(ACL, int, aclrtMemcpy, (void *to, size_t room, const void *from, size_t bytes, int kind)) \
    X(ACL, int, aclrtMemset, (void *at, size_t room, int32_t value, size_t bytes))              \
    X(ACL, int, aclrtGetMemInfo, (int kind, size_t *left, size_t *total))                       \
    X(ACL, int, aclrtCreateStream, (void **stream))                                             \
    X(ACL, int, aclrtDestroyStream, (void *stream))                                             \
    X(ACL, int, aclrtSynchronizeStreamWithTimeout, (void *stream, int32_t ms))                  \
    X(ACL, int, aclrtCreateEventExWithFlag, (void **event, uint32_t flags))                     \
    X(ACL, int, aclrtDestroyEvent, (void *event))                                               \
    X(ACL, int, aclrtRecordEvent, (void *event, void *stream))                                  \
    X(ACL, int, aclrtStreamWaitEvent, (void *stream, void *event))                              \
    X(ACL, int, aclrtSynchronizeEventWithTimeout, (void *event, int32_t ms))                    \
    X(ACL, int, aclrtGetStreamResLimit, (void *stream, int kind, uint32_t *value))              \
    X(ACL, int, aclrtBinaryLoadFromFile,                                                        \
      (const char *path, struct vendor_options *options, void **binary))                        \
    X(ACL, int, aclrtBinaryLoadFromData,                                                        \
      (const void *data, size_t bytes, const struct vendor_options *options, void **binary))    \
    X(ACL, int, aclrtBinaryGetFunction, (void *binary, const char *name, void **function))      \
    X(ACL, int, aclrtBinaryGetFunctionByEntry, (void *binary, uint64_t entry, void **function)) \
    X(ACL, int, aclrtBinaryUnLoad, (void *binary))                                              \
    X(ACL, int, aclrtLaunchKernelWithHostArgs,                                                  \
      (void *function, uint32_t blocks, void *stream, struct vendor_config *config, void *args, \
       size_t bytes, void *places, size_t place_count))                                         \
    X(ACL, int, aclrtReserveMemAddress,                                                         \
      (void **at, size_t bytes, size_t align, void *hint, uint64_t flags))                      \
    X(ACL, int, aclrtReleaseMemAddress, (void *at))                                             \
    X(ACL, int, aclrtMallocPhysical,                                                            \
      (void **physical, size_t bytes, const struct vendor_memory *kind, uint64_t flags))        \
    X(ACL, int, aclrtFreePhysical, (void *physical))                                            \
    X(ACL, int, aclrtMapMem,                                                                    \
      (void *at, size_t bytes, size_t offset, void *physical, uint64_t flags))                  \
    X(ACL, int, aclrtUnmapMem, (void *at))                                                      \
    X(ACL, int, aclrtMemSetAccess,                                                              \
      (void *at, size_t bytes, struct vendor_access *access, size_t count))                     \
    X(ACL, int, aclrtMemGetAllocationGranularity,                                               \
      (struct vendor_memory * kind, int option, size_t *bytes))                                 \
    X(ACL, int, aclrtMemExportToShareableHandle,                                                \
      (void *physical, int kind, uint64_t flags, uint64_t *handle))                             \
    X(ACL, int, aclrtMemImportFromShareableHandle,                                              \
      (uint64_t handle, int32_t device, void **physical))                                       \
    X(ACL, int, aclrtMemExportToShareableHandleV2,                                              \
      (void *physical, uint64_t flags, int kind, void *handle))                                 \
    X(ACL, int, aclrtMemImportFromShareableHandleV2,                                            \
      (void *handle, int kind, uint64_t flags, void **physical))                                \
    X(ACL, int, aclrtDeviceEnablePeerAccess, (int32_t peer, uint32_t flags))                    \
    X(ACL, int, aclrtDevicePeerAccessStatus, (int32_t device, int32_t peer, int32_t * status))  \
    X(HAL, int, halMemCtl, (int type, void *in, size_t in_bytes, void *out, size_t *out_bytes)) \
    X(HAL, int, halGetDeviceInfoByBuff,                                                         \
      (uint32_t device, int32_t module, int32_t info, void *at, int32_t *bytes))                \
    X(HAL, int, halResMap,                                                                      \
      (unsigned device, struct vendor_resource *resource, unsigned long *at, unsigned *bytes))  \
    X(HAL, int, halResUnmap, (unsigned device, struct vendor_resource *resource))

/*
 * Functions that an installation may lack, without which a card can still be used: then they are
 * NULL in struct vendor. X(library, returns, name, parameters).
 */
#define VENDOR_OPTIONAL_MAP(X)                                                                     \
    X(ACL, const char *, aclGetRecentErrMsg, (void))                                               \
    X(ACL, int, aclrtGetHardwareSyncAddr, (void **at))                                             \
    X(RT, int, rtRegisterAllKernel, (const struct vendor_program *program, void **binary))         \
    X(RT, int, rtDevBinaryUnRegister, (void *binary))                                              \
    X(RT, int, rtKernelLaunchWithHandleV2,                                                         \
      (void *binary, uint64_t key, uint32_t blocks, struct vendor_args *args, void *shared_memory, \
       void *stream, const struct vendor_task *task))                                              \
    X(LOG, int, dlog_setlevel, (int32_t module, int32_t level, int32_t has_events))

/*
 * Functions of the communication library, which is loaded when it is first needed: X(returns, name,
 * parameters). The last three are declared in headers for the vendor's own packages (pkg_inc), not
 * in its public ones.
 */
#define VENDOR_HCCL_MAP(X)                                                                       \
    X(int, HcclGetRootInfo, (void *root))                                                        \
    X(int, HcclCommInitRootInfo, (uint32_t count, const void *root, uint32_t rank, void **comm)) \
    X(int, HcclCommDestroy, (void *comm))                                                        \
    X(int, HcclGetCommName, (void *comm, char *name))                                            \
    X(int, HcomGetL0TopoTypeEx, (const char *name, uint32_t *topology, uint32_t is_set))         \
    X(int, HcomGetCommHandleByGroup, (const char *name, void **comm))                            \
    X(int, HcclAllocComResourceByTiling, (void *comm, void *stream, void *tiling, void **context))

/* Values that the vendor's headers define. */
enum {
    ACL_SUCCESS = 0,
    ACL_REPEAT_INIT = 100002,
    ACL_REFUSED = 107000,
    ACL_STREAM_NOT_DONE = 507046, /* a wait for a stream has timed out, and nothing has failed */
    ACL_EVENT_NOT_DONE = 507047,  /* a wait for an event has timed out, and nothing has failed */
    VENDOR_EVENT_SYNC = 1,        /* kind of event: a stream can wait for it */
    VENDOR_EVENT_PROGRESS = 2,    /* kind of event: the host can wait for it */
    VENDOR_MALLOC_HUGE_FIRST = 0,
    VENDOR_HOST_TO_DEVICE = 1,
    VENDOR_DEVICE_TO_HOST = 2,
    VENDOR_HBM = 1,
    VENDOR_RES_CUBE = 0,
    VENDOR_RES_VECTOR = 1,
    VENDOR_OPTION_MAGIC = 2,
    VENDOR_OPTION_CPU_MODE = 3,
    VENDOR_MAGIC_MIX = 0x43554245,
    VENDOR_ATTRIBUTE_SCHEM = 1,
    VENDOR_SCHEM_BATCH = 1, /* all cores of a launch start together */
    /* launch attribute: seconds that the program may run; 0: any time */
    VENDOR_ATTRIBUTE_TIMEOUT = 7,
    VENDOR_LOG_ALL = -1, /* log setting: all modules */
    VENDOR_LOG_WARNING = 2,
    VENDOR_LOG_NONE = 4, /* log setting: the level above all messages, so nothing is logged */
    VENDOR_MAP_ADDR = 0,
    VENDOR_ADDR_CORES = 2,
    VENDOR_MODULE_CORES = 4,
    VENDOR_INFO_OCCUPY = 8, /* mutation: wrong-constant */
    VENDOR_HBM_HUGE = 4,
    VENDOR_HBM_NORMAL = 5,
    VENDOR_ON_DEVICE = 1, /* kind of location: memory of a device */
    VENDOR_READ_WRITE = 3,
    VENDOR_GRANULARITY_LEAST = 0,
    VENDOR_RESERVE_NORMAL = 0,
    VENDOR_RESERVE_HUGE = 1,
    VENDOR_HANDLE_NONE = 0,
    VENDOR_SHARE_FABRIC = 2,
    VENDOR_ANY_PROCESS = 1, /* export flag: any process may import the memory */
    VENDOR_FABRIC_BYTES = 128,
    VENDOR_ROOT_BYTES = 4108,
    VENDOR_NAME_BYTES = 128, /* bytes of a communicator's name, as the vendor limits them */
    VENDOR_TOPOLOGY_MESH = 1,
};

struct vendor_option {
    int32_t id;
    uint32_t value[4];
};

struct vendor_options {
    struct vendor_option *option;
    size_t count;
};

struct vendor_attribute {
    int32_t id;
    uint32_t value[4];
};

struct vendor_config {
    struct vendor_attribute *attribute; /* list of launch attributes; never NULL */
    size_t count;
};

/* A program for cores, as rtRegisterAllKernel gets it. */
struct vendor_program {
    uint32_t magic;
    uint32_t version;
    const void *data;
    uint64_t bytes;
};

/* Arguments of rtKernelLaunchWithHandleV2. Fields without a name here are 0. */
struct vendor_args {
    void *args;
    void *host_inputs;
    uint32_t bytes;
    uint32_t tiling[2];
    uint16_t host_input_count;
    uint8_t has_tiling;
    uint8_t is_on_device;
    uint8_t reserved[8];
};

struct vendor_task {
    uint8_t qos;
    uint8_t part;
    uint8_t schem;
    uint8_t is_cross;
    uint32_t block_offset;
    uint8_t flags[4];
    uint32_t local_bytes;
};

struct vendor_map_in {
    uint32_t kind;
    uint32_t device;
};

struct vendor_map_out {
    uint64_t at;
    uint64_t bytes;
};

struct vendor_resource {
    int32_t process;
    int32_t type;
    uint32_t id;
    uint32_t flag;
    uint32_t reserved[1];
};

/*
 * Properties of physical memory. The device is the one to which the thread is bound, by its number
 * in the process.
 */
struct vendor_memory {
    int32_t handle;
    int32_t allocation;
    int32_t attribute;
    uint32_t device;
    int32_t location;
    uint64_t reserved;
};

/*
 * Who may access memory. The device has the driver's number here, unlike in struct vendor_memory.
 */
struct vendor_access {
    int32_t flags;
    uint32_t device;
    int32_t location;
    uint32_t reserved[3];
};

static_assert(sizeof(struct vendor_memory) == 32, "the vendor's layout");
static_assert(offsetof(struct vendor_memory, device) == 12, "the vendor's layout");
static_assert(offsetof(struct vendor_memory, reserved) == 24, "the vendor's layout");
static_assert(sizeof(struct vendor_access) == 24, "the vendor's layout");
static_assert(offsetof(struct vendor_access, location) == 8, "the vendor's layout");
static_assert(sizeof(struct vendor_option) == 20, "the vendor's layout");
static_assert(sizeof(struct vendor_options) == 16, "the vendor's layout");
static_assert(sizeof(struct vendor_attribute) == 20, "the vendor's layout");
static_assert(sizeof(struct vendor_config) == 16, "the vendor's layout");
static_assert(sizeof(struct vendor_program) == 24, "the vendor's layout");
static_assert(sizeof(struct vendor_args) == 40, "the vendor's layout");
static_assert(offsetof(struct vendor_args, is_on_device) == 31, "the vendor's layout");
static_assert(sizeof(struct vendor_task) == 16, "the vendor's layout");
static_assert(offsetof(struct vendor_task, schem) == 2, "the vendor's layout");
static_assert(sizeof(struct vendor_map_in) == 8, "the vendor's layout");
static_assert(sizeof(struct vendor_map_out) == 16, "the vendor's layout");
static_assert(sizeof(struct vendor_resource) == 20, "the vendor's layout");

enum { VENDOR_VERSION_TEXT = 64 };

struct vendor {
    void *library[VENDOR_LIBRARIES];
    char version[VENDOR_VERSION_TEXT]; /* version of CANN that was found; empty: unknown */
    /* time limit in milliseconds of a call, in addition to the wait that the call is asked for */
    uint32_t call_ms;
    struct vendor_log *log; /* log that PTO_CANN_LOG requests; NULL: none */
#define X(library, returns, name, parameters) returns(*name) parameters;
    VENDOR_MAP(X)
    VENDOR_OPTIONAL_MAP(X)
#undef X
#define X(returns, name, parameters) returns(*name) parameters;
    /* functions of the communication library; all are NULL until vendor_load_hccl was called */
    VENDOR_HCCL_MAP(X)
#undef X
};

/*
 * Loads the libraries and finds their functions. PTO_ENOSUP with an error that names the missing
 * parts, or the unknown version and the known ones.
 */
int vendor_load(struct vendor *v, struct pto_error *error);
void vendor_unload(struct vendor *v);

/* Like vendor_load, for the communication library. May be called again. */
int vendor_load_hccl(struct vendor *v, struct pto_error *error);
/*
 * Called before a device's first call. PTO_EFORKED: this process was forked from one that has
 * opened a card.
 */
int vendor_claim(struct pto_error *error);

/*
 * Appends a line to the log, if there is one, that is not about a call: evidence of a kind that
 * docs/internals/onboard.md lists. Control characters are escaped, so the text stays on one line.
 */
void vendor_note(const struct vendor *v, const char *kind, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/*
 * Returns the vendor's own message for the last failed call of this thread, if that was the named
 * call with this code; otherwise "". Valid until the thread's next call.
 */
const char *vendor_message(const char *name, int code);

/* Returns the meaning of a vendor's code in a few words; never NULL. */
const char *vendor_meaning(int code);
/* Returns the status that stands for a vendor's code. */
int vendor_status(int code);
/*
 * Return the meaning and the status of a code of the communication library, which has separate
 * codes.
 */
const char *vendor_hccl_meaning(int code);
int vendor_hccl_status(int code);

/*
 * ASCEND_RT_VISIBLE_DEVICES hides cards from a process, and renumbers the others. Converts the
 * number of a card in this process to the driver's, and back. -1: the card is hidden from this
 * process.
 */
uint32_t vendor_driver_card(uint32_t card);
int32_t vendor_own_card(uint32_t driver_card);

/* An argument of a vendor's call, as the log shows it. */
struct vendor_shown {
    uint64_t value;
    bool is_place; /* the argument is the address to which the call writes its answer */
};

/*
 * Called before and after a vendor's call. `wait_ms`: how long the call itself may wait; `code`:
 * its result, which is written to the log with the arguments. vendor_end does not return on a
 * driver thread that was given up during the call.
 */
uint64_t vendor_begin(const struct vendor *v, const char *name, uint64_t wait_ms);
int vendor_end(struct vendor *v, const char *name, uint64_t begin_ns, int code,
               const struct vendor_shown *shown, uint32_t count);

/* Initialises an array of struct vendor_shown from at most eight arguments. */
#define VENDOR_SHOW(x)                                                           \
    {                                                                            \
        (uint64_t)(uintptr_t)(x), _Generic((x), void ** : true, default : false) \
    }
#define VENDOR_SHOW_1(x) VENDOR_SHOW(x)
#define VENDOR_SHOW_2(x, ...) VENDOR_SHOW(x), VENDOR_SHOW_1(__VA_ARGS__)
#define VENDOR_SHOW_3(x, ...) VENDOR_SHOW(x), VENDOR_SHOW_2(__VA_ARGS__)
#define VENDOR_SHOW_4(x, ...) VENDOR_SHOW(x), VENDOR_SHOW_3(__VA_ARGS__)
#define VENDOR_SHOW_5(x, ...) VENDOR_SHOW(x), VENDOR_SHOW_4(__VA_ARGS__)
#define VENDOR_SHOW_6(x, ...) VENDOR_SHOW(x), VENDOR_SHOW_5(__VA_ARGS__)
#define VENDOR_SHOW_7(x, ...) VENDOR_SHOW(x), VENDOR_SHOW_6(__VA_ARGS__)
#define VENDOR_SHOW_8(x, ...) VENDOR_SHOW(x), VENDOR_SHOW_7(__VA_ARGS__)
#define VENDOR_NINTH(a, b, c, d, e, f, g, h, ninth, ...) ninth
#define VENDOR_SHOW_ALL(...)                                                              \
    VENDOR_NINTH(__VA_ARGS__, VENDOR_SHOW_8, VENDOR_SHOW_7, VENDOR_SHOW_6, VENDOR_SHOW_5, \
                 VENDOR_SHOW_4, VENDOR_SHOW_3, VENDOR_SHOW_2, VENDOR_SHOW_1, none)        \
    (__VA_ARGS__)

#define VENDOR_WAIT(v, wait_ms, name, ...)                                                  \
    ({                                                                                      \
        uint64_t begin_ns_ = vendor_begin(v, #name, wait_ms);                               \
        int code_ = (v)->name(__VA_ARGS__);                                                 \
        const struct vendor_shown shown_[] = { VENDOR_SHOW_ALL(__VA_ARGS__) };              \
        vendor_end(v, #name, begin_ns_, code_, shown_, sizeof(shown_) / sizeof(shown_[0])); \
    })
#define VENDOR_CALL(v, name, ...) VENDOR_WAIT(v, 0, name, __VA_ARGS__)

#endif
