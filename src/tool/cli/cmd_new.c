/* SPDX-License-Identifier: Apache-2.0 */
/* `pto new` makes a folder with a scene that passes, as a starting point. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tool/cli/commands.h"
#include "pto/build.h"
#include "tool/scene/terminal.h"

/* Files of the new scene; @NAME@ stands for the scene's name. */
struct template
{
    const char *path;
    const char *text;
};

static const struct template templates[] = {
    { "scene.yaml", "# What this scene is made of. docs/user/scenes.md describes every key.\n"
                    "name: @NAME@\n"
                    "summary: y = alpha * x + y, in tiles of 256\n"
                    "\n"
                    "orchestration: orch.c\n"
                    "kernels: # the id is what the orchestration submits\n"
                    "  - { id: 0, name: axpy, source: kernels/axpy.c, core: aiv }\n"
                    "\n"
                    "arguments: # in the order of the entry\n"
                    "  - { name: x, direction: in, type: float32, shape: [n] }\n"
                    "  - { name: y, direction: inout, type: float32, shape: [n] }\n"
                    "scalars:\n"
                    "  - { name: alpha, type: float32, value: 2 }\n"
                    "\n"
                    "golden: golden.c\n"
                    "tolerance: { float32: { rtol: 1e-6, atol: 1e-6 } }\n"
                    "\n"
                    "cases:\n"
                    "  - { name: small, params: { n: 1024 } }\n"
                    "  - { name: odd, params: { n: 1000 }, scalars: { alpha: -0.5 } }\n" },
    { "orch.c",
      "/* Submits a task for each tile of 256 elements. They are independent of each other. */\n"
      "#include <pto/orch.h>\n"
      "\n"
      "enum { TILE = 256 };\n"
      "enum { AXPY }; /* as in scene.yaml */\n"
      "\n"
      "void orchestrate(struct pto_orch *o, const struct pto_entry *entry)\n"
      "{\n"
      "    const struct pto_tensor *x = &entry->tensor[0], *y = &entry->tensor[1];\n"
      "    uint32_t n = x->shapes[0];\n"
      "\n"
      "    for (uint32_t at = 0; at < n; at += TILE) {\n"
      "        const uint32_t *size = PTO_DIMS(n - at < TILE ? n - at : TILE);\n"
      "        const struct pto_tensor from = pto_tensor_view(x, size, PTO_DIMS(at));\n"
      "        const struct pto_tensor to = pto_tensor_view(y, size, PTO_DIMS(at));\n"
      "\n"
      "        pto_aiv(o, AXPY, PTO_IN(&from), PTO_INOUT(&to), PTO_PASS(0));\n"
      "    }\n"
      "}\n" },
    { "kernels/axpy.c",
      "/* y = alpha * x + y */\n"
      "#include <pto/kernel.h>\n"
      "\n"
      "PTO_KERNEL(args)\n"
      "{\n"
      "    PTO_GM const struct pto_tensor *tensor = pto_arg_tensor(args, 0);\n"
      "    PTO_GM const float *x = PTO_DATA(tensor, float);\n"
      "    PTO_GM float *y = PTO_ARG(args, 1, float);\n"
      "    float alpha = pto_arg_float(args, 2); /* scalars follow the tensors */\n"
      "\n"
      "    for (uint32_t i = 0; i < tensor->shapes[0]; i++)\n"
      "        y[i] = alpha * x[i] + y[i];\n"
      "}\n" },
    { "golden.c", "/* Fills the inputs and computes the expected outputs. */\n"
                  "#include <pto/scene.h>\n"
                  "\n"
                  "int pto_scene_golden(const struct pto_scene *s)\n"
                  "{\n"
                  "    int64_t n = pto_scene_param(s, \"n\");\n"
                  "    float alpha = (float)pto_scene_scalar(s, \"alpha\");\n"
                  "    const float *x = pto_scene_data(s, \"x\"), *y = pto_scene_data(s, \"y\");\n"
                  "    float *expected = pto_scene_expected(s, \"y\");\n"
                  "\n"
                  "    pto_scene_random(s, \"x\", -1, 1);\n"
                  "    pto_scene_random(s, \"y\", -1, 1);\n"
                  "    for (int64_t i = 0; i < n; i++)\n"
                  "        expected[i] = alpha * x[i] + y[i];\n"
                  "    return 0;\n"
                  "}\n" },
    { "README.md",
      "# @NAME@\n"
      "\n"
      "`y = alpha * x + y` in tiles: an orchestration, a kernel, and a golden to compare with.\n"
      "\n"
      "    pto run @NAME@\n"
      "    pto test @NAME@\n" },
};

