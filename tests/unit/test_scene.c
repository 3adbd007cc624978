/* SPDX-License-Identifier: Apache-2.0 */
/* scene.yaml: what a valid file means, and place and message for each kind of error. */

#include "tool/scene/scene.h"
#include "tool/scene/scene_ranks.h"
#include "tests/fixture/fixture.h"

#define HEAD "name: x\norchestration: o.c\n"
#define TAIL                                                                           \
    "arguments:\n  - { name: f, direction: out, type: float32, shape: [n] }\ngolden: " \
    "g.c\nparams: { n: 4 }\n"

static void reads_everything_that_may_stand_there(void **state)
{
    static const char text[] =
        "# a comment\n"
        "name: all-of.it\n"
        "summary: \"with: a colon\"\n"
        "params: { n: 8, k: -3 }\n"
        "platforms: [a5sim]\n"
        "modes: [host]\n"
        "deps: simpler\n"
        "timeout: 2.5\n"
        "grace: 0.25\n"
        "keeps_thread: true\n"
        "flags: [-DALL]\n"
        "include: [common, /abs]\n"
        "isa_pin: sha256:00\n"
        "orchestration: { source: o.cpp, entry: build, config: conf, flags: [-DO] }\n"
        "kernels:\n"
        "  - { id: 7, name: k, source: k.c, core: aic, flags: [-DK], include: [more] }\n"
        "  - id: 1\n"
        "    name: other\n"
        "    source: ../shared/other.cc\n"
        "    core: aiv\n"
        "arguments:\n"
        "  - { name: a, direction: in, type: bfloat16, shape: [n, n*2*3, 5] }\n"
        "  - { name: b, direction: inout, type: int64, shape: [1] }\n"
        "  - { name: c, direction: out, type: fp8e4m3fn, shape: [n] }\n"
        "scalars:\n"
        "  - { name: s, type: float32, value: 0.5 }\n"
        "  - { name: t, type: int8, value: k*2 }\n"
        "  - { name: u, type: float64, value: n }\n"
        "tolerance: { bfloat16: { rtol: 0.5, atol: 1e-3, ulp: 2 } }\n"
        "golden: { source: g.c, flags: [-O0] }\n"
        "inputs: { a: a.npy }\n"
        "cases:\n"
        "  - { name: one }\n"
        "  - { name: two, params: { n: 16, m: 1 }, platforms: [a2a3sim, a2a3], modes: [stream, "
        "host],\n"
        "      clusters: 3, timeout: 9, grace: 7, seed: 12, tolerance: { int64: { atol: 1 } },\n"
        "      scalars: { u: 0.25, t: 7 },\n"
        "      inputs: { b: b.npy }, expected: { c: /c.npy } }\n";
    struct pto_error error = { .size = sizeof(error) };
    const struct scene_case *two;
    struct scene *s;

    (void)state;
    if (scene_parse("dir", text, sizeof(text) - 1, &s, &error) < 0)
        fail_msg("%s", error.text);
    assert_string_equal(s->name, "all-of.it");
    assert_string_equal(s->summary, "with: a colon");
    assert_int_equal(s->deps, PTO_DEPS_SIMPLER);
    assert_string_equal(s->orchestration.path, "dir/o.cpp");
    assert_string_equal(s->entry, "build");
    assert_string_equal(s->config, "conf");
    assert_string_equal(s->isa_pin, "sha256:00");
    assert_int_equal(s->orchestration.flags.count, 2);
    assert_int_equal(s->kernel_count, 2);
    assert_int_equal(s->kernel[0].id, 7);
    assert_int_equal(s->kernel[0].core, PTO_CORE_AIC);
    assert_string_equal(s->kernel[0].source.flags.text[0], "-DALL");
    assert_string_equal(s->kernel[0].source.flags.text[1], "-DK");
    assert_string_equal(s->kernel[0].source.include.text[1], "/abs");
    assert_string_equal(s->kernel[0].source.include.text[2], "dir/more");
    assert_string_equal(s->kernel[1].source.path, "dir/../shared/other.cc");
    assert_int_equal(s->golden.flags.count, 1);
    assert_int_equal(s->golden.include.count, 2);
    assert_int_equal(s->argument_count, 3);
    assert_int_equal(s->argument[0].ndims, 3);
    assert_int_equal(s->argument[0].shape[1].count, 3);
    assert_int_equal(s->argument[1].direction, PTO_DIR_INOUT);
    assert_true(s->scalar[0].number == 0.5);
    assert_int_equal(s->scalar[1].product.count, 2);
    assert_int_equal(s->scalar[2].type, SCENE_FLOAT64);
    assert_int_equal(s->case_count, 2);
    assert_int_equal(s->test_case[0].platform_count, 1);
    assert_int_equal(s->test_case[0].modes, 1u << PTO_MODE_HOST);
    assert_true(s->test_case[0].timeout == 2.5);
    assert_true(s->test_case[0].grace == 0.25);
    assert_true(s->keeps_thread);
    assert_true(s->test_case[0].tolerance[PTO_BFLOAT16].ulp == 2);
    assert_null(s->test_case[0].expected);
    two = &s->test_case[1];
    assert_ptr_equal(scene_scalars(s, &s->test_case[0]), s->scalar);
    assert_true(scene_scalars(s, two)[0].number == 0.5);
    assert_int_equal(scene_scalars(s, two)[1].product.factor[0].value, 7);
    assert_true(scene_scalars(s, two)[2].number == 0.25);
    assert_int_equal(scene_scalars(s, two)[2].product.count, 0);
    assert_int_equal(two->param_count, 3);
    assert_int_equal(scene_find_param(two->param, two->param_count, "n")->value, 16);
    assert_int_equal(scene_find_param(two->param, two->param_count, "k")->value, -3);
    assert_int_equal(two->platform_count, 2);
    assert_int_equal(two->modes, 3);
    assert_int_equal(two->clusters, 3);
    assert_int_equal(two->seed, 12);
    assert_true(two->tolerance[PTO_INT64].atol == 1);
    assert_true(two->tolerance[PTO_BFLOAT16].rtol == 0.5);
    assert_string_equal(two->inputs->path[0], "dir/a.npy"); /* the scene's, too */
    assert_string_equal(two->inputs->path[1], "dir/b.npy");
    assert_string_equal(two->expected->path[2], "/c.npy");
    scene_close(s);
}

