/* SPDX-License-Identifier: Apache-2.0 */
/* Files that are not artefacts, or not the right ones. */
#include <string.h>

#include "tool/drill/drill.h"
#include "tool/drill/stage.h"

enum { BLOB_BYTES = 9376 + 4 }; /* a chip callable whose orchestration is a mark of four bytes */

static void drills_artefacts_load_bytes(struct stage *s, const void *bytes, size_t size,
                                        const struct pto_load_options *options)
{
    struct pto_error error = { .size = sizeof(error) };
    struct pto_callable *callable = NULL;
    int status = pto_callable_load_memory(bytes, size, options, &callable, &error);

    drill_expect(s, callable == NULL, "a callable is made of it");
    drill_judge(s, status, &error);
}

static void load_text(struct stage *s)
{
    static const char text[] = "name: vector\nkernels:\n";

    drills_artefacts_load_bytes(s, text, sizeof(text), NULL);
}

/* As much of one as a header, and less. */
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
    blob[1028] = 4; /* bytes of the orchestration */
    memcpy(blob + 1032, "entry", 6);
    blob[1096] = 5; /* length of that name */
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
            "the chip callable is not read"))
        return;
    drill_judge(s, pto_register(s->device, callable, &error), &error);
    drill_expect(s, pto_callable_destroy(callable) == PTO_OK, "the callable stays");
}

const struct drill drills_artefacts[] = {
    { PTO_ELOAD, "no-code", "a chip callable whose orchestration is no code",
      .play = register_no_code, .says = "it is no shared object (ELF)" },
    { PTO_ESTALE, "unknown-headers",
      "a callable that does not say which headers it was made with, where it matters",
      .play = load_unknown_headers, .says = "does not say which headers it was made with" },
    { PTO_EFORMAT, "no-artefact", "a callable made of a text", .play = load_text,
      .says = "neither an artefact (.ptoc), a chip callable nor a shared object" },
    { PTO_EFORMAT, "truncated-artefact", "an artefact of which 100 bytes are left",
      .play = load_truncated, .says = "it is truncated: it has 100 bytes" },
    { PTO_EFORMAT, "other-artefact", "an artefact of a later version", .play = load_other_version,
      .says = "version 99 of the format" },
    { PTO_ESIGNATURE, "unsigned",
      "a callable that nobody has signed, where a signature is required", .play = load_unsigned,
      .says = "which cannot be signed" },
    { 0 },
};
