/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loads callables on a card. All kernels of a callable are uploaded in one piece of memory, each at
 * an address that no other callable ever uses. The scheduler loads the orchestration and receives
 * the kernels' addresses.
 */
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/elf.h"
#include "base/error.h"
#include "cann/cann.h"

enum { CODE_ALIGN = 512 };

struct chip_code {
    uint64_t kernels; /* address of the kernels' code on the card; 0: there is none */
    uint64_t handle;  /* the scheduler's handle of the callable */
    /* the orchestration, if it runs on the host; NULL: the scheduler has it */
    struct cann_host_code *host;
};

/* Position of a kernel in the piece of memory of its callable. */
struct place {
    uint64_t at;
    uint64_t entry; /* offset in the piece of the kernel's first instruction */
    uint32_t declared[KERNEL_ARGS_MAX + 1];
    /* entries of declared[] including the final 0; 0: the kernel declares no arguments */
    uint32_t declared_count;
};

uint64_t cann_code_handle(const struct chip_code *code)
{
    return code->handle;
}

const struct cann_host_code *cann_code_host(const struct chip_code *code)
{
    return code->host;
}

/* ---- kernels ---- */

static const Elf64_Ehdr *header_of(const struct chip_object *object)
{
    const Elf64_Ehdr *header = object->bytes;

    if (object->size < sizeof(*header) || memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 ||
        header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_type != ET_EXEC ||
        header->e_phentsize != sizeof(Elf64_Phdr) || header->e_phoff > object->size ||
        header->e_phnum > (object->size - header->e_phoff) / sizeof(Elf64_Phdr) ||
        header->e_phoff % _Alignof(Elf64_Phdr) != 0)
        return NULL;
    return header;
}

/*
 * Finds the addresses that a kernel's loaded segments span. A kernel is linked separately and may
 * be moved as a whole, because its code uses relative addresses; so the segments are copied with
 * the gaps between them.
 */
static bool cann_code_measure(const struct chip_object *object, uint64_t *first_out,
                              uint64_t *bytes_out)
{
    const Elf64_Ehdr *header = header_of(object);
    const Elf64_Phdr *part;
    uint64_t first = UINT64_MAX, end = 0;

    if (header == NULL)
        return false;
    part = (const Elf64_Phdr *)(const void *)((const char *)object->bytes + header->e_phoff);
    for (uint32_t i = 0; i < header->e_phnum; i++) {
        if (part[i].p_type == PT_DYNAMIC || part[i].p_type == PT_INTERP)
            return false;
        if (part[i].p_type != PT_LOAD)
            continue;
        if (part[i].p_offset > object->size || part[i].p_filesz > object->size - part[i].p_offset ||
            part[i].p_memsz < part[i].p_filesz || part[i].p_vaddr > UINT64_MAX / 2 ||
            part[i].p_memsz > UINT32_MAX)
            return false;
        first = part[i].p_vaddr < first ? part[i].p_vaddr : first;
        end = part[i].p_vaddr + part[i].p_memsz > end ? part[i].p_vaddr + part[i].p_memsz : end;
    }
    if (first >= end || end - first > UINT32_MAX || header->e_entry < first ||
        header->e_entry >= end)
        return false;
    *first_out = first;
    *bytes_out = end - first;
    return true;
}

static void cann_code_copy_parts(char *to, const struct chip_object *object, uint64_t first)
{
    const Elf64_Ehdr *header = object->bytes;
    const Elf64_Phdr *part =
        (const Elf64_Phdr *)(const void *)((const char *)object->bytes + header->e_phoff);

    for (uint32_t i = 0; i < header->e_phnum; i++)
        if (part[i].p_type == PT_LOAD)
            memcpy(to + (part[i].p_vaddr - first), (const char *)object->bytes + part[i].p_offset,
                   part[i].p_filesz);
}

