#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Which tools a build uses, the message when one is missing, and how a build finds, pins and patches
# the tile library. Small scripts and a small library replace the vendor's tools and the real
# library. PTO names the command.
set -eu
cd "$(dirname "$0")/../.."
pto=$(realpath "${PTO:-build/bin/pto}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
unset CC CXX CPATH C_INCLUDE_PATH CPLUS_INCLUDE_PATH PTO_ISA_ROOT XDG_CONFIG_HOME ASCEND_HOME_PATH
export PTO_STORE=$work/store TMPDIR=$work/tmp HOME=$work
cd "$work"
mkdir tmp

fail() {
    echo "FAIL  $1"
    [ ! -s out ] || cat out
    exit 1
}

# Runs `pto build`, expects an exit code and a phrase in its output.
expect() { # code phrase options
    local code=$1 phrase=$2 got=0
    shift 2
    ${via:-} "$pto" build -o t.ptoc "$@" >out 2>&1 || got=$?
    [ "$got" = "$code" ] || fail "pto build $*: exit $got instead of $code"
    grep -qF -- "$phrase" out || fail "pto build $*: no '$phrase'"
}

cat >orch.c <<'C'
#include <pto/orch.h>
void orchestrate(struct pto_orch *o, const struct pto_entry *entry)
{
    (void)o;
    (void)entry;
}
C
cat >a.c <<'C'
#include <pto/kernel.h>
void kernel_entry(int64_t *args)
{
    args[0] = 1;
}
C
sed 's/void kernel/extern "C" &/' a.c >a.cpp
sed 's/void orch/extern "C" &/' orch.c >orch.cpp
c="--orchestration orch.c --kernel 0:aiv:a.c"

# ---- options ----

expect 2 "name a scene or give an --orchestration"
expect 2 "unknown scene 'orch.c'" orch.c
expect 2 "--kernel must be ID:aic:FILE" --orchestration orch.c --kernel 1:cpu:a.c
expect 2 "--kernel must be ID:aic:FILE" --orchestration orch.c --kernel 1024:aiv:a.c
expect 2 "--kernel must be ID:aic:FILE" --orchestration orch.c --kernel a.c
expect 2 "--signature must be a list of in, out" --orchestration orch.c --signature in,up
expect 2 "--jobs must be a number" --orchestration orch.c --jobs 0
expect 2 "--mode must be stream or host" --orchestration orch.c --mode fast
expect 2 "unknown platform 'nochip'; --platform must be a2a3sim, a5sim, " --orchestration orch.c --platform nochip
expect 1 "no.c cannot be read: No such file" --orchestration no.c
expect 1 "unknown language" --orchestration out
expect 1 "the kernel id 0 is taken" $c --kernel 0:aic:a.c
expect 1 "one orchestration, not 2" $c --orchestration orch.c
expect 1 "does not define the function other" --orchestration orch.c:other --kernel 0:aiv:a.c
expect 1 "does not define the function kernel_entry" --orchestration orch.c --kernel 0:aiv:orch.c
expect 1 "extern \"C\"" --orchestration orch.c --kernel 0:aiv:orch.cpp
expect 1 "cannot be written: No such file" $c -o no/where.ptoc
expect 0 "2 compiled" $c --signature in,out,scalar --mode host --name some --jobs 1 --force
expect 0 "0 compiled" $c
PTO_ISA_ROOT=/no/where expect 0 "0 compiled" $c # nobody needs it
! grep -q "$(printf '\\033')" out || fail "codes for a terminal in a file"
if command -v script >/dev/null; then
    TERM=xterm script -qec "$pto build $c --force -o t.ptoc" /dev/null </dev/null >out
    grep -q '\[2/2\] compiled' out || fail "no progress on a terminal"
fi
echo "ok    options are refused in sentences"

# ---- compilers ----

expect 0 "C by $(command -v gcc): the first 'gcc' in PATH" $c --verbose
CC=no-such-cc expect 1 "CC is 'no-such-cc', and there is no such compiler" $c
printf '#!/bin/sh\nexit 0\n' >silent
chmod +x silent
CC=$work/silent expect 1 "is neither a GCC nor a clang" $c
CC="gcc -DGIVEN=1" expect 0 "CC names it" $c --verbose
if command -v clang >/dev/null; then
    CC=clang expect 0 "CC names it (clang-" $c --verbose
    CC=clang expect 0 "0 compiled, 2 from the store" $c
fi
gcc -c -o extra.o -x c - <<<'int extra = 1;'
expect 0 "2 compiled" $c --flag extra.o
expect 0 "with the flag extra.o the compiler may read files that the build does not know" $c --flag extra.o \
    --explain
for flags in "-L --flag ." "-x --flag c" "-Wl,-O1" "-isysroot --flag /"; do
    expect 0 "compiled every time" $c --flag $flags --explain
done
for flags in "-I --flag ." "-isystem --flag ." "-include --flag stddef.h" "-DX=1" "-O3" "-march=native"; do
    expect 0 "2 compiled" $c --flag $flags
    expect 0 "0 compiled" $c --flag $flags
done
mkdir empty
via="env PATH=$work/empty" expect 1 "there is no C compiler: PATH has none of gcc, clang, cc" $c
via="env PATH=$work/empty" expect 1 "there is no C++ compiler: PATH has none of g++-17" --orchestration orch.cpp
echo "ok    compilers are found, named, and refused in sentences"

# ---- the vendor's ----

expect 1 "kernels for a2a3 need the vendor's compiler, ccec or bisheng: ASCEND_HOME_PATH is not set" \
    $c --platform a2a3
ASCEND_HOME_PATH=$work/cann expect 1 "looked below ASCEND_HOME_PATH=$work/cann in bin, " $c \
    --platform a5
via="env PATH=$work/empty" expect 1 "orchestrations for a5 need an aarch64 compiler" --orchestration orch.c \
    --platform a5
via="env PATH=$work/empty" expect 1 "; and kernels for a5 need the vendor's compiler" $c --platform a5
mkdir -p cann/bin cann/tools/hcc/bin
# Accepts the options that only the vendor's compiler has, and records the core type for which it
# compiles.
cat >cann/bin/ccec <<'SH'
#!/bin/bash
words=()
while [ $# -gt 0 ]; do
    case $1 in
    --cce-aicore-arch=*) echo "$1" >>"$LOG" ;;
    --cce-*) ;;
    -mllvm) shift ;;
    -x) [ "$2" = cce ] && words+=(-x c++ -fPIC) || words+=(-x "$2"); shift ;;
    *) words+=("$1") ;;
    esac
    shift
