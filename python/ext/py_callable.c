/* SPDX-License-Identifier: Apache-2.0 */
/* pto.Callable: an orchestration with its kernels, loaded from a file or from bytes. */
#include "py_ext.h"

#include <stdlib.h>
#include <string.h>

static struct ext_callable *callable_of(PyObject *self)
{
    return (struct ext_callable *)self;
}

/* ---- loading ---- */

static PyObject *make_callable(struct ext_state *state, struct pto_callable *callable)
{
    struct ext_callable *self = (struct ext_callable *)PyType_GenericAlloc(state->callable_type, 0);
    struct pto_callable_info info;

    if (self == NULL) {
        (void)pto_callable_destroy(callable);
        return NULL;
    }
    pto_callable_info_init(&info);
    self->state = state;
    self->callable = callable;
    if (pto_callable_info(callable, &info) >= 0) {
        self->signature = (struct ext_signature){
            .direction = info.signature,
            .count = info.signature_count,
            .is_open = info.is_from_reference,
            .expected = ext_expected_parse(info.arguments, info.signature_count),
            .name = info.name != NULL ? info.name : "the callable",
        };
        self->mode = info.mode;
    }
    return (PyObject *)self;
}

/* Converts public keys to 64 digits each, as the library expects; *text_out is to be freed. */
static int take_keys(struct ext_state *state, PyObject *keys, struct pto_load_options *options,
                     const char ***list_out, char **text_out)
{
    Py_ssize_t count = PyTuple_Size(keys);
    char *text = malloc((size_t)count * (2 * 32 + 1) + 1);

    *list_out = malloc(((size_t)count + 1) * sizeof(**list_out));
    *text_out = text;
    if (text == NULL || *list_out == NULL) {
        (void)PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t i = 0; i < count; i++, text += 65) {
        PyObject *key = PyTuple_GetItem(keys, i);
        const char *bytes =
            PyBytes_Check(key) && PyBytes_Size(key) == 32 ? PyBytes_AsString(key) : NULL;

        if (bytes == NULL) {
            (void)ext_raise_text(state, PTO_EINVAL, "each of trusted_keys has to be 32 bytes");
            return -1;
        }
        for (int b = 0; b < 32; b++)
            for (int half = 0; half < 2; half++)
                text[2 * b + half] = "0123456789abcdef"[(bytes[b] >> (half == 0 ? 4 : 0)) & 15];
        text[64] = '\0';
        (*list_out)[i] = text;
    }
    options->trusted_keys = *list_out;
    options->trusted_key_count = (uint32_t)count;
    return 0;
}

/* Reads a dict of path -> digest, which keeps the texts alive. */
static int take_headers(struct ext_state *state, PyObject *dict, struct pto_load_options *options,
                        struct pto_header **list_out)
{
    PyObject *key, *value;
    Py_ssize_t at = 0;

    if (!PyDict_Check(dict)) {
        (void)ext_raise_text(state, PTO_EINVAL,
                             "expect_headers is a dict: paths of headers, and their SHA-256");
        return -1;
    }
    *list_out = calloc((size_t)PyDict_Size(dict) + 1, sizeof(**list_out));
    if (*list_out == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    while (PyDict_Next(dict, &at, &key, &value)) {
        struct pto_header *header = &(*list_out)[options->expect_header_count++];

        header->path = PyUnicode_AsUTF8AndSize(key, NULL);
        header->digest = header->path == NULL ? NULL : PyUnicode_AsUTF8AndSize(value, NULL);
        if (header->digest == NULL)
            return -1;
    }
    options->expect_headers = *list_out;
    return 0;
}

static PyObject *load(struct ext_state *state, PyObject *source,
                      const struct pto_load_options *options, bool is_checked)
{
    struct pto_callable *callable = NULL;
    struct pto_error error;
    PyObject *path = NULL;
    Py_buffer view;
    int status;

    pto_error_init(&error);
    if (PyObject_CheckBuffer(source)) {
        if (PyObject_GetBuffer(source, &view, PyBUF_SIMPLE) < 0)
            return NULL;
        Py_BEGIN_ALLOW_THREADS
        status = pto_callable_load_memory(view.buf, (size_t)view.len, options, &callable, &error);
        Py_END_ALLOW_THREADS
        PyBuffer_Release(&view);
    } else {
        if (!PyUnicode_FSConverter(source, &path))
            return NULL;
        Py_BEGIN_ALLOW_THREADS
        status =
            is_checked
                ? pto_callable_load_file(PyBytes_AsString(path), options, &callable, &error)
                : pto_callable_load(PyBytes_AsString(path), options->symbol, &callable, &error);
        Py_END_ALLOW_THREADS
        Py_DECREF(path);
    }
    return status < 0 ? ext_raise(state, status, &error) : make_callable(state, callable);
}

static PyObject *module_load(PyObject *module, PyObject *args, PyObject *keywords)
{
    static char *names[] = { "source",        "symbol",         "name",
                             "deps",          "expect_isa",     "trusted_keys",
                             "artefact_only", "expect_headers", NULL };
    struct ext_state *state = PyModule_GetState(module);
    PyObject *source, *deps = Py_None, *keys = Py_None, *result = NULL, *items = NULL,
                      *headers = Py_None;
    struct pto_header *header = NULL;
    struct pto_load_options options;
    const char **list = NULL;
    char *text = NULL;
    int only = 0, chosen;
    bool is_checked;

    pto_load_options_init(&options);
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "O|$zzOzOpO:load", names, &source,
                                     &options.symbol, &options.name, &deps, &options.expect_isa,
                                     &keys, &only, &headers))
        return NULL;
    if (deps != Py_None) {
        chosen = ext_deps(state, deps);
        if (chosen < 0)
            return NULL;
        options.deps = (enum pto_deps)chosen;
    }
    is_checked = only != 0 || deps != Py_None || keys != Py_None || options.expect_isa != NULL ||
                 options.name != NULL || headers != Py_None;
    if (headers != Py_None && take_headers(state, headers, &options, &header) < 0) {
        free(header);
        return NULL;
    }
    if (keys != Py_None)
        items = PySequence_Tuple(keys);
    if (keys == Py_None || (items != NULL && take_keys(state, items, &options, &list, &text) == 0))
        result = load(state, source, &options, is_checked);
    if (result != NULL) {
        callable_of(result)->source =
            PyObject_CheckBuffer(source) ? PyBytes_FromObject(source) : PyOS_FSPath(source);
        if (callable_of(result)->source == NULL)
            Py_CLEAR(result);
    }
    free(list);
    free(text);
    free(header);
    Py_XDECREF(items);
    return result;
}

