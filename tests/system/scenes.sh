#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Scenes as a user meets them: a new one passes; one that is wrong, crashes or hangs is reported as
# such and does not affect others; filters, rounds, JUnit, Ctrl-C; the user's own data. PTO names the
# command.
set -eu
cd "$(dirname "$0")/../.."
pto=$(realpath "${PTO:-build/bin/pto}")
source tests/system/expect.sh
platforms=$(PTO=$pto tests/system/platforms.sh | wc -l)
runs=$((2 * 2 * platforms)) # of a new scene: cases, modes, platforms
export XDG_CACHE_HOME=$work/cache
cd "$work"

# A copy of the new scene, with a change to one of its files.
variant() { # name file sed-script
    cp -r new "$1"
    sed -i -e "s/^name: new/name: $1/" "$1/scene.yaml"
    sed -i -e "$3" "$1/$2"
    ! cmp -s "new/$2" "$1/$2" || [ "$2" = scene.yaml ] || fail "$1: nothing has changed"
}

# ---- new ----

expect_all 0 "made new; next: pto test new" -- new new
expect_all 0 "$runs passed, 0 failed, 0 skipped" -- test new
expect_all 0 "result   ok: y " "written  y to y.npy" -- run new --case odd --out y=y.npy
expect_all 1 "File exists" -- new new
expect_all 2 "'a b' is not a valid name" -- new "a b"
expect_all 2 "usage: pto new" -- new
expect_all 2 "unexpected argument 'b'" -- new a b
expect_all 1 "No such file" -- new no/where
variant no_scalar golden.c 's/"alpha")/"beta")/'
expect_all 1 "the golden asks for the scalar 'beta', which scene.yaml does not have" -- run no_scalar --platform a5sim
echo "ok    new"

# ---- what a kernel may use ----

# libm, and 7 MiB of stack on the threads of the device, where gangs run, whatever the shell's limit.
variant deep kernels/axpy.c '1a #include <math.h>
s/^    for/    volatile char room[7 << 20];\n    for (unsigned i = 0; i < sizeof(room); i += 4096)\n        room[i] = 1;\n    if (pto_block_index(args) == 1)\n        return;\n&/
s/alpha \* x\[i\]/(float)(room[0] * log(exp((double)(alpha * x[i]))))/'
sed -i 's/PTO_PASS(0)/&, PTO_GANG(2)/' deep/orch.c
sed -i 's/rtol: 1e-6, atol: 1e-6/rtol: 1e-5, atol: 1e-5/' deep/scene.yaml
expect_all 0 "$runs passed" -- test deep
(ulimit -s 1024 && expect_all 0 "$runs passed" -- test deep)
echo "ok    libm and the stack"

# ---- a wrong result ----

variant wrong kernels/axpy.c 's/y\[i\] = alpha/if (i == 7) y[i] = 0.0f \/ (y[i] - y[i]); else if (i != 9) y[i] = alpha/'
expect_all 1 "4 failed" -- test wrong --platform a5sim
[ "$(grep -c 'y: 8 of 10[02][04] elements differ (float32, rtol 1e-06, atol 1e-06)' out)" = 4 ] || fail "$(cat out)"
[ "$(grep -c 'NaN: 4, of which 4 are not expected' out)" = 4 ] || fail "$(cat out)"
grep -qE 'y\[7\]: expected -?[0-9.]+, got -?nan; last written by task 0 \(axpy, orch.c:[0-9]+\)$' out || fail "$(cat out)"
grep -qE 'y\[265\]: expected [-0-9.e]+, got [-0-9.e]+ \([0-9]+ ULP\); last written by task 1 \(axpy, ' out || fail "$(cat out)"
grep -qE 'largest error: [0-9.]+ at y\[[0-9]+\]; relative: [0-9.]+ at y\[[0-9]+\]; [0-9]+ ULP at most' out || fail "$(cat out)"
grep -qx '        and 3 more' out || fail "$(cat out)"
expect_all 1 "FAILED: the result is not the expected one (-220)" "y[7]: expected" -- run wrong --mode host
# Elements that no task writes are wrong in each round, although the run before left the right values
# in the buffer.
variant part orch.c 's/at < n; at/at + TILE < n; at/'
sed -i 's/direction: inout/direction: out/' part/scene.yaml
sed -i 's/pto_scene_data(s, "y")/pto_scene_data(s, "x")/; /random(s, "y"/d' part/golden.c
sed -i 's/y\[i\] = alpha.*/y[i] = alpha * x[i] + x[i];/' part/kernels/axpy.c
sed -i 's/PTO_INOUT(&to)/PTO_WRITE(\&to)/' part/orch.c
expect_all 1 "y: 256 of 1024 elements differ" "NaN: 256, of which 256" "got nan; no task has it as an output" -- test part --rounds 3
grep -q 'in round 1 of 3: ' out || fail "$(cat out)"
# Beyond the end of an output.
variant beyond kernels/axpy.c 's/y\[i\] = alpha.*/y[i] = 3 * x[i]; y[tensor->shapes[0]] = 1;/'
sed -i 's/direction: inout/direction: out/' beyond/scene.yaml
sed -i 's/pto_scene_data(s, "y")/pto_scene_data(s, "x")/; /random(s, "y"/d' beyond/golden.c
sed -i 's/PTO_INOUT(&to)/PTO_WRITE(\&to)/' beyond/orch.c
expect_all 1 "argument 'y'" "(-211)" -- test beyond --name '*/small' --platform a5sim
variant over kernels/axpy.c 's/y\[i\] = alpha/y[i == 231 ? i + 1 : i] = alpha/' # 1000 = 3 * 256 + 232
expect_all 1 "argument 'y'" "(-211)" -- test over --name '*/odd' --platform a5sim
# A process that exits with code 0 without reporting a result has not passed.
variant leaves kernels/axpy.c '1a #include <stdlib.h>
s/y\[i\] = alpha/if (i == 9) exit(0); else y[i] = alpha/'
for command in run test; do
    expect_all 1 "the process ended in the run, with code 0" 'pto: exit in kernel "axpy" in block 0 of task ' \
        "/leaves/orch.c:17), in kernel_entry (axpy.c:13)" -- $command leaves --platform a5sim
