/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A SUB worker that is a Python interpreter, started by pto/_child.py. Functions arrive as bytes,
 * which pto/_function.py makes and loads; this file calls them. Everything runs on the serving
 * thread.
 */
#include "py_worker.h"

#include <stdio.h>
#include <string.h>

struct server {
    struct ext_state *state;
    PyObject *load; /* function load(bytes) of pto/_child.py, which returns a function */
    /* function describe(exception) of pto/_child.py, which returns a sentence */
    PyObject *describe;
    PyThreadState *thread;
};

/*
 * Writes a sentence about the current exception of this thread, clears the exception, and returns
 * its status.
 */
static int child_describe_error(struct server *server, char *text, size_t size)
{
    PyObject *type, *value, *traceback, *sentence, *status;
    const char *words;
    long number = PTO_EKERNEL;

    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    if (value != NULL && traceback != NULL)
        (void)PyException_SetTraceback(value, traceback);
    sentence = value == NULL ? NULL : PyObject_CallFunctionObjArgs(server->describe, value, NULL);
    words = sentence == NULL ? NULL : PyUnicode_AsUTF8AndSize(sentence, NULL);
    snprintf(text, size, "%s", words != NULL ? words : "it raised an exception without a text");
    PyErr_Clear();
    if (value != NULL && PyObject_IsInstance(value, server->state->error) == 1) {
        status = PyObject_GetAttrString(value, "status");
        number = status == NULL ? number : PyLong_AsLong(status);
        Py_XDECREF(status);
        PyErr_Clear();
    }
    Py_XDECREF(sentence);
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(traceback);
    return number < 0 ? (int)number : PTO_EKERNEL;
}

static int load_function(void *context, const struct pto_child_code *code, void **function_out,
                         struct pto_error *error)
{
    struct server *server = context;
    int status = PTO_OK;
    PyObject *bytes, *function;

    PyEval_RestoreThread(server->thread);
    bytes = PyBytes_FromStringAndSize(code->bytes, (Py_ssize_t)code->byte_count);
    function = bytes == NULL ? NULL : PyObject_CallFunctionObjArgs(server->load, bytes, NULL);
    Py_XDECREF(bytes);
    *function_out = function;
    if (function == NULL)
        status = child_describe_error(server, error->text, sizeof(error->text));
    server->thread = PyEval_SaveThread();
    return status == PTO_EKERNEL ? PTO_ELOAD : status;
}

static PyObject *make_arguments(struct server *server, const struct pto_sub_call *call)
{
    PyObject *args = PyTuple_New((Py_ssize_t)call->tensor_count + (Py_ssize_t)call->scalar_count);

    for (uint32_t i = 0; args != NULL && i < call->tensor_count; i++) {
        PyObject *tensor = ext_tensor_new(server->state, &call->tensor[i], NULL, false);

        if (tensor == NULL || PyTuple_SetItem(args, (Py_ssize_t)i, tensor) < 0)
            Py_CLEAR(args);
    }
    for (uint32_t i = 0; args != NULL && i < call->scalar_count; i++) {
        PyObject *scalar = PyLong_FromLongLong((int64_t)call->scalar[i]);

        if (scalar == NULL ||
            PyTuple_SetItem(args, (Py_ssize_t)call->tensor_count + (Py_ssize_t)i, scalar) < 0)
            Py_CLEAR(args);
    }
    return args;
}

static int call_function(void *context, void *function, const struct pto_sub_call *call)
{
    struct server *server = context;
    int status = PTO_OK;
    PyObject *args, *result;

    PyEval_RestoreThread(server->thread);
    args = make_arguments(server, call);
    result = args == NULL ? NULL : PyObject_CallObject(function, args);
    Py_XDECREF(args);
    if (result == NULL)
        status = child_describe_error(server, call->text, call->text_size);
    Py_XDECREF(result);
    server->thread = PyEval_SaveThread();
    return status;
}

static void unload_function(void *context, void *function)
{
    struct server *server = context;

    PyEval_RestoreThread(server->thread);
    Py_DECREF((PyObject *)function);
    server->thread = PyEval_SaveThread();
}

static PyObject *module_serve(PyObject *module, PyObject *args)
{
    struct server server = { .state = PyModule_GetState(module) };
    struct pto_child_hooks hooks;
    int code;

    if (!PyArg_ParseTuple(args, "OO:_serve", &server.load, &server.describe))
        return NULL;
    pto_child_hooks_init(&hooks);
    hooks.context = &server;
    hooks.load = load_function;
    hooks.call = call_function;
    hooks.unload = unload_function;
    server.thread = PyEval_SaveThread();
    code = pto_child_serve_with(&hooks);
    PyEval_RestoreThread(server.thread);
    return PyLong_FromLong(code);
}

static PyMethodDef functions[] = {
    { "_serve", module_serve, METH_VARARGS, "Serves as a SUB worker; returns the exit code." },
    { NULL, NULL, 0, NULL },
};

int ext_child_init(PyObject *module)
{
    return PyModule_AddFunctions(module, functions);
}