static void has_defaults(void **state)
{
    static const char text[] = HEAD TAIL;
    struct pto_error error = { .size = sizeof(error) };
    struct scene *s;

    (void)state;
    if (scene_parse(".", text, sizeof(text) - 1, &s, &error) < 0)
        fail_msg("%s", error.text);
    assert_null(s->entry); /* the usual one */
    assert_int_equal(s->case_count, 1);
    assert_string_equal(s->test_case[0].name, "default");
    assert_int_equal(s->test_case[0].platform_count, 2);
    assert_int_equal(s->test_case[0].modes, 3);
    assert_true(s->test_case[0].timeout == SCENE_TIMEOUT_DEFAULT);
    assert_true(s->test_case[0].grace == 0);
    assert_false(s->keeps_thread);
    assert_true(s->test_case[0].tolerance[PTO_FLOAT32].rtol == 1e-5);
    scene_close(s);
}

static void reads_ranks_and_domains(void **state)
{
    static const char text[] =
        HEAD "ranks: 4\n"
             "params: { n: 4, mid: 1 }\n"
             "domains:\n"
             "  - { name: world, window: 16*ranks*n }\n"
             "  - { name: some, window: 0, from: mid, to: 3, step: 2 }\n"
             "arguments:\n"
             "  - { name: a, direction: in, type: float32, shape: [n], window: world, offset: 8 }\n"
             "  - { name: f, direction: out, type: float32, shape: [ranks, n] }\n"
             "scalars:\n"
             "  - { name: rank, type: uint32, value: rank }\n"
             "  - { name: context, domain: some }\n"
             "golden: g.c\n"
             "cases:\n"
             "  - { name: four }\n"
             "  - { name: eight, ranks: 8, params: { mid: 2 } }\n";
    struct pto_error error = { .size = sizeof(error) };
    struct scene_members members;
    struct scene *s;

    (void)state;
    if (scene_parse(".", text, sizeof(text) - 1, &s, &error) < 0)
        fail_msg("%s", error.text);
    assert_int_equal(s->test_case[0].ranks, 4);
    assert_int_equal(s->test_case[1].ranks, 8);
    assert_int_equal(
        scene_find_param(s->test_case[1].param, s->test_case[1].param_count, "ranks")->value, 8);
    assert_int_equal(
        scene_find_param(s->test_case[1].param, s->test_case[1].param_count, "rank")->value, 0);
    assert_int_equal(s->argument[0].domain, 1);
    assert_int_equal(s->argument[1].domain, 0);
    assert_int_equal(s->scalar[0].domain, 0);
    assert_int_equal(s->scalar[1].domain, 2);
    assert_int_equal(s->scalar[1].bytes, 8);
    assert_true(
        scene_domain_members(&s->domain[0], &s->test_case[1], s->test_case[1].param, &members));
    assert_int_equal(members.window_bytes, 16 * 8 * 4);
    assert_int_equal(members.count, 8);
    assert_true(
        scene_domain_members(&s->domain[1], &s->test_case[0], s->test_case[0].param, &members));
    assert_int_equal(members.count, 2);
    assert_int_equal(members.rank[0], 1);
    assert_int_equal(members.rank[1], 3);
    scene_close(s);
}

