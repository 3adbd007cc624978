/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Artefacts as bytes: what is written can be read again, equal parts give equal bytes, and every
 * damaged file is refused with a message. The objects inside are not loaded here, so they consist
 * of a few bytes.
 */
#include "tests/fixture/artefact_test.h"

static const char orchestration_bytes[] = "\x7f"
                                          "ELF of an orchestration";
static const char kernel_a[] = "\x7f"
                               "ELF of kernel a";
static const char kernel_b[] = "\x7f"
                               "ELF of kernel b, which is longer";

static struct artefact_kernel kernels[] = {
    { 7, PTO_CORE_AIC, "multiply", kernel_a, sizeof(kernel_a) },
    { 3, PTO_CORE_AIV, "add", kernel_b, sizeof(kernel_b) },
};

static struct artefact_file files[] = {
    { "orch.c", false, { { 1 } } },        { "include/pto/tile.hpp", true, { { 2 } } },
    { "kernels/add.c", false, { { 3 } } }, { "include/pto/common.hpp", true, { { 4 } } },
    { "orch.c", false, { { 1 } } },
};

static struct artefact_parts small_parts(void)
{
    return (struct artefact_parts){ .name = "small",
                                    .platform = "a5sim",
                                    .config = "settings",
                                    .mode = PTO_MODE_HOST,
                                    .signature = in_in_out,
                                    .signature_count = 3,
                                    .orchestration = orchestration_bytes,
                                    .orchestration_size = sizeof(orchestration_bytes),
                                    .kernels = kernels,
                                    .kernel_count = 2,
                                    .files = files,
                                    .file_count = 5,
                                    .isa_revision = "0123456789",
                                    .compiler = "cc 12" };
}

static struct bytes make_parts(const struct artefact_parts *parts)
{
    struct pto_error error = { .size = sizeof(error) };
    struct bytes file;

    if (artefact_make(parts, &file.at, &file.size, &error) < 0)
        fail_msg("%s", error.text);
    return file;
}

static struct bytes make_small(void)
{
    struct artefact_parts parts = small_parts();

    return make_parts(&parts);
}

static void what_is_written_is_read(void **state)
{
    struct bytes file = make_small();
    struct pto_error error = { .size = sizeof(error) };
    struct artefact a;

    (void)state;
    assert_int_equal(artefact_read(file.at, file.size, &a, &error), PTO_OK);
    assert_false(a.is_blob);
    assert_string_equal(a.name, "small");
    assert_string_equal(a.platform, "a5sim");
    assert_string_equal(a.entry, "orchestrate");
    assert_string_equal(a.config, "settings");
    assert_string_equal(a.isa_revision, "0123456789");
    assert_string_equal(a.compiler, "cc 12");
    assert_int_equal(a.mode, PTO_MODE_HOST);
    assert_int_equal(a.abi, ARTEFACT_ABI);
    assert_int_equal(a.signature_count, 3);
    assert_int_equal(artefact_direction(&a, 0), PTO_DIR_IN);
    assert_int_equal(artefact_direction(&a, 2), PTO_DIR_OUT);
    assert_int_equal(a.orchestration_size, sizeof(orchestration_bytes));
    assert_memory_equal(a.orchestration, orchestration_bytes, sizeof(orchestration_bytes));
    assert_int_equal(a.kernel_count, 2);
    for (uint32_t i = 0; i < 2; i++) { /* by func_id */
        struct artefact_kernel kernel = artefact_kernel_at(&a, i);

        assert_int_equal(kernel.func_id, kernels[1 - i].func_id);
        assert_int_equal(kernel.core, kernels[1 - i].core);
        assert_string_equal(kernel.name, kernels[1 - i].name);
        assert_int_equal(kernel.size, kernels[1 - i].size);
        assert_memory_equal(kernel.bytes, kernels[1 - i].bytes, kernel.size);
    }
    assert_int_equal(a.file_count, 4); /* a file that is listed twice counts once */
    assert_string_equal(artefact_file_at(&a, 0).path, "kernels/add.c");
    assert_int_equal(artefact_file_at(&a, 0).digest.byte[0], 3);
    assert_false(artefact_file_at(&a, 1).is_isa);
    assert_string_equal(artefact_file_at(&a, 3).path, "include/pto/tile.hpp");
    assert_true(artefact_file_at(&a, 3).is_isa);
    free(file.at);
}

