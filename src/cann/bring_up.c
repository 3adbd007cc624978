/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Brings up the scheduler program on the card. The dispatcher writes it to the card's disk, under a
 * name made of its fingerprint and the device. It is registered under that name and launched
 * through a handle; its first request has the addresses of its memory and of the cores' registers.
 */
#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "base/program.h"
#include "cann/cann.h"
#include "cann/device/card_graph.h"
#include "cann/device/dispatcher.h"
#include "cann/device/fingerprint.h"

enum {
    PROGRAM_MAX = 64 << 20,
    DESCRIPTION_MAX = 1024,
    BOOT_MS = 20000,
    CALL_MS = 20000,
    SLICE_MS = 1000,
};

/* ---- programs of the card ---- */

int cann_program_read(const char *name, struct cann_program *out, struct pto_error *error)
{
    const char *folder = getenv("PTO_CANN_PROGRAMS");
    char path[PATH_MAX], inner[128];

    if (folder != NULL && folder[0] != '\0') {
        snprintf(path, sizeof(path), "%.3900s/%s", folder, name);
    } else {
        snprintf(inner, sizeof(inner), "cann/%s", name);
        (void)program_find(inner, path);
    }
    if (file_read(path, PROGRAM_MAX, &out->bytes, &out->size) < 0)
        return error_setf(error, PTO_ENOSUP,
                          "a real chip needs the program %s, but %.300s: %s; `make cann` builds "
                          "what can be built here, docs/internals/onboard.md describes the rest",
                          name, path, strerror(errno));
    return PTO_OK;
}

static int bring_up_read_program(const struct cann *c, const char *name, struct cann_program *out,
                                 struct pto_error *error)
{
    int status = cann_program_read(name, out, error);

    if (status >= 0)
        vendor_note(&c->vendor, "program", "%s: %zu bytes, %016llx", name, out->size,
                    (unsigned long long)fingerprint_of(out->bytes, out->size));
    return status;
}

/* ---- registration of programs by a description ---- */

/*
 * Finds the folder for descriptions. The vendor reads a description from a file whose name ends in
 * .json, and may hang or crash in that call, which would leave a temporary file. So descriptions
 * are kept below the user's cache, under names made of their contents. There are few: one for the
 * dispatcher, and one for each scheduler and card.
 */
