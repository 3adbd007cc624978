/* SPDX-License-Identifier: Apache-2.0 */
/* variants: asan - plain: the sanitizers judge what was read */
/*
 * Reads artefacts, chip callables and objects with random changes: bits, bytes, numbers in their
 * fields, lengths, and pieces of other files. Most have corrected hashes, so that the checks after
 * the hashes are reached. Each input must be refused with a message, or be usable completely.
 * Sanitizers detect anything else.
 *
 * Always the same inputs: PTO_FUZZ_SEED chooses others. PTO_FUZZ_INPUTS is their
 * number; without it there are 200 000, or fewer on a slow machine.
 */
#include "base/elf.h"
#include "tests/fixture/artefact_test.h"
#include "tests/fixture/random_test.h"

enum { INPUTS = 200000, SECONDS = 20, INPUT_MAX = 1 << 16, TEXTS_MAX = 64 };

static const char elf_mark[] = "\x7f"
                               "ELF, and no more";
static uint64_t accepted, refused, objects_accepted;
static char texts[TEXTS_MAX][PTO_ERROR_TEXT_MAX]; /* messages of the readers, without numbers */
static uint32_t text_count;
/* digest of all bytes that were read, so that the compiler keeps the reads */
static struct digest_state everything;

/* ---- what is changed ---- */

static struct bytes seed[8];
static uint32_t seed_count, object_seed;

static void add_seed(struct bytes bytes)
{
    assert_in_range(bytes.size, 1, INPUT_MAX / 2);
    seed[seed_count++] = bytes;
}

static int begin(void **state)
{
    static const struct artefact_file files[] = {
        { "a.c", false, { { 1 } } },
        { "b.c", false, { { 2 } } },
        { "include/c.h", true, { { 3 } } },
        { "include/d.h", true, { { 4 } } },
    };
    struct recipe recipe = { .parts = { .name = NULL } };
    struct artefact_kernel kernels[3];
    struct artefact_header header;
    struct bytes object, whole;

    if (make_folder(state) != 0)
        return -1;
    object = compile(kernel_text, ADD " -nostdlib -Wl,-z,noseparate-code");
    for (uint32_t i = 0; i < 3; i++)
        kernels[i] = (struct artefact_kernel){ 5 * i, i % 2 == 0 ? PTO_CORE_AIV : PTO_CORE_AIC, "k",
                                               elf_mark, 4 + i };
    recipe.parts = (struct artefact_parts){ .name = "small",
                                            .platform = "a2a3sim",
                                            .config = "config",
                                            .signature = in_in_out,
                                            .signature_count = 3,
                                            .orchestration = elf_mark,
                                            .orchestration_size = 4,
                                            .kernels = kernels,
                                            .kernel_count = 3,
                                            .files = files,
                                            .file_count = 4 };
    whole = make_artefact(&recipe);
    add_seed(whole);
    memcpy(&header, whole.at, sizeof(header));
    recipe.parts.kernel_count = 0;
    recipe.parts.file_count = 0;
    add_seed(make_artefact(&recipe));
    whole.at = memcpy(malloc(header.callable_size), (char *)whole.at + header.callable_offset,
                      header.callable_size);
    whole.size = header.callable_size;
    add_seed(whole);
    object_seed = seed_count;
    add_seed(object);
    add_seed(compile_as("c++",
                        "template <int> struct s { static inline int v; };\n"
                        "extern \"C\" int kernel_entry() { return s<0>::v++; }\n",
                        "-nostdlib -Wl,-z,noseparate-code -Wl,--hash-style=both -Wl,-soname,x"));
    return 0;
}

static int end(void **state)
{
    for (uint32_t i = 0; i < seed_count; i++)
        free(seed[i].at);
    return remove_folder(state);
}

/* ---- changes ---- */

struct input {
    uint8_t at[INPUT_MAX];
    size_t size;
};

/* Numbers at which readers stumble. */
static uint64_t interesting(size_t size)
{
    const uint64_t values[] = { 0,         1,          63,         64,         65,
                                255,       256,        257,        1023,       1024,
                                1025,      9376,       INT32_MAX,  size,       size - 1,
                                size + 1,  1ull << 31, UINT32_MAX, 1ull << 32, UINT64_MAX,
                                INT64_MAX, 0xffffffc0, 4096,       1ull << 46 };

    return random_below(4) == 0 ? rng_next(&chance)
                                : values[random_below(sizeof(values) / sizeof(values[0]))];
}