static void the_order_of_the_parts_does_not_matter(void **state)
{
    struct artefact_kernel other_kernels[] = { kernels[1], kernels[0] };
    struct artefact_file other_files[] = { files[3], files[2], files[1], files[0] };
    struct artefact_parts parts = small_parts();
    struct bytes file = make_small(), other;

    (void)state;
    parts.kernels = other_kernels;
    parts.files = other_files;
    parts.file_count = 4;
    other = make_parts(&parts);
    assert_int_equal(file.size, other.size);
    assert_memory_equal(file.at, other.at, file.size);
    free(file.at);
    free(other.at);
}

static struct digest identity_of(const struct artefact_parts *parts)
{
    struct bytes file = make_parts(parts);
    struct artefact a;

    assert_int_equal(artefact_read(file.at, file.size, &a, NULL), PTO_OK);
    free(file.at);
    return a.identity;
}

static void the_identity_is_that_of_what_runs(void **state)
{
    struct artefact_parts base = small_parts(), p;
    struct digest identity = identity_of(&base), other;

    (void)state;
#define IS_SAME(change) \
    (p = base, change, other = identity_of(&p), digest_is_equal(&identity, &other))
    assert_true(IS_SAME((void)0));
    assert_true(IS_SAME(p.file_count = 1));
    assert_true(IS_SAME(p.compiler = "cc 13"));
    assert_true(IS_SAME(p.isa_revision = NULL));
    assert_false(IS_SAME(p.name = "other"));
    assert_false(IS_SAME(p.platform = "a2a3sim"));
    assert_false(IS_SAME(p.entry = "other"));
    assert_false(IS_SAME(p.config = NULL));
    assert_false(IS_SAME(p.mode = PTO_MODE_STREAM));
    assert_false(IS_SAME(p.signature_count = 2));
    assert_false(IS_SAME(p.kernel_count = 1));
    assert_false(IS_SAME(p.orchestration_size--));
#undef IS_SAME
    for (uint32_t i = 0; i < 3; i++) {
        struct artefact_kernel own[] = { kernels[0], kernels[1] };

        if (i == 0)
            own[0].core = PTO_CORE_AIV;
        else if (i == 1)
            own[0].func_id = 8;
        else
            own[0].bytes = kernel_b;
        p = base;
        p.kernels = own;
        other = identity_of(&p);
        assert_false(digest_is_equal(&identity, &other));
    }
}

/* ---- what cannot be made ---- */

