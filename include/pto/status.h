/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Status codes. A function that can fail returns 0 or one of these negative codes; a few return a
 * count or a descriptor instead of 0.
 */
#ifndef PTO_API_STATUS_H
#define PTO_API_STATUS_H

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(default)

/* Numbers down to -199 are the same as in the reference system; others start at -201. */
#define PTO_STATUS_MAP(X)                                             \
    X(ESCOPE_DEADLOCK, -1, "a scope holds every slot of its ring")    \
    X(EHEAP, -2, "no heap left for an output")                        \
    X(EWINDOW, -3, "the task ring is full")                           \
    X(EDEP_POOL, -4, "no room left for dependencies")                 \
    X(EARGS, -5, "invalid arguments")                                 \
    X(ESYNC_START, -7, "a gang can never fit on the chip")            \
    X(ETENSOR_WAIT, -8, "tensor data did not arrive in time")         \
    X(EORCH, -9, "the orchestration reported a failure")              \
    X(EREGIONS, -11, "the table of regions is full")                  \
    X(ESTALL, -100, "no progress within the stall time-out")          \
    X(ECOMPLETION, -101, "a completion condition is invalid")         \
    X(EWAIT_OVERFLOW, -102, "too many completion conditions")         \
    X(EREGISTRATION, -103, "the conditions of a task do not fit")     \
    X(EREADY, -104, "too many tasks are ready at once")               \
    X(EINVAL, -201, "invalid argument")                               \
    X(ENOMEM, -202, "out of memory")                                  \
    X(EAGAIN, -203, "no room now; retry after progress")              \
    X(ETIMEOUT, -204, "not finished before the deadline")             \
    X(EPEER, -205, "a peer process has ended")                        \
    X(ENOSUP, -206, "not supported by this backend")                  \
    X(EKERNEL, -207, "a kernel reported a failure")                   \
    X(ESYSTEM, -208, "the operating system refused a request")        \
    X(ECANCELED, -209, "the run was cancelled")                       \
    X(EBUSY, -210, "the run has not ended, or the device has runs")   \
    X(EMEMORY, -211, "invalid use of device memory")                  \
    X(EFORKED, -212, "the device belongs to the parent process")      \
    X(ELOAD, -213, "a shared object cannot be loaded")                \
    X(ELOST, -214, "the device is lost")                              \
    X(ECRASH, -215, "a kernel or the orchestration crashed")          \
    X(EGRAPH, -216, "the graph was built for other arguments")        \
    X(ESTALE, -217, "made with other headers")                        \
    X(EFORMAT, -218, "not an artefact, or damaged")                   \
    X(EBUILD, -219, "the compiler refused the sources")               \
    X(EMISMATCH, -220, "the result is not the expected one")          \
    X(EOVERRUN, -221, "a kernel wrote beyond a tensor")               \
    X(EUNWRITTEN, -222, "a task reads what no task writes")           \
    X(ESIGNATURE, -223, "not signed by a trusted key")                \
    X(EACCESS, -224, "a kernel used what its arguments do not allow") \
    X(ENAN, -225, "a kernel computed NaN or Inf from finite inputs")

enum pto_status {
    PTO_OK = 0,
#define X(name, value, text) PTO_##name = (value),
    PTO_STATUS_MAP(X)
#undef X
};

/* Returns a description of a status in a few words. Never NULL; the text is static. */
const char *pto_strerror(int status);

/* Returns the version of the library, such as "0.1.0". The text is static. */
const char *pto_version(void);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif
