/* SPDX-License-Identifier: Apache-2.0 */
/* The store of compiled objects, and signatures of artefacts. */
#include "py_ext.h"

#include <stdlib.h>
#include <string.h>

#include <pto/sign.h>
#include <pto/store.h>

static PyObject *store_describe(const struct pto_store_info *info, PyObject *damaged)
{
    return Py_BuildValue(
        "{s:s,s:N,s:N,s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:s,s:O}", "folder", info->folder,
        "is_present", PyBool_FromLong(info->is_present), "is_writable",
        PyBool_FromLong(info->is_writable), "max_bytes", (unsigned long long)info->max_bytes,
        "entries", (unsigned long long)info->entries, "entry_bytes",
        (unsigned long long)info->entry_bytes, "names", (unsigned long long)info->names,
        "name_bytes", (unsigned long long)info->name_bytes, "leftovers",
        (unsigned long long)info->leftovers, "leftover_bytes",
        (unsigned long long)info->leftover_bytes, "damaged", (unsigned long long)info->damaged,
        "removed", (unsigned long long)info->removed, "refusal", info->refusal, "damaged_files",
        damaged);
}

/* Appends a path to a list; called with the interpreter's lock. */
static void note_damaged(void *context, const char *path)
{
    PyObject *text = PyUnicode_DecodeFSDefault(path);

    if (text == NULL || PyList_Append(context, text) < 0)
        PyErr_Clear(); /* ignore the error: the path is missing in the list, but it is counted */
    Py_XDECREF(text);
}

static PyObject *module_store(PyObject *module, PyObject *args)
{
    static const char *const actions[] = { "show", "verify", "clear", NULL };
    struct ext_state *state = PyModule_GetState(module);
    PyObject *action, *damaged, *result = NULL;
    struct pto_store_info *info;
    struct pto_error error;
    const char *folder = NULL;
    int chosen, status;

    if (!PyArg_ParseTuple(args, "O|z:_store", &action, &folder) ||
        (chosen = ext_choice(state, "the action", action, actions)) < 0)
        return NULL;
    info = malloc(sizeof(*info));
    damaged = PyList_New(0);
    if (info != NULL && damaged != NULL) {
        pto_store_info_init(info);
        pto_error_init(&error);
        status = chosen == 0   ? pto_store_show(folder, info, &error)
                 : chosen == 1 ? pto_store_verify(folder, info, note_damaged, damaged, &error)
                               : pto_store_clear(folder, info, &error);
        result = status < 0 ? ext_raise(state, status, &error) : store_describe(info, damaged);
    } else {
        (void)PyErr_NoMemory();
    }
    free(info);
    Py_XDECREF(damaged);
    return result;
}

static PyObject *key_bytes(const uint8_t *key)
{
    return PyBytes_FromStringAndSize((const char *)key, PTO_KEY_BYTES);
}

static PyObject *module_create_key(PyObject *module, PyObject *ignored)
{
    uint8_t secret[PTO_KEY_BYTES], key[PTO_KEY_BYTES];
    int status = pto_key_create(secret, key);
    PyObject *pair;

    (void)ignored;
    if (status < 0)
        return ext_raise(PyModule_GetState(module), status, NULL);
    pair = Py_BuildValue("(NN)", key_bytes(secret), key_bytes(key));
    explicit_bzero(secret, sizeof(secret));
    return pair;
}

static const uint8_t *take_secret(struct ext_state *state, const Py_buffer *secret)
{
    if (secret->len == PTO_KEY_BYTES)
        return secret->buf;
    (void)ext_raise_text(state, PTO_EINVAL, "a secret key has %d bytes, not %zd", PTO_KEY_BYTES,
                         secret->len);
    return NULL;
}

static PyObject *module_public_key(PyObject *module, PyObject *args)
{
    struct ext_state *state = PyModule_GetState(module);
    uint8_t key[PTO_KEY_BYTES];
    Py_buffer secret;
    const uint8_t *bytes;
    int status = PTO_OK;

    if (!PyArg_ParseTuple(args, "y*:public_key", &secret))
        return NULL;
    bytes = take_secret(state, &secret);
    if (bytes != NULL)
        status = pto_key_public(bytes, key);
    PyBuffer_Release(&secret);
    if (bytes == NULL)
        return NULL;
    return status < 0 ? ext_raise(state, status, NULL) : key_bytes(key);
}

static PyObject *module_sign(PyObject *module, PyObject *args)
{
    struct ext_state *state = PyModule_GetState(module);
    Py_buffer artefact, secret;
    struct pto_error error;
    PyObject *result = NULL;
    const uint8_t *key;
    void *bytes = NULL;
    size_t size = 0;

    if (!PyArg_ParseTuple(args, "y*y*:sign", &artefact, &secret))
        return NULL;
    pto_error_init(&error);
    key = take_secret(state, &secret);
    if (key != NULL) {
        int status =
            pto_artefact_sign(artefact.buf, (size_t)artefact.len, key, &bytes, &size, &error);

        result = status < 0 ? ext_raise(state, status, &error)
                            : PyBytes_FromStringAndSize(bytes, (Py_ssize_t)size);
    }
    free(bytes);
    PyBuffer_Release(&artefact);
    PyBuffer_Release(&secret);
    return result;
}

static PyMethodDef functions[] = {
    { "_store", module_store, METH_VARARGS, NULL },
    { "create_key", module_create_key, METH_NOARGS,
      "create_key()\n--\n\nA new pair of keys for signatures: (secret, public), 32 bytes each." },
    { "public_key", module_public_key, METH_VARARGS,
      "public_key(secret, /)\n--\n\nThe public key that belongs to a secret one." },
    { "sign", module_sign, METH_VARARGS,
      "sign(artefact, secret, /)\n--\n\nThe bytes of an artefact with a signature added; pto.load "
      "checks it with\n"
      "`trusted_keys`." },
    { NULL, NULL, 0, NULL }
};

int ext_store_init(PyObject *module)
{
    return PyModule_AddFunctions(module, functions);
}
