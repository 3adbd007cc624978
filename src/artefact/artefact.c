/* SPDX-License-Identifier: Apache-2.0 */
/* Reads artefacts. Their bytes are untrusted: each number is checked before it is used. */
#include "artefact/artefact.h"

#include <elf.h>
#include <string.h>

#include "artefact/artefact_layout.h"
#include "base/error.h"

static int artefact_read_file(const uint8_t *bytes, size_t size, bool is_sealed, struct artefact *a,
                              struct pto_error *error);
static int check_header(const struct artefact_header *h, size_t size, struct pto_error *error);
static int read_texts(const struct artefact_header *h, struct artefact *a, struct pto_error *error);
static int artefact_check_kernels(const struct artefact *a, uint32_t text_size,
                                  struct pto_error *error);
static int artefact_check_files(const struct artefact *a, uint32_t text_size,
                                struct pto_error *error);
static int read_callable(const uint8_t *bytes, uint64_t size, struct artefact *a,
                         struct pto_error *error);
static int check_children(const uint8_t *bytes, uint64_t size, const struct artefact *a,
                          struct pto_error *error);

static int artefact_damaged(struct pto_error *error, const char *what)
{
    return error_setf(error, PTO_EFORMAT, "it is damaged: %s; build or copy it again", what);
}

static uint32_t get_u32(const void *at)
{
    uint32_t value;

    memcpy(&value, at, sizeof(value));
    return value;
}

static bool artefact_is_object(const uint8_t *bytes, uint64_t size)
{
    return size >= SELFMAG && memcmp(bytes, ELFMAG, SELFMAG) == 0;
}

enum artefact_kind artefact_recognise(const void *bytes, size_t size)
{
    const uint8_t *at = bytes;

    if (artefact_is_object(at, size))
        return ARTEFACT_OBJECT;
    if (size >= 4 && memcmp(at, ARTEFACT_MAGIC, 4) == 0)
        return ARTEFACT_FILE;
    if (size > sizeof(struct chip_callable) &&
        artefact_is_object(at + sizeof(struct chip_callable), size - sizeof(struct chip_callable)))
        return ARTEFACT_BLOB;
    return ARTEFACT_NONE;
}

/*
 * Returns the size in bytes of the signatures that follow the artefact, computed from the sizes
 * alone.
 */
static size_t signed_bytes(const struct artefact_header *h, size_t size)
{
    return size > h->size && signature_count(size - h->size) != 0 ? size - h->size : 0;
}

int artefact_glance(const void *bytes, size_t have, size_t size, struct pto_error *error)
{
    struct artefact_header h;

    if (size == 0)
        return error_setf(error, PTO_EFORMAT, "it is empty");
    if (size > ARTEFACT_BYTES_MAX)
        return error_setf(
            error, PTO_EFORMAT,
            "it has %zu bytes, and no callable has more than %u; it is another kind of file", size,
            (unsigned)ARTEFACT_BYTES_MAX);
    switch (artefact_recognise(bytes, have)) {
    case ARTEFACT_FILE:
        if (have < sizeof(h) || size < sizeof(h))
            return PTO_OK; /* no error yet: artefact_read reports how many bytes are missing */
        memcpy(&h, bytes, sizeof(h));
        return check_header(&h, size - signed_bytes(&h, size), error);
    case ARTEFACT_BLOB:
        return PTO_OK;
    case ARTEFACT_OBJECT:
        return error_setf(error, PTO_EFORMAT,
                          "it is a shared object, not an artefact; `pto build` makes one of its "
                          "sources");
    default:
        return error_setf(error, PTO_EFORMAT,
                          "it is neither an artefact (.ptoc), a chip callable nor a shared object");
    }
}

