#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Kernels that crash or race, seen by common tools: gdb, live, with a core file and with two callables of the same
# names; valgrind; perf; ThreadSanitizer. Each shows the function and the line.
set -eu
cd "$(dirname "$0")/../.."
pto=$(realpath build/bin/pto)
tsan=$(realpath build/tsan/bin/pto)
include=$(realpath include)
lib=$(realpath build/lib)
program=$(realpath tests/system/debug_run.c)
source tests/system/expect.sh
mkdir "$work/tmp"
export TMPDIR=$work/tmp XDG_CACHE_HOME=$work/cache DEBUGINFOD_URLS='' HOME=$work
cd "$work"

has() { # file phrase...
    local file=$1
    shift
    for phrase in "$@"; do
        grep -qE -- "$phrase" "$file" || fail "no '$phrase' in: $(cat "$file")"
    done
}

left() { find "$TMPDIR" -mindepth 1 | head -3; }

# Two callables: equal names of files and functions, other lines.
for name in one two; do
    mkdir $name
    {
        [ $name = one ] || printf '\n\n\n'
        cat <<'C'
#include <pto/kernel.h>

static __attribute__((noinline)) void apply(int *at, int value)
{
    *at = value;
}

void kernel_entry(int64_t *args)
{
    int *to = pto_tensor_data(pto_arg_tensor(args, 1));

    apply(to, 1);
    apply((int *)(uintptr_t)8, 2);
    to[1] = 3;
}
C
    } >$name/kernel.c
    cat >$name/orch.c <<'C'
#include <pto/orch.h>

void orchestrate(struct pto_orch *o, const struct pto_entry *e)
{
    pto_aiv(o, 0, PTO_IN(&e->tensor[0]), PTO_WRITE(&e->tensor[1]));
}
C
    (cd $name && "$pto" build --orchestration orch.c --kernel 0:aiv:kernel.c -o "../$name.ptoc" >../build.log 2>&1) ||
        fail "$(cat build.log)"
done
"${CC:-gcc}" -std=gnu11 -Wall -Wextra -Werror -I"$include" -o run "$program" -L"$lib" -lpto -Wl,-rpath,"$lib"

# Live, both in one process.
timeout 120 gdb -nx -batch -ex run -ex bt -ex continue -ex bt -ex kill --args ./run one.ptoc two.ptoc \
    >gdb.log 2>&1 </dev/null || fail "$(cat gdb.log)"
has gdb.log "apply .*$work/one/kernel.c:5\$" "kernel_entry .*$work/one/kernel.c:13" \
    "apply .*$work/two/kernel.c:8\$" "kernel_entry .*$work/two/kernel.c:16"
