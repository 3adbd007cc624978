/* SPDX-License-Identifier: Apache-2.0 */
/* Loads the vendor's libraries, and translates their codes. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* for dlinfo */
#endif

#include "cann/vendor.h"

#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/error.h"
#include "base/os.h"
#include "cann/driver_thread.h"

/* Range of versions whose interfaces were compared and found equal. */
enum { MAJOR_FIRST = 8, MINOR_FIRST = 5, MAJOR_LAST = 9 };

/*
 * Default time limit of a call, in milliseconds: the longest that is published, for a device that
 * starts together with its control processor.
 */
enum { CALL_MS = 60000 };

/* The log of vendor's calls, a line for each, in the file that PTO_CANN_LOG names. */
struct vendor_log {
    FILE *file;
    pthread_mutex_t lock;
    uint64_t count;
    bool has_begins; /* PTO_CANN_LOG_BEGINS is set: there is also a line before each call */
};

enum { MESSAGE_MAX = 4096, NOTE_MAX = MESSAGE_MAX + 256 };

/* The vendor's message for the last failed call of this thread. */
static __thread struct {
    const char *name; /* name of the call; NULL: no message */
    int code;
    char text[MESSAGE_MAX];
} recent;

static const char *const library_name[VENDOR_LIBRARIES] = { "libascendcl.so", "libascend_hal.so" };

/* Where the driver installs its library, for systems whose search path does not have it. */
static const char hal_folder[] = "/usr/local/Ascend/driver/lib64/driver";

struct function {
    enum vendor_library library;
    const char *name;
    size_t at; /* offset of the function's pointer in struct vendor */
};

