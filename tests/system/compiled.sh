#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A folder in the format of pypto runs from the command line: tests/compiled/axpy with data as .npy
# files, in data/ or by options, with and without compiled_meta.json; a message explains what cannot
# be run. PTO names the command.
#
# A folder as pypto writes it runs from the command line: tests/compiled/axpy with data as .npy
# files, in data/ or by options, with and without compiled_meta.json; what cannot be run is
# told. PTO names the command.
set -eu
cd "$(dirname "$0")/../.."
pto=$(realpath "${PTO:-build/bin/pto}")
source tests/system/expect.sh
export XDG_CACHE_HOME=$work/cache
cp -r tests/compiled/axpy "$work/f"
cd "$work"
mkdir -p f/data/in f/data/out

# x, y, alpha and rows; y and total after y += alpha * x. All numbers are exact.
python3 - <<'PYTHON'
import struct

def save(path, shape, data, letter='f', descr='<f4'):
    header = "{'descr': '%s', 'fortran_order': False, 'shape': (%s), }" % (
        descr, ''.join('%d,' % n for n in shape))
    header += ' ' * (-(11 + len(header)) % 64) + '\n'
    with open(path, 'wb') as f:
        f.write(b'\x93NUMPY\1\0' + struct.pack('<H', len(header)) + header.encode())
        f.write(struct.pack('<%d%s' % (len(data), letter), *data))

x = [float(i % 7) for i in range(320)]
y = [float(i % 5) for i in range(320)]
z = [2 * a + b for a, b in zip(x, y)]
save('f/data/in/x.npy', (5, 64), x)
save('f/data/in/y.npy', (5, 64), y)
save('f/data/out/y.npy', (5, 64), z)
save('f/data/out/total.npy', (1,), [sum(z)])
save('alpha.npy', (), [2.0])
save('rows.npy', (), [5], 'i', '<i4')
save('wrong.npy', (1,), [sum(z) + 1])
save('small.npy', (2, 64), x[:128])
PYTHON

# ---- with compiled_meta.json: arguments have names ----

expect_all 0 "axpy: 2 kernels of a kernel_config.py" "a2a3sim, stream" "tasks    3" \
    "result   ok: y exact (320 float32), total exact (1 float32)" -- run f --scalar 2 --scalar 5
grep -q 'a5sim\|host' out && fail "it ran where it was not compiled for: $(cat out)"
expect_all 1 "scalar 'alpha' has no value" -- test f
expect_all 2 "the entry has 2 scalars, and --scalar is given 1 times" -- run f --scalar 2
expect_all 2 "--scalar '5.5' is not a number that fits the type of 'rows'" -- run f --scalar 2 --scalar 5.5
cp alpha.npy rows.npy f/data/in
expect_all 0 "1 passed, 0 failed, 0 skipped" -- test f
expect_all 0 "1 passed, 0 failed, 0 skipped" -- test f/kernel_config.py --orders 6
expect_all 0 "not compared: no expected results" "written  total to total.npy" -- \
    run f --scalar 3 --scalar 5 --out total=total.npy
expect_all 0 "not compared" "written  y to y.npy" -- \
    run f --in x=small.npy --in y=small.npy --scalar 2 --scalar 2 --out y=y.npy
[ "$(stat -c %s y.npy)" = "$(stat -c %s small.npy)" ] || fail "y.npy does not have the inputs' shape"
cp wrong.npy f/data/out/total.npy
expect_all 1 "total: 1 of 1 elements differ (float32, rtol 1e-05, atol 1e-05)" \
    "last written by task 2 (add_up, axpy.cpp:" -- test f
printf 'RTOL = 1e-05\nATOL = 2.0\n' >f/golden.py
expect_all 0 "1 passed" -- test f
rm f/data/out/total.npy
expect_all 0 "y exact (320 float32), total not compared" -- run f
rm f/data/out/y.npy
expect_all 1 "the case has no expected results" -- test f
expect_all 0 "result   ok: not compared" -- run f
mv f/data/in/x.npy x.npy
expect_all 1 "argument 'x' has a size that the program leaves open" -- run f
sed -i '0,/-1,/s//5,/' f/compiled_meta.json
expect_all 1 "argument 'x' has no data; put data/in/x.npy into" -- run f
expect_all 0 "result   ok: not compared" "written  total to zero.npy" -- run f --blank --out total=zero.npy
expect_all 2 "--blank is for folders with a kernel_config.py" -- run vector --blank
touch f/data/in/x.pt
expect_all 1 "x.pt is in PyTorch's own format" -- run f
expect_all 0 "written  total to total.npy" -- run f --in x=x.npy --out total=total.npy
expect_all 2 "the scene has no input with that name" -- run f --in 0=x.npy
expect_all 2 "has no such case for that platform and mode" -- run f --platform a5sim
expect_all 2 "change its scene.yaml, or kernel_config.py" -- build f --config c
echo "ok    named arguments"

# ---- without: they have numbers ----

expect_all 0 "f.ptoc: 0 compiled, 3 from the store" -- build f -o f.ptoc
expect_all 0 "x float32 [5,64]" "mode           stream" "add_up" -- inspect f.ptoc
cp f/data/in/y.npy y.npy
rm -r f/compiled_meta.json f/data
expect_all 1 "argument 0 is an input; give it with --in 0=FILE.npy" -- run f
expect_all 0 "a2a3sim, stream" "written  2 to t.npy" -- \
    run f --in 0=x.npy --in 1=y.npy --out '2=t.npy:float32[1]' --scalar 2.0 --scalar 5
cmp -s t.npy total.npy || fail "two ways, two results"
expect_all 1 "was compiled for the other mode" -- run f --mode host
expect_all 1 "the arguments are unknown: there is no compiled_meta.json" -- test f
echo "ok    numbered arguments"

# ---- what is not run ----

wrong() { # sed-script phrase
    cp -r f g
    sed -i "$1" g/kernel_config.py
    expect_all 1 "g/kernel_config.py:" "$2" -- run g
    expect_all 1 "$2" -- build g
    rm -r g
}
wrong 's/"aicpu_thread_num": 0,/"enable_sdma": True,/' "enable_sdma needs the DMA engine of a real chip"
wrong '$a import os\nos.system("touch executed")' "only imports and assignments are supported"
wrong '$a import os\nx = os.system("touch executed")' "os.system cannot be called"
wrong 's/tensormap_and_ringbuffer/aicpu_build_graph/' "unknown runtime 'aicpu_build_graph'"
wrong 's/scale_add.cpp/none.cpp/' "kernels/aiv/none.cpp' cannot be used"
[ ! -e executed ] || fail "kernel_config.py was executed"
expect_all 2 "no scene.yaml or kernel_config.py in or below" -- test f/kernels
echo "ok    refusals"