/* The beginning of a table is changed more often than the rest. */
static size_t some_place(const struct input *in)
{
    switch (random_below(4)) {
    case 0:
        return random_below(in->size < 512 ? in->size : 512);
    case 1:
        return in->size - 1 - random_below(in->size < 2048 ? in->size : 2048);
    default:
        return random_below(in->size);
    }
}

/* Changes a 4- or 8-byte number at a multiple of 4, where fields are. */
static void change_number(struct input *in)
{
    size_t bytes = random_below(2) == 0 ? 4 : 8;
    size_t at = some_place(in) / 4 * 4;
    uint64_t value = interesting(in->size);
    uint64_t old = 0;

    if (in->size < bytes || at > in->size - bytes)
        return;
    memcpy(&old, in->at + at, bytes);
    if (random_below(3) == 0)
        value = old + (uint64_t)(int64_t)((int)random_below(129) - 64);
    memcpy(in->at + at, &value, bytes);
}

/* Changes the fields of the chip callable. */
static void change_chip(struct input *in)
{
    static const size_t fields[] = {
        offsetof(struct chip_callable, signature),
        offsetof(struct chip_callable, signature_count),
        offsetof(struct chip_callable, binary_size),
        offsetof(struct chip_callable, func_name),
        offsetof(struct chip_callable, func_name_length),
        offsetof(struct chip_callable, child_func_ids),
        offsetof(struct chip_callable, child_func_ids) + 4,
        offsetof(struct chip_callable, child_offsets),
        offsetof(struct chip_callable, child_offsets) + 4,
        offsetof(struct chip_callable, child_count),
        offsetof(struct chip_callable, config_name_length),
        sizeof(struct chip_callable) + 64 + offsetof(struct core_callable, binary_size),
    };
    size_t base = 0;
    uint32_t value = random_below(2) == 0 ? (uint32_t)interesting(in->size) : random_below(2048);
    struct artefact_header h;

    if (in->size > sizeof(h) && memcmp(in->at, ARTEFACT_MAGIC, ARTEFACT_MAGIC_BYTES) == 0) {
        memcpy(&h, in->at, sizeof(h));
        base = h.callable_offset;
    }
    base += fields[random_below(sizeof(fields) / sizeof(fields[0]))];
    if (base < in->size && in->size - base >= 4)
        memcpy(in->at + base, &value, 4);
}

static void change_length(struct input *in)
{
    size_t size = random_below(3) == 0 ? in->size + random_below(300) : random_below(in->size + 1);

    if (size > in->size)
        memset(in->at + in->size, random_below(2) == 0 ? 0 : 0x41, size - in->size);
    in->size = size;
}

static void change_piece(struct input *in)
{
    const struct bytes *other = &seed[random_below(seed_count)];
    size_t from = random_below(other->size), to = random_below(in->size);
    size_t bytes = 1 + random_below(256);

    if (bytes <= other->size - from && bytes <= in->size - to)
        memcpy(in->at + to, (uint8_t *)other->at + from, bytes);
}

static void change(struct input *in)
{
    if (in->size == 0)
        return;
    switch (random_below(12)) {
    case 0:
    case 1:
        in->at[some_place(in)] ^= (uint8_t)(1u << random_below(8));
        break;
    case 2:
        in->at[some_place(in)] = (uint8_t)rng_next(&chance);
        break;
    case 3:
        change_length(in);
        break;
    case 4:
        change_piece(in);
        break;
    case 5:
    case 6:
    case 7:
        change_chip(in);
        break;
    default:
        change_number(in);
    }
}

/*
 * Also sets the size field to the real size, so that a reader that trusts it does not stop early.
 */
static void seal(struct input *in)
{
    uint64_t size = in->size;
    struct artefact_header h;

    if (in->size < sizeof(h) || memcmp(in->at, ARTEFACT_MAGIC, ARTEFACT_MAGIC_BYTES) != 0)
        return;
    memcpy(&h, in->at, sizeof(h));
    if (random_below(8) != 0)
        h.size = size;
    if (random_below(2) == 0 && h.kernel_count <= 2048 && h.file_count <= 2048) {
        artefact_place(&h);
        h.callable_size = size - h.callable_offset;
    }
    memcpy(in->at, &h, sizeof(h));
    artefact_seal(in->at, in->size);
}

/* ---- what becomes of it ---- */

/* Removes numbers from a message, so that messages that differ only in numbers count as one. */
static void note_text(const char *text)
{
    char plain[PTO_ERROR_TEXT_MAX];
    size_t used = 0;

    for (const char *at = text; *at != '\0'; at++)
        if (*at < '0' || *at > '9')
            plain[used++] = *at;
    plain[used] = '\0';
    for (uint32_t i = 0; i < text_count; i++)
        if (strcmp(texts[i], plain) == 0)
            return;
    if (text_count < TEXTS_MAX)
        strcpy(texts[text_count++], plain);
}

