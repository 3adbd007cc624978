#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# `pto selfcheck` is stopped on purpose at each of its steps, over the stand-in for the vendor's libraries. The file that it
# packs is read without anything else: --read has to name the step, and the cause of the fault that was put there first.
#
#     diagnosis.sh          faults that take little time
#     diagnosis.sh all      those for which the card is waited for, too
#     diagnosis.sh table    the same, as a table
set -eu
cd "$(dirname "$0")/../.."
pto=$(realpath build/bin/pto)
. tests/system/expect.sh
tools/make-alone build/standin/with
with=$(realpath build/standin/with)
home=$(realpath build/standin/home)
export PTO_STORE=$PWD/build/onboard-store
mkdir -p "$work/cases" "$work/results"
which=${1:-short}

# ---- installations with a fault ----

copy_home() { # name
    cp -rs "$home" "$work/$1"
}
mkdir -p "$work/empty"
copy_home no-driver && rm "$work/no-driver/lib64/libascend_hal.so"
copy_home old && rm -f "$work/old/runtime/version.info" && echo version_dir=8.1.RC1 >"$work/old/runtime/version.info"
copy_home new && rm -f "$work/new/runtime/version.info" && echo version_dir=10.0.0 >"$work/new/runtime/version.info"
copy_home stub && rm "$work/stub/lib64/libascendcl.so"
echo 'int aclInit(const char *config) { (void)config; return 0; }' >"$work/stub.c"
gcc -shared -o "$work/stub/lib64/libascendcl.so" "$work/stub.c"
# Libraries that crash when their process ends, after the card was closed.
cat >"$work/late.c" <<'LATE'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
__attribute__((destructor)) static void crash(void)
{
    if (dlsym(RTLD_DEFAULT, "aclInit") != 0)
        raise(SIGKILL);
}
LATE
gcc -shared -fPIC -o "$work/late.so" "$work/late.c"
copy_home no-compiler && rm "$work/no-compiler/bin/ccec"
copy_home strange && rm "$work/strange/bin/ccec"
# A compiler that answers to --version like another one, and accepts no source.
cat >"$work/strange/bin/ccec" <<COMPILER
#!/bin/sh
case " \$* " in *" -c "*) echo "mark.c:4:5: error: pointer to address space '__gm__' cannot be converted" >&2; exit 1 ;; esac
exec "$home/bin/ccec" "\$@"
COMPILER
chmod +x "$work/strange/bin/ccec"

# ---- one case ----

# Options of the command are words with a hyphen; others are settings. Results: step, fault, causes.
try() { # name, step, beginning of the cause, setting or option...
    local name=$1 step=$2 cause=$3 options=() settings=() file out=$work/cases/$1
    shift 3
    for word in "$@"; do
        case $word in
        -*) options+=("${word%%=*}" "${word#*=}") ;;
        *) settings+=("$word") ;;
        esac
    done
    file=$out.txt
    (
        unset ASCEND_HOME_PATH PTO_CANN_PROGRAMS
        run=("$with")
        for word in "${settings[@]}"; do
            case $word in HOME_PATH=* | PROGRAMS=*) run=() ;; esac
        done
        for word in "${settings[@]}"; do
            case $word in
            HOME_PATH=) ;;
            HOME_PATH=*) export ASCEND_HOME_PATH=${word#*=} LD_LIBRARY_PATH=${word#*=}/lib64 PTO_CANN_PROGRAMS=$(realpath build/standin/programs) ;;
            PROGRAMS=*) export PTO_CANN_PROGRAMS=${word#*=} ;;
            *) export "${word?}" ;;
            esac
        done
        code=0
        "${run[@]}" "$pto" selfcheck --runs 3 -o "$file" "${options[@]}" >"$out.said" 2>&1 </dev/null || code=$?
        [ $code = 1 ] || fail "$name: exit $code instead of 1: $(cat "$out.said")"
        # The reader has nothing of the installation.
        env -i "$pto" selfcheck --read "$file" >"$out.read" 2>&1 || fail "$name: $(cat "$out.read")"
        grep -qx "first step that failed: $step" "$out.read" || fail "$name: not $step: $(cat "$out.read" "$out.said")"
        grep -qF "  1. $cause" "$out.read" || fail "$name: the first cause is not '$cause': $(sed -n '/^evidence/,$p' "$out.read")"
        [ "$(grep -c '^  [123]\. ' "$out.read")" = 3 ] || fail "$name: there are not three causes: $(cat "$out.read")"
        printf '| %s | %s | %s |\n' "$step" "$name" "$cause" >"$work/results/$name"
    ) >"$out.failed" 2>&1 || { cat "$out.failed"; : >"$work/failed"; }
}