int artefact_read(const void *bytes, size_t size, struct artefact *out, struct pto_error *error)
{
    struct artefact a = { .entry = NULL };
    int status = artefact_glance(bytes, size, size, error);

    if (status < 0)
        return status;
    switch (artefact_recognise(bytes, size)) {
    case ARTEFACT_FILE:
        status = artefact_read_file(bytes, size, true, &a, error);
        break;
    case ARTEFACT_BLOB:
        a.is_blob = true;
        a.abi = ARTEFACT_ABI;
        status = read_callable(bytes, size, &a, error);
        if (status >= 0) {
            a.name = a.entry; /* a bare chip callable has no name, so it gets that of its entry */
            artefact_identity_of(&a, &a.identity);
        }
        break;
    default: /* unreachable: artefact_glance has refused any other kind */
        return PTO_EFORMAT;
    }
    if (status >= 0)
        *out = a;
    return status;
}

/* ---- access to the parts of an artefact ---- */

enum pto_direction artefact_direction(const struct artefact *a, uint32_t index)
{
    return (enum pto_direction)get_u32(a->callable + offsetof(struct chip_callable, signature) +
                                       index * sizeof(int32_t));
}

/* Returns the core callable of a kernel; the kernel's code follows it. */
static const uint8_t *child_at(const struct artefact *a, uint32_t index)
{
    return a->callable + sizeof(struct chip_callable) +
           get_u32(a->callable + offsetof(struct chip_callable, child_offsets) +
                   index * sizeof(uint32_t));
}

struct artefact_kernel artefact_kernel_at(const struct artefact *a, uint32_t index)
{
    const uint8_t *child = child_at(a, index);
    struct artefact_kernel kernel = {
        .func_id = get_u32(a->callable + offsetof(struct chip_callable, child_func_ids) +
                           index * sizeof(int32_t)),
        .core = PTO_CORE_TYPES,
        .name = "",
        .bytes = child + sizeof(struct core_callable),
        .size = get_u32(child + offsetof(struct core_callable, binary_size)),
    };
    struct kernel_record record;

    if (!a->is_blob) {
        memcpy(&record, a->kernels + index * sizeof(record), sizeof(record));
        kernel.core = (enum pto_core_type)record.core;
        kernel.name = a->text + record.name;
    }
    return kernel;
}

struct artefact_file artefact_file_at(const struct artefact *a, uint32_t index)
{
    struct file_record record;

    memcpy(&record, a->files + index * sizeof(record), sizeof(record));
    return (struct artefact_file){ a->text + record.path, (record.flags & FILE_IS_ISA) != 0,
                                   record.digest };
}

/* ---- digests of an artefact ---- */

void artefact_check_of(const void *bytes, size_t size, struct digest *out)
{
    const uint8_t *at = bytes;
    size_t after = offsetof(struct artefact_header, check) + sizeof(struct digest);
    struct digest_state state;

    digest_begin(&state);
    digest_add(&state, at, offsetof(struct artefact_header, check));
    digest_add(&state, at + after, size - after);
    digest_end(&state, out);
}

void artefact_identity_of(const struct artefact *a, struct digest *out)
{
    uint32_t number[] = { a->is_blob, a->abi, (uint32_t)a->mode, a->signature_count,
                          a->kernel_count };
    uint64_t size = a->orchestration_size;
    struct digest_state state;

    digest_begin(&state);
    digest_add_text(&state, "pto callable");
    digest_add_text(&state, a->name);
    digest_add_text(&state, a->platform);
    digest_add_text(&state, a->entry);
    digest_add_text(&state, a->config);
    digest_add(&state, number, sizeof(number));
    for (uint32_t i = 0; i < a->signature_count; i++) {
        uint32_t direction = artefact_direction(a, i);

        digest_add(&state, &direction, sizeof(direction));
    }
    digest_add(&state, &size, sizeof(size));
    digest_add(&state, a->orchestration, a->orchestration_size);
    for (uint32_t i = 0; i < a->kernel_count; i++) {
        struct artefact_kernel kernel = artefact_kernel_at(a, i);
        uint64_t word[] = { kernel.func_id, kernel.core, kernel.size };

        digest_add_text(&state, kernel.name);
        digest_add(&state, word, sizeof(word));
        digest_add(&state, kernel.bytes, kernel.size);
    }
    digest_end(&state, out);
}

