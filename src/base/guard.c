/* SPDX-License-Identifier: Apache-2.0 */
/*
 * guard_enter has a personality routine that catches any exception; execution then continues after
 * the call, as if the called function had returned. The unwinder has restored the registers by
 * then, so guard_enter saves none.
 */
#include "base/guard.h"

#include <dlfcn.h>
#include <stdio.h>
#include <unwind.h>

#include "base/program.h"

struct caught {
    struct _Unwind_Exception *exception; /* exception that was thrown; NULL: none */
    uintptr_t result;                    /* enum guard_result: how the call ended */
};

struct caught guard_enter(void (*fn)(void *arg), void *arg);
extern const char guard_landing[];

#if defined(__aarch64__)
__asm__(".text\n"
        ".globl guard_enter, guard_landing\n"
        ".hidden guard_enter, guard_landing\n"
        ".type guard_enter, %function\n"
        ".balign 16\n"
        "guard_enter:\n"
        "    .cfi_startproc\n"
        "    .cfi_personality 0x1b, guard_personality\n"
        "    stp x29, x30, [sp, #-16]!\n"
        "    .cfi_def_cfa_offset 16\n"
        "    .cfi_offset 29, -16\n"
        "    .cfi_offset 30, -8\n"
        "    mov x29, sp\n"
        "    mov x9, x0\n"
        "    mov x0, x1\n"
        "    blr x9\n"
        "    mov x0, #0\n"
        "    mov x1, #0\n"
        "guard_landing:\n"
        "    ldp x29, x30, [sp], #16\n"
        "    .cfi_def_cfa_offset 0\n"
        "    .cfi_restore 29\n"
        "    .cfi_restore 30\n"
        "    ret\n"
        "    .cfi_endproc\n");
#elif defined(__x86_64__)
__asm__(".text\n"
        ".globl guard_enter, guard_landing\n"
        ".hidden guard_enter, guard_landing\n"
        ".type guard_enter, @function\n"
        ".balign 16\n"
        "guard_enter:\n"
        "    .cfi_startproc\n"
        "    .cfi_personality 0x1b, guard_personality\n"
        "    subq $8, %rsp\n"
        "    .cfi_def_cfa_offset 16\n"
        "    movq %rdi, %rax\n"
        "    movq %rsi, %rdi\n"
        "    call *%rax\n"
        "    xorl %eax, %eax\n"
        "    xorl %edx, %edx\n"
        "guard_landing:\n"
        "    addq $8, %rsp\n"
        "    .cfi_def_cfa_offset 8\n"
        "    ret\n"
        "    .cfi_endproc\n");
#else
#error "guard_enter is not written for this processor"
#endif

_Unwind_Reason_Code guard_personality(int version, _Unwind_Action actions,
                                      _Unwind_Exception_Class class,
                                      struct _Unwind_Exception *exception,
                                      struct _Unwind_Context *context);

__attribute__((used)) _Unwind_Reason_Code guard_personality(int version, _Unwind_Action actions,
                                                            _Unwind_Exception_Class class,
                                                            struct _Unwind_Exception *exception,
                                                            struct _Unwind_Context *context)
{
    bool is_exit = (actions & _UA_FORCE_UNWIND) != 0;

    (void)class;
    if (version != 1)
        return _URC_FATAL_PHASE1_ERROR;
    if ((actions & _UA_SEARCH_PHASE) != 0)
        return _URC_HANDLER_FOUND;
    _Unwind_SetGR(context, __builtin_eh_return_data_regno(0), (_Unwind_Word)(uintptr_t)exception);
    _Unwind_SetGR(context, __builtin_eh_return_data_regno(1), is_exit ? GUARD_EXITED : GUARD_THREW);
    _Unwind_SetIP(context, (_Unwind_Ptr)(uintptr_t)guard_landing);
    return _URC_INSTALL_CONTEXT;
}

/* Copies the text of a C++ exception, and frees the exception. */
static void guard_describe(struct _Unwind_Exception *exception, char text[GUARD_TEXT])
{
    /* The exception class of GNU C++, highest byte first, its final 0 included. */
    static const char cxx[] = "GNUCC++";
    void (*take)(struct _Unwind_Exception *, char *, size_t) = NULL;
    bool is_cxx = true;
    void *library = NULL;
    char path[PATH_MAX];

    for (uint32_t i = 0; i < sizeof(cxx); i++)
        is_cxx = is_cxx && (exception->exception_class >> (56 - 8 * i) & 0xff) == (uint8_t)cxx[i];
    if (is_cxx && program_find_library("libptoguard.so.0", path))
        library = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (library != NULL) {
        *(void **)&take = dlsym(library, "pto_guard_take");
        /* drop our reference to the library, which stays loaded (RTLD_NODELETE) */
        dlclose(library);
    }
    if (take != NULL) {
        take(exception, text, GUARD_TEXT);
        return;
    }
    snprintf(text, GUARD_TEXT, "%s",
             is_cxx ? "libptoguard.so.0, which reads the text of exceptions, is not in the folder "
                      "of the library"
                    : "it is not a C++ exception");
    _Unwind_DeleteException(exception);
}

enum guard_result guard_call(void (*fn)(void *arg), void *arg, char text[GUARD_TEXT])
{
    struct caught caught = guard_enter(fn, arg);

    if (caught.result == GUARD_THREW)
        guard_describe(caught.exception, text);
    return (enum guard_result)caught.result;
}

struct orchestration {
    pto_orch_fn fn;
    struct pto_orch *handle;
    const struct pto_entry *entry;
};

static void guard_orchestrate(void *arg)
{
    const struct orchestration *call = arg;

    call->fn(call->handle, call->entry);
}

enum guard_result guard_orchestration(pto_orch_fn fn, struct pto_orch *o,
                                      const struct pto_entry *entry, char text[GUARD_TEXT])
{
    struct orchestration call = { fn, o, entry };

    return guard_call(guard_orchestrate, &call, text);
}