# Two at a time.
start() {
    while [ "$(jobs -rp | wc -l)" -ge "${DIAGNOSIS_JOBS:-2}" ]; do wait -n || true; done
    try "$@" &
}

# ---- the table: what is wrong, the step that shows it, the cause ----

before_compiling() {
    start no-cann libraries "CANN is not installed, or its environment was not set" HOME_PATH=
    start no-library libraries "ASCEND_HOME_PATH names a folder without CANN's runtime" HOME_PATH="$work/empty"
    start no-driver libraries "The driver is not installed" HOME_PATH="$work/no-driver"
    start old-version version "The installed CANN is older than 8.5.0" HOME_PATH="$work/old"
    start new-version version "The installed CANN is newer than any" HOME_PATH="$work/new"
    start stub-library functions "A stub library is loaded" HOME_PATH="$work/stub"
    start absent-card card "This process sees no card with this number" --card=7
    start busy-card card "The control processor does not start: another process" 'STANDIN_PLAN=aclrtSetDevice@1=507033'
    start no-rights card "This user may not" 'STANDIN_PLAN=aclrtSetDevice@1=507899' 'STANDIN_MESSAGE=open /dev/davinci0: Permission denied'
    start broken-driver card "The driver fails" 'STANDIN_PLAN=aclrtSetDevice@1=507899'
    start hanging-card card "Another process holds the card" 'STANDIN_PLAN=aclrtSetDevice@1=hang' PTO_CANN_CALL_MS=300
    start full-card card "Another process uses the card's memory" 'STANDIN_PLAN=aclrtMalloc@1=207001'
    start other-chip card "The card is of another generation" --platform=a5
    start crash card "The process was ended during a call" 'STANDIN_PLAN=aclrtCreateStream@1=die'
    start exits card "A call of the vendor's library ended the process" 'STANDIN_PLAN=aclrtCreateStream@1=exit'
    start no-programs programs "PTO_CANN_PROGRAMS names a folder without" HOME_PATH="$home" PROGRAMS="$work/empty"
    start description dispatcher "The description of the dispatcher is not accepted" 'STANDIN_PLAN=aclrtBinaryLoadFromFile@1=107000'
    start dispatcher-fails dispatcher "The extend library rejects its arguments" 'STANDIN_PLAN=aicpu@1=1'
    start dispatcher-silent dispatcher "The extend library returned without calling" "STANDIN_PLAN=aclrtMemcpy@4=flip($answer_at)"
    start not-written dispatcher "The card's folder of AICPU programs does not allow renaming files" STANDIN_DISK="$work/occupied"
    start changed-bytes dispatcher "The bytes of the scheduler were changed" 'STANDIN_PLAN=aclrtMemcpy@2=flip(5000)'
    start scheduler-fails scheduler "The control processor does not find or load the scheduler" 'STANDIN_PLAN=aicpu@2=1'
    start scheduler-silent scheduler "The scheduler returned, but its answer is not" 'STANDIN_PLAN=aclrtMemcpy@7=flip(0)'
    start scheduler-described scheduler "The description of the scheduler is not accepted" 'STANDIN_PLAN=aclrtBinaryLoadFromFile@2=107000'
    start part-of-card registers "The card is a part of a card" STANDIN_PART=1
    start busy-driver registers "The driver stays busy" STANDIN_BUSY=99
    start renumbered registers "The driver does not know that the card is open" 'STANDIN_PLAN=halMemCtl@1=4'
    start unmapped registers "This driver does not map the registers of a core" STANDIN_SOC=Ascend950DT 'STANDIN_PLAN=halResMap@1=22'
    start no-room cores "The card has no room for the executor" 'STANDIN_PLAN=aclrtLaunchKernelWithHostArgs@3=207001'
}
from_compiling_on() {
    start no-compiler compile "A compiler of CANN is not installed" HOME_PATH="$work/no-compiler"
    start refusing-compiler compile "The vendor's compiler does not accept pointers to global memory" HOME_PATH="$work/strange"
    start lost-copy loop "The card went down during the loop" "STANDIN_PLAN=aclrtMemcpy@$loop_copy=507901"
    start ends-late close "The vendor's libraries crash" LD_PRELOAD="$work/late.so" STANDIN_CARDS=1
    start no-recovery recovery "The card stays down after forced resets" STANDIN_HEALS=9
}
# The scheduler waits for cores, and the host for the scheduler, as long as on a busy machine.
slow() {
    start one-core-missing cores "Some cores do not start" 'STANDIN_PLAN=core@3=hang'
    start no-core cores "No core has reported its start" 'STANDIN_PLAN=core@1..24=hang'
    start no-link two-cards "There is no link between the two cards" 'STANDIN_PLAN=aclrtDeviceEnablePeerAccess@1=507899'
    start core-fails cores "A core has an exception in the executor" 'STANDIN_PLAN=core@3=1'
    start dispatcher-hangs dispatcher "The program on the control processor does not return" 'STANDIN_PLAN=aicpu@1=hang'
    start scheduler-hangs scheduler "The scheduler does not return from its first request" 'STANDIN_PLAN=aicpu@2=hang'
    start refused-program programs "The vendor's compiler refuses the runtime's own code" HOME_PATH="$work/strange" PROGRAMS=
    start no-event one-core "An event cannot be recorded again" 'STANDIN_PLAN=aclrtRecordEvent@1=507899'
    start core-fails-later one-core "A core has an exception in the kernel" 'STANDIN_PLAN=core@25=1'
    start cores-wait all-cores "Cores do not start, although they did before" 'STANDIN_PLAN=core@49=hang'
    start core-stays one-core "A core does not end when its run has ended" 'STANDIN_PLAN=cond@85=hang'
    start limit time-out "The vendor's software ends the run" 'STANDIN_PLAN=aclrtSynchronizeEventWithTimeout@11..99=507017'
    start ends-badly close "The process was ended during a call" 'STANDIN_PLAN=aclFinalizeReference@2=die'
    start import two-cards "A card does not accept the memory of the other" 'STANDIN_PLAN=aclrtMemImportFromShareableHandle@1=507899'
}