static void assert_not_made(struct artefact_parts parts, int status, const char *words)
{
    struct pto_error error = { .size = sizeof(error) };
    size_t size = 0;
    void *bytes = NULL;

    assert_int_equal(artefact_make(&parts, &bytes, &size, &error), status);
    assert_null(bytes);
    if (strstr(error.text, words) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", error.text, words);
}

static void parts_that_do_not_fit_are_refused(void **state)
{
    static const char long_name[] =
        "a_function_whose_name_has_sixty_four_characters_and_that_is_one_too_much";
    static enum pto_direction many[257];
    struct artefact_kernel twice[] = { kernels[0], kernels[0] };
    struct artefact_kernel bad = { 1024, PTO_CORE_AIV, "k", kernel_a, 1 };
    struct artefact_file changed[] = { files[0], files[0] };
    struct artefact_parts p;

    (void)state;
    changed[1].digest.byte[0] = 9;
#define REFUSED(change, status, words) \
    (p = small_parts(), change, assert_not_made(p, status, words))
    REFUSED(p.platform = NULL, PTO_EINVAL, "platform");
    REFUSED(p.entry = long_name, PTO_EINVAL, "at most 63");
    REFUSED(p.entry = "", PTO_EINVAL, "at least one");
    REFUSED(p.config = long_name, PTO_EINVAL, "at most 63");
    REFUSED(p.mode = (enum pto_mode)2, PTO_EINVAL, "mode 2");
    REFUSED((p.signature = many, p.signature_count = 257), PTO_EINVAL, "256");
    REFUSED(p.orchestration_size = 0, PTO_EINVAL, "orchestration");
    REFUSED(p.kernel_count = 1025, PTO_EINVAL, "1024 kernels");
    REFUSED(p.kernels = twice, PTO_EINVAL, "func_id 7");
    REFUSED((p.kernels = &bad, p.kernel_count = 1), PTO_EINVAL, "above 1023");
    REFUSED((p.files = changed, p.file_count = 2), PTO_ESTALE, "orch.c changed");
#undef REFUSED
}

/* ---- what is not read ---- */

static int read_text(const void *bytes, size_t size, char text[PTO_ERROR_TEXT_MAX])
{
    struct pto_error error = { .size = sizeof(error) };
    struct artefact a;
    int status = artefact_read(bytes, size, &a, &error);

    strcpy(text, status < 0 ? error.text : "");
    return status;
}

static void assert_text(const void *bytes, size_t size, const char *expected)
{
    char text[PTO_ERROR_TEXT_MAX];

    assert_int_equal(read_text(bytes, size, text), PTO_EFORMAT);
    assert_string_equal(text, expected);
}

/* Changes one field. If requested, corrects the hashes, so that only the field is wrong. */
static void assert_field(size_t at, uint32_t value, bool is_sealed, const char *expected)
{
    struct bytes file = make_small();

    memcpy((char *)file.at + at, &value, sizeof(value));
    if (is_sealed)
        artefact_seal(file.at, file.size);
    assert_text(file.at, file.size, expected);
    free(file.at);
}

#define FIELD(name) offsetof(struct artefact_header, name)
#define AGAIN "; build or copy it again"

static void each_kind_of_damage_has_its_sentence(void **state)
{
    static const char text_file[] = "#!/bin/sh\necho no artefact\n";
    struct bytes file = make_small();
    char longer[1 << 16] = { 0 };
    char expected[200];

    (void)state;
    assert_text("", 0, "it is empty");
    assert_text(text_file, sizeof(text_file),
                "it is neither an artefact (.ptoc), a chip callable nor a shared object");
    assert_text(kernel_a, sizeof(kernel_a),
                "it is a shared object, not an artefact; `pto build` makes one of its sources");
    assert_text(file.at, 100,
                "it is truncated: it has 100 bytes, less than the 176 of a header" AGAIN);
    snprintf(expected, sizeof(expected),
             "it is truncated: it has 4000 bytes, and its header has %zu" AGAIN, file.size);
    assert_text(file.at, 4000, expected);
    memcpy(longer, file.at, file.size);
    snprintf(expected, sizeof(expected),
             "it is too long: it has %zu bytes, and its header has %zu" AGAIN, file.size + 1,
             file.size);
    assert_text(longer, file.size + 1, expected);
    assert_field(FIELD(magic) + 4, 0x0a1a0a0a, false,
                 "it was copied as text, and bytes of it were changed; copy it as it is");
    assert_field(
        FIELD(version), 2, false,
        "it has version 2 of the format, and this library reads version 1; build it again");
    assert_field(FIELD(abi), 9, false,
                 "it was made for ABI 9, and this library has ABI 3; build it again");
    assert_field(file.size - 4, 0x12345678, false,
                 "it was altered: its content does not have the hash that it states" AGAIN);
    free(file.at);
}

/* Returns the position of the chip callable in the small artefact. */
static size_t callable_at(void)
{
    struct bytes file = make_small();
    struct artefact_header h;

    memcpy(&h, file.at, sizeof(h));
    free(file.at);
    return h.callable_offset;
}

static void damage_with_right_hashes_is_refused(void **state)
{
    size_t at = callable_at(), kernel = sizeof(struct artefact_header);
    size_t file = kernel + 2 * sizeof(struct kernel_record);
#define CHIP(name) (at + offsetof(struct chip_callable, name))
    const struct {
        size_t at;
        uint32_t value;
        const char *what;
    } cases[] = {
        { FIELD(mode), 2, "its mode is unknown" },
        { FIELD(kernel_count), 1025, "it has too many kernels or files" },
        { FIELD(file_count), UINT32_MAX, "it has too many kernels or files" },
        { FIELD(kernel_count), 3, "its parts are not where its header needs them" },
        { FIELD(file_offset), 1, "its parts are not where its header needs them" },
        { FIELD(text_size), 1 << 30, "its parts are not where its header needs them" },
        { FIELD(callable_size), 1 << 30, "its parts are not where its header needs them" },
        { FIELD(callable_offset) + 4, 1, "its parts are not where its header needs them" },
        { FIELD(name), 1 << 20, "a string lies outside of the table of strings" },
        { kernel + 4, 2, "the name or core type of a kernel is invalid" },
        { kernel + 8, UINT32_MAX, "the name or core type of a kernel is invalid" },
        { file, UINT32_MAX, "the name of one of its source files is invalid" },
        { file + 4, 1, "its source files are not in order" },
        { CHIP(signature_count), 257, "its signature has more than 256 entries" },
        { CHIP(signature), 4, "its signature has an unknown direction" },
        { CHIP(func_name_length), 64, "a name in its chip callable is too long or has no end" },
        { CHIP(func_name_length), 3, "a name in its chip callable is too long or has no end" },
        { CHIP(config_name_length), UINT32_MAX,
          "a name in its chip callable is too long or has no end" },
        { CHIP(binary_size), 0, "its orchestration reaches beyond its end, or is empty" },
        { CHIP(binary_size), 1 << 20, "its orchestration reaches beyond its end, or is empty" },
        { CHIP(child_count), 1, "its number of kernels differs from its header, or is above 1024" },
        { CHIP(child_func_ids), 1024, "a kernel's func_id is above 1023, or used twice" },
        { CHIP(child_func_ids) + 4, 3, "a kernel's func_id is above 1023, or used twice" },
        { CHIP(child_func_ids), 4, "the func_ids of its kernels differ from its header" },
        { CHIP(child_offsets), 65, "a kernel has an invalid offset" },
        { CHIP(child_offsets), 0, "a kernel has an invalid offset" },
        { CHIP(child_offsets), 0xffffffc0, "a kernel has an invalid offset" },
        { at + 9376 + 64 + 132, 1 << 30, "a kernel reaches beyond the end, or is empty" },
        { at + 9376 + 64 + 132, 0, "a kernel reaches beyond the end, or is empty" },
    };
#undef CHIP
    char expected[200];

    (void)state;
    for (uint32_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        snprintf(expected, sizeof(expected), "it is damaged: %s" AGAIN, cases[i].what);
        assert_field(cases[i].at, cases[i].value, true, expected);
    }
    assert_field(FIELD(identity), 0, false,
                 "it was altered: its content does not have the hash that it states" AGAIN);
}

/* Changes each bit, and truncates the file at each byte: every change must be refused. */
static void no_change_goes_unnoticed(void **state)
{
    struct bytes file = make_small();
    char *copy = malloc(file.size);
    char text[PTO_ERROR_TEXT_MAX];

    (void)state;
    for (size_t size = 0; size < file.size; size += size < 1000 ? 1 : 97) {
        /* a buffer of exactly this size, so that a sanitizer detects reads beyond it */
        char *exact = malloc(size + 1);

        memcpy(exact, file.at, size);
        assert_int_equal(read_text(exact, size, text), PTO_EFORMAT);
        assert_true(text[0] != '\0');
        free(exact);
    }
    for (size_t bit = 0; bit < 8 * file.size; bit += bit < 8 * 600 ? 1 : 61) {
        memcpy(copy, file.at, file.size);
        copy[bit / 8] = (char)(copy[bit / 8] ^ 1 << bit % 8);
        assert_int_equal(read_text(copy, file.size, text), PTO_EFORMAT);
    }
    free(copy);
    free(file.at);
}

static void bytes_may_lie_at_any_address(void **state)
{
    struct bytes file = make_small();
    char *memory = malloc(file.size + 8);
    struct artefact a;

    (void)state;
    for (uint32_t shift = 0; shift < 8; shift++) {
        memcpy(memory + shift, file.at, file.size);
        assert_int_equal(artefact_read(memory + shift, file.size, &a, NULL), PTO_OK);
        assert_int_equal(artefact_kernel_at(&a, 1).func_id, 7);
        assert_int_equal(artefact_file_at(&a, 0).digest.byte[0], 3);
    }
    free(memory);
    free(file.at);
}

/* A chip callable as the reference writes it, without an artefact around it. */
static void a_chip_callable_alone_is_read(void **state)
{
    struct bytes file = make_small();
    size_t at = callable_at();
    char text[PTO_ERROR_TEXT_MAX];
    struct artefact a, whole;
    char *blob = calloc(1, file.size - at + 32);

    (void)state;
    memcpy(blob, (char *)file.at + at, file.size - at);
    assert_int_equal(artefact_read(file.at, file.size, &whole, NULL), PTO_OK);
    assert_int_equal(artefact_read(blob, file.size - at, &a, NULL), PTO_OK);
    assert_true(a.is_blob);
    assert_null(a.platform);
    assert_string_equal(a.entry, "orchestrate");
    assert_int_equal(a.kernel_count, 2);
    assert_int_equal(artefact_kernel_at(&a, 0).core, PTO_CORE_TYPES);
    assert_memory_equal(artefact_kernel_at(&a, 0).bytes, kernel_b, sizeof(kernel_b));
    assert_false(digest_is_equal(&a.identity, &whole.identity));
    /*
     * Bytes that the reference's loader writes into the chip callable do not belong to its content.
     */
    memset(blob + sizeof(struct chip_callable) + 64 + offsetof(struct core_callable, resolved_addr),
           0x55, 8);
    assert_int_equal(artefact_read(blob, file.size - at + 32, &whole, NULL), PTO_OK);
    assert_true(digest_is_equal(&a.identity, &whole.identity));
    blob[file.size - at + 31] = 1;
    assert_int_equal(read_text(blob, file.size - at + 32, text), PTO_EFORMAT);
    assert_in(text, "extra bytes follow its last kernel");
    assert_int_equal(read_text(blob, file.size - at - 1, text), PTO_EFORMAT);
    assert_in(text, "kernel reaches beyond the end");
    free(blob);
    free(file.at);
}

/* ---- through the public interface ---- */

static void the_callable_tells_what_it_is(void **state)
{
    struct bytes file = make_small();
    struct pto_callable *callable = load_bytes(file);
    struct pto_callable_info info = { .size = sizeof(info) };
    struct pto_kernel_info kernel = { .size = sizeof(kernel) };
    struct pto_file_info made_of = { .size = sizeof(made_of) };
    struct digest digest;

    (void)state;
    free(file.at); /* it is copied */
    assert_int_equal(pto_callable_info(callable, &info), PTO_OK);
    assert_int_equal(info.kind, PTO_CALLABLE_ARTEFACT);
    assert_string_equal(info.name, "small");
    assert_string_equal(info.platform, "a5sim");
    assert_string_equal(info.entry, "orchestrate");
    assert_int_equal(info.mode, PTO_MODE_HOST);
    assert_int_equal(info.signature_count, 3);
    assert_int_equal(info.signature[2], PTO_DIR_OUT);
    assert_int_equal(info.kernel_count, 2);
    assert_int_equal(info.file_count, 4);
    assert_int_equal(info.object_count, 0);
    assert_int_equal(pto_callable_kernel(callable, 1, &kernel), PTO_OK);
    assert_int_equal(kernel.func_id, 7);
    assert_string_equal(kernel.name, "multiply");
    digest_of(kernel_a, sizeof(kernel_a), &digest);
    assert_memory_equal(kernel.digest, digest.byte, sizeof(kernel.digest));
    assert_int_equal(pto_callable_kernel(callable, 2, &kernel), PTO_EINVAL);
    assert_int_equal(pto_callable_file(callable, 2, &made_of), PTO_OK);
    assert_string_equal(made_of.path, "include/pto/common.hpp");
    assert_true(made_of.is_isa);
    assert_int_equal(pto_callable_file(callable, 4, &made_of), PTO_EINVAL);
    info.size--;
    assert_int_equal(pto_callable_info(callable, &info), PTO_EINVAL);
    assert_int_equal(pto_callable_info(NULL, &info), PTO_EINVAL);
    assert_int_equal(pto_callable_destroy(callable), PTO_OK);
}

static void assert_load_text(const struct pto_load_options *options, int status, const char *words)
{
    struct pto_error error = { .size = sizeof(error) };
    struct pto_callable *callable = NULL;
    struct bytes file = make_small();

    assert_int_equal(pto_callable_load_memory(file.at, file.size, options, &callable, &error),
                     status);
    if (status < 0 && strstr(error.text, words) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", error.text, words);
    if (status >= 0)
        assert_int_equal(pto_callable_destroy(callable), PTO_OK);
    else
        assert_null(callable);
    free(file.at);
}

static void other_headers_than_expected_are_named(void **state)
{
    struct pto_header headers[] = {
        { "include/pto/unknown.hpp",
          "0000000000000000000000000000000000000000000000000000000000000000" },
        { "include/pto/tile.hpp",
          "0200000000000000000000000000000000000000000000000000000000000000" },
    };
    struct pto_load_options options;

    (void)state;
    pto_load_options_init(&options);
    options.name = "small.ptoc";
    options.expect_isa = "0123456789";
    assert_load_text(&options, PTO_OK, "");
    options.expect_isa = "987";
    assert_load_text(&options, PTO_ESTALE,
                     "small.ptoc was made with revision 0123456789 of the tile library, and 987 is "
                     "expected");
    options.expect_isa = NULL;
    options.expect_headers = headers;
    options.expect_header_count = 2;
    assert_load_text(&options, PTO_OK, "");
    headers[1].digest = "0900000000000000000000000000000000000000000000000000000000000000";
    assert_load_text(&options, PTO_ESTALE,
                     "small.ptoc was made with another include/pto/tile.hpp than the expected one: "
                     "0200000000000000 here, 0900000000000000 there");
    headers[1].digest = "09";
    assert_load_text(&options, PTO_EINVAL, "64 lower-case");
    headers[1].digest = NULL;
    assert_load_text(&options, PTO_EINVAL, "");
    options.size = 1;
    assert_load_text(&options, PTO_EINVAL, "");
}

static void a_folder_of_other_headers_is_noticed(void **state)
{
    static const char content[] = "constexpr int SIZE = 40;\n";
    struct artefact_file header = { "tile.hpp", true, { { 0 } } };
    struct artefact_parts parts = small_parts();
    struct pto_callable *callable = NULL;
    struct pto_load_options options;
    struct pto_error error = { .size = sizeof(error) };
    struct bytes file;
    char path[128];

    (void)state;
    digest_of(content, sizeof(content) - 1, &header.digest);
    parts.files = &header;
    parts.file_count = 1;
    file = make_parts(&parts);
    pto_load_options_init(&options);
    options.expect_isa = folder;
    snprintf(path, sizeof(path), "%s/tile.hpp", folder);
    assert_int_equal(pto_callable_load_memory(file.at, file.size, &options, &callable, &error),
                     PTO_ESTALE);
    assert_non_null(strstr(error.text, "tile.hpp, which cannot be read below"));
    assert_int_equal(file_write(path, content, sizeof(content) - 1), PTO_OK);
    assert_int_equal(pto_callable_load_memory(file.at, file.size, &options, &callable, &error),
                     PTO_OK);
    assert_int_equal(pto_callable_destroy(callable), PTO_OK);
    assert_int_equal(file_write(path, "constexpr int SIZE = 48;\n", sizeof(content) - 1), PTO_OK);
    assert_int_equal(pto_callable_load_memory(file.at, file.size, &options, &callable, &error),
                     PTO_ESTALE);
    assert_non_null(strstr(error.text, "made with another tile.hpp than"));
    assert_int_equal(error.status, PTO_ESTALE);
    free(file.at);
}

/* The hashes are right, because an attacker could choose which of our files are compared. */
static void a_header_outside_of_the_library_is_damage(void **state)
{
    static const struct {
        const char *path;
        bool is_fine;
    } row[] = { { "../tile.hpp", false },
                { "a/../../tile.hpp", false },
                { "a/..", false },
                { "/etc/passwd", false },
                { "", false },
                { "..", false },
                { "a/..b/tile.hpp", true },
                { "...", true } };

    (void)state;
    for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
        struct artefact_file header = { row[i].path, true, { { 0 } } };
        struct artefact_parts parts = small_parts();
        struct pto_callable *callable = NULL;
        struct pto_error error = { .size = sizeof(error) };
        struct bytes file;

        parts.files = &header;
        parts.file_count = 1;
        file = make_parts(&parts);
        assert_int_equal(pto_callable_load_memory(file.at, file.size, NULL, &callable, &error),
                         row[i].is_fine ? PTO_OK : PTO_EFORMAT);
        if (row[i].is_fine)
            assert_int_equal(pto_callable_destroy(callable), PTO_OK);
        else
            assert_non_null(strstr(
                error.text, "a header of the tile library has a path outside of the library"));
        free(file.at);
    }
}

static void a_file_is_recognised_by_its_content(void **state)
{
    struct bytes file = make_small();
    struct pto_callable *callable = NULL;
    struct pto_error error = { .size = sizeof(error) };
    char path[128], expected[256];

    (void)state;
    snprintf(path, sizeof(path), "%s/small.so", folder); /* whatever its name */
    assert_int_equal(file_write(path, file.at, file.size), PTO_OK);
    assert_int_equal(pto_callable_load(path, NULL, &callable, &error), PTO_OK);
    assert_int_equal(pto_callable_destroy(callable), PTO_OK);
    callable = NULL;
    assert_int_equal(file_write(path, file.at, 100), PTO_OK);
    assert_int_equal(pto_callable_load(path, NULL, &callable, &error), PTO_EFORMAT);
    assert_null(callable);
    snprintf(expected, sizeof(expected),
             "%s: it is truncated: it has 100 bytes, less than the 176 of a header" AGAIN, path);
    assert_string_equal(error.text, expected);
    assert_int_equal(error.status, PTO_EFORMAT);
    assert_int_equal(pto_callable_load(folder, NULL, &callable, &error), PTO_ELOAD);
    free(file.at);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_read),
        cmocka_unit_test(the_order_of_the_parts_does_not_matter),
        cmocka_unit_test(the_identity_is_that_of_what_runs),
        cmocka_unit_test(parts_that_do_not_fit_are_refused),
        cmocka_unit_test(each_kind_of_damage_has_its_sentence),
        cmocka_unit_test(damage_with_right_hashes_is_refused),
        cmocka_unit_test(no_change_goes_unnoticed),
        cmocka_unit_test(bytes_may_lie_at_any_address),
        cmocka_unit_test(a_chip_callable_alone_is_read),
        cmocka_unit_test(the_callable_tells_what_it_is),
        cmocka_unit_test(other_headers_than_expected_are_named),
        cmocka_unit_test(a_folder_of_other_headers_is_noticed),
        cmocka_unit_test(a_header_outside_of_the_library_is_damage),
        cmocka_unit_test(a_file_is_recognised_by_its_content),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
