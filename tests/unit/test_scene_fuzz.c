/* SPDX-License-Identifier: Apache-2.0 */
/* variants: asan - plain: the sanitizers judge what was read */
/*
 * A scene.yaml, a kernel_config.py, and a .npy file with random changes: each is accepted, or
 * refused with a message; sanitizers detect everything else. PTO_FUZZ_INPUTS sets the number of
 * inputs, PTO_FUZZ_SEED the sequence.
 */

#include "base/file.h"
#include "tool/scene/npy.h"
#include "tool/scene/scene.h"
#include "tool/scene/scene_config.h"
#include "tests/fixture/fixture.h"
#include "tests/fixture/random_test.h"

enum { COUNT_DEFAULT = 2000, BYTES_MAX = 8192, CHANGES_MAX = 12, SEEDS_MAX = 32 };

/* Bytes that are being changed. */
struct buffer {
    char bytes[BYTES_MAX];
    size_t size;
};

static void put(struct buffer *b, size_t at, const char *bytes, size_t size)
{
    if (size > BYTES_MAX - b->size)
        return;
    memmove(b->bytes + at + size, b->bytes + at, b->size - at);
    memcpy(b->bytes + at, bytes, size);
    b->size += size;
}

static void cut(struct buffer *b, size_t at, size_t size)
{
    memmove(b->bytes + at, b->bytes + at + size, b->size - at - size);
    b->size -= size;
}

static const char *const words[] = {
    "[",
    "]",
    "{",
    "}",
    ": ",
    "- ",
    "\n",
    "\n  ",
    "'",
    "\"",
    "*",
    "&a ",
    "*a",
    "!!int ",
    "? ",
    "|\n",
    ">\n",
    "#",
    "---\n",
    "...\n",
    "%YAML 1.2\n",
    "%TAG ! !\n",
    "<<: ",
    "~",
    "null",
    "-1",
    "0",
    "99999999999999999999",
    "9223372036854775807",
    "-9223372036854775808",
    "1e999",
    "nan",
    "n*n*n",
    "\t",
    "\\",
    "\\x00",
    "\xff",
    "\xc2\x85",
    "\xe2\x80\xa8",
    "\xef\xbb\xbf",
    "\xff\xfe",
    "name",
    "params",
    "shape",
    "in",
    "out",
    "inout",
    "float32",
    "cases",
    "kernels",
    "id",
    "(",
    ")",
    ",",
    "'<f8'",
    "'>i2'",
    "True",
    "False",
    "4294967295",
    "(65536, 65536, 65536, 65536)",
    "x = x + x\n",
    "= [0] * 60000\n",
    "Path(",
    ".parent",
    " / ",
    " + ",
    "_D.IN",
    "__file__",
    "'\"\"",
    "\\u12",
    "0x",
};

static void change(struct buffer *b, const struct buffer *other)
{
    size_t at = random_below(b->size + 1);
    const char *word = words[random_below(sizeof(words) / sizeof(words[0]))];

    switch (rng_next(&chance) % 7) {
    case 0:
        if (at < b->size)
            b->bytes[at] = (char)rng_next(&chance);
        break;
    case 1:
        if (at < b->size)
            b->bytes[at] = (char)(b->bytes[at] ^ (1 << (rng_next(&chance) & 7)));
        break;
    case 2:
        put(b, at, word, strlen(word));
        break;
    case 3:
        cut(b, at, random_below(b->size - at + 1) % 40 % (b->size - at + 1));
        break;
    case 4: { /* repeats a part of itself */
        char part[64];
        size_t from = random_below(b->size + 1),
               size = random_below(b->size - from + 1) % sizeof(part);

        memcpy(part, b->bytes + from, size);
        put(b, at, part, size);
        break;
    }
    case 5: { /* inserts a part of another file */
        size_t from = random_below(other->size + 1),
               size = random_below(other->size - from + 1) % 200;

        put(b, at, other->bytes + from, size);
        break;
    }
    default: /* repeats a byte many times */
        for (size_t i = random_below(200); i > 0; i--)
            put(b, at, word, strlen(word));
        break;
    }
}

static void read_seed(const char *path, struct buffer *seed)
{
    struct pto_error error = { .size = sizeof(error) };
    char *bytes;

    if (file_load(path, BYTES_MAX, &bytes, &seed->size, &error) < 0)
        fail_msg("%s", error.text);
    memcpy(seed->bytes, bytes, seed->size);
    free(bytes);
}

static uint64_t setting(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);

    return text != NULL ? strtoull(text, NULL, 10) : otherwise;
}

static struct buffer seeds[SEEDS_MAX], changed;

