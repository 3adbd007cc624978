/* SPDX-License-Identifier: Apache-2.0 */
/* Run options on the chips of a worker: each task may have different options. */
#include "tree/tree.h"

#include "tests/fixture/tree_test.h"

/* All of its tasks are in one scope. */
static const char five_text[] =
    "#include <pto/orch.h>\n"
    "void orchestrate(struct pto_orch *o, const struct pto_entry *e)\n"
    "{\n"
    "    for (int i = 0; i < 5; i++)\n"
    "        pto_aiv(o, 0, PTO_IN(&e->tensor[0]), PTO_IN(&e->tensor[1]),\n"
    "                PTO_WRITE(&e->tensor[2]), PTO_INT(TAG));\n"
    "}\n";

struct five {
    struct one one;
    const struct pto_run_options *options[3]; /* of each task */
    int status;                               /* of setting them */
};

static void submit_five(struct pto_level *level, void *context)
{
    struct five *f = context;

    for (int i = 0; i < 3 && f->status >= 0; i++) {
        f->status = pto_level_set_run_options(level, f->options[i]);
        submit_one(level, &f->one);
    }
}

static uint32_t count_allocations(void)
{
    int status;

    return worker_get(worker, &status)->allocation_count;
}

static bool is_written(const char *name)
{
    char path[600];

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    return access(path, R_OK) == 0;
}

/*
 * A ring of four slots has no room for five tasks of one scope: only the task with that option
 * fails.
 */
static void each_task_has_options_of_its_own(void **state)
{
    struct recipe recipe = make_recipe(ADD);
    struct bytes artefact;
    struct pto_run_options small, recorded, wrong;
    struct five f = { .one = { .count = 3, .children = PTO_ON(0) }, .options = { NULL } };
    char here[600];
    int *number[3];
    uint32_t before;

    (void)state;
    free(recipe.orchestration_bytes.at);
    recipe.orchestration_bytes = compile(five_text, ADD);
    recipe.parts.orchestration = recipe.orchestration_bytes.at;
    recipe.parts.orchestration_size = recipe.orchestration_bytes.size;
    artefact = make_artefact(&recipe);
    free_recipe(&recipe);
    open_worker(1, 0);
    before = count_allocations();
    f.one.callable = register_bytes(artefact, PTO_CHILD_CHIP, NULL);
    free(artefact.at);
    for (int i = 0; i < 3; i++) {
        number[i] = make_numbers();
        f.one.tensor[i] = numbers(number[i]);
    }
    pto_run_options_init(&small);
    for (int i = 0; i < PTO_RINGS; i++)
        small.rings.task_window[i] = 4;
    /* a relative folder is relative to this process, not to the child */
    pto_run_options_init(&recorded);
    recorded.mode = PTO_MODE_HOST;
    recorded.diagnostics = (struct pto_diagnostics){ .folder = "told/here", .has_deps = true };
    f.options[1] = &recorded;
    assert_non_null(getcwd(here, sizeof(here)));
    assert_int_equal(chdir(folder), 0);
    for (int i = 0; i < COUNT; i++) {
        number[0][i] = 7 * i;
        number[1][i] = i;
    }
    run_well(submit_five, &f);
    assert_int_equal(chdir(here), 0);
    assert_int_equal(number[2][COUNT - 1], 8 * (COUNT - 1));
    assert_true(is_written("told/here/deps.json"));

    f.options[1] = NULL;
    f.options[2] = &small;
    assert_int_equal(run(submit_five, &f), PTO_ESCOPE_DEADLOCK);
    assert_int_equal(run_report.done, 2);
    assert_int_equal(run_report.failed, 1);
    f.options[2] = NULL; /* they do not outlive their run */
    run_well(submit_five, &f);

    wrong = small;
    wrong.mode = (enum pto_mode)99;
    f.options[0] = &wrong;
    assert_int_equal(run(submit_five, &f), PTO_EINVAL);
    assert_non_null(strstr(run_report.error.text, "mode of the options is 99"));
    wrong.trace = PTO_TRACE_TIMES;
    assert_int_equal(run(submit_five, &f), PTO_ENOSUP);
    assert_int_equal(f.status, PTO_ENOSUP);
    assert_non_null(strstr(run_report.error.text, "the option trace is not supported"));
    assert_int_equal(pto_level_set_run_options(NULL, NULL), PTO_EINVAL);
    assert_int_equal(count_allocations(), before + 3);
    close_worker();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(each_task_has_options_of_its_own),
    };

    alarm(HANG_SECONDS);
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