done
variant quits golden.c '1a #include <stdlib.h>
s/return 0/exit(0)/'
expect_all 1 "the process ended in the golden, with code 0" -- run quits --platform a5sim
variant endless golden.c '1i #include <unistd.h>
s/return 0/for (volatile int i = 0;; i = 1) usleep(1000); return 0/'
expect_all 1 "it did not finish in time in the golden and was killed" -- run endless --platform a5sim --timeout 0.5
echo "ok    a wrong result"

# ---- crashes, hangs, refusals ----

variant golden_crash golden.c 's/return 0;/if (n == 1024) *(volatile int *)8 = 1; return 0;/'
variant golden_exit golden.c 's/return 0;/return (int)n;/'
variant golden_name golden.c 's/"n")/"m")/'
variant golden_hang golden.c '1i #include <unistd.h>
s/return 0;/for (volatile int go = n == 1024; go;) usleep(1000); return 0;/'
variant kernel_crash kernels/axpy.c 's/y\[i\] = alpha/y[*(volatile int *)8] = alpha/'
variant kernel_hang kernels/axpy.c '1i #include <unistd.h>
s/y\[i\] = alpha.*/for (volatile int go = 1; go;) usleep(1000);/'
variant orch_bad orch.c 's/pto_aiv(o, AXPY/pto_aiv(o, 5/'
variant no_compile kernels/axpy.c 's/y\[i\] = alpha/y[i] = beta/'
variant bad_yaml scene.yaml 's/^golden:/goldne:/'
variant printing kernels/axpy.c 's/^void/#include <stdio.h>\nvoid/; s/y\[i\] = alpha.*/if (i == 0) printf("hello from a kernel\\n");/'
expect_all 1 "FAIL  bad_yaml" "bad_yaml/scene.yaml:15:1: a scene has no key 'goldne'" \
    "FAIL  golden_crash/small a5sim stream" "the process died in the golden: Segmentation fault" \
    "ok    golden_crash/odd a5sim host" \
    "FAIL  golden_exit/odd a5sim stream" "the golden returned 1000" \
    "the golden asks for the parameter 'm', which scene.yaml does not have" \
    "FAIL  golden_hang/small a5sim host" "it did not finish in time in the golden and was killed" \
    "ok    golden_hang/odd a5sim stream" \
    "FAIL  kernel_crash/small a5sim stream" "(-215)" \
    "FAIL  kernel_hang/odd a5sim host" "is still running" \
    "there is no kernel 5; callable \"orch_bad\" has 1 of them" \
    "beta" "FAIL  no_compile/odd a5sim host" \
    "| hello from a kernel" "ok    new/odd a5sim host" \
    -- test . --platform a5sim --timeout 3 --jobs 8 --junit junit.xml