rm -rf "$TMPDIR"/*

# The error of a run, in this process and from an isolated device. The name of a function that is not exported is known.
./run one.ptoc two.ptoc >run.log 2>&1 || fail "$(cat run.log)"
has run.log "^-215: $work/one/orch.c:5: kernel .*task 0.*, in apply \(kernel.c:5\), called from kernel_entry \(kernel.c:13\); arguments: int32\[64\] at 0x" \
    "^-215: $work/two/orch.c:5: kernel .*task 0.*, in apply \(kernel.c:8\), called from kernel_entry \(kernel.c:16\); arguments: int32\[64\] at 0x" \
    "^#0 apply \($work/one/kernel.c:5\)\$" '^argument 1: int32\[64\] at 0x'

# A core file after the end of the process. If the system pipes core files to a program, there is no file here.
if [ "$(head -c 1 /proc/sys/kernel/core_pattern)" != '|' ]; then
    sed -i 's|\*at = value;|if (value == 2) __builtin_abort(); *at = value;|' two/kernel.c
    (cd two && "$pto" build --orchestration orch.c --kernel 0:aiv:kernel.c -o ../abort.ptoc >../build.log 2>&1)
    if (ulimit -c unlimited && ./run abort.ptoc) >run.log 2>&1; then fail "abort goes on"; fi 2>/dev/null
    [ -n "$(left)" ] || fail "a process that was killed should leave its code to its core file"
    timeout 60 gdb -nx -batch -ex bt ./run core* >core.log 2>&1 </dev/null || fail "$(cat core.log)"
    has core.log "apply .*$work/two/kernel.c:8\$" "kernel_entry .*$work/two/kernel.c:16"
    rm -rf "$TMPDIR"/* core*
fi

# The debugger as users of scenes start it, with --gdb; and a missing debugger.
"$pto" new mine >/dev/null
cp one/kernel.c mine/kernels/axpy.c
printf 'break apply\nrun\ncontinue\nbt\nkill\n' | timeout 120 "$pto" run mine --gdb >gdb.log 2>&1 ||
    fail "$(cat gdb.log)"
has gdb.log "Breakpoint 1, apply" "at $work/mine/kernels/axpy.c:5\$" 'a2a3sim, stream, small'
rm -rf "$TMPDIR"/*
for way in '' --isolated; do
    # shellcheck disable=SC2086 # no word, or one
    if "$pto" run mine $way >run.log 2>&1; then fail "no crash: $(cat run.log)"; fi
    has run.log "$work/mine/orch.c:[0-9]+: kernel \"axpy\" .*apply \(axpy.c:5\), called from kernel_entry \(axpy.c:13\)"
done
# A function of a SUB worker and a kernel on a chip, each in a separate process. Which of them has ended when gdb
# reaches the end of its input is not determined, and killed ones leave their code files.
mkdir "$work/killed"
printf 'break total.c:11\nbreak negate.c:11\nrun\nbt 1\ndelete\ncontinue\n' |
    TMPDIR=$work/killed timeout 120 "$pto" run reduce --platform a2a3sim --mode stream --gdb >gdb.log 2>&1 || fail "$(cat gdb.log)"
has gdb.log 'Thread [0-9.]* "pto-child" hit .*Breakpoint 2' 'negate.c:11'
if PATH=/nowhere "$pto" run mine --gdb >gdb.log 2>&1; then fail "gdb was found"; fi
has gdb.log 'install gdb'
if "$pto" run mine --gdb --isolated >gdb.log 2>&1; then fail "two processes were accepted"; fi
has gdb.log 'a single process'

# If no file can be created, code is loaded from memory, and doctor reports that.
TMPDIR=/proc/none ./run one.ptoc >run.log 2>&1 || fail "$(cat run.log)"
has run.log '^-215: .*kernel "kernel" crashed at address 0x8'
TMPDIR=/proc/none "$pto" doctor >doctor.log 2>&1 || true
has doctor.log 'cannot load code from /proc/none'

# valgrind, in the process and while it goes on.
valgrind -q ./run one.ptoc >valgrind.log 2>&1 || fail "$(cat valgrind.log)"
has valgrind.log 'Invalid write' 'kernel_entry \(kernel.c:13\)'
[ -z "$(left)" ] || fail "left behind: $(left)"

# perf reads the code files after the process has ended, so they must stay.
sed -i 's|apply((int.*|for (int i = 0; i < 300000000; i++) __asm__ volatile("");|' one/kernel.c
(cd one && "$pto" build --orchestration orch.c --kernel 0:aiv:kernel.c -o ../one.ptoc >../build.log 2>&1)
if command -v perf >/dev/null && PTO_CODE_DIR=$work/kept perf record -q -o perf.data ./run one.ptoc >perf.log 2>&1; then
    perf script -i perf.data -F ip,sym,dso,srcline >perf.txt 2>/dev/null
    has perf.txt 'kernel_entry' 'kernel.c:13'
fi
[ -z "$(left)" ] || fail "left behind: $(left)"

# Orchestrations: a crash ends the run, abort and assert end the process; the last submit is named, and the heading is there.
"$pto" new orc >/dev/null
cat >orc/kernels/axpy.c <<'C'
#include <pto/kernel.h>

void kernel_entry(int64_t *args)
{
    (void)args;
}
C
cat >orc/orch.c <<'C'
#include <assert.h>
#include <pto/orch.h>

static __attribute__((noinline)) int stumble(int depth)
{
    volatile char room[4096];

    room[0] = (char)depth;
    if (HOW == 'c')
        *(volatile int *)(uintptr_t)16 = 1;
    assert(HOW != 'a');
    return stumble(depth + 1) + room[0];
}

void orchestrate(struct pto_orch *o, const struct pto_entry *entry)
{
    for (int i = 0; i < 3; i++)
        pto_aiv(o, 0, PTO_IN(&entry->tensor[0]), PTO_INOUT(&entry->tensor[1]), PTO_PASS(0));
    if (HOW == 's')
        pto_aiv(o, 0, PTO_IN((const struct pto_tensor *)(uintptr_t)4096));
    stumble(0);
}
C
for way in '' --isolated; do
    for how in c o a; do
        # shellcheck disable=SC2086 # no word, or one
        if "$pto" run orc --platform a5sim --mode host --flag="-DHOW='$how'" $way >$how.log 2>&1; then fail "$(cat $how.log)"; fi
        has $how.log '^a5sim, host, small$' "$work/orc/orch.c:18"
    done
    has c.log 'the orchestration crashed at address 0x10, after its submit of task 2 .*, in stumble \(orch.c:10\)'
    has o.log 'the orchestration overflowed its stack of .*, in stumble \(orch.c:[0-9]+\)'
    # A bad address that is only passed on: the process continues with the second mode.
    # shellcheck disable=SC2086 # no word, or one
    if "$pto" run orc --platform a5sim --flag="-DHOW='s'" $way >s.log 2>&1; then fail "$(cat s.log)"; fi
    has s.log '^a5sim, stream, small$' '^a5sim, host, small$'
    [ "$(grep -c 'the orchestration crashed at address 0x10.*, in an operation of the runtime, to which it passed a bad address .*orch.c:20' s.log)" = 2 ] ||
        fail "$(cat s.log)"
done
has a.log 'ended by signal 6 .*, by the orchestration, after this submit'
rm -rf "$TMPDIR"/*
if "$pto" run orc --platform a5sim --flag="-DHOW='a'" >a.log 2>&1; then fail "assert goes on"; fi
has a.log '^a5sim, stream, small$' "^pto: abort, .* in the orchestration, after the submit of task 2 \($work/orc/orch.c:18\)" \
    'the process died in the run: Aborted'
rm -rf "$TMPDIR"/*

# A race of two kernels, which wait for each other so that two threads run them.
cat >mine/kernels/axpy.c <<'C'
#include <pto/kernel.h>

static int arrived;
static int shared;

static __attribute__((noinline)) void meet(void)
{
    __atomic_fetch_add(&arrived, 1, __ATOMIC_RELAXED);
    while (__atomic_load_n(&arrived, __ATOMIC_RELAXED) < 2)
        pto_pause();
    shared++;
}

void kernel_entry(int64_t *args)
{
    (void)args;
    meet();
}
C
# shellcheck disable=SC2015 # both lead to the same
setarch -R "$tsan" run mine --debug --flag=-fsanitize=thread >tsan.log 2>&1 && fail "no race: $(cat tsan.log)" || true
has tsan.log 'WARNING: ThreadSanitizer: data race' "meet .*$work/mine/kernels/axpy.c:11" \
    "kernel_entry .*axpy.c:17"
[ -z "$(left)" ] || fail "left behind: $(left)"
echo "ok"
