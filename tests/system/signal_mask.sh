#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Runs of a program's own functions make no system call for the signal mask, unless something in the program could
# change it; then the mask is restored. A preloaded library counts the calls.
set -eu
cd "$(dirname "$0")/../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cat >"$work/count.c" <<'C'
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>
static unsigned calls;
int pthread_sigmask(int how, const sigset_t *set, sigset_t *old)
{
    __atomic_fetch_add(&calls, 1, __ATOMIC_RELAXED);
    return syscall(SYS_rt_sigprocmask, how, set, old, 8) == 0 ? 0 : errno;
}
__attribute__((destructor)) static void tell(void)
{
    sigset_t now;
    syscall(SYS_rt_sigprocmask, SIG_BLOCK, NULL, &now, 8);
    printf("%u calls, %s\n", calls, sigismember(&now, SIGUSR1) ? "blocked" : "not blocked");
}
C
cat >"$work/program.c" <<'C'
#define _GNU_SOURCE
#include <stdlib.h>
#include "pto/pto.h"
#ifdef CHANGES
#include <signal.h>
static void kernel(int64_t *args)
{
    sigset_t set;
    (void)args;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
}
#else
static void kernel(int64_t *args) { (void)args; }
#endif
static const struct pto_kernel kernels[] = { { "nothing", kernel, PTO_CORE_AIV } };
static void orchestrate(struct pto_orch *o, const struct pto_entry *entry)
{
    (void)entry;
    pto_aiv(o, 0, PTO_INT(1));
}
int main(int argc, char **argv)
{
    struct pto_callable_params params;
    struct pto_device_params device_params;
    struct pto_callable *callable;
    struct pto_device *device;

    pto_callable_params_init(&params);
    params.orchestration = orchestrate;
    params.kernels = kernels;
    params.kernel_count = 1;
    pto_device_params_init(&device_params);
    device_params.workers = 1;
    if (pto_callable_create(&params, &callable) < 0 || pto_device_open(&device_params, &device) < 0)
        return 1;
    for (int i = 0; i < atoi(argv[argc - 1]); i++)
        if (pto_run(device, callable, NULL, NULL, NULL) < 0)
            return 1;
    return pto_device_close(device) < 0;
}
C
${CC:-cc} -shared -fPIC -o "$work/count.so" "$work/count.c"
for changes in "" -DCHANGES; do
    ${CC:-cc} $changes -O1 -Iinclude -o "$work/program$changes" "$work/program.c" -Lbuild/lib -lpto \
        -Wl,-rpath,"$PWD/build/lib"
done
calls() { LD_PRELOAD=$work/count.so "$work/program$1" "$2"; } # program runs

# On a busy machine the monitor may replace a thread that does not run, and a new thread makes four calls. So 1000
# further runs may make up to 100 calls more than expected, a tenth of a call per run.
grow() { # calls-per-run program
    few=$(calls "$2" 10)
    many=$(calls "$2" 1010)
    more=$((${many%% *} - ${few%% *} - 1000 * $1))
    [ "$more" -ge -100 ] && [ "$more" -le 100 ] || { echo "FAIL  10 runs: $few; 1010 runs: $many" && exit 1; }
}

grow 0 ""
echo "ok    no call in a run: $many"
# A run saves and restores the mask, and its kernel makes one call.
grow 3 -DCHANGES
[ "${many#*, }" = "not blocked" ] || { echo "FAIL  a kernel's signal stays blocked" && exit 1; }
echo "ok    what a kernel blocks is put back: $many"