static void callable_free(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);

    (void)pto_callable_destroy(callable_of(self)->callable);
    free(callable_of(self)->signature.expected);
    Py_XDECREF(callable_of(self)->source);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

/* ---- properties ---- */

static PyObject *digits(const uint8_t *bytes, size_t count)
{
    char text[2 * PTO_DIGEST_BYTES + 1];

    for (size_t i = 0; i < count; i++) {
        text[2 * i] = "0123456789abcdef"[bytes[i] >> 4];
        text[2 * i + 1] = "0123456789abcdef"[bytes[i] & 15];
    }
    return PyUnicode_FromStringAndSize(text, (Py_ssize_t)(2 * count));
}

static struct pto_callable_info info_of(PyObject *self)
{
    struct pto_callable_info info;

    pto_callable_info_init(&info);
    (void)pto_callable_info(callable_of(self)->callable, &info);
    return info;
}

static PyObject *callable_get_name(PyObject *self, void *ignored)
{
    (void)ignored;
    return ext_text(info_of(self).name);
}

static PyObject *get_platform(PyObject *self, void *ignored)
{
    (void)ignored;
    return ext_text(info_of(self).platform);
}

static PyObject *get_mode(PyObject *self, void *ignored)
{
    (void)ignored;
    return PyUnicode_FromString(pto_mode_name(info_of(self).mode));
}

static PyObject *get_digest(PyObject *self, void *ignored)
{
    (void)ignored;
    return digits(info_of(self).digest, PTO_DIGEST_BYTES);
}

static PyObject *get_arguments(PyObject *self, void *ignored)
{
    (void)ignored;
    return ext_text(info_of(self).arguments);
}

static PyObject *get_signature(PyObject *self, void *ignored)
{
    struct ext_callable *callable = callable_of(self);
    PyObject *tuple = PyTuple_New((Py_ssize_t)callable->signature.count);

    (void)ignored;
    for (uint32_t i = 0; tuple != NULL && i < callable->signature.count; i++) {
        PyObject *name = PyUnicode_FromString(pto_direction_name(callable->signature.direction[i]));

        if (name == NULL || PyTuple_SetItem(tuple, (Py_ssize_t)i, name) < 0)
            Py_CLEAR(tuple);
    }
    return tuple;
}

static PyObject *get_signers(PyObject *self, void *ignored)
{
    struct pto_callable_info info = info_of(self);
    PyObject *tuple = PyTuple_New((Py_ssize_t)info.signer_count);

    (void)ignored;
    for (uint32_t i = 0; tuple != NULL && i < info.signer_count; i++) {
        PyObject *key = PyBytes_FromStringAndSize((const char *)info.signers + (size_t)i * 32, 32);

        if (key == NULL || PyTuple_SetItem(tuple, (Py_ssize_t)i, key) < 0)
            Py_CLEAR(tuple);
    }
    return tuple;
}

static PyObject *callable_get_info(PyObject *self, void *ignored)
{
    static const char *const kinds[] = { "functions", "artefact", "chip callable" };
    struct pto_callable_info info = info_of(self);

    (void)ignored;
    return Py_BuildValue(
        "{s:s,s:N,s:N,s:N,s:N,s:s,s:s,s:I,s:N,s:K,s:N,s:N,s:N,s:I,s:N}", "kind", kinds[info.kind],
        "name", ext_text(info.name), "platform", ext_text(info.platform), "entry",
        ext_text(info.entry), "config", ext_text(info.config), "mode", pto_mode_name(info.mode),
        "deps", info.deps < PTO_DEPS_COUNT ? pto_deps_name(info.deps) : "default", "abi", info.abi,
        "digest", digits(info.digest, PTO_DIGEST_BYTES), "orchestration_bytes",
        (unsigned long long)info.orchestration_bytes, "isa_revision", ext_text(info.isa_revision),
        "compiler", ext_text(info.compiler), "arguments", ext_text(info.arguments), "device_count",
        info.device_count, "is_from_reference", PyBool_FromLong(info.is_from_reference));
}