static const struct function functions[] = {
#define X(library, returns, name, parameters) \
    { VENDOR_##library, #name, offsetof(struct vendor, name) },
    VENDOR_MAP(X)
#undef X
};

enum { FUNCTIONS = sizeof(functions) / sizeof(functions[0]) };

/* Files of the libraries in VENDOR_OPTIONAL_MAP; most are loaded as dependencies of others. */
#define FILE_ACL "libascendcl.so"
#define FILE_RT "libruntime.so"
#define FILE_LOG "libascendalog.so"

static const struct {
    const char *file, *name;
    size_t at; /* offset of the function's pointer in struct vendor */
} optional[] = {
#define X(library, returns, name, parameters) \
    { FILE_##library, #name, offsetof(struct vendor, name) },
    VENDOR_OPTIONAL_MAP(X)
#undef X
};

/* ---- versions ---- */

/* Reads the line of a file that begins with the key, and returns the rest of that line. */
static bool vendor_read_key(const char *home, const char *file, const char *key, char *value,
                            size_t bytes)
{
    char path[4096], line[256];
    bool is_found = false;
    FILE *from;

    snprintf(path, sizeof(path), "%s/%s", home, file);
    from = fopen(path, "re");
    while (from != NULL && !is_found && fgets(line, sizeof(line), from) != NULL) {
        line[strcspn(line, "\r\n")] = '\0';
        if (strncmp(line, key, strlen(key)) != 0)
            continue;
        snprintf(value, bytes, "%.*s", (int)bytes - 1, line + strlen(key));
        is_found = value[0] >= '0' && value[0] <= '9';
    }
    if (from != NULL)
        fclose(from);
    return is_found;
}

/*
 * Finds the version of CANN in the files that installations have had; none of them is documented.
 * From 9.0 on the folder of a version is called cann, and "Version=" in its file is the version. In
 * older folders it is the version of a package, so the new folder is tried first.
 */
static void find_version(struct vendor *v, const char *home)
{
    static const char *const place[][2] = {
        { "runtime/version.info", "version_dir=" },
        { "share/info/runtime/version.info", "version_dir=" },
        { "compiler/version.info", "version_dir=" },
        { "ascend_toolkit_install.info", "version=" },
        { "aarch64-linux/ascend_toolkit_install.info", "version=" },
        { "share/info/runtime/version.info", "Version=" },
        { "runtime/version.info", "Version=" },
    };

    v->version[0] = '\0';
    for (size_t i = 0; i < sizeof(place) / sizeof(place[0]); i++)
        if (vendor_read_key(home, place[i][0], place[i][1], v->version, sizeof(v->version)))
            return;
    v->version[0] = '\0';
}

static int check_version(const struct vendor *v, struct pto_error *error)
{
    unsigned major = 0, minor = 0;

    if (v->version[0] == '\0' || sscanf(v->version, "%u.%u", &major, &minor) < 1)
        return PTO_OK; /* a library of unknown version is accepted if it has all functions */
    if (major < MAJOR_FIRST || (major == MAJOR_FIRST && minor < MINOR_FIRST))
        return error_setf(error, PTO_ENOSUP,
                          "this is CANN %.40s, and the first version whose interfaces are known is "
                          "%d.%d.0; install a newer one",
                          v->version, MAJOR_FIRST, MINOR_FIRST);
    if (major > MAJOR_LAST && getenv("PTO_CANN_ANY_VERSION") == NULL)
        return error_setf(error, PTO_ENOSUP,
                          "this is CANN %.40s, and the last version whose interfaces are known is "
                          "%d; set PTO_CANN_ANY_VERSION to try it all the same",
                          v->version, MAJOR_LAST);
    return PTO_OK;
}

static bool is_known_version(const struct vendor *v)
{
    struct pto_error error;

    pto_error_init(&error);
    return check_version(v, &error) >= 0;
}

/* ---- loading the libraries ---- */

/*
 * Opens a library: tries the loader's search path, then ASCEND_HOME_PATH, then the driver's folder.
 */
static void *open_library(const char *home, enum vendor_library library, char *why, size_t bytes)
{
    const char *name = library_name[library];
    char path[4096];
    void *handle = dlopen(name, RTLD_NOW | RTLD_GLOBAL);

    if (handle != NULL)
        return handle;
    snprintf(why, bytes, "%s", dlerror());
    snprintf(path, sizeof(path), "%s/lib64/%s", home, name);
    handle = access(path, F_OK) == 0 ? dlopen(path, RTLD_NOW | RTLD_GLOBAL) : NULL;
    if (handle == NULL && library == VENDOR_HAL) {
        snprintf(path, sizeof(path), "%s/%s", hal_folder, name);
        handle = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    }
    return handle;
}

static int find_functions(struct vendor *v, enum vendor_library library, struct pto_error *error)
{
    for (size_t i = 0; i < FUNCTIONS; i++) {
        const struct function *f = &functions[i];
        void *symbol = f->library == library ? dlsym(v->library[library], f->name) : NULL;

        if (f->library != library)
            continue;
        if (symbol == NULL)
            return error_setf(error, PTO_ENOSUP,
                              "%s%s%s has no function %s, which every version from %d.%d.0 on has: "
                              "it is older, or a stub",
                              library_name[f->library], v->version[0] != '\0' ? " of CANN " : "",
                              v->version, f->name, MAJOR_FIRST, MINOR_FIRST);
        memcpy((char *)v + f->at, &symbol, sizeof(symbol));
    }
    return PTO_OK;
}

static int open_libraries(struct vendor *v, const char *home, struct pto_error *error)
{
    for (uint32_t i = 0; i < VENDOR_LIBRARIES; i++) {
        char why[256] = "", path[PATH_MAX] = "";

        v->library[i] = open_library(home, (enum vendor_library)i, why, sizeof(why));
        if (v->library[i] == NULL)
            return error_setf(error, PTO_ENOSUP,
                              "%s cannot be loaded (%.150s); source set_env.sh of CANN in "
                              "ASCEND_HOME_PATH=%.100s%s",
                              library_name[i], why, home,
                              i == VENDOR_HAL ? ", and install the driver" : "");
        (void)dlinfo(v->library[i], RTLD_DI_ORIGIN, path);
        vendor_note(v, "library", "%s from %s", library_name[i], path);
    }
    return PTO_OK;
}

/*
 * Whether the first library is a stub for building. Then the driver's library does not load, and
 * the stub is the reason to report.
 */
static bool is_stub(struct vendor *v)
{
    return v->library[VENDOR_ACL] != NULL && find_functions(v, VENDOR_ACL, NULL) < 0;
}

static void find_optional(struct vendor *v, const char *home)
{
    for (size_t i = 0; i < sizeof(optional) / sizeof(optional[0]); i++) {
        void *symbol = dlsym(RTLD_DEFAULT, optional[i].name), *handle = NULL;
        char path[4096];

        if (symbol == NULL) {
            handle = dlopen(optional[i].file, RTLD_NOW | RTLD_GLOBAL);
            snprintf(path, sizeof(path), "%s/lib64/%s", home, optional[i].file);
            if (handle == NULL && access(path, F_OK) == 0)
                handle = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
        }
        if (handle != NULL)
            symbol = dlsym(handle, optional[i].name);
        memcpy((char *)v + optional[i].at, &symbol, sizeof(symbol));
    }
}

static void open_log(struct vendor *v)
{
    const char *path = getenv("PTO_CANN_LOG");
    struct vendor_log *log = path != NULL && path[0] != '\0' ? calloc(1, sizeof(*log)) : NULL;

    if (log == NULL)
        return;
    log->file = fopen(path, "ae");
    if (log->file == NULL) {
        free(log);
        return;
    }
    /* each line reaches the file even if the process crashes next */
    setvbuf(log->file, NULL, _IOLBF, 0);
    log->has_begins = getenv("PTO_CANN_LOG_BEGINS") != NULL;
    pthread_mutex_init(&log->lock, NULL);
    v->log = log;
}

/* Reads PTO_CANN_CALL_MS, the time in milliseconds after which a call is given up. */
static uint32_t find_call_ms(void)
{
    const char *text = getenv("PTO_CANN_CALL_MS");
    long ms = text != NULL ? strtol(text, NULL, 10) : 0;

    return ms > 0 && ms < INT32_MAX ? (uint32_t)ms : CALL_MS;
}

int vendor_load(struct vendor *v, struct pto_error *error)
{
    const char *home = getenv("ASCEND_HOME_PATH");
    int status;

    memset(v, 0, sizeof(*v));
    v->call_ms = find_call_ms();
    if (home == NULL || home[0] == '\0')
        return error_setf(error, PTO_ENOSUP,
                          "ASCEND_HOME_PATH is not set: install CANN and source its set_env.sh");
    open_log(v);
    find_version(v, home);
    vendor_note(v, "stage", "libraries");
    status = open_libraries(v, home, error);
    if (status < 0 && is_stub(v)) {
        vendor_note(v, "stage", "functions");
        status = find_functions(v, VENDOR_ACL, error);
        /* reports the unknown version, which may be why a library is missing */
    } else if (status >= 0 || !is_known_version(v)) {
        vendor_note(v, "stage", "version");
        vendor_note(v, "version", "%s", v->version);
        status = check_version(v, error);
    }
    if (status >= 0)
        vendor_note(v, "stage", "functions");
    for (uint32_t i = 0; i < VENDOR_LIBRARIES && status >= 0; i++)
        status = find_functions(v, (enum vendor_library)i, error);
    if (status >= 0)
        find_optional(v, home);
    else
        vendor_unload(v);
    return status;
}

int vendor_claim(struct pto_error *error)
{
    /*
     * id of the process that has opened a card last. A forked process inherits the number, and
     * finds that it differs from its own id.
     */
    static struct a32 user;
    uint32_t here = (uint32_t)getpid(), before = a32_load_relaxed(&user);

    if (before != 0 && before != here)
        return error_setf(error, PTO_EFORKED,
                          "process %u has used the vendor's software, which does not survive a "
                          "fork; open cards in newly started processes (spawn)",
                          before);
    a32_store_relaxed(&user, here); /* the value is only compared with the process's own id */
    return PTO_OK;
}

int vendor_load_hccl(struct vendor *v, struct pto_error *error)
{
    /* names that versions of CANN have for one library */
    static const char *const names[] = { "libhcomm.so", "libhccl.so" };
    static const struct {
        const char *name;
        size_t at;
    } wanted[] = {
#define X(returns, name, parameters) { #name, offsetof(struct vendor, name) },
        VENDOR_HCCL_MAP(X)
#undef X
    };
    const char *home = getenv("ASCEND_HOME_PATH"), *missing = NULL;
    char path[4096];
    void *handle = NULL;

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]) && handle == NULL; i++) {
        snprintf(path, sizeof(path), "%s/lib64/%s", home != NULL ? home : "", names[i]);
        handle = dlopen(names[i], RTLD_NOW | RTLD_GLOBAL);
        if (handle == NULL && access(path, F_OK) == 0)
            handle = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    }
    if (handle == NULL)
        return error_setf(error, PTO_ENOSUP, "neither %s nor %s can be loaded", names[0], names[1]);
    for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]) && missing == NULL; i++) {
        void *symbol = dlsym(handle, wanted[i].name);

        missing = symbol == NULL ? wanted[i].name : NULL;
        memcpy((char *)v + wanted[i].at, &symbol, sizeof(symbol));
    }
    return missing == NULL
               ? PTO_OK
               : error_setf(error, PTO_ENOSUP, "the communication library of CANN %s has no %s",
                            v->version, missing);
}

