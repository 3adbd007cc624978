/* SPDX-License-Identifier: Apache-2.0 */
/* Drills that load files which are no artefacts, or not the expected ones. */
#include <string.h>

#include "tool/drill/drill.h"
#include "tool/drill/stage.h"

/* simpler's format: a chip callable with an orchestration of four bytes */
enum { BLOB_BYTES = 9376 + 4 };

static void drills_artefacts_load_bytes(struct stage *s, const void *bytes, size_t size,
                                        const struct pto_load_options *options)
{
    struct pto_error error = { .size = sizeof(error) };
    struct pto_callable *callable = NULL;
    int status = pto_callable_load_memory(bytes, size, options, &callable, &error);

    drill_expect(s, callable == NULL, "the load succeeds and should not");
    drill_judge(s, status, &error);
}

static void load_text(struct stage *s)
{
    static const char text[] = "name: vector\nkernels:\n";

    drills_artefacts_load_bytes(s, text, sizeof(text), NULL);
}

/* Loads 100 bytes that have the beginning of an artefact. */
static void load_truncated(struct stage *s)
{
    static const char bytes[100] = "PTOC\r\n\x1a\n";

    drills_artefacts_load_bytes(s, bytes, sizeof(bytes), NULL);
}

static void load_other_version(struct stage *s)
{
    static const char bytes[200] = "PTOC\r\n\x1a\n\x63";

    drills_artefacts_load_bytes(s, bytes, sizeof(bytes), NULL);
}

static void make_blob(uint8_t blob[BLOB_BYTES])
{
    memset(blob, 0, BLOB_BYTES);
    blob[1028] = 4; /* size of the orchestration in bytes */
    memcpy(blob + 1032, "entry", 6);
    blob[1096] = 5; /* length of the orchestration's name */
    memcpy(blob + 9376,
           "\x7f"
           "ELF",
           4);
}

static void load_unknown_headers(struct stage *s)
{
    struct pto_load_options options;
    uint8_t blob[BLOB_BYTES];

    make_blob(blob);
    pto_load_options_init(&options);
    options.expect_isa = "0123456789012345678901234567890123456789";
    drills_artefacts_load_bytes(s, blob, sizeof(blob), &options);
}

static void load_unsigned(struct stage *s)
{
    static const char *const key[] = {
        "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"
    };
    struct pto_load_options options;
    uint8_t blob[BLOB_BYTES];

    make_blob(blob);
    pto_load_options_init(&options);
    options.trusted_keys = key;
    options.trusted_key_count = 1;
    drills_artefacts_load_bytes(s, blob, sizeof(blob), &options);
}

static void register_no_code(struct stage *s)
{
    struct pto_error error = { .size = sizeof(error) };
    struct pto_callable *callable = NULL;
    uint8_t blob[BLOB_BYTES];

    make_blob(blob);
    if (!drill_expect(
            s, pto_callable_load_memory(blob, sizeof(blob), NULL, &callable, &error) == PTO_OK,
            "the chip callable does not load"))
        return;
    drill_judge(s, pto_register(s->device, callable, &error), &error);
    drill_expect(s, pto_callable_destroy(callable) == PTO_OK, "the callable stays");
}

const struct drill drills_artefacts[] = {
    { PTO_ELOAD, "no-code", "a chip callable whose orchestration is no shared object",
      .play = register_no_code, .text = "it is not a shared object (ELF)" },
    { PTO_ESTALE, "unknown-headers",
      "a callable without a digest of its headers, where one is required",
      .play = load_unknown_headers, .text = "does not record which headers it was made with" },
    { PTO_EFORMAT, "no-artefact", "a text file loaded as a callable", .play = load_text,
      .text = "neither an artefact (.ptoc), a chip callable nor a shared object" },
    { PTO_EFORMAT, "truncated-artefact", "an artefact truncated to 100 bytes",
      .play = load_truncated, .text = "it is truncated: it has 100 bytes" },
    { PTO_EFORMAT, "other-artefact", "an artefact of a later format version",
      .play = load_other_version, .text = "version 99 of the format" },
    { PTO_ESIGNATURE, "unsigned", "an unsigned callable, where a signature is required",
      .play = load_unsigned, .text = "which cannot be signed" },
    { 0 },
};
