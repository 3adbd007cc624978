/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kernel_config.py and compiled_meta.json: what the Python reader accepts, what a valid folder
 * means, and place and message for each kind of error.
 */

#include "tool/scene/python.h"
#include "tool/scene/scene_config.h"
#include "tests/fixture/fixture.h"

#define FILE_NAME "/a/b/kernel_config.py"

/* One assignment, `x`. */
static const struct node *read_value(const char *text, struct document **document_out)
{
    struct pto_error error = { .size = sizeof(error) };

    if (scene_python_read(FILE_NAME, text, strlen(text), document_out, &error) < 0)
        fail_msg("%s in: %s", error.text, text);
    return scene_document_find(scene_document_root(*document_out), "x");
}

static void expect_text(const char *text, const char *want, bool is_plain)
{
    struct document *document;
    const struct node *x = read_value(text, &document);

    assert_non_null(x);
    assert_int_equal(x->kind, NODE_TEXT);
    if (strcmp(x->text, want) != 0 || x->is_plain != is_plain)
        fail_msg("'%s' instead of '%s' in: %s", x->text, want, text);
    scene_document_free(document);
}

static void expect_refusal(const char *text, const char *place, const char *phrase)
{
    struct pto_error error = { .size = sizeof(error) };
    struct document *document;
    char begin[64];

    snprintf(begin, sizeof(begin), FILE_NAME ":%s: ", place);
    if (scene_python_read(FILE_NAME, text, strlen(text), &document, &error) == PTO_OK)
        fail_msg("taken: %s", text);
    if (strncmp(error.text, begin, strlen(begin)) != 0 || strstr(error.text, phrase) == NULL)
        fail_msg("'%s' instead of '%s' and '%s' in: %s", error.text, begin, phrase, text);
}

static void reads_texts_and_numbers(void **state)
{
    static const struct {
        const char *text, *want;
        bool is_plain;
    } values[] = {
        { "x = 'a'", "a", false },
        { "x = \"a'b\" 'c'", "a'bc", false },
        { "x = ('a'\n  # said twice\n  'b')", "ab", false },
        { "x = r'a\\n\\''", "a\\n\\'", false },
        { "x = u'\\x41\\u00e9\\101\\n\\q'",
          "A\xc3\xa9"
          "A\n\\q",
          false },
        { "x = '''a\n'b'\n'''", "a\n'b'\n", false },
        { "x = 'a\\\nb'", "ab", false },
        { "x = 'a' + 'b' + \"c\"", "abc", false },
        { "x = 12", "12", true },
        { "x = -1_000", "-1000", true },
        { "x = 0x1F", "31", true },
        { "x = 0b101", "5", true },
        { "x = 0o17", "15", true },
        { "x = 1e-5", "1e-5", true },
        { "x = - 2.5", "-2.5", true },
        { "x = True # yes", "True", true },
        { "x: bool = None", "None", true },
        { "y = 'a'\nx = y", "a", false },
        { "x = 1\r\nx = 2\r\n", "2", true },
        { "\"\"\"about\n\nit\"\"\"\nx = \\\n 3\n", "3", true },
        { "\xef\xbb\xbfx = 1", "1", true },
    };

    (void)state;
    for (uint32_t i = 0; i < sizeof(values) / sizeof(values[0]); i++)
        expect_text(values[i].text, values[i].want, values[i].is_plain);
}

static void computes_paths_from_its_own(void **state)
{
    static const char *const values[][2] = {
        { "from pathlib import Path\nx = str(Path(__file__).parent / 'k' / \"a.cpp\")",
          "/a/b/k/a.cpp" },
        { "import pathlib as p\nx = p.Path(__file__).resolve().parents[1] / 'c'", "/a/c" },
        { "from pathlib import Path as P\nROOT: P = P(__file__).absolute().parent\nx = "
          "ROOT.joinpath('k', 'a').as_posix()",
          "/a/b/k/a" },
        { "import os\nx = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'k', 'a.cpp')",
          "/a/b/k/a.cpp" },
        { "import os.path\nfrom os import path\nx = path.join(path.dirname(__file__), '/k')",
          "/k" },
        { "from os.path import (join, realpath as real,)\nx = join(real('k'), 'a')", "/a/b/k/a" },
        { "from pathlib import Path\nx = Path('a', 'b') / '..' / Path('c')", "a/b/../c" },
        { "from pathlib import Path\nx = Path('/').parent", "/" },
    };

    (void)state;
    for (uint32_t i = 0; i < sizeof(values) / sizeof(values[0]); i++)
        expect_text(values[i][0], values[i][1], false);
}

