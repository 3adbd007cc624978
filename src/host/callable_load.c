/* SPDX-License-Identifier: Apache-2.0 */
/* Makes callables from artefacts: reads, verifies and describes them. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/elf.h"
#include "base/file.h"
#include "base/object.h"
#include "base/sized.h"
#include "compat/orch/compat.h"
#include "artefact/artefact.h"
#include "host/host.h"
#include "host/register.h"

enum { HEADER_MAX = 16 << 20 }; /* maximum size in bytes of a header of the tile library */
enum { KERNEL_NAME_BYTES = 20 };

static int check_signers(const struct artefact *a, const struct pto_load_options *options,
                         const char *name, struct pto_error *error);
static int check_expected(const struct artefact *a, const struct pto_load_options *options,
                          const char *name, struct pto_error *error);
static int callable_load_bytes(void *bytes, size_t size, const struct pto_load_options *options,
                               struct pto_callable **callable_out, struct pto_error *error);
static struct packed *make_packed(void *bytes, const char *symbol);
static int make_callable(struct packed *packed, struct callable **callable_out);
static void add_packed_info(const struct callable *c, struct pto_callable_info *info);

/*
 * Copies the caller's options, which may be NULL, to `options` with defaults. False: they are
 * invalid.
 */
static bool is_valid(const struct pto_load_options *given, struct pto_load_options *options)
{
    pto_load_options_init(options);
    if ((given != NULL && sized_read(options, sizeof(*options), given) < 0) ||
        (options->expect_headers == NULL && options->expect_header_count != 0) ||
        (options->trusted_keys == NULL && options->trusted_key_count != 0) ||
        (uint32_t)options->deps > PTO_DEPS_DEFAULT)
        return false;
    for (uint32_t i = 0; i < options->trusted_key_count; i++)
        if (options->trusted_keys[i] == NULL)
            return false;
    for (uint32_t i = 0; i < options->expect_header_count; i++)
        if (options->expect_headers[i].path == NULL || options->expect_headers[i].digest == NULL)
            return false;
    return true;
}

int pto_callable_load_memory(const void *bytes, size_t size, const struct pto_load_options *given,
                             struct pto_callable **callable_out, struct pto_error *error)
{
    struct pto_load_options options;
    struct pto_error own;
    void *copy;
    int status;

    if (bytes == NULL || callable_out == NULL || !sized_is_valid(error) ||
        !is_valid(given, &options))
        return error_setf(error, PTO_EINVAL, "%s", pto_strerror(PTO_EINVAL));
    if (options.name == NULL)
        options.name = "the callable";
    pto_error_init(&own);
    status = artefact_glance(bytes, size, size, &own);
    if (status < 0)
        return error_setf(error, status, "%s: %.400s", options.name, own.text);
    copy = malloc(size + 1);
    if (copy == NULL)
        return error_setf(error, PTO_ENOMEM, "%s: there is no memory for %zu bytes", options.name,
                          size);
    memcpy(copy, bytes, size);
    return callable_load_bytes(copy, size, &options, callable_out, error);
}

/* Checks the first bytes of a file, so that a file that is no artefact is not read completely. */
static int glance_at(const char *path, struct pto_error *error)
{
    size_t room = sizeof(struct chip_callable) + 64;
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    char *bytes = malloc(room);
    int status = PTO_ENOMEM;
    struct stat about;
    ssize_t got = -1;

    if (file >= 0 && bytes != NULL && fstat(file, &about) == 0 && S_ISREG(about.st_mode))
        got = read(file, bytes, room);
    if (got >= 0)
        status = artefact_glance(bytes, (size_t)got, (size_t)about.st_size, error);
    else if (bytes != NULL)
        status = PTO_OK; /* no error yet: file_read reports why the file cannot be read */
    free(bytes);
    if (file >= 0)
        close(file);
    return status;
}

int pto_callable_load_file(const char *path, const struct pto_load_options *given,
                           struct pto_callable **callable_out, struct pto_error *error)
{
    struct pto_load_options options;
    struct pto_error own;
    char *bytes;
    size_t size;
    int status;

    if (path == NULL || callable_out == NULL || !sized_is_valid(error) ||
        !is_valid(given, &options))
        return error_setf(error, PTO_EINVAL, "%s", pto_strerror(PTO_EINVAL));
    if (options.name == NULL)
        options.name = path;
    pto_error_init(&own);
    status = glance_at(path, &own);
    if (status < 0)
        return error_setf(error, status, "%s: %.400s", options.name, own.text);
    status = file_read(path, ARTEFACT_BYTES_MAX, &bytes, &size);
    if (status < 0)
        return error_setf(error, status == PTO_ENOMEM ? status : PTO_ELOAD, "%s cannot be read: %s",
                          path, errno == EINVAL ? "it is not a file" : strerror(errno));
    return callable_load_bytes(bytes, size, &options, callable_out, error);
}