/*
 * Closes the log only. The libraries stay loaded: they start threads, and do not support being
 * unloaded.
 */
void vendor_unload(struct vendor *v)
{
    if (v->log != NULL) {
        fclose(v->log->file);
        pthread_mutex_destroy(&v->log->lock);
        free(v->log);
    }
    memset(v, 0, sizeof(*v));
}

/* ---- calls ---- */

uint64_t vendor_begin(const struct vendor *v, const char *name, uint64_t wait_ms)
{
    driver_thread_enter_call(name, v->call_ms + wait_ms);
    if (v->log != NULL && v->log->has_begins)
        vendor_note(v, "begin", "%s", name);
    return v->log != NULL ? os_now_ns() : 0;
}

void vendor_note(const struct vendor *v, const char *kind, const char *format, ...)
{
    char text[NOTE_MAX];
    va_list values;

    if (v->log == NULL)
        return;
    va_start(values, format);
    vsnprintf(text, sizeof(text), format, values);
    va_end(values);
    pthread_mutex_lock(&v->log->lock);
    fprintf(v->log->file, "#\t%u\t%s\t", os_thread_id(), kind);
    for (const char *at = text; *at != '\0'; at++) {
        if (*at == '\n')
            fputs("\\n", v->log->file);
        else
            fputc((unsigned char)*at < ' ' || *at == 0x7f ? ' ' : *at, v->log->file);
    }
    fputc('\n', v->log->file);
    pthread_mutex_unlock(&v->log->lock);
}