int artefact_order(const struct artefact_file *a, const struct artefact_file *b)
{
    return a->is_isa != b->is_isa ? (int)a->is_isa - (int)b->is_isa : strcmp(a->path, b->path);
}

/* ---- reading the file ---- */

void artefact_place(struct artefact_header *h)
{
    h->kernel_offset = sizeof(*h);
    h->file_offset = h->kernel_offset + (uint64_t)h->kernel_count * sizeof(struct kernel_record);
    h->text_offset = h->file_offset + (uint64_t)h->file_count * sizeof(struct file_record);
    h->callable_offset = artefact_round(h->text_offset + h->text_size);
}

int artefact_read_unsealed(const void *bytes, size_t size, struct artefact *out)
{
    return artefact_read_file(bytes, size, false, out, NULL);
}

static int artefact_read_file(const uint8_t *bytes, size_t size, bool is_sealed, struct artefact *a,
                              struct pto_error *error)
{
    struct artefact_header h;
    struct digest digest;
    int status;

    if (size < sizeof(h))
        return error_setf(error, PTO_EFORMAT,
                          "it is truncated: it has %zu bytes, less than the %zu of a header; build "
                          "or copy it again",
                          size, sizeof(h));
    memcpy(&h, bytes, sizeof(h));
    a->signer_count = signature_count(signed_bytes(&h, size));
    size -= signed_bytes(&h, size);
    a->signers = (const struct signature *)(bytes + size);
    status = check_header(&h, size, error);
    if (status < 0)
        return status;
    if (is_sealed)
        artefact_check_of(bytes, size, &digest);
    if (is_sealed && !digest_is_equal(&digest, &h.check)) /* mutation: unsealed */
        return error_setf(error, PTO_EFORMAT,
                          "it was altered: its content does not have the hash that it states; "
                          "build or copy it again");
    if (is_sealed)
        digest_of(bytes, size, &digest);
    for (uint32_t i = 0; is_sealed && i < a->signer_count; i++)
        if (!signature_is_right(&a->signers[i], &digest))
            return error_setf(error, PTO_EFORMAT,
                              "signature %u of it is invalid: the signature or the artefact was "
                              "altered; get the artefact again from the signer",
                              i + 1);
    a->mode = (enum pto_mode)h.mode;
    a->abi = h.abi;
    a->kernel_count = h.kernel_count;
    a->file_count = h.file_count;
    a->kernels = bytes + h.kernel_offset;
    a->files = bytes + h.file_offset;
    a->text = (const char *)bytes + h.text_offset;
    status = read_texts(&h, a, error);
    if (status >= 0)
        status = artefact_check_kernels(a, h.text_size, error);
    if (status >= 0)
        status = artefact_check_files(a, h.text_size, error);
    if (status >= 0)
        status = read_callable(bytes + h.callable_offset, h.callable_size, a, error);
    if (status < 0)
        return status;
    artefact_identity_of(a, &a->identity);
    return !is_sealed || digest_is_equal(&a->identity, &h.identity)
               ? PTO_OK
               : artefact_damaged(error, "its identity does not match its content");
}

static int check_header(const struct artefact_header *h, size_t size, struct pto_error *error)
{
    struct artefact_header placed = *h;

    if (memcmp(h->magic, ARTEFACT_MAGIC, ARTEFACT_MAGIC_BYTES) != 0)
        return error_setf(error, PTO_EFORMAT,
                          "it was copied as text, and bytes of it were changed; copy it as it is");
    if (h->version != ARTEFACT_VERSION)
        return error_setf(error, PTO_EFORMAT,
                          "it has version %u of the format, and this library reads version %d; "
                          "build it again",
                          h->version, ARTEFACT_VERSION);
    if (h->abi != ARTEFACT_ABI)
        return error_setf(error, PTO_EFORMAT,
                          "it was made for ABI %u, and this library has ABI %d; build it again",
                          h->abi, ARTEFACT_ABI);
    if (h->size != size)
        return error_setf(error, PTO_EFORMAT,
                          "it is %s: it has %zu bytes, and its header has %llu; build or copy it "
                          "again",
                          h->size > size ? "truncated" : "too long", size,
                          (unsigned long long)h->size);
    if (h->mode >= PTO_MODE_COUNT)
        return artefact_damaged(error, "its mode is unknown");
    if (h->kernel_count > CHIP_CALLABLE_CHILDREN_MAX || h->file_count > ARTEFACT_FILES_MAX)
        return artefact_damaged(error, "it has too many kernels or files");
    artefact_place(&placed);
    if (memcmp(&placed, h, sizeof(*h)) != 0 || h->callable_offset > size ||
        h->callable_size != size - h->callable_offset || h->text_size == 0)
        return artefact_damaged(error, "its parts are not where its header needs them");
    return PTO_OK;
}