enum { TEMPLATES = sizeof(templates) / sizeof(templates[0]) };

static int make_scene(const char *folder, const char *name);

static int do_new(void *context, int count, char **operands);

const struct cli_command cmd_new = {
    .name = "new",
    .summary = "make a scene as a starting point",
    .synopsis = "FOLDER",
    .description =
        "Makes a scene that passes: a folder with scene.yaml, an orchestration, a kernel and a "
        "golden. The last part of FOLDER becomes its name; FOLDER must not exist.",
    .operands_min = 1,
    .operands_max = 1,
    .run = do_new,
};

static bool is_scene_name(const char *name)
{
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-";

    return name[0] != '\0' && name[0] != '.' && name[0] != '-' && strlen(name) < 64 &&
           strspn(name, letters) == strlen(name);
}

static int do_new(void *context, int count, char **operands)
{
    char folder[PATH_MAX];
    size_t length = strlen(operands[0]);
    const char *name;

    (void)context;
    (void)count;
    while (length > 1 && operands[0][length - 1] == '/')
        length--;
    if (length >= sizeof(folder) - 64) {
        terminal_printf(stderr, "pto new: the path is too long\n");
        return EXIT_USAGE;
    }
    memcpy(folder, operands[0], length);
    folder[length] = '\0';
    name = strrchr(folder, '/') != NULL ? strrchr(folder, '/') + 1 : folder;
    if (!is_scene_name(name)) {
        terminal_printf(
            stderr, "pto new: '%s' is not a valid name; use up to 63 letters, digits, _, . and -\n",
            name);
        return EXIT_USAGE;
    }
    return make_scene(folder, name);
}

/* Returns a copy of the text with the scene's name for @NAME@; NULL: out of memory. */
static char *fill_in(const char *text, const char *name, size_t *bytes_out)
{
    char *filled = NULL;
    FILE *to = open_memstream(&filled, bytes_out);
    const char *at;

    if (to == NULL)
        return NULL;
    while ((at = strstr(text, "@NAME@")) != NULL) {
        fwrite(text, 1, (size_t)(at - text), to);
        fputs(name, to);
        text = at + strlen("@NAME@");
    }
    fputs(text, to);
    fclose(to);
    return filled;
}

static int new_make_folder(const char *path, struct pto_error *error)
{
    return mkdir(path, 0777) == 0
               ? PTO_OK
               : error_setf(error, PTO_ESYSTEM, "cannot make %.1000s: %s", path, strerror(errno));
}

static int write_template(const struct template *template, const char *folder, const char *name,
                          struct pto_error *error)
{
    char path[PATH_MAX + 32];
    size_t bytes;
    char *text = fill_in(template->text, name, &bytes);
    int status;

    if (text == NULL)
        return error_setf(error, PTO_ENOMEM, "out of memory");
    snprintf(path, sizeof(path), "%s/%s", folder, template->path);
    status = pto_file_write(path, text, bytes, error);
    free(text);
    return status;
}

/* Removes the files of a new scene that could not be completed. */
static void remove_scene(const char *folder)
{
    char path[PATH_MAX + 32];

    for (uint32_t i = 0; i < TEMPLATES; i++) {
        snprintf(path, sizeof(path), "%s/%s", folder, templates[i].path);
        (void)unlink(path);
    }
    snprintf(path, sizeof(path), "%s/kernels", folder);
    (void)rmdir(path);
    (void)rmdir(folder);
}

static int make_scene(const char *folder, const char *name)
{
    struct pto_error error = { .size = sizeof(error) };
    char path[PATH_MAX + 32];
    int status = new_make_folder(folder, &error);

    if (status == PTO_OK) {
        snprintf(path, sizeof(path), "%s/kernels", folder);
        status = new_make_folder(path, &error);
        for (uint32_t i = 0; i < TEMPLATES && status == PTO_OK; i++)
            status = write_template(&templates[i], folder, name, &error);
        if (status < 0)
            remove_scene(folder);
    }
    if (status < 0) {
        terminal_printf(stderr, "pto new: %s\n", error.text);
        return EXIT_FAILED;
    }
    printf("made %s; next: pto test %s\n", folder, folder);
    return EXIT_OK;
}