grep -qE '^[0-9]+ passed, [0-9]+ failed, 0 skipped  ' out || fail "no sum: $(cat out)"
python3 - <<'PY' || fail "junit.xml is not as it should be"
import re, xml.etree.ElementTree as tree
root = tree.parse("junit.xml").getroot()
said = re.search(r"^(\d+) passed, (\d+) failed", open("out", encoding="utf-8").read(), re.M)
cases = root.findall("./testsuite/testcase")
failed = [c for c in cases if c.find("failure") is not None]
assert len(cases) == int(root.get("tests")) == int(said[1]) + int(said[2]), len(cases)
assert len(failed) == int(root.get("failures")) == int(said[2]), len(failed)
assert any("hello from a kernel" in (c.findtext("system-out") or "") for c in failed)
assert {s.get("name") for s in root} >= {"new", "wrong", "bad_yaml"}
PY
expect_all 1 "pto run: the process died in the golden: Segmentation fault" -- run golden_crash
expect_all 1 "bad_yaml/scene.yaml:15:1: a scene has no key 'goldne'" -- run bad_yaml
expect_all 1 "build    FAILED" "beta" -- run no_compile --platform a5sim
rm kernel_hang golden_hang -r
echo "ok    crashes, hangs, refusals"

# ---- filters ----

expect_all 0 "new/odd a2a3sim stream" -- test new --list
[ "$(wc -l <out)" = $runs ] || fail "not $runs lines: $(cat out)"
expect_all 0 "$platforms passed, 0 failed" -- test . --name 'new/o*' --mode host
expect_all 0 "1 passed, 0 failed" -- test new --name new/odd --mode stream --platform a5sim --rounds 20
expect_all 0 "$runs passed" -- test new new/scene.yaml ./new/
expect_all 2 "no case matches" -- test new --name nothing
expect_all 2 "unknown scene 'nowhere': neither a folder nor an example" -- test nowhere
expect_all 2 "'no/where' does not exist" -- test no/where
expect_all 2 "no scene.yaml or kernel_config.py in or below 'cache'" -- test cache
expect_all 2 "--rounds must be a number from 1 to 1000000, not '0'" -- test new --rounds 0
expect_all 2 "--mode must be stream, host or all" -- test new --mode fast
expect_all 2 "unknown platform 'nochip'" -- test new --platform nochip
expect_all 1 "1 failed" "not reached" -- test wrong --jobs 1 -x
expect_all 1 "cannot be written: No such file" -- test new --mode host --junit no/where.xml
expect_all 2 "it has: small odd" -- run new --case large
echo "ok    filters"

# ---- the user's own data ----

python3 - <<'PY'
import struct
def save(path, shape, numbers):
    head = "{'descr': '<f4', 'fortran_order': False, 'shape': %r, }" % (shape,)
    with open(path, "wb") as f:
        f.write(b"\x93NUMPY\1\0" + struct.pack("<H", len(head)) + head.encode() + struct.pack("<%df" % len(numbers), *numbers))