/*
 * Checks and finds the texts. The last byte of the texts is a zero, so every text that starts
 * inside of them also ends inside.
 */
static int read_texts(const struct artefact_header *h, struct artefact *a, struct pto_error *error)
{
    if (a->text[h->text_size - 1] != '\0')
        return artefact_damaged(error, "its last string has no end");
    if (h->name >= h->text_size || h->platform >= h->text_size || h->isa_revision >= h->text_size ||
        h->compiler >= h->text_size || h->arguments >= h->text_size)
        return artefact_damaged(error, "a string lies outside of the table of strings");
    a->name = a->text + h->name;
    a->platform = a->text + h->platform;
    a->isa_revision = a->text + h->isa_revision;
    a->compiler = a->text + h->compiler;
    a->arguments = h->arguments != 0 ? a->text + h->arguments : NULL;
    return a->platform[0] != '\0' ? PTO_OK : artefact_damaged(error, "it names no platform");
}

static int artefact_check_kernels(const struct artefact *a, uint32_t text_size,
                                  struct pto_error *error)
{
    for (uint32_t i = 0; i < a->kernel_count; i++) {
        struct kernel_record record;

        memcpy(&record, a->kernels + i * sizeof(record), sizeof(record));
        if (record.name >= text_size || record.core >= PTO_CORE_TYPES)
            return artefact_damaged(error, "the name or core type of a kernel is invalid");
    }
    return PTO_OK;
}

/* Whether the path is relative and has no "..", so that it cannot lead out of a folder. */
static bool artefact_is_inside(const char *path)
{
    if (path[0] == '/' || path[0] == '\0')
        return false;
    for (const char *at = path; at != NULL; at = strchr(at, '/')) {
        at += *at == '/';
        if (strncmp(at, "..", 2) == 0 && (at[2] == '/' || at[2] == '\0'))
            return false;
    }
    return true;
}

static int artefact_check_files(const struct artefact *a, uint32_t text_size,
                                struct pto_error *error)
{
    for (uint32_t i = 0; i < a->file_count; i++) {
        struct file_record record;

        memcpy(&record, a->files + i * sizeof(record), sizeof(record));
        if (record.path >= text_size || record.flags > FILE_IS_ISA)
            return artefact_damaged(error, "the name of one of its source files is invalid");
        if ((record.flags & FILE_IS_ISA) != 0 && !artefact_is_inside(a->text + record.path))
            return artefact_damaged(
                error, "a header of the tile library has a path outside of the library");
        if (i > 0) {
            struct artefact_file before = artefact_file_at(a, i - 1);
            struct artefact_file file = artefact_file_at(a, i);

            if (artefact_order(&before, &file) >= 0)
                return artefact_damaged(error, "its source files are not in order");
        }
    }
    return PTO_OK;
}

/* ---- reading the chip callable ---- */

/* Whether `length` bytes are a name that is padded with zeros. */
static bool is_name(const uint8_t *at, uint32_t length)
{
    return length < CHIP_CALLABLE_NAME_MAX && memchr(at, '\0', length) == NULL &&
           at[length] == '\0';
}