static void use_artefact(const struct artefact *a)
{
    digest_add_text(&everything, a->name);
    digest_add_text(&everything, a->platform);
    digest_add_text(&everything, a->entry);
    digest_add_text(&everything, a->config);
    digest_add_text(&everything, a->isa_revision);
    digest_add_text(&everything, a->compiler);
    digest_add(&everything, a->orchestration, a->orchestration_size);
    for (uint32_t i = 0; i < a->signature_count; i++)
        assert_in_range(artefact_direction(a, i), PTO_DIR_SCALAR, PTO_DIR_INOUT);
    for (uint32_t i = 0; i < a->kernel_count; i++) {
        struct artefact_kernel kernel = artefact_kernel_at(a, i);

        assert_in_range(kernel.func_id, 0, 1023);
        assert_in_range(kernel.core, 0, PTO_CORE_TYPES);
        digest_add_text(&everything, kernel.name);
        digest_add(&everything, kernel.bytes, kernel.size);
    }
    for (uint32_t i = 0; i < a->file_count; i++)
        digest_add_text(&everything, artefact_file_at(a, i).path);
}

/* A block of exactly its size, so that a sanitizer detects a read of one byte beyond it. */
static void try_artefact(const struct input *in)
{
    struct pto_error error = { .size = sizeof(error) };
    struct pto_callable *callable = NULL;
    uint8_t *exact = malloc(in->size != 0 ? in->size : 1);
    struct artefact a;
    int status;

    memcpy(exact, in->at, in->size);
    status = artefact_read(exact, in->size, &a, &error);
    if (status == PTO_OK) {
        accepted++;
        use_artefact(&a);
        if (accepted % 16 == 0) {
            assert_int_equal(pto_callable_load_memory(exact, in->size, NULL, &callable, &error),
                             PTO_OK);
            assert_int_equal(pto_callable_destroy(callable), PTO_OK);
        }
    } else {
        refused++;
        assert_int_equal(status, PTO_EFORMAT);
        assert_true(strlen(error.text) >= strlen("it is empty"));
        note_text(error.text);
    }
    free(exact);
}

static void try_object(const struct input *in)
{
    struct pto_error error = { .size = sizeof(error) };
    uint8_t *exact = malloc(in->size != 0 ? in->size : 1);
    int status;

    memcpy(exact, in->at, in->size);
    status = elf_isolate(exact, in->size, NULL, &error);
    objects_accepted += status == PTO_OK;
    if (status < 0) {
        assert_int_equal(status, PTO_ELOAD);
        note_text(error.text);
    }
    free(exact);
}

static uint64_t number_from(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);

    return text != NULL ? strtoull(text, NULL, 10) : otherwise;
}

static void readers_survive_anything(void **state)
{
    uint64_t inputs = number_from("PTO_FUZZ_INPUTS", INPUTS), done = 0;
    uint64_t start = now_ns();
    static struct input in;

    (void)state;
    chance.state = number_from("PTO_FUZZ_SEED", 1);
    digest_begin(&everything);
    for (; done < inputs; done++) {
        uint32_t which = random_below(seed_count);

        if (getenv("PTO_FUZZ_INPUTS") == NULL && done % 1024 == 0 &&
            now_ns() - start > SECONDS * 1000 * MS)
            break;
        memcpy(in.at, seed[which].at, seed[which].size);
        in.size = seed[which].size;
        for (uint32_t k = random_below(4); k < 4; k++)
            change(&in);
        if (random_below(8) != 0)
            seal(&in);
        if (which >= object_seed)
            try_object(&in);
        else
            try_artefact(&in);
    }
    print_message("%llu inputs in %llu ms: %llu artefacts accepted, %llu refused, %llu objects "
                  "accepted, %u different sentences\n",
                  (unsigned long long)done, (unsigned long long)((now_ns() - start) / 1000000),
                  (unsigned long long)accepted, (unsigned long long)refused,
                  (unsigned long long)objects_accepted, text_count);
    assert_true(done >= 10000); /* slower than that it shows nothing */
    assert_true(accepted > done / 200 && refused > done / 10 && objects_accepted > done / 200);
    assert_true(text_count >= 30);
}

int main(void)
{
    const struct CMUnitTest tests[] = { TEST(readers_survive_anything) };

    return cmocka_run_group_tests(tests, begin, end);
}