/* Makes a callable from the bytes of an artefact; takes ownership of the bytes. */
static int callable_load_bytes(void *bytes, size_t size, const struct pto_load_options *options,
                               struct pto_callable **callable_out, struct pto_error *error)
{
    struct packed *packed = make_packed(bytes, options->symbol);
    const char *name = options->name;
    struct pto_error own;
    struct callable *c = NULL;
    void *handle = NULL;
    int status;

    if (packed == NULL)
        return error_setf(error, PTO_ENOMEM, "%s: there is no memory for a callable", name);
    pto_error_init(&own);
    status = artefact_read(packed->bytes, size, packed->artefact, &own);
    if (status < 0)
        status = error_setf(error, status, "%s: %.400s", name, own.text);
    else
        status = check_signers(packed->artefact, options, name, error);
    if (status >= 0)
        status = check_expected(packed->artefact, options, name, error);
    if (status < 0) {
        packed_free(packed);
        return status;
    }
    status = make_callable(packed, &c);
    if (status < 0)
        packed_free(packed);
    else
        handle = handle_create(HANDLE_CALLABLE, c);
    if (handle != NULL && options->deps != PTO_DEPS_DEFAULT)
        c->deps = options->deps;
    if (handle == NULL) {
        if (c != NULL)
            callable_free(c);
        return error_setf(error, PTO_ENOMEM, "%s: there is no memory for a callable", name);
    }
    *callable_out = handle;
    return PTO_OK;
}

/* ---- signatures of artefacts ---- */

static int check_signers(const struct artefact *a, const struct pto_load_options *options,
                         const char *name, struct pto_error *error)
{
    char hex[DIGEST_HEX];
    struct digest key;

    static_assert(sizeof(key.byte) == PTO_KEY_BYTES, "digest_from_hex also reads keys");
    for (uint32_t i = 0; i < options->trusted_key_count; i++) {
        if (strlen(options->trusted_keys[i]) != DIGEST_HEX - 1 ||
            !digest_from_hex(options->trusted_keys[i], &key))
            return error_setf(
                error, PTO_EINVAL,
                "'%.80s' is not a public key: it has 64 lower-case hexadecimal digits",
                options->trusted_keys[i]);
        for (uint32_t k = 0; k < a->signer_count; k++)
            if (memcmp(key.byte, a->signers[k].key, sizeof(key.byte)) == 0)
                return PTO_OK;
    }
    if (options->trusted_key_count == 0)
        return PTO_OK;
    if (a->is_blob)
        return error_setf(error, PTO_ESIGNATURE,
                          "%.300s is a chip callable, which cannot be signed; build an artefact",
                          name);
    if (a->signer_count == 0)
        return error_setf(error, PTO_ESIGNATURE,
                          "%.300s is not signed; sign it with `pto sign` and the secret key", name);
    memcpy(key.byte, a->signers[0].key, sizeof(key.byte));
    digest_to_hex(&key, hex);
    return error_setf(error, PTO_ESIGNATURE, "%.300s is signed by %s%s, which is not trusted here",
                      name, hex, a->signer_count > 1 ? " and others" : "");
}

/* ---- comparing headers of the tile library ---- */

int register_refuse_header(const char *name, const struct artefact_file *file, const char *other,
                           const struct digest *theirs, struct pto_error *error)
{
    char own_hex[DIGEST_HEX], hex[DIGEST_HEX];

    digest_to_hex(&file->digest, own_hex);
    digest_to_hex(theirs, hex);
    return error_setf(error, PTO_ESTALE,
                      "%.120s was made with another %.120s than %.120s: %.16s here, %.16s there; "
                      "build both with the same headers",
                      name, file->path, other, own_hex, hex);
}

/*
 * Compares the artefact's headers of the tile library with the files in a folder. PTO_ESTALE: they
 * differ.
 */
static int compare_folder(const struct artefact *a, const char *folder, const char *name,
                          struct pto_error *error)
{
    for (uint32_t i = 0; i < a->file_count; i++) {
        struct artefact_file file = artefact_file_at(a, i);
        struct digest digest;
        char path[PATH_MAX];
        char *bytes;
        size_t size;

        if (!file.is_isa)
            continue;
        if (snprintf(path, sizeof(path), "%s/%s", folder, file.path) >= (int)sizeof(path) ||
            file_read(path, HEADER_MAX, &bytes, &size) < 0)
            return error_setf(error, PTO_ESTALE,
                              "%.120s was made with %.120s, which cannot be read below %.120s; "
                              "build it again",
                              name, file.path, folder);
        digest_of(bytes, size, &digest);
        free(bytes);
        if (!digest_is_equal(&digest, &file.digest))
            return register_refuse_header(name, &file, folder, &digest, error);
    }
    return PTO_OK;
}