static int read_callable(const uint8_t *bytes, uint64_t size, struct artefact *a,
                         struct pto_error *error)
{
    const uint8_t *name = bytes + offsetof(struct chip_callable, func_name);
    const uint8_t *config = bytes + offsetof(struct chip_callable, config_name);
    uint32_t child_count;

    if (size < sizeof(struct chip_callable))
        return artefact_damaged(error, "its chip callable is smaller than a header");
    a->callable = bytes;
    a->signature_count = get_u32(bytes + offsetof(struct chip_callable, signature_count));
    if (a->signature_count > CHIP_CALLABLE_SIGNATURE_MAX)
        return artefact_damaged(error, "its signature has more than 256 entries");
    for (uint32_t i = 0; i < a->signature_count; i++)
        if ((uint32_t)artefact_direction(a, i) >= PTO_DIR_COUNT)
            return artefact_damaged(error, "its signature has an unknown direction");
    if (!is_name(name, get_u32(bytes + offsetof(struct chip_callable, func_name_length))) ||
        !is_name(config, get_u32(bytes + offsetof(struct chip_callable, config_name_length))))
        return artefact_damaged(error, "a name in its chip callable is too long or has no end");
    if (name[0] == '\0')
        return artefact_damaged(error, "its entry has no name");
    a->entry = (const char *)name;
    a->config = (const char *)config;
    a->orchestration = bytes + sizeof(struct chip_callable);
    a->orchestration_size = get_u32(bytes + offsetof(struct chip_callable, binary_size));
    if (a->orchestration_size == 0 || a->orchestration_size > size - sizeof(struct chip_callable))
        return artefact_damaged(error, "its orchestration reaches beyond its end, or is empty");
    child_count = get_u32(bytes + offsetof(struct chip_callable, child_count));
    if (a->is_blob && child_count <= CHIP_CALLABLE_CHILDREN_MAX)
        a->kernel_count = child_count;
    if (child_count != a->kernel_count)
        return artefact_damaged(error,
                                "its number of kernels differs from its header, or is above 1024");
    return check_children(bytes, size, a, error);
}

/*
 * Checks the kernels of a chip callable. Each must begin after the end of the previous one, so that
 * they do not overlap.
 */
static int check_children(const uint8_t *bytes, uint64_t size, const struct artefact *a,
                          struct pto_error *error)
{
    uint64_t room = size - sizeof(struct chip_callable);
    uint64_t end = a->orchestration_size;
    bool is_taken[CHIP_CALLABLE_CHILDREN_MAX] = { false };

    for (uint32_t i = 0; i < a->kernel_count; i++) {
        uint32_t id =
            get_u32(bytes + offsetof(struct chip_callable, child_func_ids) + i * sizeof(int32_t));
        uint32_t offset =
            get_u32(bytes + offsetof(struct chip_callable, child_offsets) + i * sizeof(uint32_t));
        uint32_t binary_size;

        if (id >= CHIP_CALLABLE_CHILDREN_MAX || is_taken[id])
            return artefact_damaged(error, "a kernel's func_id is above 1023, or used twice");
        is_taken[id] = true;
        if (!a->is_blob && id != get_u32(a->kernels + i * sizeof(struct kernel_record)))
            return artefact_damaged(error, "the func_ids of its kernels differ from its header");
        if (offset % CHIP_CALLABLE_CHILD_ALIGN != 0 || offset < end || offset > room ||
            room - offset < sizeof(struct core_callable))
            return artefact_damaged(error, "a kernel has an invalid offset");
        binary_size = get_u32(bytes + sizeof(struct chip_callable) + offset +
                              offsetof(struct core_callable, binary_size));
        end = (uint64_t)offset + sizeof(struct core_callable) + binary_size;
        if (binary_size == 0 || end > room) /* mutation: unchecked-kernel */
            return artefact_damaged(error, "a kernel reaches beyond the end, or is empty");
    }
    for (uint64_t i = end; i < room; i++)
        if (bytes[sizeof(struct chip_callable) + i] != 0)
            return artefact_damaged(error, "extra bytes follow its last kernel");
    return PTO_OK;
}