save("x.npy", (5,), [1, 2, 3, 4, 5])
save("y.npy", (5,), [10, 20, 30, 40, 50])
save("z.npy", (6,), [0] * 6)
save("flat.npy", (5, 1), [0] * 5)
PY
value() { # file: its numbers
    python3 -c 'import struct, sys; b = open(sys.argv[1], "rb").read(); b = b[10 + b[8] + 256 * b[9]:]; print(*struct.unpack("<%df" % (len(b) // 4), b))' "$1"
}
expect_all 0 "result   ok: y exact (5 float32)" -- run new --in x=x.npy --in y=y.npy --out y=out.npy
[ "$(value out.npy)" = "12.0 24.0 36.0 48.0 60.0" ] || fail "out.npy: $(value out.npy)"
expect_all 1 "makes n 6, and another file made it 5" -- run new --in x=x.npy --in y=z.npy
expect_all 1 "has the shape [5, 1], but argument 'x' has [1024]" -- run new --in x=flat.npy
expect_all 2 "the scene has no input with that name" -- run new --in q=x.npy
expect_all 2 "cannot be read: No such file" -- run new --in x=none.npy
expect_all 2 "--in must be NAME=FILE.npy" -- run new --in x
expect_all 0 -- build --orchestration new/orch.c --kernel 0:aiv:new/kernels/axpy.c --signature in,inout,scalar -o new.ptoc
expect_all 0 "written  1 to out.npy" "result   ok: not compared" -- run new.ptoc --in 0=x.npy --in 1=y.npy --scalar 3.0 --out 1=out.npy
[ "$(value out.npy)" = "13.0 26.0 39.0 52.0 65.0" ] || fail "out.npy: $(value out.npy)"
expect_all 1 "argument 1 is an inout; give it with --in 1=FILE.npy" -- run new.ptoc --in 0=x.npy --scalar 3.0
expect_all 1 "the entry has 1 scalars; give each with --scalar" -- run new.ptoc --in 0=x.npy --in 1=y.npy
expect_all 1 "argument 2 does not exist: the entry has 2" -- run new.ptoc --in 0=x.npy --in 1=y.npy --in 2=y.npy --scalar 1
expect_all 1 "arguments of an artefact have numbers" -- run new.ptoc --in x=x.npy
expect_all 1 "--scalar must be a number that fits its type, not '9223372036854775808'" -- run new.ptoc --in 0=x.npy --in 1=y.npy --scalar 9223372036854775808
# Options that would have no effect are refused.
expect_all 2 "--scalar is for artefacts" -- run new --scalar 3
expect_all 2 "--expect-isa is for artefacts" -- run new --expect-isa "$work"
expect_all 2 "--case is for scenes" -- run new.ptoc --in 0=x.npy --in 1=y.npy --scalar 3.0 --case odd
expect_all 2 "--flag is for scenes" -- run new.ptoc --in 0=x.npy --in 1=y.npy --scalar 3.0 --flag=-DX
expect_all 0 "new.ptoc: 0 compiled, 2 from the store" -- build new
expect_all 0 "written  1 to out.npy" -- run new.ptoc --in 0=x.npy --in 1=y.npy --scalar 3.0 --out 1=out.npy
expect_all 2 "a scene names its sources" -- build new --signature in
expect_all 2 "--out writes the result of one case" -- run new --case all --out y=out.npy
expect_all 2 "--in names 'x' twice" -- run new --in x=x.npy --in x=x.npy
mkdir -p twins
cp -r new twins/a
cp -r new twins/b
expect_all 1 "twins/b has the same name as the scene in twins/a: new" "1 failed" -- test twins --mode host
expect_all 2 "unknown scene 'old'" -- build old
expect_all 0 -- build --orchestration new/orch.c --kernel 0:aiv:new/kernels/axpy.c --signature in,out,scalar -o out.ptoc
expect_all 1 "the type and shape are unknown" -- run out.ptoc --in 0=x.npy --out 1=none.npy --scalar 1.5
expect_all 0 "written  1 to none.npy" -- run out.ptoc --in 0=x.npy --out '1=none.npy:float32[5]' --scalar 1.5 --mode host
[ "$(value none.npy)" = "nan nan nan nan nan" ] || fail "an output begins as something: $(value none.npy)"
expect_all 0 "written  1 to none.npy" -- run out.ptoc --in 0=x.npy --out 1=none.npy --scalar 1.5
truncate -s 100 new.ptoc
expect_all 1 "pto run: " -- run new.ptoc --in 0=x.npy
echo "ok    the user's own data"

# ---- Ctrl-C ----

# Interrupts pto when a condition holds. Its exit code is in $code.
interrupt() { # condition arguments
    local condition=$1 pid
    shift
    env --default-signal=INT "$pto" "$@" >out 2>&1 </dev/null & # bash would have it ignore the signal
    pid=$!
    wait_for "$condition" || fail "pto $*: not so in five minutes: $condition: $(cat out)"
    kill -INT $pid
    code=0
    wait $pid || code=$?
}
wait_for() { # condition: for five minutes at most
    local i
    for ((i = 0; i < 3000; i++)); do
        ! eval "$1" || return 0
        sleep 0.1
    done
    return 1
}
gone() { # what a command line contains
    wait_for "! pgrep -f '$1' >/dev/null"
}
interrupt '[ -n "$(pgrep -P $pid)" ]' test new --rounds 1000000 --junit j.xml
[ "$code" = 130 ] && grep -qx interrupted out && grep -q 'not reached' out || fail "Ctrl-C: exit $code: $(cat out)"
[ -s j.xml ] || fail "Ctrl-C: no junit.xml"
gone "$pto test new" || fail "Ctrl-C leaves processes behind"
# Interrupted during a compilation: compilers, processes that they have started, and the work folder
# are gone.
nap=$((1000000 + $$)) # seconds; no other process sleeps as long
cat >slow <<END
#!/bin/sh
case "\$*" in *slow-sources/*) : >"\$SLOW_BEGUN"; sleep $nap ;; esac
exec gcc "\$@"
END
chmod +x slow
cp -r new slow-sources
mkdir temporary
export TMPDIR=$work/temporary SLOW_BEGUN=$work/begun CC=$work/slow
for command in test run; do
    rm -f begun
    interrupt '[ -e begun ]' $command slow-sources
    gone "sleep $nap" || fail "$command leaves compilers behind"
    [ -z "$(ls temporary)" ] || fail "$command leaves $(ls temporary) behind"
done
echo "ok    Ctrl-C"