static PyObject *make_kernel(const void *callable, uint32_t index)
{
    struct pto_kernel_info info;

    pto_kernel_info_init(&info);
    (void)pto_callable_kernel(callable, index, &info);
    return Py_BuildValue("{s:I,s:N,s:s,s:K,s:N}", "func_id", info.func_id, "name",
                         ext_text(info.name), "core", pto_core_name(info.core), "bytes",
                         (unsigned long long)info.bytes, "digest",
                         digits(info.digest, PTO_DIGEST_BYTES));
}

static PyObject *get_kernels(PyObject *self, void *ignored)
{
    (void)ignored;
    return ext_list_of(info_of(self).kernel_count, make_kernel, callable_of(self)->callable);
}

static PyObject *make_file(const void *callable, uint32_t index)
{
    struct pto_file_info info;

    pto_file_info_init(&info);
    (void)pto_callable_file(callable, index, &info);
    return Py_BuildValue("{s:N,s:N,s:N}", "path", ext_text(info.path), "is_isa",
                         PyBool_FromLong(info.is_isa), "digest",
                         digits(info.digest, PTO_DIGEST_BYTES));
}

static PyObject *get_files(PyObject *self, void *ignored)
{
    (void)ignored;
    return ext_list_of(info_of(self).file_count, make_file, callable_of(self)->callable);
}

static PyObject *callable_repr(PyObject *self)
{
    struct pto_callable_info info = info_of(self);
    PyObject *signature = get_signature(self, NULL);
    PyObject *text = signature == NULL
                         ? NULL
                         : PyUnicode_FromFormat("<pto.Callable: %s, %u kernels, signature %S>",
                                                info.name == NULL ? "without a name" : info.name,
                                                info.kernel_count, signature);

    Py_XDECREF(signature);
    return text;
}

static PyObject *get_source(PyObject *self, void *ignored)
{
    (void)ignored;
    return Py_NewRef(callable_of(self)->source);
}

static PyGetSetDef callable_fields[] = {
    { "source", get_source, NULL, "its source: bytes, or a path", NULL },
    { "name", callable_get_name, NULL, "its name in messages", NULL },
    { "platform", get_platform, NULL, "platform that it was made for; None: any", NULL },
    { "mode", get_mode, NULL, "default mode of its runs: 'stream' or 'host'", NULL },
    { "digest", get_digest, NULL, "SHA-256 of everything that runs: its identity", NULL },
    { "signature", get_signature, NULL,
      "directions of its arguments: 'in', 'out', 'inout' or 'scalar'; (): unknown", NULL },
    { "arguments", get_arguments, NULL,
      "description of its arguments: name, type and shape, one per line; or None", NULL },
    { "signers", get_signers, NULL, "public keys whose signatures are valid", NULL },
    { "kernels", get_kernels, NULL, "its kernels, each as a dict", NULL },
    { "files", get_files, NULL, "its source files, each as a dict", NULL },
    { "info", callable_get_info, NULL, "other properties, as a dict", NULL },
    { NULL, NULL, NULL, NULL, NULL }
};

static PyType_Slot callable_slots[] = {
    { Py_tp_doc, "An orchestration with its kernels: made by pto.load and pto.compile." },
    { Py_tp_dealloc, callable_free },
    { Py_tp_repr, callable_repr },
    { Py_tp_getset, callable_fields },
    { 0, NULL },
};

static PyType_Spec callable_spec = {
    .name = "pto.Callable",
    .basicsize = sizeof(struct ext_callable),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = callable_slots,
};

static PyMethodDef functions[] = {
    { "load", EXT_WITH_KEYWORDS(module_load), METH_VARARGS | METH_KEYWORDS,
      "load(source, *, symbol=None, name=None, deps=None, expect_isa=None, trusted_keys=None, "
      "artefact_only=False, expect_headers=None)\n"
      "--\n\nLoads a callable from a path (an artefact, a chip callable of the reference's layout, "
      "or a\n"
      "shared object) or from the bytes of one of the first two.\n\n"
      "symbol         function of the orchestration, or the struct of a shared object\n"
      "trusted_keys   public keys; it has to be signed by one of them\n"
      "expect_isa     revision or folder of the tile library that it has to be made with\n"
      "expect_headers the same as a dict: headers that are in it and in the artefact have to be "
      "equal\n"
      "artefact_only  refuse shared objects, whose constructors would run; any option but `symbol` "
      "does so, too" },
    { NULL, NULL, 0, NULL }
};

int ext_callable_init(PyObject *module, struct ext_state *state)
{
    return ext_add_type(module, &callable_spec, &state->callable_type) < 0
               ? -1
               : PyModule_AddFunctions(module, functions);
}