static int place_kernels(const struct chip_program *program, struct place *place,
                         uint64_t *bytes_out, struct pto_error *error)
{
    uint64_t at = 0;
    int status;

    for (uint32_t i = 0; i < program->kernel_count; i++) {
        const struct chip_object *object = &program->kernels[i].object;
        uint64_t first, bytes;

        if (!cann_code_measure(object, &first, &bytes))
            return error_setf(error, PTO_ELOAD,
                              "kernel %u (\"%.60s\") of \"%.100s\" is not a linked program for a "
                              "core that starts at kernel_entry; build it for this platform",
                              program->kernels[i].func_id, object->name, program->name);
        status = chip_read_declared(program, &program->kernels[i], place[i].declared, error);
        if (status < 0)
            return status;
        place[i].declared_count = (uint32_t)status;
        place[i].at = at;
        place[i].entry = at + (((const Elf64_Ehdr *)object->bytes)->e_entry - first);
        at = (at + bytes + CODE_ALIGN - 1) / CODE_ALIGN * CODE_ALIGN;
    }
    *bytes_out = at;
    return PTO_OK;
}

static int upload_kernels(struct cann *c, const struct chip_program *program,
                          const struct place *place, uint64_t bytes, uint64_t *addr_out,
                          struct pto_error *error)
{
    char *piece = calloc(1, bytes + 1);
    int code;

    if (piece == NULL)
        return error_setf(error, PTO_ENOMEM, "there is no memory for the code of \"%.100s\"",
                          program->name);
    for (uint32_t i = 0; i < program->kernel_count; i++) {
        uint64_t first, size;

        if (cann_code_measure(&program->kernels[i].object, &first, &size))
            cann_code_copy_parts(piece + place[i].at, &program->kernels[i].object, first);
    }
    code = cann_take(c, bytes, addr_out);
    if (code == ACL_SUCCESS)
        code = cann_upload(c, *addr_out, piece, bytes);
    free(piece);
    c->is_code_new = true;
    return code == ACL_SUCCESS ? PTO_OK
                               : cann_error_set(c, error, "aclrtMemcpy", code, "for kernels");
}

/* ---- loading a callable, with the scheduler ---- */

static uint32_t padded(const char *text)
{
    return (uint32_t)(strlen(text) + 1 + 7) / 8 * 8;
}

static bool is_on_host(const struct chip_program *program)
{
    return program->mode == PTO_MODE_HOST;
}

static char *cann_code_make_message(const struct chip_program *program, const struct place *place,
                                    uint64_t kernels, uint64_t *bytes_out, char **object_out)
{
    struct board_load load = { .object_bytes =
                                   is_on_host(program) ? 0 : program->orchestration.size,
                               .entry_bytes = padded(program->entry),
                               .name_bytes = padded(program->name) };
    struct board_kernel *kernel;
    char *message, *text;
    uint32_t *declared;
    uint64_t bytes;

    for (uint32_t i = 0; i < program->kernel_count; i++) {
        if (program->kernels[i].func_id >= load.kernel_count)
            load.kernel_count = program->kernels[i].func_id + 1;
        load.declared_count += place[i].declared_count;
    }
    load.declared_count += load.declared_count % 2;
    bytes = sizeof(load) + load.kernel_count * sizeof(*kernel) +
            load.declared_count * sizeof(*declared) + load.entry_bytes + load.name_bytes +
            load.object_bytes;
    message = calloc(1, bytes);
    if (message == NULL)
        return NULL;
    memcpy(message, &load, sizeof(load));
    kernel = (struct board_kernel *)(void *)(message + sizeof(load));
    declared = (uint32_t *)(void *)(kernel + load.kernel_count);
    text = (char *)(declared + load.declared_count);
    for (uint32_t i = 0, used = 0; i < program->kernel_count; i++) {
        kernel[program->kernels[i].func_id] =
            (struct board_kernel){ kernels + place[i].entry, program->kernels[i].core_type,
                                   place[i].declared_count != 0 ? used + 1 : 0 };
        memcpy(&declared[used], place[i].declared,
               place[i].declared_count * sizeof(place[i].declared[0]));
        used += place[i].declared_count;
    }
    strcpy(text, program->entry);
    strcpy(text + load.entry_bytes, program->name);
    memcpy(text + load.entry_bytes + load.name_bytes, program->orchestration.bytes,
           load.object_bytes);
    *bytes_out = bytes;
    *object_out = text + load.entry_bytes + load.name_bytes;
    return message;
}

