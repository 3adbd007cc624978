/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Packs shared objects into an artefact, for tests without the tool chain:
 *
 *     make_artefact OUT NAME PLATFORM ORCHESTRATION KERNEL... [-- HEADER...]
 *
 * The signature is in, in, out. Headers count as those of the tile library.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "artefact/artefact.h"

enum { PARTS_MAX = 16 };

static void *read_all(const char *path, size_t *size_out)
{
    char *bytes = NULL;

    if (file_read(path, 1 << 26, &bytes, size_out) < 0) {
        perror(path);
        exit(1);
    }
    return bytes;
}

int main(int argc, char **argv)
{
    static const enum pto_direction signature[] = { PTO_DIR_IN, PTO_DIR_IN, PTO_DIR_OUT };
    struct artefact_kernel kernels[PARTS_MAX];
    struct artefact_file files[PARTS_MAX];
    struct artefact_parts parts = { .signature = signature,
                                    .signature_count = 3,
                                    .kernels = kernels,
                                    .files = files,
                                    .isa_revision = "test",
                                    .compiler = "cc" };
    struct pto_error error = { .size = sizeof(error) };
    size_t size;
    void *bytes;
    int i = 5;

    if (argc < 5 || argc > PARTS_MAX)
        return 2;
    parts.name = argv[2];
    parts.platform = argv[3];
    parts.orchestration = read_all(argv[4], &parts.orchestration_size);
    for (; i < argc && strcmp(argv[i], "--") != 0; i++) {
        struct artefact_kernel *k = &kernels[parts.kernel_count];

        *k = (struct artefact_kernel){ .func_id = parts.kernel_count++,
                                       .core = PTO_CORE_AIV,
                                       .name = "kernel" };
        k->bytes = read_all(argv[i], &k->size);
    }
    for (i++; i < argc; i++) {
        struct artefact_file *file = &files[parts.file_count++];

        bytes = read_all(argv[i], &size);
        *file = (struct artefact_file){ .path = strrchr(argv[i], '/') + 1, .is_isa = true };
        digest_of(bytes, size, &file->digest);
        free(bytes);
    }
    if (artefact_make(&parts, &bytes, &size, &error) < 0) {
        fprintf(stderr, "%s\n", error.text);
        return 1;
    }
    return file_write(argv[1], bytes, size) < 0;
}
