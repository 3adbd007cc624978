/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the host knows about the vendor's software without a card: meanings of its codes, versions
 * in the files of an installation, numbers of cards if some are hidden, and positions of core
 * registers.
 */
#include "cann/cann.h"

#include <sys/stat.h>

#include "tests/fixture/fixture.h"

/* ---- codes ---- */

static void codes_have_a_meaning_and_a_status(void **state)
{
    static const struct {
        int code, status;
    } known[] = {
        { 107001, PTO_EINVAL }, { 207000, PTO_ENOSUP }, { 207001, PTO_ENOMEM },
        { 507015, PTO_ELOST },  { 507018, PTO_ELOST },  { ACL_STREAM_NOT_DONE, PTO_ETIMEOUT },
        { 507899, PTO_ELOST },  { 13, PTO_EAGAIN },
    };

    (void)state;
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        assert_int_equal(vendor_status(known[i].code), known[i].status);
        assert_true(strlen(vendor_meaning(known[i].code)) > 3);
        assert_null(strstr(vendor_meaning(known[i].code), "without a published meaning"));
    }
    assert_int_equal(vendor_status(123456), PTO_ESYSTEM);
    assert_in(vendor_meaning(123456), "without a published meaning");
}

/* The same number may mean something else for the communication library. */
static void the_communication_library_has_codes_of_its_own(void **state)
{
    (void)state;
    assert_int_equal(vendor_hccl_status(9), PTO_ETIMEOUT);
    assert_int_equal(vendor_hccl_status(13), PTO_EPEER);
    assert_int_equal(vendor_hccl_status(4), PTO_ESYSTEM);
    assert_int_equal(vendor_status(4), PTO_EINVAL);
    assert_int_equal(vendor_hccl_status(507018), PTO_ESYSTEM);
    assert_in(vendor_hccl_meaning(507018), "without a published meaning");
}

/* ---- versions ---- */

/* Writes a file of the installation, and its folder. */
static void install(const char *inner, const char *file, const char *text)
{
    char path[160];
    FILE *to;

    snprintf(path, sizeof(path), "%s/%s", folder, inner);
    assert_true(mkdir(path, 0700) == 0 || access(path, F_OK) == 0);
    snprintf(path, sizeof(path), "%s/%s/%s", folder, inner, file);
    to = fopen(path, "w");
    assert_non_null(to);
    fputs(text, to);
    assert_int_equal(fclose(to), 0);
}

/* Loads an installation without libraries: it is refused with this message. */
static const char *refusal(struct pto_error *error)
{
    struct vendor vendor;

    setenv("ASCEND_HOME_PATH", folder, 1);
    pto_error_init(error);
    assert_int_equal(vendor_load(&vendor, error), PTO_ENOSUP);
    return error->text;
}

static void a_version_outside_of_the_known_ones_is_named(void **state)
{
    static const struct {
        const char *text, *word;
    } version[] = {
        /* too old, so the message is not about a missing library */
        { "version_dir=7.0.1\n", "CANN 7.0.1" },
        { "other=1\nversion_dir=8.4.9\r\n", "CANN 8.4.9" },
        { "version_dir=10.0.0\n", "CANN 10.0.0" },   /* too new */
        { "version_dir=8.5.0\n", "libascendcl.so" }, /* a known version: a library is missing */
        { "version_dir=9.2.0\n", "libascendcl.so" },
        /* not a number, so the functions of the libraries decide */
        { "version_dir=unknown\n", "libascendcl.so" },
    };
    struct pto_error error;

    (void)state;
    for (size_t i = 0; i < sizeof(version) / sizeof(version[0]); i++) {
        install("runtime", "version.info", version[i].text);
        assert_in(refusal(&error), version[i].word);
    }
    install("runtime", "version.info", "version_dir=10.0.0\n");
    setenv("PTO_CANN_ANY_VERSION", "1", 1);
    assert_in(refusal(&error), "libascendcl.so");
    unsetenv("PTO_CANN_ANY_VERSION");
}

/* The file of the run-time package takes precedence over that of the toolkit. */
static void versions_are_in_several_files(void **state)
{
    struct pto_error error;

    (void)state;
    install("runtime", "version.info", "nothing\n");
    install(".", "ascend_toolkit_install.info",
            "package_name=Ascend-cann-toolkit\nversion=6.3.0\n");
    assert_in(refusal(&error), "CANN 6.3.0");
    install("compiler", "version.info", "version_dir=5.1.0\n");
    assert_in(refusal(&error), "CANN 5.1.0");
}

static void without_an_installation_the_variable_is_named(void **state)
{
    struct pto_error error;
    struct vendor vendor;

    (void)state;
    unsetenv("ASCEND_HOME_PATH");
    pto_error_init(&error);
    assert_int_equal(vendor_load(&vendor, &error), PTO_ENOSUP);
    assert_in(error.text, "ASCEND_HOME_PATH");
}

/* ---- cards ---- */