#define CALLABLES \
    "callables:\n  - { name: c, orchestration: c.c }\n  - { name: s, source: s.c, function: t }\n"
#define LEVEL "level: 3\nsubs: 1\n" HEAD CALLABLES

static void reads_workers_and_callables(void **state)
{
    static const char text[] =
        "level: 3\nchips: 2\nsubs: 1\n" HEAD "flags: [-DALL]\n"
        "callables:\n"
        "  - name: add\n"
        "    orchestration: { source: a.c, entry: begin }\n"
        "    kernels:\n"
        "      - { id: 0, name: k, source: k.c, core: aiv }\n"
        "  - { name: minus, orchestration: m.cc, kernels: [{ id: 0, name: k, source: l.c, core: "
        "aic }] }\n"
        "  - { name: total, source: t.c, flags: [-DT] }\n"
        "  - { name: other, source: t.c, function: more }\n"
        "arguments:\n  - { name: f, direction: out, type: float32, shape: [chips, subs, n] }\n"
        "golden: g.c\nparams: { n: 4 }\n"
        "cases:\n  - { name: two }\n  - { name: one, chips: 1, subs: 3 }\n";
    struct pto_error error = { .size = sizeof(error) };
    struct scene *s;

    (void)state;
    if (scene_parse("d", text, sizeof(text) - 1, &s, &error) < 0)
        fail_msg("%s", error.text);
    assert_true(scene_is_level(s));
    assert_int_equal(s->test_case[0].chips, 2);
    assert_int_equal(s->test_case[0].subs, 1);
    assert_int_equal(s->test_case[1].chips, 1);
    assert_int_equal(s->test_case[1].subs, 3);
    assert_int_equal(
        scene_find_param(s->test_case[1].param, s->test_case[1].param_count, "subs")->value, 3);
    assert_int_equal(s->callable_count, 4);
    assert_int_equal(s->kernel_count, 0);
    assert_string_equal(s->orchestration.path, "d/o.c");
    assert_null(s->entry);
    assert_int_equal(s->callable[0].kind, PTO_CHILD_CHIP);
    assert_string_equal(s->callable[0].part.name, "add");
    assert_string_equal(s->callable[0].part.entry, "begin");
    assert_string_equal(s->callable[0].part.orchestration.path, "d/a.c");
    assert_string_equal(s->callable[1].part.kernel[0].source.path, "d/l.c");
    assert_int_equal(s->callable[1].part.kernel[0].core, PTO_CORE_AIC);
    assert_null(s->callable[1].part.entry);
    assert_int_equal(s->callable[2].kind, PTO_CHILD_SUB);
    assert_string_equal(s->callable[2].function, "total");
    assert_string_equal(s->callable[2].source.flags.text[1], "-DT");
    assert_string_equal(s->callable[3].function, "more");
    scene_close(s);
}