# Texts that rules name must exist.
for id in $(sed -nE 's/^      "([a-z0-9-]+)", .*/\1/p' src/tool/cli/selfcheck_rules.c | sort -u); do
    grep -q "^| $id |" docs/internals/onboard.md || fail "docs/internals/onboard.md has no assumption $id"
done
answer_at=$((144 + $(sed -n 's/.*DISPATCHER_NAME = \([0-9]*\).*/\1/p' src/cann/device/dispatcher.h)))
# A run without a fault, with the numbers that the faults need; it reports that only one card exists.
good() {
    STANDIN_CARDS=1 "$with" "$pto" selfcheck --runs 3 -o "$work/good.txt" >"$work/out" 2>&1 || fail "nothing is wrong: $(cat "$work/out")"
    grep -q 'two-cards  skipped card 1 does not exist' "$work/out" || fail "$(cat "$work/out")"
    "$pto" selfcheck --read "$work/good.txt" >"$work/read" || fail "$(cat "$work/read")"
    grep -qx 'no step failed' "$work/read" || fail "$(cat "$work/read")"
    loop_copy=$(awk -F'\t' '$3 == "step" && $4 == "loop" { print n + 2; exit } $3 == "aclrtMemcpy" { n++ }' "$work/good.txt")
    mkdir -p "$work/occupied/$(sed -nE 's/.*libpto_scheduler.so: [0-9]* bytes, ([0-9a-f]*).*/libpto_scheduler_\1_0.so/p' "$work/good.txt" | head -1)/taken"
}

# Nodes that this user may not open, which a machine of the tests has not: part of a file of another case.
read_rights() {
    python3 - "$work/cases/broken-driver.txt" "$work/rights.txt" <<'CHANGE'
import re, sys
text = open(sys.argv[1], "rb").read()
rights = b"user 1000 (u), groups 1000 (u)\n/dev/hisi_hdc: No such file or directory\n/dev/davinci0: mode 0660, owner 0, group 1001, not accessible\n"
part = re.search(rb"@ rights (\d+)\n", text)
text = text[:part.start()] + b"@ rights %d\n" % len(rights) + rights + text[part.end() + int(part[1]):]
end = text.rindex(b"@ end ")
digest = 0xcbf29ce484222325
for byte in text[:end]:
    digest = (digest ^ byte) * 0x100000001b3 % 2**64
open(sys.argv[2], "wb").write(text[:end] + b"@ end %s %016x\n" % (text[end:].split()[2], digest))
CHANGE
    expect_all 0 "rights /dev/hisi_hdc: No such file" "rights /dev/davinci0: mode 0660" "1. This user may not access the card's device nodes" -- selfcheck --read "$work/rights.txt"
}