static void any_text_is_taken_or_refused(void **state)
{
    static const char *const paths[] = {
        "examples/vector/scene.yaml",   "examples/matmul/scene.yaml",
        "examples/gang/scene.yaml",     "examples/pipeline/scene.yaml",
        "examples/transfer/scene.yaml", "examples/paged_attention/scene.yaml",
    };
    enum { PATHS = sizeof(paths) / sizeof(paths[0]) };
    uint64_t count = setting("PTO_FUZZ_INPUTS", COUNT_DEFAULT), taken = 0;

    (void)state;
    chance.state = setting("PTO_FUZZ_SEED", 1);
    for (uint32_t i = 0; i < PATHS; i++)
        read_seed(paths[i], &seeds[i]);
    for (uint64_t i = 0; i < count; i++) {
        struct pto_error error = { .size = sizeof(error) };
        struct scene *scene = NULL;

        changed = seeds[random_below(PATHS)];
        for (size_t n = random_below(CHANGES_MAX); n > 0; n--)
            change(&changed, &seeds[random_below(PATHS)]);
        if (scene_parse("f", changed.bytes, changed.size, &scene, &error) == PTO_OK) {
            assert_non_null(scene->name);
            assert_true(scene->case_count > 0);
            scene_close(scene);
            taken++;
        } else if (strncmp(error.text, "f/scene.yaml:", 13) != 0) {
            fail_msg("no place in '%s'", error.text);
        }
    }
    assert_true(taken > count / 100 && taken < count);
}

/* A manifest and the file that belongs to it, which are changed together. */
static void any_manifest_is_taken_or_refused(void **state)
{
    enum { CONFIG, META };
    uint64_t count = setting("PTO_FUZZ_INPUTS", COUNT_DEFAULT) / 2, taken = 0;

    (void)state;
    chance.state = setting("PTO_FUZZ_SEED", 1);
    read_seed("tests/compiled/axpy/kernel_config.py", &seeds[CONFIG]);
    read_seed("tests/compiled/axpy/compiled_meta.json", &seeds[META]);
    for (uint64_t i = 0; i < count; i++) {
        static struct buffer other;
        struct pto_error error = { .size = sizeof(error) };
        struct scene *scene = NULL;
        struct scene_config_texts texts;

        changed = seeds[CONFIG];
        other = seeds[META];
        for (size_t n = random_below(CHANGES_MAX); n > 0; n--)
            change(i % 4 != 0 ? &changed : &other, &seeds[random_below(2)]);
        texts = (struct scene_config_texts){ changed.bytes, changed.size,
                                             i % 8 != 1 ? other.bytes : NULL, other.size };
        if (scene_config_parse("/f", &texts, &scene, &error) == PTO_OK) {
            assert_non_null(scene->name);
            assert_int_equal(scene->case_count, 1);
            scene_close(scene);
            taken++;
        } else if (strncmp(error.text, "/f/kernel_config.py:", 20) != 0 &&
                   strncmp(error.text, "/f/compiled_meta.json:", 22) != 0) {
            fail_msg("no place in '%s'", error.text);
        }
    }
    assert_true(taken > count / 100 && taken < count);
}

static void any_bytes_are_taken_or_refused(void **state)
{
    static const char *const headers[] = {
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }  \n",
        "{'descr': '>u2', 'fortran_order': True, 'shape': (3, 4)}",
        "{'descr': '|b1', 'fortran_order': False, 'shape': ()}",
    };
    static const uint32_t bytes[] = { 24, 24, 1 };
    uint64_t count = setting("PTO_FUZZ_INPUTS", COUNT_DEFAULT), taken = 0;

    (void)state;
    chance.state = setting("PTO_FUZZ_SEED", 1);
    for (uint32_t i = 0; i < 3; i++) {
        seeds[i].size = 0;
        put(&seeds[i], 0, "\x93NUMPY\1\0", 8);
        put(&seeds[i], 8, (const char[]){ (char)strlen(headers[i]), 0 }, 2);
        put(&seeds[i], 10, headers[i], strlen(headers[i]));
        memset(seeds[i].bytes + seeds[i].size, 1, bytes[i]);
        seeds[i].size += bytes[i];
    }
    for (uint64_t i = 0; i < count; i++) {
        struct pto_error error = { .size = sizeof(error) };
        struct npy npy;
        char *copy;

        changed = seeds[random_below(3)];
        for (size_t n = random_below(CHANGES_MAX); n > 0; n--)
            change(&changed, &seeds[random_below(3)]);
        copy = malloc(changed.size + 1);
        assert_non_null(copy);
        memcpy(copy, changed.bytes, changed.size);
        if (scene_npy_parse("f", copy, changed.size, &npy, &error) == PTO_OK) {
            volatile char sum = 0;

            for (uint64_t k = 0; k < npy.count * npy.item_bytes; k++)
                sum = (char)(sum + ((char *)npy.data)[k]);
            scene_npy_free(&npy);
            taken++;
        } else {
            assert_true(error.text[0] != '\0');
        }
    }
    assert_true(taken > count / 100 && taken < count);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_text_is_taken_or_refused),
        cmocka_unit_test(any_manifest_is_taken_or_refused),
        cmocka_unit_test(any_bytes_are_taken_or_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