/*
 * Whether a code is a failure. The other codes are answers to a query, for which the vendor has no
 * message.
 */
static bool vendor_is_failure(int code)
{
    return code != ACL_SUCCESS && code != ACL_REPEAT_INIT && code != ACL_STREAM_NOT_DONE &&
           code != ACL_EVENT_NOT_DONE;
}

/*
 * Stores the vendor's message for a failed call. The vendor returns each message once, to the
 * thread whose call has failed.
 */
static void vendor_take_message(const struct vendor *v, const char *name, int code)
{
    const char *text = v->aclGetRecentErrMsg != NULL ? v->aclGetRecentErrMsg() : NULL;

    vendor_note(v, "meaning", "%s %d: %s", name, code,
                strncmp(name, "Hc", 2) == 0 ? vendor_hccl_meaning(code) : vendor_meaning(code));
    recent.name = name;
    recent.code = code;
    snprintf(recent.text, sizeof(recent.text), "%s", text != NULL ? text : "");
    if (recent.text[0] != '\0')
        vendor_note(v, "message", "%s %d: %s", name, code, recent.text);
}

const char *vendor_message(const char *name, int code)
{
    return recent.name != NULL && recent.code == code && strcmp(recent.name, name) == 0
               ? recent.text
               : "";
}

/*
 * Writes a line about a call to the log: either the values that the call has written, or the
 * arguments.
 */