# The check builds missing programs, and all of its processes use them. The control processor of the stand-in is this
# machine; its executor, a shared object, gets the sections of a program for cores.
build_programs() {
    copy_home builds
    rm "$work/builds/tools/hcc/bin/aarch64-target-linux-gnu-gcc" "$work/builds/bin/ld.lld"
    cat >"$work/builds/tools/hcc/bin/aarch64-target-linux-gnu-gcc" <<COMPILER
#!/bin/bash
exec gcc "\${@/#-I*device\/aarch64/-I$PWD/tests/standin}" -O0
COMPILER
    cat >"$work/sections.py" <<'SECTIONS'
import struct, sys
image = bytearray(open(sys.argv[1], "rb").read())
at, count = struct.unpack_from("<Q", image, 40)[0], struct.unpack_from("<H", image, 60)[0]
for head in range(at, at + 64 * count, 64):
    flags, address = struct.unpack_from("<QQ", image, head + 8)
    struct.pack_into("<QQ", image, head + 8, flags if flags & 4 else flags & ~2, 0 if flags & 4 else address)
open(sys.argv[2], "wb").write(image)
SECTIONS
    cat >"$work/builds/bin/ld.lld" <<LINKER
#!/bin/bash
case "\$*" in *aicorelinux*)
    while [ "\$1" != -o ]; do shift; done
    exec python3 "$work/sections.py" "$PWD/build/standin/programs/executor-a2a3.o" "\$2" ;;
esac
exec "$home/bin/ld.lld" "\$@"
LINKER
    chmod +x "$work/builds/tools/hcc/bin/aarch64-target-linux-gnu-gcc" "$work/builds/bin/ld.lld"
    (
        unset PTO_CANN_PROGRAMS
        export ASCEND_HOME_PATH=$work/builds LD_LIBRARY_PATH=$work/builds/lib64
        expect_all 0 ", with programs that were built for this check" "two-cards  ok      each has read" -- selfcheck --runs 3 -o "$work/builds.txt"
        # Taken for the second time, with programs, the card is refused: not they have failed.
        STANDIN_PLAN=aclrtSetDevice@2=507033 expect_all 1 "card       FAILED  card 0: aclrtSetDevice answered 507033" "programs   not reached" -- selfcheck --runs 3 -o "$work/builds.txt"
    )
}

# The vendor's tool hangs, in a process of its own that keeps its output open: the file is written all the same.
hang_tool() {
    local code=0
    mkdir "$work/tool"
    printf '#!/bin/sh\necho begins\nsleep 600 &\nwait\n' >"$work/tool/npu-smi"
    chmod +x "$work/tool/npu-smi"
    (unset ASCEND_HOME_PATH && PATH=$work/tool:$PATH timeout 120 "$pto" selfcheck -o "$work/tool.txt" >"$work/tool.said" 2>&1) || code=$?
    [ $code = 1 ] || fail "a tool that hangs: exit $code instead of 1: $(cat "$work/tool.said")"
    grep -qx begins "$work/tool.txt" && grep -q 'npu-smi info did not end within 10 s' "$work/tool.txt" || fail "$(cat "$work/tool.txt")"
}
good
hang_tool >"$work/tool.failed" 2>&1 || : >"$work/failed" & # asleep
[ "$which" = short ] || DIAGNOSIS_JOBS=${DIAGNOSIS_JOBS:-4}
[ "$which" = short ] || build_programs
[ "$which" = short ] || slow
before_compiling
from_compiling_on
wait
cat "$work/tool.failed"
[ ! -e "$work/failed" ] || fail "not every fault is found"
read_rights
[ "$which" != table ] || cat "$work"/results/*
echo "  ok     $(ls "$work/results" | wc -l) faults lead to their steps and causes, from the file alone"