done
exec g++ "${words[@]}"
SH
cat >cann/bin/ld.lld <<'SH'
#!/bin/sh
exec ld -shared "$@"
SH
printf '#!/bin/sh\nexec gcc "$@"\n' >cann/tools/hcc/bin/aarch64-target-linux-gnu-gcc
# An old compiler, which knows C++ up to 17.
cat >cann/tools/hcc/bin/aarch64-target-linux-gnu-g++ <<'SH'
#!/bin/sh
case " $* " in *" -std=c++2"*) exit 1 ;; esac
exec g++ "$@"
SH
chmod +x cann/bin/* cann/tools/hcc/bin/*
export LOG=$work/log
if command -v g++ >/dev/null; then
    export ASCEND_HOME_PATH=$work/cann
    v="--orchestration orch.c --kernel 0:aic:a.cpp --kernel 1:aiv:a.cpp"
    expect 0 "3 compiled" $v --platform a2a3 --verbose
    grep -q "ccec: it is below ASCEND_HOME_PATH" out || fail "the vendor's compiler is not named"
    grep -q "dav-c220-cube" log && grep -q "dav-c220-vec" log || fail "a2a3: not for its cores"
    expect 0 "0 compiled, 3 from the store" $v --platform a2a3
    expect 0 "3 compiled" $v --platform a5
    grep -q "dav-c310-cube" log && grep -q "dav-c310-vec" log || fail "a5: not for its cores"
    expect 0 "1 compiled" --orchestration orch.cpp --platform a5
    unset ASCEND_HOME_PATH
fi
echo "ok    the vendor's tools are looked for, and used where they are"

# ---- a kernel that is empty in simulation ----

cat >empty.c <<'C'
#include <pto/kernel.h>
#ifdef __CPU_SIM
void kernel_entry(int64_t *args) { (void)args; }
#else
void kernel_entry(int64_t *args) { args[0] = 1; }
#endif
C
printf '#include <pto/kernel.h>\nvoid kernel_entry(int64_t *args)\n{\n#ifndef __CPU_SIM\n    args[0] = 1;\n#endif\n}\n' >inner.c
printf '#include <pto/kernel.h>\nvoid kernel_entry(int64_t *args) { (void)args; } /* __CPU_SIM */\n' >none.c
sed 's/{ (void)args; }/{ args[0] = 2; }/' empty.c >full.c
for file in empty inner; do
    expect 1 "$file.c: the body of its kernel_entry is empty in simulation" --orchestration orch.c --kernel 7:aiv:$file.c
    grep -q "another source for the kernel 7" out || fail "an empty body: no remedy"
done
expect 0 "compiled" --orchestration orch.c --kernel 0:aiv:none.c
expect 0 "compiled" --orchestration orch.c --kernel 0:aiv:full.c
echo "ok    a kernel that is empty in simulation only is named"

