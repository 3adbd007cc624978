/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the tests of artefacts share: objects that are compiled on the spot, always
 * under the same file names, and artefacts made of them.
 *
 * Include it last: cmocka comes with it.
 */
#ifndef PTO_ARTEFACT_TEST_H
#define PTO_ARTEFACT_TEST_H

#include "base/file.h"
#include "host/artefact.h"
#include "host/artefact_layout.h"
#include "tests/unit/device_test.h"

struct bytes {
    void *at;
    size_t size;
};

static char folder[64];

static inline int make_folder(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/pto_artefact_XXXXXX");
    return mkdtemp(folder) != NULL ? 0 : -1;
}

static inline int remove_folder(void **state)
{
    char command[128];

    (void)state;
    snprintf(command, sizeof(command), "rm -rf '%s'", folder);
    return system(command);
}

/* The compiler's own output is the explanation of a failure. */
static inline struct bytes compile_as(const char *language, const char *text, const char *flags)
{
    bool is_cxx = strcmp(language, "c++") == 0;
    struct bytes object;
    char command[1024], path[128];
    char *bytes;

    snprintf(path, sizeof(path), "%s/source", folder);
    assert_int_equal(file_write(path, text, strlen(text)), PTO_OK);
    snprintf(command, sizeof(command),
             "cd '%s' && ${%s:-%s} -x %s -std=%s -O1 -fPIC -shared -I\"$OLDPWD/include\" %s "
             "-o object source",
             folder, is_cxx ? "CXX" : "CC", is_cxx ? "g++" : "gcc", language,
             is_cxx ? "gnu++17" : "gnu11", flags);
    assert_int_equal(system(command), 0);
    snprintf(path, sizeof(path), "%s/object", folder);
    assert_int_equal(file_read(path, 1 << 24, &bytes, &object.size), PTO_OK);
    object.at = bytes;
    return object;
}

static inline struct bytes compile(const char *text, const char *flags)
{
    return compile_as("c", text, flags);
}

/* ---- add and subtract: all names are the same ---- */

static const char orchestration_text[] =
    "#include <pto/orch.h>\n"
    "void orchestrate(struct pto_orch *o, const struct pto_entry *e)\n"
    "{\n"
    "    pto_aiv(o, 0, PTO_IN(&e->tensor[0]), PTO_IN(&e->tensor[1]), PTO_WRITE(&e->tensor[2]),\n"
    "            PTO_INT(TAG));\n"
    "}\n";

/* An orchestration of another callable, or a helper of another kernel, shows in the result. */
static const char kernel_text[] =
    "#include <pto/kernel.h>\n"
    "int helper_state = TAG;\n"
    "int helper(int a, int b) { return a OP b; }\n"
    "static int *at(int64_t *args, int i)\n"
    "{ return (int *)pto_tensor_data(pto_arg_tensor(args, i)); }\n"
    "void kernel_entry(int64_t *args)\n"
    "{\n"
    "    for (uint32_t i = 0; i < pto_arg_tensor(args, 0)->shapes[0]; i++)\n"
    "        at(args, 2)[i] = helper(at(args, 0)[i], at(args, 1)[i]) +\n"
    "                         1000 * (int)(args[3] - helper_state);\n"
    "}\n";

static const enum pto_direction in_in_out[] = { PTO_DIR_IN, PTO_DIR_IN, PTO_DIR_OUT };

/* What tests change before they make it. */
struct recipe {
    struct artefact_parts parts;
    struct artefact_kernel kernel;
    struct bytes orchestration_bytes;
    struct bytes kernel_bytes;
};

static inline struct recipe make_recipe(const char *flags)
{
    struct recipe r = { .orchestration_bytes = compile(orchestration_text, flags),
                        .kernel_bytes = compile(kernel_text, flags) };

    r.kernel = (struct artefact_kernel){ 0, PTO_CORE_AIV, "kernel", r.kernel_bytes.at,
                                         r.kernel_bytes.size };
    r.parts = (struct artefact_parts){ .name = "binary",
                                       .platform = "a2a3sim",
                                       .signature = in_in_out,
                                       .signature_count = 3,
                                       .orchestration = r.orchestration_bytes.at,
                                       .orchestration_size = r.orchestration_bytes.size,
                                       .kernel_count = 1 };
    return r;
}

static inline void free_recipe(struct recipe *r)
{
    free(r->orchestration_bytes.at);
    free(r->kernel_bytes.at);
}

static inline struct bytes make_artefact(struct recipe *r)
{
    struct pto_error error = { .size = sizeof(error) };
    struct bytes artefact;

    if (r->parts.kernels == NULL)
        r->parts.kernels = &r->kernel;
    if (artefact_make(&r->parts, &artefact.at, &artefact.size, &error) < 0)
        fail_msg("%s", error.text);
    if (r->parts.kernels == &r->kernel)
        r->parts.kernels = NULL; /* the recipe may be copied */
    return artefact;
}

static inline struct pto_callable *load_bytes(struct bytes artefact)
{
    struct pto_error error = { .size = sizeof(error) };
    struct pto_callable *callable = NULL;

    if (pto_callable_load_memory(artefact.at, artefact.size, NULL, &callable, &error) < 0)
        fail_msg("%s", error.text);
    return callable;
}

static inline struct pto_callable *load_recipe(struct recipe *r)
{
    struct bytes artefact = make_artefact(r);
    struct pto_callable *callable = load_bytes(artefact);

    free(artefact.at);
    return callable;
}

static inline struct pto_callable *load_flags(const char *flags)
{
    struct recipe r = make_recipe(flags);
    struct pto_callable *callable = load_recipe(&r);

    free_recipe(&r);
    return callable;
}

#define ADD "-DOP=+ -DTAG=1"
#define SUBTRACT "-DOP=- -DTAG=2"

/* The blob that an artefact contains: a chip callable of the reference's layout. */
static inline struct bytes make_blob(struct recipe *r)
{
    struct bytes artefact = make_artefact(r), blob;
    struct artefact_header header;

    memcpy(&header, artefact.at, sizeof(header));
    blob.size = header.callable_size;
    blob.at = aligned_alloc(64, (blob.size + 63) / 64 * 64); /* as its readers expect */
    memcpy(blob.at, (char *)artefact.at + header.callable_offset, blob.size);
    free(artefact.at);
    return blob;
}

#endif
