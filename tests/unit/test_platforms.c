/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of platforms and core types: no name twice, each found by its name, no gaps. */

#include "base/platforms.h"
#include "chip/backend.h"
#include "pto/build.h"
#include "tests/fixture/fixture.h"

static void a_platform_is_found_by_its_name_only(void **state)
{
    const struct pto_platform *platform;

    (void)state;
    for (uint32_t i = 0; (platform = pto_platform_at(i)) != NULL; i++) {
        assert_ptr_equal(pto_platform_find(platform->name), platform);
        assert_ptr_equal(&platform_find(platform->name)->view, platform);
    }
    assert_null(pto_platform_find("a2a3sim "));
    assert_null(pto_platform_find(""));
    assert_null(pto_platform_find(NULL));
    assert_null(pto_platform_at(UINT32_MAX));
}

static void a_platform_is_a_generation_on_a_backend(void **state)
{
    const struct pto_platform *platform, *other;

    (void)state;
    for (uint32_t i = 0; (platform = pto_platform_at(i)) != NULL; i++) {
        size_t length = strlen(platform->generation);

        assert_memory_equal(platform->name, platform->generation, length);
        assert_string_equal(platform->name + length, platform->is_simulated ? "sim" : "");
        assert_in_range(platform->clusters, 1, platform->clusters_max);
        assert_in_range(platform->clusters_max, 1, PTO_CORES_MAX / PTO_CLUSTER_CORES);
        for (uint32_t k = 0; k < i && (other = pto_platform_at(k)) != NULL; k++) {
            assert_string_not_equal(platform->name, other->name);
            if (strcmp(platform->generation, other->generation) != 0)
                continue;
            assert_string_not_equal(platform->backend, other->backend);
            assert_int_equal(platform->clusters_max, other->clusters_max);
        }
    }
}

static bool has_backend(const char *name)
{
    const struct chip_backend *backend;

    for (uint32_t i = 0; (backend = chip_backend_at(i)) != NULL; i++)
        if (strcmp(backend->name, name) == 0)
            return true;
    return false;
}

/* A platform that cannot be opened has a reason. */
static void every_platform_has_a_backend(void **state)
{
    const struct pto_platform *platform;

    (void)state;
    for (uint32_t i = 0; (platform = pto_platform_at(i)) != NULL; i++) {
        assert_true(has_backend(platform->backend));
        assert_true(platform->missing == NULL || platform->missing[0] != '\0');
    }
}

static void the_first_platform_is_the_default(void **state)
{
    struct pto_device_params device;
    struct pto_build_params build;

    (void)state;
    pto_device_params_init(&device);
    pto_build_params_init(&build);
    assert_string_equal(device.platform, pto_platform_at(0)->name);
    assert_string_equal(build.platform, pto_platform_at(0)->name);
    assert_null(pto_platform_at(0)->missing);
}

static void a_build_for_an_unknown_platform_names_the_others(void **state)
{
    const struct pto_source source = { .path = "orch.c", .kind = PTO_SOURCE_ORCHESTRATION };
    struct pto_build_params params;
    struct pto_error error = { .size = sizeof(error) };
    void *bytes;
    size_t size;

    (void)state;
    pto_build_params_init(&params);
    params.platform = "a7";
    params.sources = &source;
    params.source_count = 1;
    assert_int_equal(pto_build(&params, &bytes, &size, &error), PTO_EINVAL);
    assert_non_null(strstr(error.text, "there is no platform 'a7'; there are:"));
    for (uint32_t i = 0; pto_platform_at(i) != NULL; i++)
        assert_non_null(strstr(error.text, pto_platform_at(i)->name));
}

static void compilers_know_the_cores_of_every_platform(void **state)
{
    (void)state;
    for (uint32_t i = 0; pto_platform_at(i) != NULL; i++) {
        const struct platform *platform = platform_find(pto_platform_at(i)->name);

        for (uint32_t core = 0; core < PTO_CORE_TYPES; core++)
            assert_non_null(platform->core_arch[core]);
        assert_string_not_equal(platform->core_arch[PTO_CORE_AIC],
                                platform->core_arch[PTO_CORE_AIV]);
        assert_non_null(platform->core_flags);
    }
}

static void the_cores_of_a_cluster_add_up(void **state)
{
    (void)state;
    assert_int_equal(PTO_CLUSTER_AICS + PTO_CLUSTER_AIVS, PTO_CLUSTER_CORES);
    assert_string_equal(pto_core_name(PTO_CORE_AIC), "aic");
    assert_string_equal(pto_core_name(PTO_CORE_AIV), "aiv");
    assert_string_equal(pto_core_name(PTO_CORE_TYPES), "any");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_platform_is_found_by_its_name_only),
        cmocka_unit_test(a_platform_is_a_generation_on_a_backend),
        cmocka_unit_test(every_platform_has_a_backend),
        cmocka_unit_test(the_first_platform_is_the_default),
        cmocka_unit_test(a_build_for_an_unknown_platform_names_the_others),
        cmocka_unit_test(compilers_know_the_cores_of_every_platform),
        cmocka_unit_test(the_cores_of_a_cluster_add_up),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