# ---- the tile library ----

command -v g++ >/dev/null || exit 0
mkdir -p isa/include/pto/cpu isa/include/pto/common
cat >isa/include/pto/pto-inst.hpp <<'C'
#pragma once
#include "pto/common/parts.hpp"
C
echo '#include "pto/cpu/TReduceIdx.hpp"' >isa/include/pto/common/parts.hpp
cat >isa/include/pto/cpu/TReduceIdx.hpp <<'C'
namespace pto {
template <typename DType, int op> struct Order {
    static bool apply(DType a, DType b)
    {
        static_assert(false, "no such order");
        return a < b;
    }
};
typedef float bfloat16_t;
}
C
cat >tile.cpp <<'C'
#include <pto/pto-inst.hpp>
// bfloat16_t in a comment, and "bfloat16_t" in a text, are no use of it
extern "C" void kernel_entry(long *args)
{
    args[0] = sizeof(pto::Order<int, 1>) + sizeof("bfloat16_t");
}
C
sed 's/sizeof("bfloat16_t")/sizeof(pto::bfloat16_t)/' tile.cpp >bf16.cpp
t="--orchestration orch.c --kernel 0:aiv:tile.cpp"
expect 1 "includes the tile library (pto/pto-inst.hpp), which is not there: give --isa DIR" $t
expect 1 "--isa names 'no/where' as the tile library" $t --isa no/where
expect 0 "compiled" $t --isa isa
PTO_ISA_ROOT=$work/isa expect 0 "0 compiled" $t
mkdir -p .config/pto
echo "$work/isa" >.config/pto/isa
expect 0 "0 compiled" $t
expect 1 "which is not there" $t --isa ""
rm -r .config
has() { g++ -std=c++2b -dM -E -x c++ /dev/null | grep -q "$1"; }
version=$(echo __GNUC__ | g++ -E -P -)
if [ "$version" -lt 13 ]; then
    find store/overlay -name TReduceIdx.hpp | grep -q . || fail "no overlay for GCC $version"
    sed -i 's/return a < b/return b < a/' isa/include/pto/cpu/TReduceIdx.hpp
    expect 0 "1 compiled" $t --isa isa
    sed 's/sizeof(pto::Order<int, 1>)/pto::Order<int, 1>::apply(1, 2)/' tile.cpp >used.cpp
    expect 1 "no such order" --orchestration orch.c --kernel 0:aiv:used.cpp --isa isa
fi
if ! has __STDCPP_BFLOAT16_T__; then
    expect 1 "uses bfloat16_t, and gcc-$version" --orchestration orch.c --kernel 0:aiv:bf16.cpp --isa isa
    grep -q "would silently compute in fp16" out || fail "bf16: no reason"
fi

# ---- our headers in front of the library's ----

cat >isa/include/pto/cpu/TMov.hpp <<'C'
#include <cstdint>
enum STPhase { Unspecified };
typedef short half;
typedef long bfloat16_t;
namespace pto {
using ::STPhase;
enum class SLayout { NoneBox };
enum class Layout { ND, DN, NZ };
template <typename Tile> long GetTileElementOffset(long, long);
template <typename Global, typename List> long MapTileIndicesToGlobalOffset(long, long, List, List);
template <typename DstTileData, typename From, STPhase phase = STPhase::Unspecified>
void TMOV_IMPL(DstTileData &, From &)
{
}
}
C
echo '#include "pto/cpu/TMov.hpp"' >>isa/include/pto/common/parts.hpp
cat >moves.cpp <<'C'
#include <pto/pto-inst.hpp>
#ifdef PTO_FAST_TMOV_HPP
enum { is_fast = 1 };
#else
enum { is_fast = 0 };
#endif
static_assert(is_fast == EXPECTED, "other headers than expected");
extern "C" void kernel_entry(long *args)
{
    args[0] = is_fast;
}
C
m="--orchestration orch.c --kernel 0:aiv:moves.cpp --isa isa"
expect 0 "its include/pto/cpu/tile_offsets.hpp lacks 'GetTileElementOffset('" $m --explain --flag=-DEXPECTED=0
# Names in comments are enough: none of these headers is included.
echo '#pragma once // GetTileElementOffset( MapTileIndicesToGlobalOffset(' >isa/include/pto/cpu/tile_offsets.hpp
echo '// GetSizeInBytes(' >isa/include/pto/common/pto_tile.hpp
echo '// TLOAD_TILE_IMPL(TileData CheckTileData(TileData getPadValue(' >isa/include/pto/cpu/TLoad.hpp
echo '// TStore(GlobalData CheckTileDataStore(GlobalData' >isa/include/pto/cpu/TStore.hpp
echo '// ConvertStoreValue(' >isa/include/pto/cpu/common.hpp
echo '// TExtract_Impl(' >isa/include/pto/cpu/TExtract.hpp
echo '// TMatmulNzZn(TileAcc CheckMadValid(' >isa/include/pto/cpu/TMatmul.hpp
expect 0 "compiled" $m --flag=-DEXPECTED=1
expect 0 "0 compiled" $m --flag=-DEXPECTED=1 --isa-overlay on
expect 1 "other headers than expected" $m --flag=-DEXPECTED=1 --isa-overlay off
expect 0 "compiled" $m --flag=-DEXPECTED=0 --isa-overlay off
PTO_ISA_OVERLAY=off expect 0 "0 compiled" $m --flag=-DEXPECTED=0
PTO_ISA_OVERLAY=off expect 0 "0 compiled" $m --flag=-DEXPECTED=1 --isa-overlay on
PTO_ISA_OVERLAY=none expect 1 "PTO_ISA_OVERLAY is 'none'; it must be on or off" $m
expect 1 "the overlay of the tile library is 'maybe'; it must be on or off" $m --isa-overlay maybe
expect 1 "other headers than expected" $m --flag=-DEXPECTED=1 --accesses
expect 0 "compiled" $t --isa isa
echo "ok    our headers come before the library's, unless they are switched off"