static void note(struct vendor_log *log, const char *name, uint64_t begin_ns, int code,
                 const struct vendor_shown *shown, uint32_t count)
{
    uint64_t ns = os_now_ns() - begin_ns;

    pthread_mutex_lock(&log->lock);
    fprintf(log->file, "%llu\t%u\t%s\t%d\t%llu", (unsigned long long)++log->count, os_thread_id(),
            name, code, (unsigned long long)ns);
    for (uint32_t i = 0; i < count; i++) {
        uint64_t value = shown[i].value;

        if (shown[i].is_place && value != 0)
            value = code == 0 ? (uint64_t)(uintptr_t) * (void **)(uintptr_t)value : 0;
        fprintf(log->file, "\t%#llx", (unsigned long long)value);
    }
    fputc('\n', log->file);
    pthread_mutex_unlock(&log->lock);
}

int vendor_end(struct vendor *v, const char *name, uint64_t begin_ns, int code,
               const struct vendor_shown *shown, uint32_t count)
{
    if (v->log != NULL)
        note(v->log, name, begin_ns, code, shown, count);
    if (vendor_is_failure(code))
        vendor_take_message(v, name, code);
    driver_thread_leave_call();
    return code;
}

/* ---- meanings of codes ---- */

struct meaning {
    int code;
    int status;
    const char *text;
};

static const struct meaning meanings[] = {
    { 100000, PTO_EINVAL, "a parameter is wrong" },
    { 100002, PTO_OK, "it was initialised before" },
    { 100039, PTO_ENOSUP, "a stub library is in use" },
    { 107000, PTO_EINVAL, "a parameter is wrong, or a name in a program" },
    { 107001, PTO_EINVAL, "there is no such device" },
    { 107002, PTO_EINVAL, "the thread has no device" },
    { 107003, PTO_EINVAL, "the stream belongs to another context" },
    { 107022, PTO_ELOST, "the device aborted its tasks" },
    { 207000, PTO_ENOSUP, "not supported on this card" },
    { 207001, PTO_ENOMEM, "no device memory, or a program could not be put there" },
    { 207018, PTO_ENOMEM, "no device memory" },
    { 507000, PTO_ELOST, "internal error, or the control processor took too long" },
    { 507004, PTO_EAGAIN, "the stream has not finished" },
    { 507007, PTO_EINVAL, "the device was released before" },
    { 507014, PTO_ELOST, "a core took too long" },
    { 507015, PTO_ELOST, "a core had an exception" },
    { 507017, PTO_ELOST, "the control processor took too long" },
    { 507018, PTO_ELOST, "the scheduler crashed, or refused its call" },
    { 507032, PTO_ENOMEM, "too many programs" },
    { 507033, PTO_ELOST, "the control processor does not start" },
    { 507046, PTO_ETIMEOUT, "the wait timed out; the device continues" },
    { 507047, PTO_ETIMEOUT, "the wait for an event timed out" },
    { 507899, PTO_ELOST, "the driver failed: the card is down, or was given wrong ids" },
    { 507901, PTO_ELOST, "the link to the card is closed" },
    /* Codes of the driver. */
    { 4, PTO_EINVAL, "the device is not open" },
    { 6, PTO_ENOMEM, "the driver has no memory" },
    { 13, PTO_EAGAIN, "the driver is busy" },
    { 42, PTO_ELOST, "the control processor's scheduler has ended" },
    { 62, PTO_ELOST, "the control processor's scheduler is gone" },
    { 65534, PTO_ENOSUP, "not supported, as on a part of a card" },
};

