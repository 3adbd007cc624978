#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Level-3 scenes that fail: sources that do not compile, functions that fail, crash, hang or write too much, an
# orchestration that uses something that does not exist. The command names the cause and the line of the submit, and
# leaves nothing behind. PTO names the command.
set -eu
cd "$(dirname "$0")/../.."
pto=$(realpath "${PTO:-build/bin/pto}")
. tests/system/expect.sh
mkdir "$work/tmp"
export TMPDIR=$work/tmp
scene=$work/scene
one="--platform a2a3sim --mode stream"

# A copy of an example in which a line is put in front of a pattern.
change() { # example file pattern line
    rm -rf "$scene"
    cp -r "examples/$1" "$scene"
    sed -i "0,/$3/{/$3/i $4
}" "$scene/$2"
    grep -qF -- "$4" "$scene/$2" || fail "examples/$1/$2 has no $3"
}
line_of() { grep -n -m1 -- "$1" "$scene/orch.c" | cut -d: -f1; }

# ---- what cannot be built ----

change reduce total.c 'return PTO_OK' 'int x = nonsense;'
expect 1 "total.c:15" run "$scene" $one
grep -q "build    FAILED" "$work/out" || fail "$(cat "$work/out")"
expect 1 "FAIL  reduce/one_chip a2a3sim stream" test "$scene" $one
change reduce orch.c 'pto_level_task(level, callable.TOTAL' 'nonsense(level);'
expect 1 "nonsense" run "$scene" $one
change reduce subtract.c 'pto_aiv(o, ADD' 'nonsense(o);'
expect 1 "subtract.c" run "$scene" $one
change reduce scene.yaml 'arguments:' '# changed'
sed -i 's/source: total.c/source: total.c, function: sum/' "$scene/scene.yaml"
expect 1 "callable 'total': child 2: 'total' exports no function 'sum'" run "$scene" $one
sed -i 's/total.c, function: sum/missing.c/' "$scene/scene.yaml"
expect 1 "the function's source '$scene/missing.c' cannot be used: No such file" run "$scene" $one
expect 1 "several callables; build one of them" build reduce
echo "ok    what cannot be built"

# ---- what fails ----

change reduce total.c 'return PTO_OK' 'return __builtin_snprintf(call->text, call->text_size, "no total of %u", last), PTO_EFORMAT;'
expect_all 1 "orch.c:$(line_of 'TOTAL., 0'): SUB worker 2: callable 'total': no total of 2" -- run "$scene" $one
change reduce total.c 'return PTO_OK' 'sum[i] += 0 * sum[0], sum[7]++;'
sed -i 's/sum\[i\] += 0 \* sum\[0\], //' "$scene/total.c"
expect 1 "f[7]: expected" run "$scene" $one
expect 1 "FAIL  reduce/default" test "$scene" $one --junit "$work/junit.xml"
grep -q 'f\[7\]: expected' "$work/junit.xml" || fail "$(cat "$work/junit.xml")"
change reduce total.c 'return PTO_OK' 'sum[call->tensor[last].shapes[0]] = 1;'
expect 1 "orch.c:$(line_of 'TOTAL., 0')" run "$scene" $one
grep -q "callable 'total'.*after the" "$work/out" || fail "$(cat "$work/out")"
change reduce kernels/negate.c 'for (uint32_t' '*(volatile int *)8 = 1;'
expect 1 "callable 'subtract': " run "$scene" $one
grep -q "orch.c:$(line_of 'SUBTRACT.,'): chip 1" "$work/out" || fail "$(cat "$work/out")"
change reduce total.c 'return PTO_OK' '__builtin_trap();'
expect_all 1 "SUB worker 2: callable 'total'" "was ended by signal" -- run "$scene" $one
expect_all 1 "FAIL  reduce/default" "FAIL  reduce/one_chip" -- test "$scene" $one --rounds 2
change reduce orch.c 'pto_level_task(level, callable.TOTAL' '(void)pto_level_callable(entry, "sum");'
expect 1 "the orchestration asks for the callable 'sum', which scene.yaml does not have" run "$scene" $one
change reduce orch.c 'pto_level_task(level, callable.TOTAL' '*(volatile int *)8 = 1;'
expect 1 "the process died in the run: Segmentation fault" run "$scene" $one
expect 1 "in the run" test "$scene" $one --name reduce/default
echo "ok    what fails"

# ---- what takes too long ----

# There is only one task, so that no other child can be busy, however slow the machine is. It begins when half of the
# run's time is over, and may take as long as the whole run, so it still runs at the deadline, however late that is
# noticed.
change reduce total.c 'return PTO_OK' 'for (;;) __asm__ volatile("pause");'
sed -i 's/^    p = pto_level_task/    usleep((useconds_t)(atof(getenv("LIMIT")) * 5e5));\n    pto_level_task(level, callable[TOTAL], 0, PTO_IN(a), PTO_IN(b), PTO_WRITE(f));\n    if (last <= 1)\n        return;\n&/; 1a #include <stdlib.h>\n#include <unistd.h>' "$scene/orch.c"
expect_late 1 "the run did not end within LIMIT s; busy: SUB worker 2" -- run "$scene" $one --timeout LIMIT --grace 0.1
expect_late 1 "FAIL  reduce/default" "FAIL  reduce/one_chip" "busy: SUB worker 2" "busy: SUB worker 1" \
    -- test "$scene" $one --timeout LIMIT --grace 0.1
change reduce kernels/negate.c 'for (uint32_t' 'for (;;) __asm__ volatile("pause");'
expect_late 1 "the run did not end within LIMIT s; busy: " "callable 'subtract': " -- run "$scene" $one --timeout LIMIT --grace 60
echo "ok    what takes too long"

# ---- options ----

for option in "--orders 1" --lines "--order-seed 3" "--diagnostics d" "--launch-timeout 1" --keep-thread; do
    expect 2 "--${option:2:4}" run reduce $one $option
    grep -q "is of level 3" "$work/out" || fail "$(cat "$work/out")"
done
expect 0 "--isolated has no effect" run reduce $one --isolated
expect 0 "2 skipped" test examples/reduce $one --orders 2
expect 0 "2 passed" test examples/reduce $one --isolated --rounds 3 --no-guards --threads 1
expect 0 "written  f to $work/f.npy" run reduce $one --out f="$work/f.npy"
expect 0 "result   ok: f exact" run reduce $one --in a="$work/f.npy"
expect 0 "result   ok" run reduce $one --debug
echo "ok    options"

# ---- the command is interrupted or killed ----

change reduce total.c 'return PTO_OK' 'for (;;) __asm__ volatile("pause");'
is_running() { # the SUB worker of the command is
    local pid
    for pid in $(cat "/proc/$1/task/$1/children"); do
        for child in $(cat "/proc/$pid/task/$pid/children"); do
            [ "$(cut -d' ' -f14 "/proc/$child/stat")" -gt 20 ] && children=$(cat "/proc/$pid/task/$pid/children") && return
        done
    done 2>/dev/null
    false
}
are_gone() { for child in $children; do [ ! -e "/proc/$child" ] || return 1; done; }
for signal in INT TERM KILL; do
    python3 - "$pto" run "$scene" $one >"$work/out" 2>&1 <<'PY' &
import os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)
os.execv(sys.argv[1], sys.argv[1:])
PY
    command=$!
    disown
    until_true "the start of the children" is_running $command
    kill -$signal $command
    until_true "their end after $signal" are_gone
done
find "$work/tmp" -mindepth 1 -newer "$scene" | grep -v '/pto-[0-9]' && fail "files are left" || true
echo "ok    interrupted and killed"