# ---- a bfloat16_t of our own ----

mkdir -p typed/include/pto/common
echo '#include <pto/common/type.hpp>' >typed/include/pto/pto-inst.hpp
cat >typed/include/pto/common/type.hpp <<'C'
#ifndef _PTO_INCLUDE_NPU_TYPE_H_
#define _PTO_INCLUDE_NPU_TYPE_H_
typedef _Float16 half;
#if __has_include(<stdfloat>) && __cplusplus >= 202302L && defined(__STDCPP_BFLOAT16_T__)
#include <stdfloat>
typedef std::bfloat16_t bfloat16_t;
#else
typedef _Float16 bfloat16_t;
#endif
#endif
C
cat >typed.cpp <<'C'
#include <pto/pto-inst.hpp>
#include <type_traits>
static_assert(!std::is_same_v<bfloat16_t, half> && sizeof(bfloat16_t) == 2, "fp16");
extern "C" void kernel_entry(long *args)
{
    args[0] = (bfloat16_t)257 == 256;
}
C
sed 's/#include <pto/#include "typed\/include\/pto\/common\/type.hpp"\n&/' typed.cpp >early.cpp
if g++ -std=c++2b -fsyntax-only -x c++ - <<<'_Float16 x;' 2>/dev/null; then
    expect 0 "compiled" --orchestration orch.c --kernel 0:aiv:typed.cpp --isa typed --flag=-O1
    if ! has __STDCPP_BFLOAT16_T__; then
        expect 1 "bfloat16_t is fp16 here: a header of the tile library came before" \
            --orchestration orch.c --kernel 0:aiv:early.cpp --isa typed
    fi
fi
echo "ok    bfloat16_t is never fp16"

expect 1 "'v1' is not a pin" $t --isa isa --isa-pin v1
expect 1 "is not a git checkout" $t --isa isa --isa-pin 0123456789012345678901234567890123456789
expect 1 "but the build is pinned to sha256:0" $t --isa isa --isa-pin sha256:0
pin=$(sed -n 's/.* are \(sha256:[0-9a-f]*\),.*/\1/p' out)
expect 0 "0 compiled" $t --isa isa --isa-pin "$pin"
echo '// more' >>isa/include/pto/common/parts.hpp
expect 1 "but the build is pinned to $pin" $t --isa isa --isa-pin "$pin"
if command -v git >/dev/null; then
    git -C isa init -q
    git -C isa -c user.name=a -c user.email=a@b add include
    git -C isa -c user.name=a -c user.email=a@b commit -qm one
    revision=$(git -C isa rev-parse HEAD)
    expect 0 "1 compiled" $t --isa isa --isa-pin "$revision"
    expect 0 "0 compiled" $t --isa isa --isa-pin "$revision"
    git -C isa pack-refs --all
    expect 0 "0 compiled" $t --isa isa --isa-pin "$revision"
    echo '// and more' >>isa/include/pto/common/parts.hpp
    expect 1 "its headers have been changed: include/pto/common/parts.hpp" $t --isa isa --isa-pin "$revision"
    git -C isa -c user.name=a -c user.email=a@b commit -qam two
    expect 1 "but the build is pinned to $revision" $t --isa isa --isa-pin "$revision"
fi
echo "ok    the tile library is found, pinned, and patched for older compilers"