#define RANKED HEAD "ranks: 2\n" TAIL

/* Texts of files, and the message for each, which begins with the place. */
static const struct {
    const char *text;
    const char *says;
} wrong[] = {
    { "", "it is empty" },
    { "[1, 2]\n", ":1:1: a scene must be a mapping with these keys: name, summary" },
    { "name: [\n", ":2:1: not valid YAML: " },
    { "name: x\n\tsummary: y\n", ":2:1: the line begins with a tab; indent it with spaces" },
    { "name: x\nsummary: \"\\e[2J\"\n", ":2:10: a text must not contain control characters" },
    { "name: \"\\xff\xff\"\n", "is not UTF-8 text" },
    { "name: \"a\\0b\"\n", ":1:7: a text must not contain a zero byte" },
    { "name: x\nname: y\n", ":2:1: duplicate key 'name'" },
    { "name: &a x\n", ":1:7: anchors, aliases and tags" },
    { "name: !!str x\n", ":1:7: anchors, aliases and tags" },
    { "name: x\n---\nname: y\n", ":2:1: a second document" },
    { "[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]\n", ":1:17: nested too deeply" },
    { "? [a]\n: b\n", ":1:3: a key must be a plain word" },
    { HEAD "nmae: y\n", ":3:1: a scene has no key 'nmae'; known keys: name, summary" },
    { "name: x\n" TAIL, ":1:1: a scene needs 'orchestration'" },
    { HEAD "golden: g.c\n", ":1:1: no argument is an output" },
    { "name: a b\norchestration: o.c\n" TAIL, ":1:7: 'a b' is not a name" },
    { "name:\norchestration: o.c\n" TAIL, ":1:6: expected a text, but it is empty" },
    { "name: x\norchestration: o.f90\n" TAIL, ":2:16: a source must end in .c" },
    { "name: x\norchestration: { entry: e }\n" TAIL, ":2:16: orchestration needs 'source'" },
    { "name: x\norchestration: [o.c]\n" TAIL, ":2:16: orchestration must be a mapping" },
    { HEAD TAIL "kernels: { id: 0 }\n", ":7:10: expected a list of kernels" },
    { HEAD TAIL "kernels:\n  - { id: 1024, name: k, source: k.c, core: aiv }\n",
      ":8:11: expected a whole number from 0 to 1023" },
    { HEAD TAIL "kernels:\n  - { id: 0, name: k, source: k.c, core: gpu }\n",
      ":8:42: core must be aic or aiv, not 'gpu'" },
    { HEAD TAIL "kernels:\n  - { id: 0, name: k, source: k.c, core: aiv }\n"
                "  - { id: 0, name: l, source: k.c, core: aiv }\n",
      ":9:11: duplicate kernel id 0" },
    { HEAD TAIL "kernels:\n  - { id: 0, name: k, core: aiv }\n", ":8:5: a kernel needs 'source'" },
    { HEAD TAIL "modes: [fast]\n", ":7:9: mode must be stream or host, not 'fast'" },
    { HEAD TAIL "modes: []\n", ":7:8: modes must name at least one" },
    { HEAD TAIL "modes: host\n", ":7:8: expected a list" },
    { HEAD TAIL "platforms: [nochip]\n",
      ":7:13: unknown platform 'nochip'; known platforms: a2a3sim, a5sim, " },
    { HEAD TAIL "platforms: [a5sim, a5sim]\n", ":7:20: duplicate platform 'a5sim'" },
    { HEAD TAIL "timeout: soon\n", ":7:10: expected a number from 0.001 to 86400" },
    { HEAD TAIL "timeout: nan\n", ":7:10: expected a number" },
    { HEAD TAIL "grace: 0\n", ":7:8: expected a number from 0.001 to 86400" },
    { HEAD TAIL "keeps_thread: maybe\n", ":7:15: keeps_thread must be true or false, not 'maybe'" },
    { HEAD TAIL "deps: none\n", ":7:7: deps must be safe or simpler, not 'none'" },
    { HEAD TAIL "tolerance: { float31: { rtol: 1 } }\n",
      ":7:14: 'float31' is not an element type" },
    { HEAD TAIL "tolerance: { float32: { rtol: -1 } }\n", ":7:31: expected a number from 0" },
    { HEAD TAIL "tolerance: 1e-5\n", ":7:12: tolerance must be a mapping by type" },
    { HEAD TAIL "cases:\n  - { name: a }\n  - { name: a }\n", ":9:13: duplicate case 'a'" },
    { HEAD TAIL "cases:\n  - { name: a, parms: { n: 1 } }\n", ":8:16: a case has no key 'parms'" },
    { HEAD TAIL "cases:\n  - { name: a, params: { n: x } }\n", ":8:29: expected a whole number" },
    { HEAD TAIL "cases:\n  - { name: a, params: { n: 99999999999 } }\n",
      ":4:55: not a valid tensor size in case 'a'" },
    { HEAD TAIL "cases:\n  - { name: a, params: { n: -1 } }\n", ":4:55: not a valid tensor size" },
    { HEAD TAIL "ranks: 0\n", ":7:8: expected a whole number from 1 to 64" },
    { HEAD TAIL "ranks: 65\n", ":7:8: expected a whole number from 1 to 64" },
    { HEAD "ranks: 2\nparams: { rank: 1 }\n",
      ":3:8: in a scene with ranks, 'rank' is set automatically; rename the parameter" },
    { RANKED "cases:\n  - { name: a, params: { ranks: 3 } }\n",
      ":9:33: in a scene with ranks, 'ranks' is set automatically" },
    { HEAD TAIL "domains:\n  - { name: d, window: 4 }\n",
      ":1:1: the scene has domains, but case 'default' does not set ranks" },
    { RANKED "domains:\n  - { name: d, window: 4 }\n  - { name: d, window: 8 }\n",
      ":10:13: duplicate domain 'd'" },
    { RANKED "domains:\n  - { name: d }\n", ":9:5: a domain needs 'window'" },
    { RANKED "domains:\n  - { name: d, window: 4, to: 2 }\n",
      ":9:24: domain 'd' has no valid window or ranks in case 'default': ranks are 0 to 1" },
    { RANKED "domains:\n  - { name: d, window: m }\n", ":9:24: domain 'd' has no valid window" },
    { RANKED "scalars:\n  - { name: c, domain: d }\n", ":9:24: unknown domain 'd'" },
    { RANKED "scalars:\n  - { name: c, domain: d, value: 3 }\n",
      ":9:27: a scalar with a domain has no key 'value'" },
    { HEAD "ranks: 2\nparams: { n: 4 }\ngolden: g.c\ndomains:\n  - { name: d, window: 8 }\n"
           "arguments:\n"
           "  - { name: f, direction: out, type: float32, shape: [n], window: d }\n",
      ":7:24: argument 'f' needs 16 bytes at 0, but windows of 'd' have 8 in case 'default'" },
    { HEAD "ranks: 2\nparams: { n: 1 }\ngolden: g.c\ndomains:\n  - { name: d, window: 8 }\n"
           "arguments:\n"
           "  - { name: f, direction: out, type: float32, shape: [n], window: d, offset: 2 }\n",
      ":9:78: not an offset for elements of float32 in case 'default'" },
    { HEAD "params: { n: 1 }\ngolden: g.c\narguments:\n"
           "  - { name: f, direction: out, type: float32, shape: [n], offset: 4 }\n",
      ":6:67: an offset applies only to an argument in a window" },
    { HEAD TAIL "level: 4\n", ":7:8: expected a whole number from 2 to 3" },
    { HEAD TAIL "chips: 2\n", ":7:8: chips apply to level 3 only; add level: 3" },
    { HEAD TAIL "level: 2\ncases:\n  - { name: a, subs: 1 }\n",
      ":9:22: subs apply to level 3 only; add level: 3" },
    { HEAD TAIL CALLABLES, ":8:3: callables apply to level 3 only; add level: 3" },
    { "level: 3\n" HEAD TAIL, ":1:1: a scene of level 3 needs callables" },
    { "level: 3\nparams: { chips: 2 }\n" HEAD, ":2:18: at level 3, 'chips' is set automatically" },
    { "level: 3\n" HEAD CALLABLES TAIL,
      ":1:1: case 'default' has no SUB worker, and callable 's' needs one: add subs: 1" },
    { LEVEL TAIL "chips: 0\n", ":1:1: case 'default' has no chip, and callable 'c' needs one" },
    { LEVEL TAIL "chips: 64\n", "case 'default' has 64 chips and 1 SUB workers: at most 64" },
    { LEVEL TAIL "kernels: []\n", ":12:10: kernels has no meaning at level 3" },
    { LEVEL TAIL "deps: safe\n", ":12:7: deps has no meaning at level 3" },
    { LEVEL TAIL "ranks: 2\n", ":1:1: case 'default' has ranks, but at level 3 the worker has" },
    { "level: 3\nname: x\norchestration: { source: o.c, config: c }\nsubs: 1\n" CALLABLES TAIL,
      ":3:16: an orchestration of level 3 has no configuration" },
    { "level: 3\n" HEAD TAIL "callables:\n  - { name: c }\n",
      ":9:5: a callable has either an orchestration, and runs on chips, or a source" },
    { "level: 3\n" HEAD TAIL "callables:\n  - { name: c, source: s.c, orchestration: o.c }\n",
      ":9:5: a callable has either an orchestration, and runs on chips, or a source" },
    { "level: 3\n" HEAD TAIL "callables:\n  - { name: c, source: s.c, kernels: [] }\n",
      ":9:29: a callable with a source, for SUB workers, has no key 'kernels'; known keys: name" },
    { "level: 3\n" HEAD TAIL "callables:\n  - { name: c, orchestration: o.c, function: f }\n",
      ":9:36: a callable for chips has no key 'function'" },
    { "level: 3\n" HEAD TAIL "callables:\n  - { name: c, source: s.c }\n"
      "  - { name: c, source: t.c }\n",
      ":10:13: duplicate callable 'c'" },
    { "level: 3\n" HEAD TAIL "callables:\n  - { name: c, source: s.py }\n",
      ":9:24: a source must end in .c" },
    { HEAD TAIL "params2: {}\n", ":7:1: a scene has no key 'params2'" },
    { HEAD TAIL "inputs: { f: f.npy }\n", ":7:11: argument 'f' is an output" },
    { HEAD TAIL "inputs: { g: f.npy }\n", ":7:11: unknown argument 'g'" },
    { HEAD TAIL "scalars:\n  - { name: s, type: int8, value: 300 }\n",
      ":8:35: the value does not fit the type" },
    { HEAD TAIL "scalars:\n  - { name: s, type: int8, value: q }\n",
      ":8:35: case 'default' has no parameter 'q'" },
    { HEAD TAIL "scalars:\n  - { name: s, type: int8, value: 1+1 }\n",
      ":8:35: '1+1' is neither a number nor a parameter nor a product" },
    { HEAD TAIL "scalars:\n  - { name: s, type: text, value: 1 }\n",
      ":8:22: a scalar must be float32" },
    { HEAD TAIL "cases:\n  - { name: a, scalars: { s: 1 } }\n", ":8:27: unknown scalar 's'" },
    { HEAD TAIL "cases:\n  - { name: a, scalars: 1 }\n", ":8:25: expected a mapping of scalars" },
    { HEAD TAIL "scalars:\n  - { name: s, type: int8, value: 1 }\n"
                "cases:\n  - { name: a, scalars: { s: 128 } }\n",
      ":10:30: the value does not fit the type in case 'a'" },
    { HEAD "arguments:\n  - { name: f, direction: out, type: float32, shape: [n] }\ngolden: g.c\n",
      ":4:55: case 'default' has no parameter 'n'" },
    { HEAD "arguments:\n  - { name: f, direction: up, type: float32, shape: [1] }\ngolden: g.c\n",
      ":4:27: direction must be in, out or inout, not 'up'" },
    { HEAD "arguments:\n  - { name: f, direction: out, type: double, shape: [1] }\ngolden: g.c\n",
      ":4:38: unknown type 'double'; known types: float32" },
    { HEAD "arguments:\n  - { name: f, direction: out, type: int8, shape: [1,1,1,1,1,1] }\n",
      ":4:51: shape must be a list of 1 to 5 sizes" },
    { HEAD "arguments:\n  - { name: 4f, direction: out, type: int8, shape: [1] }\n",
      ":4:13: '4f' is not a name" },
    { HEAD "arguments:\n  - { name: f, direction: out, type: int8, shape: [n*] }\ngolden: g.c\n",
      ":4:52: 'n*' is neither a number" },
    { HEAD "arguments:\n  - { name: f, direction: out, type: int8, shape: [n 5] }\ngolden: g.c\n",
      ":4:52: 'n 5' is neither a number" },
    { HEAD "arguments:\n  - { name: f, direction: out, type: int8, shape: ['*'] }\ngolden: g.c\n",
      ":4:52: '*' is neither a number" },
    { HEAD "arguments:\n  - { name: f, direction: out, type: int8, shape: [1*1*1*1*1] }\n",
      ":4:52: too many factors; at most 4" },
    { HEAD "arguments:\n  - { name: f, direction: out, type: int8, shape: [1] }\n",
      ":1:1: argument 'f' has no expected result in case 'default'" },
    { HEAD "arguments:\n  - { name: f, direction: inout, type: int8, shape: [1] }\n",
      ":1:1: argument 'f' has no data in case 'default'" },
};