static int compare_list(const struct artefact *a, const struct pto_load_options *options,
                        const char *name, struct pto_error *error)
{
    for (uint32_t i = 0; i < options->expect_header_count; i++) {
        const struct pto_header *header = &options->expect_headers[i];
        struct digest digest;

        if (!digest_from_hex(header->digest, &digest))
            return error_setf(error, PTO_EINVAL,
                              "the digest of the expected %s is not 64 lower-case hexadecimal "
                              "digits",
                              header->path);
        for (uint32_t k = 0; k < a->file_count; k++) {
            struct artefact_file file = artefact_file_at(a, k);

            if (file.is_isa && strcmp(file.path, header->path) == 0 &&
                !digest_is_equal(&file.digest, &digest))
                return register_refuse_header(name, &file, "the expected one", &digest, error);
        }
    }
    return PTO_OK;
}

static int check_expected(const struct artefact *a, const struct pto_load_options *options,
                          const char *name, struct pto_error *error)
{
    const char *isa = options->expect_isa;
    const char *revision = a->isa_revision != NULL ? a->isa_revision : "";
    bool has_isa = revision[0] != '\0' ||
                   (a->file_count != 0 && artefact_file_at(a, a->file_count - 1).is_isa);
    struct stat about;
    int status = PTO_OK;

    if ((isa != NULL || options->expect_header_count != 0) && a->is_blob)
        return error_setf(
            error, PTO_ESTALE,
            "%s is a chip callable and does not record which headers it was made with; "
            "do not set the expected headers, or build an artefact",
            name);
    if (isa != NULL && has_isa && strcmp(isa, revision) != 0) {
        if (stat(isa, &about) == 0 && S_ISDIR(about.st_mode))
            status = compare_folder(a, isa, name, error);
        else
            status = error_setf(error, PTO_ESTALE,
                                "%.120s was made with revision %.80s of the tile library, and "
                                "%.120s is expected; build it with that one",
                                name, revision[0] != '\0' ? revision : "(not recorded)", isa);
    }
    return status < 0 ? status : compare_list(a, options, name, error);
}

/* ---- making a callable ---- */

/* Reads and verifies an artefact. Takes ownership of the bytes, which are freed on failure. */
static struct packed *make_packed(void *bytes, const char *symbol)
{
    struct packed *packed = calloc(1, sizeof(*packed));

    if (packed == NULL) {
        free(bytes);
        return NULL;
    }
    packed->artefact = calloc(1, sizeof(*packed->artefact));
    packed->bytes = bytes;
    if (symbol != NULL) {
        size_t length = strlen(symbol) + 1;

        packed->entry = malloc(length);
        if (packed->entry != NULL)
            memcpy(packed->entry, symbol, length);
    }
    if (packed->artefact == NULL || (symbol != NULL && packed->entry == NULL)) {
        packed_free(packed);
        return NULL;
    }
    return packed;
}

void packed_free(struct packed *packed)
{
    if (packed == NULL)
        return;
    free(packed->signature);
    free(packed->entry);
    free(packed->bytes);
    free(packed->artefact);
    free(packed);
}

/*
 * Makes a callable from an artefact. It has no functions: the chip loads its code when the callable
 * is registered.
 */
static int make_callable(struct packed *packed, struct callable **callable_out)
{
    const struct artefact *a = packed->artefact;
    struct pto_kernel *kernels = calloc(KERNELS_MAX, sizeof(*kernels));
    /* Kernels of a bare chip callable have no names: they are named by their id. */
    char(*name)[KERNEL_NAME_BYTES] = calloc(KERNELS_MAX, sizeof(*name));
    struct pto_callable_params params = { .name = a->name, .kernels = kernels };
    struct callable *c = NULL;

    packed->signature = malloc((2 * a->signature_count + 1) * sizeof(*packed->signature));
    if (kernels != NULL && name != NULL && packed->signature != NULL) {
        for (uint32_t i = 0; i < a->kernel_count; i++) {
            struct artefact_kernel kernel = artefact_kernel_at(a, i);
            bool has_name = kernel.name[0] != '\0';

            snprintf(name[kernel.func_id], sizeof(*name), "kernel_%u", kernel.func_id);
            kernels[kernel.func_id] =
                (struct pto_kernel){ .name = has_name ? kernel.name : name[kernel.func_id],
                                     .core = kernel.core };
            if (kernel.func_id >= params.kernel_count)
                params.kernel_count = kernel.func_id + 1;
        }
        packed->tensor_direction = packed->signature + a->signature_count;
        for (uint32_t i = 0; i < a->signature_count; i++) {
            packed->signature[i] = artefact_direction(a, i);
            if (a->is_blob || packed->signature[i] != PTO_DIR_SCALAR)
                packed->tensor_direction[packed->tensor_count++] = packed->signature[i];
        }
        for (uint32_t i = 0; i < a->signer_count; i++)
            memcpy(packed->signers[i], a->signers[i].key, PTO_KEY_BYTES);
        c = callable_make(&params);
    }
    free(name);
    free(kernels);
    if (c == NULL)
        return PTO_ENOMEM;
    c->packed = packed;
    c->mode = a->mode;
    packed->is_from_reference =
        elf_exports(a->orchestration, a->orchestration_size, OBJECT_OWN_SYMBOL);
    if (packed->is_from_reference) {
        c->deps = PTO_DEPS_SIMPLER;
        if (elf_exports(a->orchestration, a->orchestration_size, COMPAT_HOST_SYMBOL))
            c->mode = PTO_MODE_HOST;
    } else if (elf_exports(a->orchestration, a->orchestration_size, OBJECT_SOURCE_SYMBOL)) {
        c->deps = PTO_DEPS_SIMPLER;
    }
    *callable_out = c;
    return PTO_OK;
}

