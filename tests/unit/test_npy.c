/* SPDX-License-Identifier: Apache-2.0 */
/*
 * .npy files: written files can be read, every form of header that NumPy writes is accepted, and
 * invalid files are refused.
 */

#include "tool/scene/npy.h"
#include "tests/fixture/fixture.h"

/* Makes a file with this header, followed by these bytes, as NumPy would write it. */
static int parse(int version, const char *header, const void *data, size_t bytes, struct npy *npy,
                 struct pto_error *error)
{
    size_t length = strlen(header), begin = version == 1 ? 10 : 12;
    char *file = malloc(begin + length + bytes + 1);

    assert_non_null(file);
    memcpy(file, "\x93NUMPY", 6);
    file[6] = (char)version;
    file[7] = 0;
    file[8] = (char)(length & 255);
    file[9] = (char)(length >> 8);
    if (version != 1)
        file[10] = file[11] = 0;
    memcpy(file + begin, header, length);
    memcpy(file + begin + length, data, bytes);
    pto_error_init(error);
    return scene_npy_parse("it", file, begin + length + bytes, npy, error);
}

static void reads_what_numpy_writes(void **state)
{
    static const float numbers[6] = { 1, 2, 3, 4, 5, 6 };
    struct pto_error error;
    struct npy npy;

    (void)state;
    for (int version = 1; version <= 3; version++) {
        assert_int_equal(
            parse(version, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }    \n",
                  numbers, sizeof(numbers), &npy, &error),
            PTO_OK);
        assert_int_equal(npy.ndims, 2);
        assert_int_equal(npy.shapes[0], 2);
        assert_int_equal(npy.shapes[1], 3);
        assert_true(scene_npy_fits(&npy, PTO_FLOAT32));
        assert_false(scene_npy_fits(&npy, PTO_INT32));
        assert_int_equal(scene_npy_dtype(&npy), PTO_FLOAT32);
        assert_memory_equal(npy.data, numbers, sizeof(numbers));
        scene_npy_free(&npy);
    }
    /* A single number. */
    assert_int_equal(parse(1, "{\"shape\": (), \"fortran_order\": False, \"descr\": \"<f4\"}",
                           numbers, 4, &npy, &error),
                     PTO_OK);
    assert_int_equal(npy.ndims, 1);
    assert_int_equal(npy.count, 1);
    scene_npy_free(&npy);
    /* Nothing at all. */
    assert_int_equal(
        parse(1, "{'descr': '|b1', 'fortran_order': False, 'shape': (0,)}", "", 0, &npy, &error),
        PTO_OK);
    assert_int_equal(npy.count, 0);
    scene_npy_free(&npy);
}

static void turns_columns_into_rows_and_swaps_bytes(void **state)
{
    static const uint8_t columns[] = { 0, 1, 0, 4, 0, 2, 0, 5, 0, 3, 0, 6 }; /* big-endian */
    static const uint16_t rows[] = { 1, 2, 3, 4, 5, 6 };
    struct pto_error error;
    struct npy npy;

    (void)state;
    assert_int_equal(parse(1, "{'descr': '>u2', 'fortran_order': True, 'shape': (2, 3)}", columns,
                           sizeof(columns), &npy, &error),
                     PTO_OK);
    assert_memory_equal(npy.data, rows, sizeof(rows));
    scene_npy_free(&npy);
}

static void refuses_what_is_not_a_file_of_ours(void **state)
{
    static const char *const headers[] = {
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 4)}",         /* data too short */
        "{'descr': '<f4', 'fortran_order': False, 'shape': (5,)}",           /* too long */
        "{'descr': '<c8', 'fortran_order': False, 'shape': (3,)}",           /* complex */
        "{'descr': '<U3', 'fortran_order': False, 'shape': (2,)}",           /* text */
        "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (6,)}",  /* records */
        "{'descr': '<f4', 'shape': (6,)}",                                   /* incomplete */
        "{'descr': '<f4', 'fortran_order': 0, 'shape': (6,)}",               /* no truth */
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,6)}",  /* six dimensions */
        "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999,)}", /* beyond 32 bits */
        "{'descr': '<f4', 'fortran_order': False, 'shape': (4294967295, 4294967295, 4294967295)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (6,), 'shape': (6,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (-6,)}",
        "{'descr': '', 'fortran_order': False, 'shape': (6,)}",
        "",
        "{",
    };
    static const char data[24];
    struct pto_error error;
    struct npy npy;

    (void)state;
    for (uint32_t i = 0; i < sizeof(headers) / sizeof(headers[0]); i++) {
        assert_int_equal(parse(1, headers[i], data, sizeof(data), &npy, &error), PTO_EFORMAT);
        assert_null(npy.file);
        assert_memory_equal(error.text, "it", 2);
    }
    assert_int_equal(parse(4, headers[0], data, sizeof(data), &npy, &error), PTO_EFORMAT);
    assert_int_equal(scene_npy_parse("it", calloc(1, 3), 3, &npy, &error), PTO_EFORMAT);
    assert_int_equal(scene_npy_read("/nonexistent/a.npy", &npy, &error), PTO_ESYSTEM);
    assert_int_equal(scene_npy_read("/", &npy, &error), PTO_EINVAL);
}

static void writes_what_it_reads(void **state)
{
    char path[] = "/tmp/test_npy.XXXXXX";
    uint8_t data[24];
    int file = mkstemp(path);

    (void)state;
    assert_true(file >= 0);
    close(file);
    for (uint32_t i = 0; i < sizeof(data); i++)
        data[i] = (uint8_t)(i * 7);
    for (uint32_t dtype = 0; dtype < PTO_DTYPE_COUNT; dtype++) {
        const uint32_t shapes[] = { 1, 3, 1, 1, 1 };
        struct pto_error error = { .size = sizeof(error) };
        struct npy npy;

        for (uint32_t ndims = 2; ndims <= 5; ndims++) {
            assert_int_equal(
                scene_npy_write(path, (enum pto_dtype)dtype, shapes, ndims, data, &error), PTO_OK);
            assert_int_equal(scene_npy_read(path, &npy, &error), PTO_OK);
            assert_int_equal((uintptr_t)((char *)npy.data - (char *)npy.file) % 64, 0);
            assert_int_equal(npy.ndims, ndims);
            assert_true(scene_npy_fits(&npy, (enum pto_dtype)dtype));
            assert_memory_equal(npy.data, data, 3 * pto_dtype_size(dtype));
            scene_npy_free(&npy);
        }
    }
    unlink(path);
    struct pto_error error = { .size = sizeof(error) };

    assert_int_equal(
        scene_npy_write("/nonexistent/a.npy", PTO_INT8, (const uint32_t[]){ 1 }, 1, data, &error),
        PTO_ESYSTEM);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_what_numpy_writes),
        cmocka_unit_test(turns_columns_into_rows_and_swaps_bytes),
        cmocka_unit_test(refuses_what_is_not_a_file_of_ours),
        cmocka_unit_test(writes_what_it_reads),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