static void hidden_cards_shift_the_numbers_of_others(void **state)
{
    (void)state;
    unsetenv("ASCEND_RT_VISIBLE_DEVICES");
    assert_int_equal(vendor_driver_card(5), 5);
    assert_int_equal(vendor_own_card(5), 5);
    setenv("ASCEND_RT_VISIBLE_DEVICES", "6,2,11", 1);
    assert_int_equal(vendor_driver_card(0), 6);
    assert_int_equal(vendor_driver_card(2), 11);
    assert_int_equal(vendor_own_card(2), 1);
    assert_int_equal(vendor_own_card(0), -1);
    assert_int_equal(vendor_driver_card(3), 3); /* hidden: the vendor refuses it */
    unsetenv("ASCEND_RT_VISIBLE_DEVICES");
}

/* ---- generations ---- */

enum { MIB = 1 << 20 };
#define REGISTERS 0x100000000ull

static uint64_t cores_there[2];
static int busy_left;

static int map_all(int type, void *in, size_t in_bytes, void *out, size_t *out_bytes)
{
    (void)type, (void)in, (void)in_bytes, (void)out_bytes;
    if (busy_left-- > 0)
        return 13;
    ((struct vendor_map_out *)out)->at = REGISTERS;
    return 0;
}

static int report_cores(uint32_t device, int32_t module, int32_t info, void *at, int32_t *bytes)
{
    (void)device, (void)module, (void)info;
    assert_int_equal(*bytes, sizeof(cores_there));
    memcpy(at, cores_there, sizeof(cores_there));
    return 0;
}

static int map_core(unsigned device, struct vendor_resource *resource, unsigned long *at,
                    unsigned *bytes)
{
    (void)device;
    *at = REGISTERS + resource->id * 16ull * MIB;
    return *bytes == 3 * MIB ? 0 : 107000;
}

static void a_cluster_of_a2a3_has_8_mib_of_registers(void **state)
{
    const struct cann_generation *g = cann_generation_find("a2a3");
    struct vendor v = { .halMemCtl = map_all, .halGetDeviceInfoByBuff = report_cores };
    uint64_t base[75] = { 0 };
    const char *call = NULL;

    (void)state;
    v.call_ms = 60000;
    cores_there[0] = ~(1ull << 3); /* a cluster of this generation lacks its fourth core */
    busy_left = 1;                 /* it is tried again */
    assert_int_equal(g->map_windows(&v, 0, 25, base, &call), 0);
    assert_int_equal(base[0], REGISTERS);
    assert_int_equal(base[24], REGISTERS + 24 * 8ull * MIB);
    assert_int_equal(base[25], REGISTERS + MIB);
    assert_int_equal(base[25 + 2 * 24 + 1], REGISTERS + 24 * 8ull * MIB + 2 * MIB);
    assert_int_equal(base[3], 0);
    assert_int_equal(base[25 + 6], 0);
    busy_left = 1000; /* for good */
    assert_int_equal(g->map_windows(&v, 0, 25, base, &call), 13);
    assert_string_equal(call, "halMemCtl");
}

static void cores_of_a5_are_numbered_die_by_die(void **state)
{
    const struct cann_generation *g = cann_generation_find("a5");
    struct vendor v = { .halResMap = map_core };
    uint64_t base[108] = { 0 };
    const char *call = NULL;

    (void)state;
    v.call_ms = 60000;
    assert_int_equal(g->map_windows(&v, 0, 36, base, &call), 0);
    assert_int_equal(base[17], REGISTERS + 17 * 16ull * MIB); /* the last cube of a die */
    assert_int_equal(base[18], REGISTERS + MIB);              /* its first vector */
    assert_int_equal(base[54], REGISTERS + 18 * 16ull * MIB); /* the other die's cube */
    assert_int_equal(base[107], REGISTERS + 35 * 16ull * MIB + 2 * MIB);
}

static void generations_are_found_by_name(void **state)
{
    (void)state;
    assert_null(cann_generation_find(NULL));
    assert_null(cann_generation_find("a2"));
    assert_null(cann_generation_find("a2a3sim"));
    assert_string_equal(cann_generation_find("a2a3")->name, "a2a3");
    assert_int_equal(cann_generation_find("a5")->cores * 3, BOARD_CORES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(codes_have_a_meaning_and_a_status),
        cmocka_unit_test(the_communication_library_has_codes_of_its_own),
        cmocka_unit_test_setup_teardown(a_version_outside_of_the_known_ones_is_named, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(versions_are_in_several_files, make_folder, remove_folder),
        cmocka_unit_test(without_an_installation_the_variable_is_named),
        cmocka_unit_test(hidden_cards_shift_the_numbers_of_others),
        cmocka_unit_test(a_cluster_of_a2a3_has_8_mib_of_registers),
        cmocka_unit_test(cores_of_a5_are_numbered_die_by_die),
        cmocka_unit_test(generations_are_found_by_name),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