/* ---- information about a callable ---- */

int pto_callable_info(const struct pto_callable *handle, struct pto_callable_info *given)
{
    const struct callable *c = handle_get(HANDLE_CALLABLE, handle);
    struct pto_callable_info info;

    if (c == NULL || given == NULL || !sized_is_valid(given))
        return PTO_EINVAL;
    pto_callable_info_init(&info);
    info.name = c->kernel_name[c->kernel_count];
    info.mode = c->mode;
    info.deps = c->deps;
    info.kernel_count = c->kernel_count;
    if (c->packed != NULL)
        add_packed_info(c, &info);
    sized_write(given, &info, sizeof(info));
    return PTO_OK;
}

static void add_packed_info(const struct callable *c, struct pto_callable_info *info)
{
    const struct packed *packed = c->packed;
    const struct artefact *a = packed->artefact;
    struct digest digest;

    info->kind = a->is_blob ? PTO_CALLABLE_BLOB : PTO_CALLABLE_ARTEFACT;
    info->platform = a->platform;
    info->entry = packed->entry != NULL ? packed->entry : a->entry;
    info->config = a->config;
    info->abi = a->abi;
    memcpy(info->digest, a->identity.byte, sizeof(info->digest));
    info->signature = packed->signature;
    info->signature_count = a->signature_count;
    info->orchestration_bytes = a->orchestration_size;
    digest_of(a->orchestration, a->orchestration_size, &digest);
    memcpy(info->orchestration_digest, digest.byte, sizeof(info->orchestration_digest));
    info->kernel_count = a->kernel_count;
    info->file_count = a->file_count;
    info->isa_revision = a->isa_revision;
    info->compiler = a->compiler;
    info->signers = (const uint8_t *)packed->signers;
    info->signer_count = a->signer_count;
    info->arguments = a->arguments;
    info->is_from_reference = packed->is_from_reference;
    register_count(c, &info->object_count, &info->device_count);
}

int pto_callable_kernel(const struct pto_callable *handle, uint32_t index,
                        struct pto_kernel_info *given)
{
    const struct callable *c = handle_get(HANDLE_CALLABLE, handle);
    struct pto_kernel_info info;

    if (c == NULL || given == NULL || !sized_is_valid(given))
        return PTO_EINVAL;
    if (index >= (c->packed != NULL ? c->packed->artefact->kernel_count : c->kernel_count))
        return PTO_EINVAL;
    pto_kernel_info_init(&info);
    if (c->packed != NULL) {
        struct artefact_kernel kernel = artefact_kernel_at(c->packed->artefact, index);
        struct digest digest;

        info.func_id = kernel.func_id;
        info.name = kernel.name;
        info.core = kernel.core;
        info.bytes = kernel.size;
        digest_of(kernel.bytes, kernel.size, &digest);
        memcpy(info.digest, digest.byte, sizeof(info.digest));
    } else {
        info.func_id = index;
        info.name = c->kernel_name[index];
        info.core = (enum pto_core_type)graph_kernel_core(&c->kernel[index]);
    }
    sized_write(given, &info, sizeof(info));
    return PTO_OK;
}

int pto_callable_file(const struct pto_callable *handle, uint32_t index,
                      struct pto_file_info *given)
{
    const struct callable *c = handle_get(HANDLE_CALLABLE, handle);
    struct pto_file_info info;
    struct artefact_file file;

    if (c == NULL || given == NULL || !sized_is_valid(given) || c->packed == NULL ||
        index >= c->packed->artefact->file_count)
        return PTO_EINVAL;
    file = artefact_file_at(c->packed->artefact, index);
    pto_file_info_init(&info);
    info.path = file.path;
    info.is_isa = file.is_isa;
    memcpy(info.digest, file.digest.byte, sizeof(info.digest));
    sized_write(given, &info, sizeof(info));
    return PTO_OK;
}
