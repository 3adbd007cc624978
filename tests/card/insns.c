/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plugin for the emulator: counts the instructions of a program, and prints the number when the
 * program ends. Declares the part of the emulator's interface, version 1, that it uses.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define EXPORT __attribute__((visibility("default")))

struct qemu_plugin_tb;

void qemu_plugin_register_vcpu_tb_trans_cb(uint64_t id,
                                           void (*fn)(uint64_t id, struct qemu_plugin_tb *tb));
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb);
void qemu_plugin_register_vcpu_tb_exec_inline(struct qemu_plugin_tb *tb, int op, void *at,
                                              uint64_t value);
void qemu_plugin_register_atexit_cb(uint64_t id, void (*fn)(uint64_t id, void *context),
                                    void *context);

EXPORT int qemu_plugin_version = 1;
EXPORT int qemu_plugin_install(uint64_t id, const void *info, int argc, char **argv);

static uint64_t count;

static void translated(uint64_t id, struct qemu_plugin_tb *tb)
{
    enum { ADD = 0 };

    (void)id;
    qemu_plugin_register_vcpu_tb_exec_inline(tb, ADD, &count, qemu_plugin_tb_n_insns(tb));
}

static void ended(uint64_t id, void *context)
{
    (void)id;
    (void)context;
    fprintf(stderr, "%llu instructions\n", (unsigned long long)count);
}

int qemu_plugin_install(uint64_t id, const void *info, int argc, char **argv)
{
    (void)info;
    (void)argc;
    (void)argv;
    qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
    qemu_plugin_register_atexit_cb(id, ended, NULL);
    return 0;
}