static bool find_folder(char folder[PATH_MAX])
{
    const char *store = getenv("PTO_STORE"), *cache = getenv("XDG_CACHE_HOME");
    const char *home = getenv("HOME");
    struct stat about;

    if (store != NULL && store[0] == '/')
        snprintf(folder, PATH_MAX, "%.3900s/cards", store);
    /* the XDG standard requires that relative paths are ignored */
    else if (cache != NULL && cache[0] == '/')
        snprintf(folder, PATH_MAX, "%.3900s/pto/cards", cache);
    else if (home != NULL && home[0] == '/')
        snprintf(folder, PATH_MAX, "%.3900s/.cache/pto/cards", home);
    else
        return false;
    return file_make_folder(folder) >= 0 && stat(folder, &about) == 0 &&
           about.st_uid == geteuid() && (about.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

/*
 * Writes a description to the folder, unless it is there already. False: it cannot be kept there.
 */
static bool keep_description(const char *text, size_t length, char path[PATH_MAX])
{
    char folder[PATH_MAX], *bytes = NULL;
    size_t size = 0;
    bool is_there;

    if (!find_folder(folder))
        return false;
    snprintf(path, PATH_MAX, "%.4000s/%016llx.json", folder,
             (unsigned long long)fingerprint_of(text, length));
    is_there = file_read(path, DESCRIPTION_MAX, &bytes, &size) >= 0 && size == length &&
               memcmp(bytes, text, length) == 0;
    free(bytes);
    return is_there || file_write_private(path, text, length) >= 0;
}

/*
 * Writes a description to a temporary file, for a user without a cache. cann_close removes it if
 * the vendor's call never returns.
 */
static int write_for_now(struct cann *c, const char *text, size_t length)
{
    const char *folder = getenv("TMPDIR");
    int file;

    snprintf(c->description, sizeof(c->description), "%.3900s/pto-%ld-XXXXXX.json",
             folder != NULL && folder[0] != '\0' ? folder : "/tmp", (long)getpid());
    file = mkstemps(c->description, 5);
    if (file < 0) {
        c->description[0] = '\0';
        return PTO_ESYSTEM;
    }
    if (!file_put(file, text, length)) {
        close(file);
        cann_drop_description(c);
        return PTO_ESYSTEM;
    }
    close(file);
    return PTO_OK;
}

void cann_drop_description(struct cann *c)
{
    if (c->description[0] != '\0')
        (void)unlink(c->description);
    c->description[0] = '\0';
}

/*
 * Fields of the description by which a program for the control processor is registered with the
 * vendor's runtime.
 */
struct description {
    const char *op;
    const char *function;
    const char *so; /* name of the program's file; the card looks for it at the first launch only */
    const char *library;
};

static int write_description(struct cann *c, const struct description *d, char path[PATH_MAX])
{
    char text[DESCRIPTION_MAX];
    int length, status;

    length = snprintf(text, sizeof(text),
                      "{\"%s\": {\"opInfo\": {\"computeCost\": \"100\", \"engine\": "
                      "\"DNN_VM_AICPU\", \"flagAsync\": \"False\", \"flagPartial\": \"False\", "
                      "\"functionName\": \"%s\", \"kernelSo\": \"%s\", \"opKernelLib\": \"%s\", "
                      "\"userDefined\": \"False\"}}}\n",
                      d->op, d->function, d->so, d->library);
    if (keep_description(text, (size_t)length, path))
        return PTO_OK;
    status = write_for_now(c, text, (size_t)length);
    snprintf(path, PATH_MAX, "%s", c->description);
    return status;
}

static int bring_up_describe(struct cann *c, const struct description *d, void **binary_out,
                             void **function_out, struct pto_error *error)
{
    struct vendor_option mode = { .id = VENDOR_OPTION_CPU_MODE };
    struct vendor_options options = { &mode, 1 };
    char path[PATH_MAX];
    int code;

    /*
     * the log names the program that the next calls are about: first the dispatcher, then the
     * scheduler
     */
    vendor_note(&c->vendor, "stage", "%s", c->stages++ == 0 ? "dispatcher" : "scheduler");
    if (write_description(c, d, path) < 0)
        return error_setf(
            error, PTO_ESYSTEM,
            "the description of a program for the card cannot be written, neither below the user's "
            "cache nor in TMPDIR: %s",
            strerror(errno));
    code = VENDOR_CALL(&c->vendor, aclrtBinaryLoadFromFile, path, &options, binary_out);
    cann_drop_description(c);
    if (code != ACL_SUCCESS)
        return cann_error_set(c, error, "aclrtBinaryLoadFromFile", code,
                              "while registering a program of the card");
    code = VENDOR_CALL(&c->vendor, aclrtBinaryGetFunction, *binary_out, d->op, function_out);
    return code == ACL_SUCCESS ? PTO_OK
                               : cann_error_set(c, error, "aclrtBinaryGetFunction", code,
                                                "while registering a program of the card");
}

/*
 * Waits for a call of the scheduler in short steps, to notice soon that a wait hangs. After any
 * failure code the launched program may still run and use its arguments.
 */
static int await_call(struct cann *c, int32_t ms, const char *doing)
{
    int code = ACL_STREAM_NOT_DONE;

    /*
     * While runs execute, the call waits in the stream until they end, so the time until then does
     * not count against the limit of the call.
     */
    for (; code == ACL_STREAM_NOT_DONE && ms > 0; ms -= cann_is_busy(c) ? 0 : SLICE_MS)
        code = VENDOR_WAIT(&c->vendor, SLICE_MS, aclrtSynchronizeStreamWithTimeout, c->stream,
                           SLICE_MS);
    if (code != ACL_SUCCESS)
        (void)cann_lose_by(c, NULL, "aclrtSynchronizeStreamWithTimeout", code, doing);
    return code;
}

/* ---- the dispatcher, which installs the scheduler ---- */

static const char *const step_text[] = { [DISPATCHER_DONE] = "was written",
                                         [DISPATCHER_FOLDER] = "has no folder to be written to",
                                         [DISPATCHER_WRITE] = "cannot be written",
                                         [DISPATCHER_RENAME] = "cannot be renamed",
                                         [DISPATCHER_READ] = "cannot be read back" };

static int check_installed(const struct cann *c, const struct dispatcher_args *args,
                           const struct cann_program *scheduler, struct pto_error *error)
{
    if (args->answer_magic != DISPATCHER_MAGIC)
        return error_setf(error, PTO_ENOSUP,
                          "card %u: the dispatcher did not answer: another one was loaded first, "
                          "and stays until this process ends",
                          c->card);
    if (args->answer_version != DISPATCHER_VERSION)
        return error_setf(error, PTO_ENOSUP,
                          "card %u: a dispatcher of version %u was loaded first, and stays until "
                          "this process ends; this library needs version %d",
                          c->card, args->answer_version, DISPATCHER_VERSION);
    if (args->step != DISPATCHER_DONE)
        return error_setf(
            error, PTO_ESYSTEM,
            "card %u: the scheduler %s on the card: %s; in the vendor's folder of programs: %s",
            c->card,
            args->step < sizeof(step_text) / sizeof(step_text[0]) ? step_text[args->step]
                                                                  : "was refused",
            strerror(args->error), strerror(args->known_error));
    if (args->bytes != scheduler->size ||
        args->fingerprint != fingerprint_of(scheduler->bytes, scheduler->size))
        return error_setf(error, PTO_ESYSTEM,
                          "card %u: the scheduler on the card's disk is not what was sent: %llu "
                          "bytes of %zu",
                          c->card, (unsigned long long)args->bytes, scheduler->size);
    return PTO_OK;
}

static void log_folder(struct cann *c, struct dispatcher_args *args)
{
    args->path[DISPATCHER_PATH - 1] = '\0';
    if (args->known_error == 0)
        vendor_note(&c->vendor, "route", "programs %s, the vendor's folder", args->path);
    else
        vendor_note(&c->vendor, "route",
                    "programs %s, the dispatcher's own folder; the vendor's folder: %s", args->path,
                    strerror(args->known_error));
}

/*
 * Runs the dispatcher. Both programs and the arguments are in memory of the card during the call.
 */
static int bring_up_install(struct cann *c, const struct cann_program *dispatcher,
                            const struct cann_program *scheduler, const char *name,
                            struct pto_error *error)
{
    struct dispatcher_args args = { .object_bytes = dispatcher->size,
                                    .device = c->card,
                                    .inner_bytes = scheduler->size,
                                    .magic = DISPATCHER_MAGIC,
                                    .version = DISPATCHER_VERSION };
    const struct description description = { "PtoDispatcher", "DynTileFwkKernelServerInit",
                                             "libaicpu_extend_kernels.so", "KFCKernel" };
    struct dispatcher_launch launch = { .args = 0 };
    struct vendor_attribute none = { 0 };
    struct vendor_config config = { &none, 0 };
    void *binary = NULL, *function = NULL;
    const char *call = "aclrtMalloc";
    uint64_t at = 0;
    int code, status;

    snprintf(args.name, sizeof(args.name), "%s", name);
    status = bring_up_describe(c, &description, &binary, &function, error);
    if (status < 0)
        goto unload;
    code = cann_take(c, dispatcher->size, &args.object);
    if (code == ACL_SUCCESS)
        code = cann_take(c, scheduler->size, &args.inner);
    if (code == ACL_SUCCESS)
        code = cann_take(c, sizeof(args), &at);
    if (code == ACL_SUCCESS) {
        call = "aclrtMemcpy";
        code = cann_upload(c, args.object, dispatcher->bytes, dispatcher->size);
    }
    if (code == ACL_SUCCESS)
        code = cann_upload(c, args.inner, scheduler->bytes, scheduler->size);
    if (code == ACL_SUCCESS)
        code = cann_upload(c, at, &args, sizeof(args));
    if (code == ACL_SUCCESS) {
        call = "aclrtLaunchKernelWithHostArgs";
        launch.args = at;
        code = VENDOR_CALL(&c->vendor, aclrtLaunchKernelWithHostArgs, function, 1, c->stream,
                           &config, &launch, sizeof(launch), NULL, 0);
    }
    if (code == ACL_SUCCESS) {
        call = "aclrtSynchronizeStreamWithTimeout";
        code = await_call(c, BOOT_MS, "for the dispatcher");
    }
    if (code == ACL_SUCCESS) {
        call = "aclrtMemcpy";
        code = cann_download(c, at, &args, sizeof(args));
    }
    status = code == ACL_SUCCESS ? check_installed(c, &args, scheduler, error)
                                 : cann_error_set(c, error, call, code, "for the dispatcher");
    if (status >= 0)
        log_folder(c, &args);
    if (!cann_is_lost(c)) {
        (void)cann_give_back(c, at);
        (void)cann_give_back(c, args.inner);
        (void)cann_give_back(c, args.object);
    }

unload:
    if (binary != NULL && !cann_is_lost(c) &&
        VENDOR_CALL(&c->vendor, aclrtBinaryUnLoad, binary) != ACL_SUCCESS)
        a32_store_relaxed(&c->is_untidy, 1); /* cann_close reads is_untidy */
    return status;
}

/* ---- calls of the scheduler ---- */

int cann_launch_call(struct cann *c, enum board_op op, uint64_t value, uint64_t message,
                     uint64_t bytes)
{
    struct board_call call = { .board = c->board,
                               .magic = BOARD_MAGIC,
                               .version = BOARD_VERSION,
                               .op = op,
                               .sequence = ++c->sequence,
                               .value = value,
                               .message = message,
                               .message_bytes = bytes };
    /*
     * The vendor's default limit is 28 or 60 s, which a run may exceed. No limit is set here: the
     * host watches the scheduler's heartbeat instead.
     */
    struct vendor_attribute patient = { .id = VENDOR_ATTRIBUTE_TIMEOUT, .value = { 0 } };
    struct vendor_config config = { &patient, 1 }; /* mutation: default-cpu-limit */

    return VENDOR_CALL(&c->vendor, aclrtLaunchKernelWithHostArgs, c->function, 1, c->stream,
                       &config, &call, sizeof(call), NULL, 0);
}

int cann_call(struct cann *c, enum board_op op, uint64_t value, const void *message, uint64_t bytes,
              struct board_answer *answer_out, struct pto_error *error)
{
    struct board_answer answer;
    const char *call = "aclrtMalloc";
    uint64_t at = c->message;
    int code = ACL_SUCCESS, status;
    bool is_launched = false;

    if (bytes > MESSAGE_BYTES)
        code = cann_take(c, bytes, &at);
    if (code == ACL_SUCCESS && bytes != 0) {
        call = "aclrtMemcpy";
        code = cann_upload(c, at, message, bytes);
    }
    if (code == ACL_SUCCESS) {
        call = "aclrtLaunchKernelWithHostArgs";
        code = cann_launch_call(c, op, value, at, bytes);
        is_launched = code == ACL_SUCCESS;
    }
    if (code == ACL_SUCCESS) {
        call = "aclrtSynchronizeStreamWithTimeout";
        code = await_call(c, CALL_MS, "while sending a request to the scheduler");
    }
    if (code == ACL_SUCCESS) {
        call = "aclrtMemcpy";
        code = cann_download(c, c->board + offsetof(struct board, answer), &answer, sizeof(answer));
    }
    /* the scheduler may have received the request, and may still use the memory of the request */
    if (code != ACL_SUCCESS && is_launched) {
        status = cann_lose_by(c, error, call, code, "while sending a request to the scheduler");
    } else if (code != ACL_SUCCESS) {
        status = cann_error_set(c, error, call, code, "while sending a request to the scheduler");
    } else if (answer.magic != BOARD_MAGIC || answer.sequence != c->sequence) {
        status = cann_lose(c, error, "card %u: the scheduler did not answer", c->card);
    } else {
        answer.text[BOARD_TEXT - 1] = '\0';
        status = answer.status < 0
                     ? error_setf(error, answer.status, "card %u: %s", c->card, answer.text)
                     : PTO_OK;
        if (answer_out != NULL)
            *answer_out = answer;
    }
    if (at != c->message && !cann_is_lost(c))
        (void)cann_give_back(c, at);
    return status;
}

/* ---- bringing up the scheduler ---- */

static int open_board(struct cann *c, struct pto_error *error)
{
    struct board_open open = { .size = { sizeof(struct board), sizeof(struct run_message),
                                         sizeof(struct run_ended), sizeof(struct pto_tensor),
                                         sizeof(struct board_load), sizeof(struct board_run),
                                         sizeof(struct card_graph) },
                               .clusters = c->base.properties.clusters,
                               .memory_max = c->memory_max,
                               .engine = c->engine,
                               .engine_bytes = c->engine_bytes,
                               .heap = c->heap,
                               .heap_bytes = c->heap_bytes };
    struct board *board = calloc(1, sizeof(*board));
    int code;

    if (board == NULL)
        return error_setf(error, PTO_ENOMEM, "there is no memory for a chip");
    board->magic = BOARD_MAGIC;
    board->version = BOARD_VERSION;
    board->blocks = open.clusters;
    code = cann_upload(c, c->board, board, sizeof(*board));
    free(board);
    if (code != ACL_SUCCESS)
        return cann_error_set(c, error, "aclrtMemcpy", code, "while writing the scheduler's board");
    return cann_call(c, BOARD_OPEN, 0, &open, sizeof(open), NULL, error);
}

/*
 * Sends the addresses of the cores' register windows. The scheduler has answered before, and reads
 * them at the beginning of each call.
 */
static int send_windows(struct cann *c, struct pto_error *error)
{
    const struct cann_generation *g = c->generation;
    struct board_windows windows = { .bell_offset = g->bell_offset,
                                     .cond_offset = g->cond_offset,
                                     .fast_offset = g->fast_offset,
                                     .fast_open = g->fast_open,
                                     .fast_close = g->fast_close };
    const char *call = "";
    uint32_t count = 0;
    int code =
        g->map_windows(&c->vendor, vendor_driver_card(c->card), g->cores, windows.base, &call);

    if (code == ACL_SUCCESS) {
        call = "aclrtMemcpy";
        code =
            cann_upload(c, c->board + offsetof(struct board, windows), &windows, sizeof(windows));
    }
    if (code != ACL_SUCCESS)
        return cann_error_set(c, error, call, code, "while sending the addresses of the registers");
    for (uint32_t i = 0; i < BOARD_WINDOWS; i++)
        count += windows.base[i] != 0;
    vendor_note(&c->vendor, "windows", "%u register windows, the first at %#llx", count,
                (unsigned long long)windows.base[0]);
    return PTO_OK;
}

int cann_bring_up(struct cann *c, struct pto_error *error)
{
    struct cann_program dispatcher = { NULL, 0 }, scheduler = { NULL, 0 };
    char name[DISPATCHER_NAME];
    const struct description description = { "PtoScheduler", "pto_scheduler", name, "AICPUKernel" };
    int status;

    snprintf(name, sizeof(name), "executor-%s.o", c->generation->name);
    status = bring_up_read_program(c, "libpto_dispatcher.so", &dispatcher, error);
    if (status >= 0)
        status = bring_up_read_program(c, "libpto_scheduler.so", &scheduler, error);
    if (status >= 0)
        status = bring_up_read_program(c, name, &c->executor, error);
    if (status >= 0 && scheduler.size >= sizeof(Elf64_Ehdr))
        c->machine = ((const Elf64_Ehdr *)(const void *)scheduler.bytes)->e_machine;
    /*
     * the name contains a fingerprint, because the card's process keeps the first program that it
     * has loaded by a name
     */
    if (status >= 0) {
        snprintf(name, sizeof(name), "libpto_scheduler_%016llx_%u.so",
                 (unsigned long long)fingerprint_of(scheduler.bytes, scheduler.size), c->card);
        status = bring_up_install(c, &dispatcher, &scheduler, name, error);
    }
    if (status >= 0)
        status = bring_up_describe(c, &description, &c->binary, &c->function, error);
    if (status >= 0) {
        status = open_board(c, error);
        if (status < 0)
            /* makes cann_close not call a scheduler that could not open the board */
            c->function = NULL;
    }
    if (status >= 0) {
        vendor_note(&c->vendor, "stage", "registers"); /* mutation: silent-stage */
        status = send_windows(c, error);
    }
    free(dispatcher.bytes);
    free(scheduler.bytes);
    return status;
}