static const struct meaning *find_meaning(int code)
{
    for (size_t i = 0; i < sizeof(meanings) / sizeof(meanings[0]); i++)
        if (meanings[i].code == code)
            return &meanings[i];
    return NULL;
}

/* Codes of the communication library. */
static const struct meaning hccl_meanings[] = {
    { 1, PTO_EINVAL, "a parameter is wrong" },
    { 2, PTO_EINVAL, "a pointer is NULL" },
    { 3, PTO_ENOMEM, "no memory" },
    { 4, PTO_ESYSTEM, "internal error" },
    { 5, PTO_ENOSUP, "not supported" },
    { 6, PTO_EINVAL, "not found" },
    { 7, PTO_EAGAIN, "a resource is in use" },
    { 8, PTO_ESYSTEM, "a system call failed" },
    { 9, PTO_ETIMEOUT, "the other ranks did not arrive in time" },
    { 10, PTO_ESYSTEM, "a file cannot be opened" },
    { 11, PTO_EPEER, "no connection to a rank" },
    { 12, PTO_EPEER, "no RoCE connection to a rank" },
    { 13, PTO_EPEER, "a transfer to a rank failed" },
    { 14, PTO_EPEER, "a RoCE transfer to a rank failed" },
    { 15, PTO_ESYSTEM, "the runtime failed" },
    { 16, PTO_ELOST, "the driver failed" },
    { 19, PTO_EPEER, "the network failed" },
    { 20, PTO_EAGAIN, "temporary failure; try again" },
    { 21, PTO_EPEER, "a remote rank failed" },
};

static const struct meaning *find_hccl_meaning(int code)
{
    for (size_t i = 0; i < sizeof(hccl_meanings) / sizeof(hccl_meanings[0]); i++)
        if (hccl_meanings[i].code == code)
            return &hccl_meanings[i];
    return NULL;
}

const char *vendor_hccl_meaning(int code)
{
    const struct meaning *m = find_hccl_meaning(code);

    return m != NULL ? m->text : "a code without a published meaning";
}

int vendor_hccl_status(int code)
{
    const struct meaning *m = find_hccl_meaning(code);

    return m != NULL ? m->status : PTO_ESYSTEM;
}

const char *vendor_meaning(int code)
{
    const struct meaning *m = find_meaning(code);

    return m != NULL ? m->text : "a code without a published meaning";
}

int vendor_status(int code)
{
    const struct meaning *m = find_meaning(code);

    return m != NULL ? m->status : PTO_ESYSTEM;
}

/* ---- numbers of cards ---- */

/* Converts between the driver's number of a card and its number in this process. */
static int32_t translate(uint32_t number, bool is_ours)
{
    const char *text = getenv("ASCEND_RT_VISIBLE_DEVICES");

    if (text == NULL || *text < '0' || *text > '9')
        return (int32_t)number; /* without a list of numbers all cards are visible */
    for (uint32_t place = 0; *text >= '0' && *text <= '9'; place++) {
        char *end;
        uint32_t driver = (uint32_t)strtoul(text, &end, 10);

        if ((is_ours ? place : driver) == number)
            return (int32_t)(is_ours ? driver : place);
        text = *end == ',' ? end + 1 : "";
    }
    return -1;
}

uint32_t vendor_driver_card(uint32_t card)
{
    int32_t driver = translate(card, true);

    /* a hidden card keeps its number, which aclrtSetDevice refuses */
    return driver >= 0 ? (uint32_t)driver : card;
}

int32_t vendor_own_card(uint32_t driver_card)
{
    return translate(driver_card, false);
}