/*
 * Checks the object of an orchestration, because the card's loader does not. Changes the object so
 * that its symbols bind to itself.
 */
static int check_object(const struct cann *c, const struct chip_program *program, char *object,
                        struct pto_error *error)
{
    struct pto_error why;

    pto_error_init(&why);
    if (elf_isolate_for(c->machine, object, program->orchestration.size, NULL, &why) < 0)
        return error_setf(error, PTO_ELOAD, "the orchestration of \"%.100s\": %.300s",
                          program->name, why.text);
    return PTO_OK;
}

static int load_in_context(struct cann *c, const struct chip_program *program,
                           struct chip_code *code, struct pto_error *error)
{
    struct place *place = calloc(program->kernel_count + 1, sizeof(*place));
    struct board_answer answer;
    uint64_t bytes = 0;
    char *message, *object = NULL;
    int status;

    if (place == NULL)
        return PTO_ENOMEM;
    status = place_kernels(program, place, &bytes, error);
    if (status >= 0 && bytes != 0)
        status = upload_kernels(c, program, place, bytes, &code->kernels, error);
    message =
        status >= 0 ? cann_code_make_message(program, place, code->kernels, &bytes, &object) : NULL;
    if (status >= 0 && message == NULL)
        status = error_setf(error, PTO_ENOMEM, "there is no memory for the code of \"%.100s\"",
                            program->name);
    if (status >= 0 && is_on_host(program))
        status = cann_host_load(program, (const struct board_load *)(const void *)message,
                                &code->host, error);
    else if (status >= 0)
        status = check_object(c, program, object, error);
    if (status >= 0)
        status = cann_call(c, BOARD_LOAD, 0, message, bytes, &answer, error);
    if (status >= 0)
        code->handle = answer.value;
    else if (!cann_is_lost(c))
        (void)cann_give_back(c, code->kernels);
    if (status < 0)
        cann_host_unload(code->host);
    free(message);
    free(place);
    return status;
}

struct loading {
    const struct chip_program *program;
    struct chip_code *code;
    struct pto_error error;
    int status;
};

static void load_on_driver_thread(struct cann *c, void *arg)
{
    struct loading *l = arg;

    l->status = load_in_context(c, l->program, l->code, &l->error);
}

int cann_load(struct chip *chip, const struct chip_program *program, struct chip_code **code_out,
              struct pto_error *error)
{
    struct cann *c = cann_of(chip);
    struct loading l = { .program = program, .code = calloc(1, sizeof(*l.code)) };
    int status;

    if (l.code == NULL)
        return error_setf(error, PTO_ENOMEM, "there is no memory for the code of \"%.100s\"",
                          program->name);
    pto_error_init(&l.error);
    pthread_mutex_lock(&c->lock); /* the scheduler handles one call at a time */
    status = cann_is_lost(c) ? cann_refuse(c, error)
                             : driver_thread_call(c, load_on_driver_thread, &l, error);
    pthread_mutex_unlock(&c->lock);
    if (status >= 0 && l.status < 0)
        status = error_setf(error, l.status, "%s", l.error.text);
    if (status < 0)
        free(l.code);
    else
        *code_out = l.code;
    return status;
}

static void unload_on_driver_thread(struct cann *c, void *arg)
{
    const struct chip_code *code = arg;

    if (cann_call(c, BOARD_UNLOAD, code->handle, NULL, 0, NULL, NULL) < 0)
        /* the scheduler still has the callable, so close resets the card */
        a32_store_relaxed(&c->is_untidy, 1);
    if (!cann_is_lost(c))
        (void)cann_give_back(c, code->kernels);
}

void cann_unload(struct chip *chip, struct chip_code *code)
{
    struct cann *c = cann_of(chip);

    pthread_mutex_lock(&c->lock);
    if (!cann_is_lost(c))
        (void)driver_thread_call(c, unload_on_driver_thread, code, NULL);
    pthread_mutex_unlock(&c->lock);
    cann_host_unload(code->host);
    free(code);
}