static void reads_lists_and_dicts(void **state)
{
    static const char text[] = "from somewhere import ArgDirection as _D\n"
                               "base = [_D.IN] * 2 + [_D.OUT,]\n"
                               "one = {'n': 1, \"s\": base}\n"
                               "x = [one, ('a',), (), {}, [True]]\n";
    struct document *document;
    const struct node *x = read_value(text, &document), *signature;

    (void)state;
    assert_int_equal(x->kind, NODE_LIST);
    assert_int_equal(x->count, 5);
    assert_int_equal(x->part->kind, NODE_MAP);
    signature = scene_document_find(x->part, "s");
    assert_int_equal(signature->count, 3);
    assert_string_equal(signature->part->text, "IN");
    assert_true(signature->part->is_plain);
    assert_string_equal(signature->part->next->next->text, "OUT");
    assert_null(signature->part->next->next->next);
    assert_int_equal(x->part->next->kind, NODE_LIST);
    assert_int_equal(x->part->next->count, 1);
    assert_int_equal(scene_document_find(scene_document_root(document), "base")->count, 3);
    assert_null(scene_document_find(scene_document_root(document), "_D"));
    scene_document_free(document);
}

static void refuses_the_rest_of_python(void **state)
{
    static const char *const wrong[][3] = {
        { "import os\nos.system('reboot')\n", "2:3", "only imports and assignments" },
        { "import os\nx = os.system('reboot')\n", "2:5", "os.system cannot be called" },
        { "x = open('f').read()\n", "1:5", "'open' is not assigned above this line" },
        { "x = __import__('os')\n", "1:5", "'__import__' is not assigned above this line" },
        { "from os import system as str\nx = str('a')\n", "2:5", "os.system cannot be called" },
        { "def f():\n    return 1\n", "1:5", "only imports and assignments" },
        { "if True:\n    x = 1\n", "1:4", "only imports and assignments" },
        { "    x = 1\n", "1:5", "indented" },
        { "x = [i for i in y]\n", "1:6", "'i' is not assigned above this line" },
        { "x = [1 for]\n", "1:8", "expected a comma" },
        { "x = 1 if 2 else 3\n", "1:7", "should end here" },
        { "x = lambda: 1\n", "1:5", "'lambda' is not assigned above this line" },
        { "x = f'{1}'\n", "1:5", "texts with the prefix f" },
        { "x = b'a'\n", "1:5", "texts with the prefix b" },
        { "x = '\\N{DASH}'\n", "1:8", "characters by name" },
        { "x = '\\x00'\n", "1:10", "control characters" },
        { "x = '\\ud800'\n", "1:12", "no such character" },
        { "x = '\\xq1'\n", "1:8", "expected 2 digits" },
        { "x = 'a\n", "1:7", "does not end" },
        { "x = '''a\n", "2:1", "does not end" },
        { "x = {'a': 1, 'a': 2}\n", "1:14", "duplicate key 'a'" },
        { "x = {1: 2}\n", "1:6", "a key must be a text" },
        { "x = {'a', 'b'}\n", "1:9", "the colon after a key" },
        { "x = [1, 2\n", "2:1", "expected a comma" },
        { "x = 12345678901234567890\n", "1:5", "not a number" },
        { "x = 007\n", "1:5", "not a number" },
        { "x = 1e999\n", "1:5", "not a number" },
        { "x = -y\n", "1:5", "not a number" },
        { "x += 1\n", "1:3", "only imports and assignments" },
        { "x == 1\n", "1:3", "only imports and assignments" },
        { "x, y = 1, 2\n", "1:2", "only imports and assignments" },
        { "x = 1; y = 2\n", "1:6", "should end here" },
        { "x = y = 1\n", "1:5", "'y' is not assigned above this line" },
        { "x = 'a' / 'b'\n", "1:5", "`/` is for a path" },
        { "x = 'a'.join('b')\n", "1:13", "'.join' is not supported here" },
        { "x = 'a' * 3\n", "1:5", "`*` is for a list" },
        { "x = [0] * 100000\n", "1:5", "`*` is for a list" },
        { "x = 1 + 2\n", "1:5", "`+` is for two texts" },
        { "from x import *\n", "1:15", "expected a name" },
        { "from x import a\nx = [a]\n", "2:6", "'x.a' is not data" },
        { "import enum\nx = [enum.IN]\n", "2:6", "'enum.IN' is not data" },
        { "from x import ArgDirection as D\nx = [D.ALL]\n", "2:6", "is not data" },
        { "from pathlib import Path\nx = Path(1)\n", "2:10", "expected a text or a path" },
        { "x = str()\n", "1:5", "str needs an argument" },
        { "x = str('a', 'b')\n", "1:14", "too many arguments" },
        { "x =\n", "1:4", "expected a value" },
        { "\x01\n", "1:1", "expected a name" },
    };

    (void)state;
    for (uint32_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        expect_refusal(wrong[i][0], wrong[i][1], wrong[i][2]);
}

/* Repeats a line many times after some others. */
static void expect_bound(const char *begin, const char *line, uint32_t times, const char *phrase)
{
    size_t bytes = strlen(begin) + times * strlen(line) + 1;
    char *text = malloc(bytes), *end = text;
    struct pto_error error = { .size = sizeof(error) };
    struct document *document;

    assert_non_null(text);
    end += sprintf(end, "%s", begin);
    for (uint32_t i = 0; i < times; i++)
        end += sprintf(end, "%s", line);
    assert_int_equal(scene_python_read(FILE_NAME, text, bytes - 1, &document, &error), PTO_EINVAL);
    if (strstr(error.text, phrase) == NULL)
        fail_msg("no '%s' in '%s'", phrase, error.text);
    free(text);
}

static void is_bounded(void **state)
{
    (void)state;
    expect_bound("x = ", "[", 40, "nested too deeply");
    expect_bound("x = ", "str(", 40, "nested too deeply");
    expect_bound("x = 'abcdefgh'\n", "x = x + x\n", 64, "longer than");
    expect_bound("x = [1, 2, 3, 4]\n", "x = x + x\n", 64, "more than 65536 values");
    expect_bound("x = [1, 2, 3, 4]\n", "x = x * 50\n", 64, "more than 65536 values");
    expect_bound("", "x = 'a very long line, again and again and again'\n", 1 << 15, "larger than");
    expect_bound("from pathlib import Path\nx = Path('a')\n", "x = x / x\n", 64, "longer than");
}

/* ---- folders ---- */

#define HEAD                                                                                \
    "from pathlib import Path\nfrom simpler.task_interface import ArgDirection as _D\nR = " \
    "Path(__file__).parent\n"
#define ORCH "ORCHESTRATION = {'source': str(R / 'o.cpp'), 'function_name': 'entry'}\n"
#define KERNEL "{'func_id': 0, 'name': 'k', 'source': 'k.cpp', 'core_type': 'aiv'}"

static int parse(const char *config, const char *meta, struct scene **scene_out,
                 struct pto_error *error)
{
    const struct scene_config_texts texts = { config, strlen(config), meta,
                                              meta != NULL ? strlen(meta) : 0 };

    pto_error_init(error);
    return scene_config_parse("/f", &texts, scene_out, error);
}

static void a_folder_is_a_scene(void **state)
{
    static const char config[] = HEAD
        "RUNTIME_CONFIG = {'runtime': 'host_build_graph', 'aicpu_thread_num': 4, 'enable_sdma': "
        "False}\n"
        "ORCHESTRATION = {'source': str(R / 'orchestration' / 'main.cpp'), 'function_name': "
        "'aicpu_orchestration_entry', 'signature': [_D.IN, _D.INOUT]}\n"
        "KERNELS = [\n"
        "\t{\"func_id\": 2, \"name\": \"mm\", \"source\": str(R / \"mm.cpp\"), \"core_type\": "
        "\"aic\", 'signature': [_D.IN]},\n"
        "\t{\"func_id\": 1, \"name\": \"ext\", \"source\": '/e/x.cpp', \"core_type\": \"aiv\", "
        "\"external\": True, \"extra_include_dirs\": ['/i', 'j']},\n"
        "]\n";
    static const char meta[] =
        "{\"schema\": 1, \"params\": [\n"
        "{\"name\": \"a\", \"direction\": \"In\", \"shape\": [4, -1], \"dtype\": \"bfloat16\"},\n"
        "{\"name\": \"s\", \"direction\": \"In\", \"shape\": null, \"dtype\": \"fp16\"},\n"
        "{\"name\": \"b\", \"direction\": \"Out\", \"shape\": [], \"dtype\": \"index\"},\n"
        "{\"name\": \"t\", \"direction\": \"In\", \"shape\": null, \"dtype\": \"bool\"}],\n"
        "\"num_return_types\": 0, \"platform\": null, \"backend_type\": \"Ascend950\"}\n";
    struct pto_error error;
    struct scene *s;

    (void)state;
    if (parse(config, meta, &s, &error) < 0)
        fail_msg("%s", error.text);
    assert_string_equal(s->name, "main");
    assert_string_equal(s->entry, "aicpu_orchestration_entry");
    assert_string_equal(s->orchestration.path, "/f/orchestration/main.cpp");
    assert_int_equal(s->deps, PTO_DEPS_DEFAULT);
    assert_int_equal(s->test_case->modes, 1u << PTO_MODE_HOST);
    assert_int_equal(s->kernel_count, 2);
    assert_int_equal(s->kernel[0].id, 2);
    assert_int_equal(s->kernel[0].core, PTO_CORE_AIC);
    assert_string_equal(s->kernel[1].source.path, "/e/x.cpp");
    assert_string_equal(s->kernel[1].source.include.text[1], "/f/j");
    assert_int_equal(s->argument_count, 2);
    assert_string_equal(s->argument[0].name, "a");
    assert_int_equal(s->argument[0].dtype, PTO_BFLOAT16);
    assert_string_equal(s->argument[0].shape[1].factor[0].param, "a_1");
    assert_int_equal(s->argument[1].direction, PTO_DIR_INOUT); /* as the signature says */
    assert_int_equal(s->argument[1].dtype, PTO_INT64);
    assert_int_equal(s->argument[1].ndims, 1);
    assert_int_equal(s->scalar_count, 2);
    assert_int_equal(s->scalar[0].type, SCENE_FLOAT32);
    assert_true(s->scalar[0].is_open);
    assert_int_equal(s->scalar[1].bytes, 1);
    assert_int_equal(s->test_case->platform_count, 1);
    assert_string_equal(s->test_case->platform[0], "a5sim");
    assert_false(s->is_untyped);

    assert_int_equal(scene_config_give_scalars(s, (const char *const[]){ "0.5", "256" }, 2, &error),
                     PTO_EINVAL);
    assert_non_null(strstr(error.text, "fits the type of 't'"));
    assert_int_equal(scene_config_give_scalars(s, (const char *const[]){ "0.5" }, 1, &error),
                     PTO_EINVAL);
    assert_int_equal(scene_config_give_scalars(s, (const char *const[]){ "0.5", "1" }, 2, &error),
                     PTO_OK);
    assert_false(s->scalar[1].is_open);
    scene_close(s);
}

static void without_metadata_arguments_have_numbers(void **state)
{
    static const char config[] = HEAD "ORCHESTRATION = {'source': 'o.cpp', 'function_name': 'e', "
                                      "'signature': [_D.IN, _D.OUT]}\nKERNELS = []\n";
    struct pto_error error;
    struct scene *s;

    (void)state;
    if (parse(config, NULL, &s, &error) < 0)
        fail_msg("%s", error.text);
    assert_true(s->is_untyped);
    assert_int_equal(s->argument_count, 2);
    assert_string_equal(s->argument[1].name, "1");
    assert_int_equal(s->argument[1].direction, PTO_DIR_OUT);
    assert_int_equal(s->test_case->modes, 1u << PTO_MODE_STREAM);
    scene_close(s);
}

static void refuses_wrong_folders(void **state)
{
    static const char *const configs[][2] = {
        { HEAD "KERNELS = []\n", "/f/kernel_config.py:1:1: ORCHESTRATION is missing" },
        { HEAD ORCH, "KERNELS is missing" },
        { HEAD ORCH "KERNELS = [{'func_id': 0, 'name': '../k', 'source': 'k.cpp', 'core_type': "
                    "'aiv'}]\n",
          "'../k' is not a name" },
        { HEAD ORCH "KERNELS = {}\n", ":5:11: expected a list of dicts" },
        { HEAD ORCH "KERNELS = [" KERNEL ", " KERNEL "]\n", "duplicate kernel id 0" },
        { HEAD ORCH "KERNELS = [{'func_id': 0}]\n", "an entry of KERNELS needs 'name'" },
        { HEAD ORCH "KERNELS = []\nRUNTIME_CONFIG = {'runtime': 'aicpu_build_graph'}\n",
          "unknown runtime 'aicpu_build_graph'" },
        { HEAD ORCH "KERNELS = []\nRUNTIME_CONFIG = {'enable_sdma': True}\n",
          "enable_sdma needs the DMA engine of a real chip" },
        { HEAD ORCH "KERNELS = []\nRUNTIME_CONFIG = {'enable_sdma': 1}\n",
          "expected True or False" },
        { HEAD ORCH "KERNELS = []\nRUNTIME_CONFIG = {'turbo': 1}\n",
          "RUNTIME_CONFIG has no key 'turbo'" },
        { HEAD "ORCHESTRATION = {'source': 5, 'function_name': 'e'}\nKERNELS = []\n",
          "expected a text in quotes" },
        { HEAD "ORCHESTRATION = {'source': 'o.py', 'function_name': 'e'}\nKERNELS = []\n",
          "must end in .c, .cc" },
        { HEAD "ORCHESTRATION = {'source': 'o.cpp', 'function_name': 'e', 'signature': "
               "['IN']}\nKERNELS = []\n",
          "expected a member of ArgDirection" },
        { HEAD "ORCHESTRATION = {'source': 'o.cpp', 'function_name': 'e', 'signature': "
               "[_D.SCALAR]}\nKERNELS = []\n",
          "tensors only" },
        { HEAD ORCH "KERNELS = [{'func_id': 0, 'name': 'k', 'source': 'k.cpp', 'core_type': "
                    "'gpu'}]\n",
          "core must be aic or aiv, not 'gpu'" },
    };
    static const char *const metas[][2] = {
        { "[]", "compiled_meta.json:1:1: compiled_meta.json must be a mapping" },
        { "{\"schema\": 2, \"params\": []}", "schema 2 is not known" },
        { "{\"schema\": 1, \"params\": [{\"name\": \"a\", \"direction\": \"in\", \"shape\": [1], "
          "\"dtype\": \"fp32\"}]}",
          "direction must be In, Out or InOut" },
        { "{\"schema\": 1, \"params\": [{\"name\": \"a\", \"direction\": \"In\", \"shape\": [1], "
          "\"dtype\": \"fp8e5m2\"}]}",
          "tensors of type 'fp8e5m2' are not supported" },
        { "{\"schema\": 1, \"params\": [{\"name\": \"a\", \"direction\": \"In\", \"shape\": null, "
          "\"dtype\": \"fp4\"}]}",
          "scalars of type 'fp4' are not supported" },
        { "{\"schema\": 1, \"params\": [{\"name\": \"a\", \"direction\": \"In\", \"shape\": "
          "[1,1,1,1,1,1], \"dtype\": \"fp32\"}]}",
          "at most 5 sizes" },
        { "{\"schema\": 1}", "needs 'params'" },
        { "{\"schema\": 1, \"params\": [1, ]", "compiled_meta.json" },
    };
    struct scene *s;
    struct pto_error error;

    (void)state;
    for (uint32_t i = 0; i < sizeof(configs) / sizeof(configs[0]); i++)
        if (parse(configs[i][0], NULL, &s, &error) != PTO_EINVAL ||
            strstr(error.text, configs[i][1]) == NULL)
            fail_msg("'%s' instead of '%s'", error.text, configs[i][1]);
    for (uint32_t i = 0; i < sizeof(metas) / sizeof(metas[0]); i++)
        if (parse(HEAD ORCH "KERNELS = []\n", metas[i][0], &s, &error) != PTO_EINVAL ||
            strstr(error.text, metas[i][1]) == NULL)
            fail_msg("'%s' instead of '%s'", error.text, metas[i][1]);
    assert_int_equal(
        parse(HEAD "ORCHESTRATION = {'source': 'o.cpp', 'function_name': 'e', 'signature': "
                   "[_D.IN]}\nKERNELS = []\n",
              "{\"schema\": 1, \"params\": []}", &s, &error),
        PTO_EINVAL);
    assert_non_null(strstr(error.text, "not of the same program"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_texts_and_numbers),
        cmocka_unit_test(computes_paths_from_its_own),
        cmocka_unit_test(reads_lists_and_dicts),
        cmocka_unit_test(refuses_the_rest_of_python),
        cmocka_unit_test(is_bounded),
        cmocka_unit_test(a_folder_is_a_scene),
        cmocka_unit_test(without_metadata_arguments_have_numbers),
        cmocka_unit_test(refuses_wrong_folders),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