static void says_what_is_wrong_and_where(void **state)
{
    uint32_t failures = 0;

    (void)state;
    for (uint32_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct pto_error error = { .size = sizeof(error) };
        struct scene *s = NULL;
        int status = scene_parse("d", wrong[i].text, strlen(wrong[i].text), &s, &error);

        if (status == PTO_OK || strstr(error.text, wrong[i].says) == NULL) {
            print_error("%s\nsaid:   %s\nwanted: %s\n", wrong[i].text, error.text, wrong[i].says);
            failures++;
        }
        if (strncmp(error.text, "d/scene.yaml:", 13) != 0)
            fail_msg("no file in: %s", error.text);
    }
    assert_int_equal(failures, 0);
}

static void misses_files(void **state)
{
    struct pto_error error = { .size = sizeof(error) };
    struct scene *s;

    (void)state;
    assert_true(scene_open("/nonexistent", &s, &error) < 0);
    assert_non_null(strstr(error.text, "/nonexistent/scene.yaml cannot be read: No such file"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_everything_that_may_stand_there),
        cmocka_unit_test(has_defaults),
        cmocka_unit_test(reads_ranks_and_domains),
        cmocka_unit_test(reads_workers_and_callables),
        cmocka_unit_test(says_what_is_wrong_and_where),
        cmocka_unit_test(misses_files),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
