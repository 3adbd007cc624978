#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Real chips against the stand-in for the vendor's libraries (tests/standin): what is missing is told in a sentence;
# example scenes run on both generations in both modes, with the results that they expect; nothing is left behind on the card;
# runs after the second one register and allocate nothing. Arguments say which parts: missing, scenes, guards, declared, qemu, ranks, comm, life, level, worker, scalars, deaths, steady, cards, sweep, hang, files, killed, rules, routes, long, stay, strict, client, selfcheck, profiles, hardware, programs, dialect, rebuild, recorded,
# all of these by default; whole-sweep, comm-asan, asan, tsan.
set -eu
cd "$(dirname "$0")/../.."
pto=$(realpath build/bin/pto)
. tests/system/expect.sh
tools/make-alone build/standin/with
with=$(realpath build/standin/with)
home=$(realpath build/standin/home)
export PTO_STORE=$PWD/build/onboard-store # of all parts: each would compile the same scenes
mkdir -p "$work/disk"

# With the stand-in: exit code, phrases.
expect_with() { # code phrase... -- arguments
    local plain=$pto
    printf '#!/bin/sh\nexec %s %s "$@"\n' "$with" "$plain" >"$work/pto"
    chmod +x "$work/pto"
    pto=$work/pto
    expect_all "$@"
    pto=$plain
}

# A number of the accounts.
account() { # name file
    awk -v name="$1" '$1 == name { print $2; found = 1 } END { if (!found) print 0 }' "$2"
}

# ---- what is missing ----

report_missing() {
    unset ASCEND_HOME_PATH
    expect_all 0 "ASCEND_HOME_PATH is not set" -- info
    expect_all 2 "a2a3 is not available here: ASCEND_HOME_PATH is not set; install CANN" -- run vector --platform a2a3
    mkdir -p "$work/empty"
    ASCEND_HOME_PATH=$work/empty expect_all 0 "libascendcl.so cannot be loaded" "source set_env.sh" -- info
    cp -r "$home" "$work/old"
    echo version_dir=8.1.RC1 >"$work/old/runtime/version.info"
    ASCEND_HOME_PATH=$work/old expect_all 0 "this is CANN 8.1.RC1, and the first version whose interfaces are known is 8.5.0" -- info
    echo version_dir=10.0.0 >"$work/old/runtime/version.info"
    ASCEND_HOME_PATH=$work/old expect_all 0 "this is CANN 10.0.0" "PTO_CANN_ANY_VERSION" -- info
    cp -r "$home" "$work/stub"
    echo 'int aclInit(const char *config) { (void)config; return 0; }' >"$work/stub.c"
    gcc -shared -o "$work/stub/lib64/libascendcl.so" "$work/stub.c"
    ASCEND_HOME_PATH=$work/stub expect_all 0 "libascendcl.so of CANN 9.0.0 has no function aclFinalizeReference" -- info
    PTO_CANN_PROGRAMS=$work/empty ASCEND_HOME_PATH=$home expect_all 0 "a real chip needs the program libpto_dispatcher.so" -- info
    expect_with 0 "a2a3              8       24   ready" "card 0 is Ascend910B3, which is not a chip of generation a5" -- info
    expect_with 0 "card 0 can be opened" -- doctor
    STANDIN_CARDS=1 expect_with 1 "child 1: card 1: aclrtSetDevice answered 107001" -- run reduce --platform a2a3
    echo "  ok     what is missing is told"
}

# ---- scenes ----

# Results are those that the scene computes for itself; they are what the simulated chips are compared with, too.
run_scene() { # chip platform scene
    STANDIN_SOC=$1 STANDIN_REPORT=$work/report STANDIN_DISK=$work/disk expect_with 0 -- run "$3" --platform "$2"
    for mode in stream host; do
        grep -q "^$2, $mode" "$work/out" || fail "$3 on $2 did not run in mode $mode: $(cat "$work/out")"
    done
    for thing in violations streams allocations modules binaries references used acl; do
        [ "$(account $thing "$work/report")" = 0 ] ||
            fail "$3 on $2 leaves $(account $thing "$work/report") $thing: $(cat "$work/report" "$work/out")"
    done
}
# Scenes of ranks and those with several chips are rows of their own.
run_scenes() {
    local scene chips both="a2a3 a5"
    # All on both generations, or those that differ there, and the others on one of them.
    for scene in ${SCENES:-gang matmul/a5 paged_attention/a2a3 pipeline predicate/a5 simpler/a2a3 softmax/a5 transfer/a2a3 vector wavefront/a2a3}; do
        chips=$both
        [ "${scene#*/}" = "$scene" ] || chips=${scene#*/}
        scene=${scene%/*}
        for chip in $chips; do
            case $chip in
            a2a3) run_scene Ascend910B3 a2a3 "$scene" ;;
            a5) run_scene Ascend950DT a5 "$scene" ;;
            esac
        done
        echo "  ok     $scene on $chips, both modes; nothing is left on the card"
    done
}

# What guards notice is told as it is of a simulated chip.
run_guards() {
    printf '#!/bin/sh\nexec %s %s "$@"\n' "$with" "$pto" >"$work/guarded"
    chmod +x "$work/guarded"
    PTO=$work/guarded tests/system/guards.sh a2a3
    echo "  ok     who leaves an intermediate tensor, and who reads what nobody wrote, is named as in simulation"
}

# Both the scheduler program and the host, which builds graphs, compare arguments with declarations.
run_declared() {
    printf '#!/bin/sh\nexec %s %s "$@"\n' "$with" "$pto" >"$work/declaring"
    chmod +x "$work/declaring"
    PTO=$work/declaring tests/system/declared.sh a2a3
    echo "  ok     a submit that does not fit its kernel's declaration is refused as in simulation"
}

# Those whose host was killed end by themselves, soon after it.
expect_no_processor() {
    local until=$((SECONDS + 60))
    while pgrep -f "$(realpath build/standin/arm/aicpusd) $work" >/dev/null; do
        [ $SECONDS -lt $until ] || fail "a control processor is left behind"
        sleep 0.1
    done
}

# The control processor is a process that runs the aarch64 programs, and has nothing of the host's memory.
run_qemu() {
    tools/make-alone build/standin/arm/with
    local with
    with=$(realpath build/standin/arm/with)
    for scene in ${QEMU_SCENES:-vector gang simpler}; do # the last one is in C++
        run_scene Ascend910B3 a2a3 "$scene"
    done
    run_scene Ascend950DT a5 pipeline
    tools/make-alone build/conformance/chip
    ORCHESTRATION_CC=aarch64-linux-gnu-gcc "$with" build/conformance/chip cann >"$work/out" 2>&1 ||
        fail "the contract is not kept under the emulator: $(grep -E 'ERROR|FAILED' "$work/out")"
    expect_no_processor
    echo "  ok     the aarch64 scheduler runs scenes on both generations in both modes and keeps the contract; nothing is left on the card"
}

# ---- graphs that the host builds ----

run_built_on() { # chip platform, and whether its control processor is another kind of machine
    rm -f "$work/log"
    STANDIN_SOC=$1 STANDIN_REPORT=$work/report STANDIN_DISK=$work/disk PTO_CANN_LOG=$work/log \
        "$with" build/standin/built "$2" tests/standin/built ${3-} >"$work/out" 2>&1 || fail "$(cat "$work/out")"
    ! grep '^standin:' "$work/out" || fail "a rule was broken: $(cat "$work/out")"
    for thing in violations streams allocations modules binaries references used acl; do
        [ "$(account $thing "$work/report")" = 0 ] || fail "it leaves $(account $thing "$work/report") $thing: $(cat "$work/report")"
    done
}
run_built() {
    tools/make-alone build/standin/built build/standin/arm/with
    run_built_on Ascend910B3 a2a3
    run_built_on Ascend950DT a5
    local with
    with=$(realpath build/standin/arm/with)
    run_built_on Ascend910B3 a2a3 emulated
    echo "  ok     the host builds graphs for both generations, and for a control processor that is an aarch64: elements, kept graphs, failures, no allocation"
}

# ---- ranks ----

# No process has left anything on its card, or broken a rule.
check_reports() { # what was run
    local report thing
    for report in "$work"/report.*; do
        for thing in violations streams allocations modules binaries references used acl shared; do
            [ "$(account $thing "$report")" = 0 ] || fail "$1 leaves $(account $thing "$report") $thing: $(cat "$report" "$work/out")"
        done
    done
    rm -f "$work"/report.*
}

# Scenes whose ranks have a card each, on two and on four. Results are compared by the scene, on every rank.
run_rank_scene() { # chip platform scene case
    STANDIN_CARDS=4 STANDIN_SOC=$1 STANDIN_REPORT=$work/report.%p expect_with 0 "$2, stream, $4" "$2, host, $4" "result   ok" -- \
        run "$3" --case "$4" --platform "$2"
    check_reports "$3 on $2"
}
run_ranks() {
    for scene in allreduce ring domains moe; do
        run_rank_scene Ascend910B3 a2a3 $scene four
        run_rank_scene Ascend950DT a5 $scene two
    done
    run_rank_scene Ascend910_9391 a2a3 ring two
    run_rank_scene Ascend950DT a5 moe four
    echo "  ok     scenes of ranks on two and four cards of both generations; nothing is left on a card"
    ASCEND_RT_VISIBLE_DEVICES=3,1 STANDIN_REPORT=$work/report.%p expect_with 0 "result   ok" -- run ring --case two --platform a2a3
    check_reports "cards that have other numbers"
    echo "  ok     cards whose numbers are not the driver's"
}

# The suite of the contract of communication. Memory goes by number between older cards, by fabric handles between newer ones.
run_comm() {
    tools/make-alone build/conformance/comm
    STANDIN_CARDS=4 STANDIN_HBM=3000000000 STANDIN_SOC=${CHIP:-Ascend910B3} "$with" build/conformance/comm hccl >"$work/out" 2>&1 || fail "$(cat "$work/out")"
    ! grep '^standin:' "$work/out" || fail "a rule was broken: $(cat "$work/out")"
    echo "  ok     the contract of communication is kept over windows of cards"
}

# With every access checked, and by buffers of the communication library as well.
run_comm_asan() {
    tools/make-alone VARIANT=asan build/asan/conformance/comm build/asan/standin/with
    for ways in "vmm 3000000000" "none 80000000000"; do
        set -- $ways
        STANDIN_SHARE=$1 STANDIN_HBM=$2 HCCL_BUFFSIZE=64 STANDIN_CARDS=4 build/asan/standin/with build/asan/conformance/comm hccl >"$work/out" 2>&1 ||
            fail "$1: $(grep -A5 '^ERROR\|Sanitizer' "$work/out")"
        ! grep '^standin:' "$work/out" || fail "a rule was broken: $(cat "$work/out")"
        echo "  ok     the contract of communication under ASan, windows by $1"
    done
}

# Both ranks of tests/standin/lifecycle.c, and the stage at which each of them ended: 0 is none, 137 killed.
live() { # code of rank 0 or a pattern, code of rank 1, platform, what rank 1 is to do
    local other=0 begin=$SECONDS meet=$work/meet.$RANDOM first
    got=0
    PTO_CANN_LOG=${PTO_CANN_LOG:+$PTO_CANN_LOG.0} "$with" build/standin/lifecycle "$3" 0 2 "$meet" >"$work/out" 2>&1 &
    first=$!
    PTO_CANN_LOG=${PTO_CANN_LOG:+$PTO_CANN_LOG.1} LIFECYCLE_CARD=${CARD:-1} STANDIN_PLAN=${PLAN-${STANDIN_PLAN-}} "$with" build/standin/lifecycle "$3" 1 2 "$meet" ${4-} >"$work/out.1" 2>&1 &
    { wait $first || got=$?; wait $! || other=$?; } 2>/dev/null
    [[ $got,$other == $1,$2 ]] || fail "stages $got and $other, not $1 and $2 (${4-} ${STANDIN_PLAN-} ${PLAN-}): $(cat "$work/out" "$work/out.1")"
    ! grep '^standin:' "$work/out" || fail "a rule was broken: $(cat "$work/out")"
    [ $((SECONDS - begin)) -lt 60 ] || fail "it took $((SECONDS - begin)) s"
}
run_life() {
    tools/make-alone build/standin/lifecycle
    local stage
    # In each way that there is, and its dead peers.
    export HCCL_BUFFSIZE=4
    for ways in "Ascend910B3 a2a3 vmm mesh" "Ascend910_9391 a2a3 fabric mesh" "Ascend950DT a5 vmm mesh" "Ascend910B3 a2a3 none mesh" "Ascend910B3 a2a3 none ring"; do
        set -- $ways
        export STANDIN_SOC=$1 STANDIN_SHARE=$3 STANDIN_TOPOLOGY=$4
        STANDIN_REPORT=$work/report.%p live 0 0 "$2"
        check_reports "the life of two ranks, $ways"
        live 60 137 "$2" die-barrier
        grep -q "the process of rank 1 has ended" "$work/out" || fail "$(cat "$work/out")"
        live 70 137 "$2" die-destroy
    done
    PLAN='aclrtMemcpy@10..99=delay(20)' live 0 0 a2a3 # by the communication library: a peer that comes late is waited for
    LIFECYCLE_MS=300 live 20 137 a2a3 die-init # they have not met yet, so that it only does not come
    # The communication library waits for two minutes and cannot be woken: the rank that lives is told at once.
    PLAN=HcclCommInitRootInfo@1=hang live 30 137 a2a3 die-alloc
    grep -q "the process of rank 1 has ended" "$work/out" || fail "$(cat "$work/out")"
    echo "  ok     the life of two ranks on cards: three ways, both topologies, a peer that dies at each stage"
    # A vendor's call that fails, and the stage that it belongs to.
    unset STANDIN_SHARE STANDIN_TOPOLOGY
    export STANDIN_SOC=Ascend910B3
    for stage in 18=aclInit@1=100000 18=aclrtSetDevice@1=507033 19=aclrtCreateStream@1=207001 15=aclrtGetMemInfo@1=507899 30=aclrtMallocPhysical@1=207001 \
        30=aclrtMapMem@2=507899 30=aclrtMemImportFromShareableHandle@1=107000; do
        case $stage in
        30=*) STANDIN_PLAN=${stage#*=} live 30 30 a2a3 ;;
        *) PLAN=${stage#*=} LIFECYCLE_MS=300 live 20 "${stage%%=*}" a2a3 ;;
        esac
    done
    STANDIN_SHARE=none STANDIN_PLAN=HcclAllocComResourceByTiling@1=5 live 30 30 a2a3
    grep -q "HcclAllocComResourceByTiling answered 5 (not supported)" "$work/out" || fail "$(cat "$work/out")"
    STANDIN_SHARE=none HCCL_BUFFSIZE=0 live 30 30 a2a3
    CARD=0 live 30 30 a2a3
    grep -q "ranks 0 and 1 are both on card 0; give each rank a different card" "$work/out" || fail "$(cat "$work/out")"
    (
        unset ASCEND_HOME_PATH
        got=0
        build/standin/lifecycle a2a3 0 1 "$work/alone" >"$work/out" 2>&1 || got=$?
        [ $got = 10 ] || fail "without the vendor's software the stage is $got"
    )
    # What the communication library says of itself is not believed, whichever part of it is wrong.
    for stage in "rank reports rank 1 of 2, but this is rank 0 of 2: its structs have an unknown layout" "count reports rank 0 of 1000" \
        "size have 16 bytes, and 4096 are asked for: raise HCCL_BUFFSIZE" "base has no window of rank 1"; do
        for topology in mesh ring; do
            STANDIN_SHARE=none STANDIN_TOPOLOGY=$topology STANDIN_LIES=${stage%% *} live 30 30 a2a3
            grep -q "${stage#* }" "$work/out" || fail "$(cat "$work/out")"
        done
    done
    # The context on the card: it cannot be read, or is not what was sent there.
    PTO_CANN_LOG=$work/calls live 0 0 a2a3
    stage=$(awk '$3 == "aclrtMemcpy" && ++n && $9 == "0x420" && $10 == "0x2" { print n }' "$work/calls.1")
    PLAN="aclrtMemcpy@$stage=507899" live 60 55 a2a3
    PLAN="aclrtMemcpy@$stage=flip(40)" live 60 56 a2a3
    echo "  ok     what fails is told by its stage; two ranks on one card are refused; answers that cannot be are, too"
    run_peer
}

# Rank 1 is killed at each of its calls once both have met; both cards are used again each time.
run_peer() {
    local i first last codes=
    first=$(awk '$3 == "aclrtMemGetAllocationGranularity" { print $1; exit }' "$work/calls.1")
    last=$(grep -vc "^#" "$work/calls.1")
    export STANDIN_DISK=$work/cards
    mkdir -p "$STANDIN_DISK"
    for ((i = first; i <= last; i++)); do
        PLAN="*@$i=die" STANDIN_REPORT=$work/report.%p live '[0-9]*' 137 a2a3
        codes="$codes $got"
        [ "$got" = 0 ] || grep -q "the process of rank 1 has ended" "$work/out" || fail "call $i: $(cat "$work/out")"
    done
    # After the last copy they have nothing more to tell each other.
    [ "$(echo $codes | tr ' ' '\n' | uniq | tr '\n' ' ')" = "30 60 0 " ] || fail "the stages are $codes"
    STANDIN_REPORT=$work/report.%p live 0 0 a2a3
    check_reports "a peer that is killed"
    # The same at the calls of the communication library, which waits for the peer itself.
    export STANDIN_SHARE=none
    PTO_CANN_LOG=$work/calls live 0 0 a2a3
    for name in $(awk '$3 ~ /^Hc/ && !seen[$3]++ { print $3 }' "$work/calls.1"); do
        PLAN="$name@1=die" live '[0-9]*' 137 a2a3 # what a call of the library's holds that was given up goes with its process
        [ "$got" = 70 ] || [ "$got" = 0 ] || grep -q "the process of rank 1 has ended" "$work/out" || fail "$name: $(cat "$work/out")"
        codes=$name
    done
    [ "$codes" != "" ] || fail "the communication library was not called"
    STANDIN_REPORT=$work/report.%p live 0 0 a2a3
    check_reports "a peer that is killed in the communication library"
    unset STANDIN_DISK STANDIN_SHARE
    echo "  ok     a peer that is killed at each of $((last - first + 1)) calls, and of the communication library's: told, nothing is left, and both cards work"
}

# Level 3: chips of a worker are cards, each in a process of its own.
run_level() {
    for scene in "reduce default" "dispatch two" "dispatch three" "dispatch four" "feed_forward two" "feed_forward four" "overlap default" "messages default"; do
        for chip in "Ascend910B3 a2a3" "Ascend950DT a5"; do
            case "$scene $chip" in # each number of cards on one of the generations, if not all are wanted
            dispatch*three*a2a3 | dispatch*four*a5 | *two*a5 | feed*four*a2a3) [ -n "${ALL-}" ] || continue ;;
            esac
            [ "$scene" != "overlap default" ] || chip=${chip/910B3/910_9391} # by fabric handles
            set -- $scene $chip
            STANDIN_CARDS=4 STANDIN_SOC=$3 STANDIN_REPORT=$work/report.%p expect_with 0 "result   ok" -- run "$1" --case "$2" --platform "$4"
            check_reports "$1 on $4"
        done
    done
    # Chip 0 waits for chip 1, which gives up: its card is told, and is not lost itself.
    STANDIN_CARDS=2 STANDIN_REPORT=$work/report.%p expect_with 1 "it gave up" -- run tests/standin/lost --platform a2a3
    set -- "$work"/report.* # of a card that is lost there is none
    [ $# = 2 ] || fail "a card waited for a member that was lost: $(cat "$work/out")"
    check_reports "a member that is lost"
    echo "  ok     scenes of level 3 on one to four cards of both generations, with domains over them, and messages"
}

# What scenes of level 3 do not show (tests/standin/level.c), over this stand-in.
build_worker() { # platform, file
    "$with" "$pto" build --orchestration tests/standin/level/serve.c --kernel 0:aiv:tests/standin/level/double.c --kernel 1:aiv:tests/standin/level/add.c \
        --kernel 2:aiv:tests/standin/level/pass.c --kernel 3:aiv:tests/standin/level/tell.c --signature "inout$(printf ',scalar%.0s' {1..13})" \
        --platform "$1" -I "$PWD" -o "$2" >"$work/out" 2>&1 || fail "$(cat "$work/out")"
}
variant= checked= # of the library, and what such a program is started with
play() { # chip, platform, artefact, parts
    local soc=$1
    shift
    STANDIN_CARDS=2 STANDIN_SOC=$soc STANDIN_REPORT=$work/report.%p $checked "$with" "build/${variant:-.}/standin/level" "$@" >"$work/out" 2>&1 || fail "$*: $(cat "$work/out")"
    ! grep -E '^standin:|Sanitizer|runtime error' "$work/out" || fail "a rule was broken: $(cat "$work/out")"
}
ready_worker() { # platforms
    tools/make-alone build/standin/level
    for platform; do build_worker "$platform" "$work/$platform.ptoc"; done
}
run_worker() {
    ready_worker a2a3sim a2a3 a5
    play none a2a3sim "$work/a2a3sim.ptoc" talk windows beside pause kill
    play Ascend910B3 a2a3 "$work/a2a3.ptoc" talk windows beside kill
    check_reports "a worker of level 3 on cards"
    play Ascend910_9391 a2a3 "$work/a2a3.ptoc" windows kill # by fabric handles
    check_reports "windows by fabric handles"
    for topology in mesh ring; do # of the communication library, which all join at once
        HCCL_BUFFSIZE=4 STANDIN_SHARE=none STANDIN_TOPOLOGY=$topology play Ascend910B3 a2a3 "$work/a2a3.ptoc" windows beside kill
        check_reports "windows of the communication library, $topology"
    done
    play Ascend950DT a5 "$work/a5.ptoc" talk windows beside pause kill
    check_reports "a worker of level 3 on cards of the other generation"
    STANDIN_CARDS=3 STANDIN_SOC=Ascend950DT STANDIN_SHARE=none expect_with 1 "there are no windows of MC2 on a5" -- run overlap --platform a5
    tools/make-alone build/standin/arm/with
    local with
    with=$(realpath build/standin/arm/with)
    build_worker a2a3 "$work/arm.ptoc"
    play Ascend910B3 a2a3 "$work/arm.ptoc" talk
    check_reports "conversations with the aarch64 scheduler"
    echo "  ok     regions, queues, windows as tensors and in copies, domains without bytes and children that are killed, on cards and on simulated chips"
}
# A scalar is a number: no value of it is taken for an address.
run_scalars() {
    ready_worker a2a3sim a2a3
    play Ascend910B3 a2a3 "$work/a2a3.ptoc" numbers
    check_reports "scalars that lie in regions and windows"
    play none a2a3sim "$work/a2a3sim.ptoc" numbers
    echo "  ok     scalars that lie in regions, windows and contexts of a worker reach kernels on its cards as they are"
}
# The same where every access is checked, and whether threads race: of the worker and of its children, not of the programs for
# the card, whose order is that of registers and fences, which a sanitizer does not see.
run_worker_checked() { # variant
    local variant=$1 checked=
    ready_worker a2a3
    tools/make-alone VARIANT=$1 all "build/$1/standin/with" "build/$1/standin/level"
    local with
    with=$(realpath "build/$1/standin/with")
    if [ $1 = tsan ]; then
        checked='setarch -R'
        printf 'race:libpto_scheduler\nrace:/executor\n' >"$work/suppressed"
        export TSAN_OPTIONS=suppressions=$work/suppressed:print_suppressions=0:atexit_sleep_ms=20
    fi
    play Ascend910B3 a2a3 "$work/a2a3.ptoc" talk windows beside kill
    check_reports "a worker of level 3 on cards, $1"
    [ $1 = tsan ] || STANDIN_SHARE=none HCCL_BUFFSIZE=4 play Ascend910B3 a2a3 "$work/a2a3.ptoc" windows beside kill sweep
    rm -f "$work"/report.*
    echo "  ok     $1: nothing is said of a worker on cards and its children"
}
# A child is killed at the first call of each name that it makes, over the same cards each time.
run_deaths() {
    local ways
    ready_worker a2a3 a5
    export STANDIN_DISK=$work/cards HCCL_BUFFSIZE=4
    mkdir -p "$STANDIN_DISK"
    while read -r -d ';' ways; do
        set -- $ways
        STANDIN_SHARE=$3 play "$1" "$2" "$work/$2.ptoc" sweep
        check_reports "a child that is killed, $ways"
        echo "  ok     a child of a worker is killed at the first call of each name, $ways: $(cat "$work/out")"
    done <<<"${WAYS:-Ascend910B3 a2a3 vmm};"
    unset STANDIN_DISK HCCL_BUFFSIZE
}

# ---- register once ----

programs=build/standin/programs
# A card with room for 20 executors: of its memory half is for tensors, and what else a device takes is seen with one that has enough, of 64 MiB: what the engine has is the same then.
executors=20
steady() { # platform rounds, bytes of the card
    local soc=Ascend910B3
    [ "$1" = a2a3 ] || soc=Ascend950DT
    STANDIN_SOC=$soc STANDIN_HBM=${3:-$hbm} STANDIN_REPORT=$work/steady.$2 expect_with "${CODE:-0}" ${PHRASE:+"$PHRASE"} -- run vector --case odd --mode stream \
        --platform "$1" --no-guards --rounds "$2"
}
run_steady_on() { # platform rounds
    local rounds enough=$((1 << 26)) executor
    executor=$(($(stat -c %s "$programs/executor-$1.o") + 4096))
    steady "$1" 2 $enough
    hbm=$((2 * ($(account launched "$work/steady.2") - enough / 2 + (executors - 1) * executor)))
    steady "$1" 2
    steady "$1" "$2"
    for name in aclrtBinaryLoadFromData aclrtBinaryLoadFromFile aclrtCreateStream halMemCtl halResMap aclrtSetDevice peak; do
        [ "$(account $name "$work/steady.2")" = "$(account $name "$work/steady.$2")" ] ||
            fail "$1: $name grows with runs: $(account $name "$work/steady.2") after 2, $(account $name "$work/steady.$2") after $2"
    done
    # The scene allocates its output, once a round; the run itself nothing: staged tensors are in memory that the device keeps.
    for rounds in 2 "$2"; do
        echo $(($(account aclrtMalloc "$work/steady.$rounds") - rounds)) $(($(account aclrtFree "$work/steady.$rounds") - rounds))
    done | uniq | wc -l | grep -qx 1 || fail "$1: memory is allocated by runs: $(cat "$work/steady.$2")"
    [ "$(account aclrtBinaryLoadFromData "$work/steady.2")" = 1 ] || fail "$1: the executor is registered more than once"
    echo "  ok     $1: $2 runs with memory for $executors executors: registered once, every account where run 2 left it"
}

# A card that has no room for the executor when its cores start, or is down: the sentence names both. (That memory ends
# with one executor too many is a rule of the stand-in: strict.c.)
lose_memory() { # platform
    CODE=1 PHRASE="answered 207001 (no device memory, or a program could not be put there) while launching the cores: the card has no room for their program, or it is down" \
        STANDIN_PLAN=aclrtLaunchKernelWithHostArgs@4=207001 steady "$1" 1
    echo "  ok     $1: a run without room for the executor reports 207001, and that the card may be down"
}
run_steady() {
    run_steady_on a2a3 "${ROUNDS:-1000}"
    lose_memory a2a3
    run_steady_on a5 "${ROUNDS_A5:-1000}"
    lose_memory a5
}

# ---- which cards ----

run_cards() {
    local report
    export STANDIN_CARDS=4
    STANDIN_REPORT=$work/report.%p expect_with 0 "0 failed, 2 skipped" "case 'eight' needs 8 cards, and --cards names 4" -- \
        test examples/ring examples/vector examples/dispatch --platform a2a3 --cards 3,0-2
    check_reports "cards that were named"
    expect_with 2 "case 'four' needs 4 cards, and --cards names 2" -- run ring --case four --platform a2a3 --cards 2-3
    expect_with 2 "--cards needs a real platform, and a2a3sim is simulated" -- run vector --platform a2a3sim --cards 0
    for list in 1,1 3-1 x 1, ""; do
        expect_with 2 "--cards must be at most 64 different numbers, or ranges of numbers" -- run vector --platform a2a3 --cards "$list"
    done
    expect_with 1 "card 9: aclrtSetDevice answered 107001 (there is no such device)" -- run vector --platform a2a3 --cards 9
    expect_with 2 "cases on cards run one at a time" -- test examples/vector --platform a2a3 --jobs 2
    # The same from Python, by the number that simpler calls device_id, too.
    tools/make-alone python
    "$with" "$pto" build vector --platform a2a3 -o "$work/a2a3.ptoc" >"$work/out" || fail "$(cat "$work/out")"
    PYTHONPATH=build/python:python/simpler PTO_CANN_LOG=$work/calls "$with" /usr/bin/python3 - "$work/a2a3.ptoc" >"$work/out" 2>&1 <<'PY' || fail "$(cat "$work/out")"
import sys
import numpy as np, pto, simpler.worker

a, b, f = np.arange(1001, dtype="float32"), np.ones(1001, "float32"), np.zeros(1001, "float32")
with pto.Device("a2a3", card=3) as device:
    device.run(pto.load(sys.argv[1]), a, b, f)
assert np.array_equal(f, (a + b + 1) * (a + b + 2) + a + b)
for card, refused in (3, None), (4, "card 4: aclrtSetDevice answered 107001"):
    worker = simpler.worker.Worker(level=2, platform="a2a3", runtime="tensormap_and_ringbuffer", device_id=card)
    try:
        worker.init()
        worker.close()
        assert refused is None
    except RuntimeError as error:
        assert refused is not None and refused in str(error), error
PY
    echo "  ok     cards are named, for scenes of all kinds and from Python; too few, none, or what is no list is told"
}

# ---- versions ----

# Versions and kinds of cards by name (tests/standin/with), and what is refused.
run_profiles() {
    local version
    for version in 8.5.0 9.0.0 9.1.0 9.2.0-beta.1; do
        rm -f "$work/calls"
        PTO_CANN_LOG=$work/calls STANDIN_PROFILE=${version:0:3} expect_with 0 "result   ok" -- run vector --case odd --platform a2a3
        grep -q "^#.[0-9]*.version.$version\$" "$work/calls" || fail "the version is not $version: $(grep version "$work/calls")"
    done
    # Ranks share memory by fabric handles, else by number, else by the communication library, which is tried last, and has an older name in 8.5.
    for ways in "9.0 - MemImportFromShareableHandleV2" "no-fabric - MemImportFromShareableHandle" "no-fabric none HcclAllocComResourceByTiling" \
        "8.5 none HcclAllocComResourceByTiling"; do
        set -- $ways
        [ "$2" = - ] || export STANDIN_SHARE=$2
        HCCL_BUFFSIZE=8 STANDIN_SOC=Ascend910_9391 STANDIN_PROFILE=$1 STANDIN_REPORT=$work/report.%p expect_with 0 "result   ok" -- \
            run ring --case two --platform a2a3
        grep -lE "^(aclrt)?$3 [1-9]" "$work"/report.* | wc -l | grep -qx 2 || fail "ranks with $1 and $2 did not use $3: $(cat "$work"/report.*)"
        [ $3 = MemImportFromShareableHandleV2 ] || ! grep -q "^aclrtMemImportFromShareableHandleV2 " "$work"/report.* || fail "$1 has fabric handles"
        check_reports "ranks with $1"
        unset STANDIN_SHARE
    done
    cp -rs "$home" "$work/home"
    printf '#!/bin/sh\nexec %s env ASCEND_HOME_PATH=%s "$@"\n' "$with" "$work/home" >"$work/with"
    chmod +x "$work/with"
    for version in runtime/version.info:version_dir=8.1.RC1 share/info/runtime/version.info:version_dir=8.0.0 share/info/runtime/version.info:Version=10.1.0 \
        runtime/version.info:Version=10.2.0 ascend_toolkit_install.info:version=10.0.0; do
        rm -f "$work/home/runtime/version.info" "$work/home/share/info/runtime/version.info"
        mkdir -p "$work/home/share/info/runtime"
        echo "${version#*:}" >"$work/home/${version%%:*}"
        with=$work/with expect_with 1 "this is CANN ${version#*=}, and the" -- run vector --platform a2a3
    done
    with=$work/with PTO_CANN_ANY_VERSION=1 expect_with 0 "result   ok" -- run vector --case odd --platform a2a3
    export STANDIN_PROFILE=vnpu
    expect_with 1 "halMemCtl answered 65534 (not supported, as on a part of a card)" -- run vector --platform a2a3
    STANDIN_SOC=Ascend950DT expect_with 1 "halResMap answered 65534 (not supported, as on a part of a card)" -- run vector --platform a5
    unset STANDIN_PROFILE
    echo "  ok     CANN 8.5, 9.0, 9.1 and 9.2 run a scene; ranks without fabric handles share memory otherwise; older and newer versions and parts of cards are refused with a sentence"
}

# ---- tests on hardware, here on cards that are none ----

run_hardware() {
    local got=0
    tests/system/hardware.sh >"$work/out" 2>&1 || got=$?
    [ $got = 77 ] && grep -q 'skipped: scenes on a card' "$work/out" && ! grep -q ' ok ' "$work/out" || fail "without cards: exit $got: $(cat "$work/out")"
    echo 'a2a3 nought' >"$work/cards"
    got=0
    PTO_HARDWARE=$work/cards tests/system/hardware.sh >"$work/out" 2>&1 || got=$?
    [ $got = 1 ] && grep -q "line 1: 'nought' is no number of a card" "$work/out" || fail "a file that makes no sense: exit $got: $(cat "$work/out")"
    printf '# of this machine\na2a3 1\n' >"$work/cards"
    PTO_HARDWARE=$work/cards "$with" tests/system/hardware.sh >"$work/out" 2>&1 || fail "$(cat "$work/out")"
    grep -q 'ok     selfcheck on a2a3, card 1' "$work/out" && grep -q 'skipped: ranks on two cards' "$work/out" || fail "$(cat "$work/out")"
    echo "  ok     tests on hardware run on the cards that a file names, and are skipped by name without"
}

# ---- calls that fail, that hang, and cards that go down ----

# A program of its own (tests/standin/sweep.c) plays its scenario with a callable for each generation.
ready_sweep() {
    tools/make-alone build/standin/sweep
    "$with" "$pto" build vector --platform a2a3 -o "$work/a2a3.ptoc" >"$work/out" || fail "$(cat "$work/out")"
    "$with" "$pto" build vector --platform a5 -o "$work/a5.ptoc" >"$work/out" || fail "$(cat "$work/out")"
    "$with" "$pto" build vector --platform a2a3 --mode host -o "$work/a2a3-host.ptoc" >"$work/out" || fail "$(cat "$work/out")"
}
run_sweep_program() { # generation, file for what it prints, what it is to do
    local generation=$1 out=$2 soc=Ascend910B3
    shift 2
    [ "$generation" = a2a3 ] || soc=Ascend950DT
    STANDIN_SOC=$soc SWEEP_PLATFORM=$generation timeout -k 5 "${SWEEP_SECONDS:-300}" "$with" build/standin/sweep "$work/$generation${MODE-}.ptoc" "$@" \
        >"$out" 2>"$out.err" </dev/null
}
sweep() { # generation, what it is to do; MODE: -host
    local generation=$1
    shift
    run_sweep_program "$generation" "$work/out" "$@" || fail "$generation, $*: $(tail -n 2 "$work/out.err")"
    echo "  ok     $generation${MODE-}, $*: $(tail -1 "$work/out")"
}
run_sweep() {
    ready_sweep
    sweep a2a3 207001 507899
    sweep a2a3 down
    sweep a5 507899
    MODE=-host sweep a2a3 207001
    STANDIN_HEALS=3 sweep a2a3 few down # two forced resets do not help, the third does
    STANDIN_HEALS=4 sweep a2a3 few down # more are not tried: the card stays down, which the next open is told
}
# A call that loads a program and hangs, or in which the process is killed: nothing is left in the temporary folder, with a cache
# and, where the call hangs, also without.
leave_no_file() {
    local plan code phrase
    mkdir -p "$work/temporary"
    for plan in aclrtBinaryLoadFromFile@1=die aclrtBinaryLoadFromFile@2=die aclrtBinaryLoadFromFile@1=hang aclrtBinaryLoadFromFile@2=hang \
        aclrtBinaryLoadFromFile@1=507899 cacheless,aclrtBinaryLoadFromFile@1=hang cacheless,aclrtBinaryLoadFromFile@2=hang cacheless,; do
        phrase="cannot open a device of a2a3: card 0: aclrtBinaryLoadFromFile" code=1
        case $plan in
        *=die) phrase= ;;
        *,) phrase="result   ok" code=0 ;;
        esac
        (
            [ "${plan#cacheless,}" = "$plan" ] || unset HOME XDG_CACHE_HOME PTO_STORE
            TMPDIR=$work/temporary PTO_CANN_CALL_MS=500 STANDIN_PLAN=${plan#*,} expect_with $code "$phrase" -- run vector --case odd --mode stream --platform a2a3
        )
        [ -z "$(ls -A "$work/temporary")" ] || fail "$plan leaves $(ls -A "$work/temporary")"
    done
    echo "  ok     a vendor's call that hangs or dies while it loads a program leaves no file in the temporary folder"
}
# Four at a time: they mostly wait.
hang_in_parts() { # generation, few or nothing
    local part failed=0 pids=() tried=0
    for part in 0 1 2 3; do
        (SWEEP_PART=$part/4 run_sweep_program "$1" "$work/hang.$part" ${2-} hang) &
        pids+=($!)
    done
    for part in 0 1 2 3; do
        wait "${pids[part]}" || failed=1
        tried=$((tried + $(sed -nE 's/^([0-9]+) of [0-9]+ calls, [1-9].*/\1/p' "$work/hang.$part")))
    done
    [ $failed = 0 ] || fail "$1, ${2-} hang: $(tail -q -n 2 "$work"/hang.?.err)"
    [ $tried -ge 20 ] || fail "$1, ${2-} hang: only $tried calls: $(cat "$work"/hang.?)"
    echo "  ok     $1, ${2-} hang: $tried calls, $(tail -q -n 1 "$work"/hang.? | sed 's/.*difference, //' | sort -n | tail -1)"
}
run_hang() {
    ready_sweep
    hang_in_parts a2a3 few
}
# The control processor is a process, which is killed: before, in and between its programs.
run_killed() {
    tools/make-alone build/standin/arm/with
    local with
    with=$(realpath build/standin/arm/with)
    ready_sweep
    STANDIN_DISK=$work/disk sweep a2a3 few kill # by which its process is found
    expect_no_processor
}
# All that can be thought of.
run_whole_sweep() {
    ready_sweep
    SWEEP_SECONDS=3600
    for generation in a2a3 a5; do
        sweep $generation 100000 107000 107002 107003 107022 207000 207001 207018 507000 507014 507015 507017 507018 507032 507033 507046 507899 507901 \
            4 6 13 42 62 65534 999999 down
        hang_in_parts $generation
    done
}

# ---- two runs in flight ----

# tests/standin/flight.c, and how long the card waits for the host.
run_flight() {
    tools/make-alone build/standin/flight
    local soc
    for soc in "Ascend910B3 a2a3" "Ascend950DT a5"; do
        set -- $soc
        "$with" "$pto" build tests/standin/flight --platform "$2" -o "$work/$2.ptoc" >"$work/out" 2>&1 || fail "$(cat "$work/out")"
        STANDIN_SOC=$1 SWEEP_PLATFORM=$2 timeout -k 5 600 "$with" build/standin/flight "$work/$2.ptoc" >"$work/out" 2>&1 || fail "$2: $(tail -n 5 "$work/out")"
        echo "  ok     $2: $(tail -1 "$work/out")"
    done
    timeout -k 5 600 "$with" build/standin/flight "$work/a2a3.ptoc" idle >"$work/out" 2>&1 || fail "$(tail -n 5 "$work/out")"
    echo "  ok     $(tail -1 "$work/out")"
}

# ---- rules of the vendor's ----

# An older dispatcher that was first in the process, and one that is not ours at all: what they did counts for nothing.
refuse_dispatchers() {
    local name
    mkdir -p "$work/older/cann/device" "$work/foreign"
    sed 's/DISPATCHER_VERSION = 2/DISPATCHER_VERSION = 1/' src/cann/device/dispatcher.h >"$work/older/cann/device/dispatcher.h"
    gcc -shared -fPIC -I"$work/older" -Isrc -I. -Itests/standin -o "$work/older/libpto_dispatcher.so" src/cann/device/dispatcher.c src/cann/device/card_files.c
    for name in DynTileFwkBackendKernelServerInit DynTileFwkBackendKernelServer StaticTileFwkBackendKernelServer; do
        echo "unsigned $name(void *args) { return args == 0; }"
    done >"$work/foreign/dispatcher.c"
    gcc -shared -fPIC -o "$work/foreign/libpto_dispatcher.so" "$work/foreign/dispatcher.c"
    for name in libpto_scheduler.so executor-a2a3.o; do
        cp "$programs/$name" "$work/older"
        cp "$programs/$name" "$work/foreign"
    done
    sweep a2a3 first "a dispatcher of version 1 was loaded first, and stays until this process ends; this library needs version 2" "$work/older" $programs
    sweep a2a3 first "the dispatcher did not answer: another one was loaded first" "$work/foreign" $programs
}

# The card's disk has no room for the scheduler; the dispatcher still fits.
refuse_full_disk() {
    local blocks=$(($(stat -c %s $programs/libpto_dispatcher.so) / 1024 + 16))
    mkdir -p "$work/full"
    STANDIN_DISK=$work/full expect_with 0 "result   ok" -- run vector --case odd --mode stream --platform a2a3
    rm "$work/full/"*scheduler*
    (trap '' XFSZ && ulimit -f $blocks && STANDIN_DISK=$work/full expect_with 1 "the scheduler cannot be written on the card: File too large" -- \
        run vector --case odd --mode stream --platform a2a3)
    [ "$(find "$work/full" -name '*scheduler*' | wc -l)" = 0 ] || fail "half of a scheduler is left: $(ls -a "$work/full")"
    STANDIN_DISK=$work/full expect_with 0 "result   ok" -- run vector --case odd --mode stream --platform a2a3
    echo "  ok     a scheduler for which the card's disk has no room is told, and nothing of it is left"
}

run_rules() {
    ready_sweep
    refuse_full_disk
    mkdir -p "$work/programs"
    sweep a2a3 rules "$work/programs"
    STANDIN_HEALS=3 STANDIN_GRACE=6 sweep a5 rules "$work/programs" # a card that has failed seems well at first, and two forced resets do not help
    refuse_dispatchers
    STANDIN_BUSY=2 sweep a2a3 few 507899 # the driver is busy at first
    STANDIN_PART=1 expect_with 0 "halMemCtl answered 65534 (not supported, as on a part of a card)" -- info
    sweep a2a3 few down
}

# ---- which way was taken, where there are several ----

# The scene, and what the log of calls says of the way that it took.
run_route() { # pattern of a line "# route ...", platform, arguments of pto run
    local route=$1 platform=$2
    shift 2
    rm -f "$work/calls"
    PTO_CANN_LOG=$work/calls STANDIN_REPORT=$work/report expect_with 0 "result   ok" -- run "${@:-vector}" --case "${CASE-odd}" --mode stream --platform "$platform"
    tr '\t' ' ' <"$work/calls" | grep -Eq "^# [0-9]+ route $route" || fail "$platform does not take the route '$route': $(grep '^#' "$work/calls")"
    for thing in violations streams allocations modules binaries references used acl; do
        [ "$(account $thing "$work/report")" = 0 ] || fail "route '$route': $(account $thing "$work/report") $thing: $(cat "$work/report" "$work/out")"
    done
}

# Programs are written to the folder that is known, also if the dispatcher has another one; and alongside the dispatcher where that folder has gone.
place_programs() {
    local folders
    for folders in "one , the vendor's folder" "server , the vendor's folder" "moved server/, the dispatcher's own folder; the vendor's folder: No such file"; do
        set -- $folders
        export STANDIN_FOLDERS=$1 STANDIN_DISK=$work/folders-$1
        folders=${folders#* }
        mkdir -p "$STANDIN_DISK"
        run_route "programs $STANDIN_DISK/${folders%%,*}libpto_scheduler_[0-9a-f]*_0.so,${folders#*,}" a2a3
    done
    unset STANDIN_FOLDERS STANDIN_DISK
    /usr/bin/python3 - <<'PY' || fail "a function of the dispatcher that does nothing fails"
import ctypes
standin = ctypes.CDLL("build/standin/home/lib64/libascendcl.so", mode=ctypes.RTLD_GLOBAL)
dispatcher = ctypes.CDLL("build/standin/programs/libpto_dispatcher.so", mode=ctypes.RTLD_LOCAL)
assert dispatcher.DynTileFwkBackendKernelServer(None) == 0 and dispatcher.StaticTileFwkBackendKernelServer(None) == 0
PY
}

# The executor's entry is asked for by its number, then by its name, then registered with its program; the last way needs functions that may be absent.
find_entries() {
    local entry=aclrtBinaryGetFunctionByEntry@1..99=107000 name="aclrtBinaryGetFunction@3..99=107000" platform
    for platform in a2a3 a5; do
        [ $platform = a2a3 ] || export STANDIN_SOC=Ascend950DT
        run_route "executor aclrtBinaryGetFunctionByEntry$" $platform
        STANDIN_PLAN=$entry run_route "executor aclrtBinaryGetFunction$" $platform
        STANDIN_PLAN="$entry;$name" run_route "executor rtRegisterAllKernel$" $platform
        STANDIN_PLAN="aclrtBinaryLoadFromData@1=107000" run_route "executor rtRegisterAllKernel$" $platform
    done
    unset STANDIN_SOC
    STANDIN_PLAN="$entry;$name;rtRegisterAllKernel@1=207001" expect_with 1 "rtRegisterAllKernel answered 207001" "while launching the cores: the card has no room for their program" -- run vector --platform a2a3
    STANDIN_PLAN="$entry;$name;rtKernelLaunchWithHandleV2@1=207001" expect_with 1 "rtKernelLaunchWithHandleV2 answered 207001" -- run vector --platform a2a3
    cp -rs "$home" "$work/without"
    rm "$work/without/lib64/libruntime.so"
    printf '#!/bin/sh\nexec %s env ASCEND_HOME_PATH=%s LD_LIBRARY_PATH=%s/lib64 "$@"\n' "$with" "$work/without" "$work/without" >"$work/with"
    chmod +x "$work/with"
    with=$work/with run_route "executor aclrtBinaryGetFunctionByEntry$" a2a3
    with=$work/with STANDIN_PLAN="$entry;$name" expect_with 1 "aclrtBinaryGetFunctionByEntry answered 107000" -- run vector --platform a2a3
}

# Cores of a cluster signal each other at an address that the host gets from the vendor; a generation without one says so.
signal_lanes() {
    for CASE in default crowded; do
        run_route "sync 0x[1-9a-f]" a2a3 tests/standin/lanes
    done
    unset CASE
    STANDIN_SOC=Ascend950DT run_route "sync 0$" a5
    STANDIN_PLAN=aclrtGetHardwareSyncAddr@1=207000 expect_with 1 "its sync address is 0, not" "answered 507015 (a core had an exception)" -- \
        run tests/standin/lanes --mode stream --platform a2a3
    STANDIN_PLAN=aclrtGetHardwareSyncAddr@1=507899 expect_with 1 "aclrtGetHardwareSyncAddr answered 507899" -- run vector --platform a2a3
}

# A failure before all events are recorded is reported by the next call.
mute_failure() { # plan, pattern of the code and its meaning
    STANDIN_EVENTS=mute STANDIN_PLAN=$1 expect_with 1 "answered " -- run vector --case odd --mode stream --timeout 1 --platform a2a3
    grep -Eq "aclrtSynchronizeStreamWithTimeout answered $2|aclrt(RecordEvent|LaunchKernelWithHostArgs) answered (507899|207001)" "$work/out" ||
        fail "$1: $(cat "$work/out")"
}

# The driver: a mask of cores that cannot be read, and how often it is asked when it is busy. Streams: events that say nothing of a failure.
ask_again() {
    run_route "cores of the mask$" a2a3
    STANDIN_PLAN=halGetDeviceInfoByBuff@1=65534 run_route "cores all, because the mask of cores is unreadable$" a2a3
    STANDIN_PLAN=halGetDeviceInfoByBuff@1=62 expect_with 1 "halGetDeviceInfoByBuff answered 62" -- run vector --platform a2a3
    STANDIN_BUSY=3 run_route "cores of the mask$" a2a3
    STANDIN_BUSY=4 expect_with 1 "halMemCtl answered 13 (the driver is busy)" -- run vector --platform a2a3
    mute_failure aicpu@4=1 "507018 \(the scheduler crashed"
    mute_failure core@2=1 "507015 \(a core had an exception\) for the cores"
}

# The vendor's log has the level that is asked for before a card has a context; accounts have it plus 1.
set_log_level() {
    local levels
    for levels in "- - 3" "- 1 0" "0 1 1" "4 - 5"; do
        set -- $levels
        (
            unset ASCEND_GLOBAL_LOG_LEVEL PTO_CANN_LOG_LEVEL
            [ "$1" = - ] || export PTO_CANN_LOG_LEVEL=$1
            [ "$2" = - ] || export ASCEND_GLOBAL_LOG_LEVEL=$2
            STANDIN_REPORT=$work/report expect_with 0 "result   ok" -- run vector --case odd --mode stream --platform a2a3
        )
        [ "$(account log_level "$work/report")" = "$3" ] || fail "levels '$1' and '$2' are $(account log_level "$work/report"), not $3"
    done
    PTO_CANN_LOG_LEVEL=info expect_with 1 "PTO_CANN_LOG_LEVEL is info; set it to 0 (debug)" -- run vector --platform a2a3
}

run_routes() {
    place_programs
    find_entries
    signal_lanes
    ask_again
    set_log_level
    echo "  ok     programs lie in the vendor's folder, or alongside the dispatcher; the executor is found by number, by name, and as a whole; cores signal each other; a mask that is unreadable, a busy driver, mute events; levels of the log"
}

# A run that takes longer than the control processor has by default.
run_long() {
    STANDIN_CPU_MS=4000 STANDIN_REPORT=$work/report expect_with 0 "result   ok" -- run tests/standin/long --mode stream --platform a2a3
    [ "$(account violations "$work/report")" = 0 ] || fail "a rule was broken: $(cat "$work/out")"
    echo "  ok     a run may take longer than the vendor gives a launch of the control processor"
}

# One of three cores is slow to end after the last task, or never ends. Cores write 16 times to their condition registers in
# this run: each when it has come, twice for each of five tasks, each when it ends.
run_stay() {
    STANDIN_SOC=Ascend950DT STANDIN_PLAN="cond@16=delay(1500)" expect_with 0 "result   ok" -- run vector --case odd --mode stream --platform a5
    STANDIN_REPORT=$work/report STANDIN_PLAN="cond@16=hang" expect_with 1 "result   FAILED: the device is lost (-214)" \
        "card 0: 1 of 3 cores did not end within 10 s of the last task" -- run vector --case odd --mode stream --platform a2a3
    ! grep -q "elements differ" "$work/out" || fail "outputs are compared that were not read: $(cat "$work/out")"
    [ "$(account violations "$work/report")" = 0 ] || fail "a rule was broken: $(cat "$work/out")"
    echo "  ok     a core may be slow to end after the last task; one that never ends loses the card, and the run fails"
}

# The stand-in itself, by a client that breaks its rules.
# Libraries export what the table names, and nothing else of the vendor's; the backend looks for nothing that is not there.
check_exports() {
    local name wanted
    for library in "ACL libascendcl.so" "HAL libascend_hal.so" "HCCL libhcomm.so" "RT libruntime.so" "LOG libascendalog.so"; do
        set -- $library
        wanted=$(sed -nE "s/^    X\\($1, [^,]*, ([A-Za-z0-9_]+),.*/\\1/p" tests/standin/table.h | sort)
        [ -n "$wanted" ] && [ "$wanted" = "$(nm -D --defined-only "$home/lib64/$2" | awk '$3 !~ /^standin/ { print $3 }' | sort)" ] ||
            fail "$2 does not export what tests/standin/table.h names: $(nm -D --defined-only "$home/lib64/$2")"
        [ "$1" = HCCL ] || for name in $(sed -nE "s/^    X\\($1, [^,]*, ([A-Za-z0-9_]+),.*/\\1/p" src/cann/vendor.h); do
            grep -qx "$name" <<<"$wanted" || fail "the stand-in has no $name"
        done
    done
}

run_strict() {
    check_exports
    tools/make-alone build/standin/strict
    "$with" build/standin/strict $programs >"$work/out" 2>&1 || fail "$(cat "$work/out")"
    echo "  ok     $(cat "$work/out")"
}

# ---- another client ----

# What it leaves is what the reference leaves: a card that one thread took and nobody gave back, and the program of the cores.
run_client_with() { # with folder
    rm -rf "$work/second"
    mkdir "$work/second"
    STANDIN_DISK=$work/second STANDIN_REPORT=$work/report "$1" build/standin/second/client "$2" 3 >"$work/out" 2>&1 || fail "$(cat "$work/out")"
    ! grep '^standin:' "$work/out" || fail "a rule was broken: $(cat "$work/out")"
    for thing in violations=0 streams=0 acl=0 allocations=0 events=0 modules=1 binaries=1 references=1 runs=3; do
        [ "$(account "${thing%=*}" "$work/report")" = "${thing#*=}" ] || fail "the second client: $thing is not so: $(cat "$work/report")"
    done
}
run_client() {
    local second=build/standin/arm/second
    tools/make-alone build/standin/second/client build/standin/second/dialect/executor.so build/standin/arm/with $second/dispatcher.so $second/scheduler.so $second/executor.so
    run_client_with "$with" build/standin/second
    run_client_with "$with" build/standin/second/dialect
    run_client_with "$(realpath build/standin/arm/with)" $second
    echo "  ok     a client of another shape runs over the stand-in, with threads and a process as the control processor"
}

# ---- what the first person with a card runs ----

run_selfcheck() {
    local file=$work/self.txt
    mkdir "$work/tmp"
    export TMPDIR=$work/tmp SECRET_OF_MINE=1 PTO_SOME_TOKEN=1
    (unset ASCEND_HOME_PATH && expect_all 1 "libraries  FAILED  platform a2a3 is not available here: ASCEND_HOME_PATH is not set" "two-cards  not reached" -- selfcheck -o "$file")
    expect_with 2 "'a2a3sim' is not a real chip; choose a2a3 or a5" -- selfcheck --platform a2a3sim
    for soc in Ascend910B3 Ascend950DT; do
        STANDIN_SOC=$soc expect_with 0 "version    ok      9.0.0" "card       ok      $soc" "dispatcher ok" "scheduler  ok" "registers  ok" "cores      ok      8 AIC and 16 AIV" \
            "one-core   ok      one core wrote its mark" "all-cores  ok      24 cores have met" "loop       ok      after 20 runs the card has as many objects as after run 2" "time-out   ok" \
            "kernel \"never\" of task 0 is still running" "recovery   ok      one core wrote its mark" "close      ok" "two-cards  ok      each has read what the other one wrote" -- \
            selfcheck --runs 20 -o "$file"
        check_selfcheck_file "$file"
    done
    # What a failure leaves: the code, the vendor's message in the error and in the file, its logs of host and card.
    STANDIN_MESSAGE='the reason is here' STANDIN_PLAN='aclrtBinaryLoadFromFile@2=107000' \
        expect_with 1 "scheduler  FAILED  card 0: aclrtBinaryLoadFromFile answered 107000" "the vendor says: EE9999: Inner Error! EE9999:" "registers  not reached" -- selfcheck -o "$file"
    grep -q 'message.aclrtBinaryLoadFromFile 107000: .*the reason is here' "$file" || fail "the file has not the vendor's message: $(grep -a message "$file")"
    expect_all 0 "meaning aclrtBinaryLoadFromFile 107000: a parameter is wrong" "message aclrtBinaryLoadFromFile 107000: " "call aclrtBinaryLoadFromFile 107000" -- selfcheck --read "$file"
    grep -q '^== debug/plog/plog-' "$file" && grep -q '^== debug/device-0/' "$file" || fail "the file has not the vendor's logs: $(grep -a '^==' "$file")"
    grep -q '^\[INFO\] AICPU' "$file" || fail "the card's log is not that of level INFO"
    read_other_files "$file"
    interrupt_selfcheck "$file"
    ! ls -d "$TMPDIR"/pto-* 2>/dev/null || fail "a folder is left"
    unset TMPDIR SECRET_OF_MINE PTO_SOME_TOKEN
    echo "  ok     pto selfcheck: each step on both generations, what fails, the file and who may read it"
}

# Every part that the one who diagnoses needs, and nothing that is the user's own.
check_selfcheck_file() { # file
    grep -q '^ *Version=9.0.0' "$1" || fail "the file does not say which version it is: $(head -20 "$1")"
    [ "$(awk -F'\t' '$1 ~ /^[0-9]+$/ && NF >= 5 && $4 == 0 && $5 > 0 { n++ } END { print (n > 200) }' "$1")" = 1 ] || fail "the file has not the calls"
    grep -q 'aclrtResetDeviceForce.0.' "$1" || fail "the file does not say how the card was brought back"
    grep -q '^\$ .*/bin/ccec .*mark.c' "$1" || fail "the file has not the commands of compilers"
    grep -q 'pto_executor_0_mix_aic$' "$1" && grep -q '\] .text' "$1" || fail "the file has not the tables of the executor"
    grep -q 'core.AIV 0 tag [0-9]* number [0-9]* window 0x[0-9a-f]* cond 0x[0-9a-f]' "$1" || fail "the file has not the board"
    ! grep -q 'SECRET_OF_MINE\|PTO_SOME_TOKEN' "$1" || fail "the file has what is the user's own"
}

# Damaged, cut and foreign files: a sentence, and not 0.
read_other_files() { # file
    head -c 3000 "$1" >"$work/cut"
    expect 1 "is cut off" selfcheck --read "$work/cut"
    sed 's/FAILED\|failed/passed/' "$1" >"$work/changed"
    expect 1 "is damaged: its digest is not that of its contents" selfcheck --read "$work/changed"
    sed 's/$/\r/' "$1" >"$work/mailed"
    expect 1 "is damaged" selfcheck --read "$work/mailed"
    echo text >"$work/foreign"
    expect 1 "was not written by pto selfcheck" selfcheck --read "$work/foreign"
    : >"$work/nothing"
    expect 1 "was not written by pto selfcheck" selfcheck --read "$work/nothing"
    expect 1 "No such file" selfcheck --read "$work/not-there"
    expect 2 "needs --read" selfcheck --json
    "$pto" selfcheck --read "$1" --json >"$work/json" && python3 -c '
import json, sys
read = json.load(open(sys.argv[1]))
assert read["failed"] == "scheduler" and len(read["causes"]) == 3, read
assert read["causes"][0]["assumption"] == "description", read' "$work/json" || fail "$(cat "$work/json")"
}

# A user who has waited long enough gets what there is.
interrupt_selfcheck() { # file
    local code=0 until=$((SECONDS + 60))
    rm -f "$1"
    STANDIN_PLAN='aclrtCreateStream@1=hang' "$with" "$pto" selfcheck -o "$1" >"$work/out" 2>&1 &
    until grep -q 'functions  ok' "$work/out"; do [ $SECONDS -lt $until ] || fail "it does not begin: $(cat "$work/out")"; sleep 0.1; done
    kill -INT $!
    wait $! || code=$?
    [ $code = 130 ] || fail "it ended with $code, interrupted: $(cat "$work/out")"
    expect_all 0 "first step that failed: card" "inside aclrtCreateStream" "1. The user stopped the check during a call of the vendor's" -- selfcheck --read "$1"
}

# ---- the programs themselves ----

# What the card's system has: glibc up to 2.34, and no library of C++. Others find the functions that they look up, and nothing else.
check_program() { # file, functions
    local file=build/lib/pto/cann/$1 newest
    shift
    readelf -h "$file" | grep -q 'Machine: *AArch64' || fail "$file is not for aarch64"
    readelf -n "$file" | grep -q 'Build ID' || fail "$file has no build id"
    newest=$(readelf -V "$file" | grep -o 'GLIBC_2\.[0-9]*' | cut -d. -f2 | sort -n | tail -1)
    [ "$newest" -le 34 ] || fail "$file needs glibc 2.$newest"
    [ -z "$(readelf -d "$file" | grep NEEDED | grep -vE 'lib(c|dl|m|pthread)\.so|ld-linux-aarch64')" ] ||
        fail "$file needs $(readelf -d "$file" | grep NEEDED)"
    readelf -lW "$file" | grep GNU_STACK | grep -q 'RW ' || fail "$file has a stack that can be executed"
    [ "$(aarch64-linux-gnu-nm -D --defined-only "$file" | awk '{ print $3 }' | sort | tr '\n' ' ')" = "$* " ] ||
        fail "$file exports $(aarch64-linux-gnu-nm -D --defined-only "$file")"
}

check_programs() {
    tools/make-alone cann
    check_program libpto_scheduler.so pto_scheduler
    check_program libpto_dispatcher.so DynTileFwkBackendKernelServer DynTileFwkBackendKernelServerInit \
        StaticTileFwkBackendKernelServer
    echo "  ok     the programs for the card need what it has, and export what is looked up"
}

# Vector cores of the newer generation run kernels with threads only if the executor has a launch of threads, which is no entry.
check_anchor() {
    local generation
    for generation in a2a3 a5; do
        [ "$(nm "$programs/executor-$generation.o" | awk '$2 == "T" { print $3 }' | sort | tr '\n' ' ')" = "pto_executor_0_mix_aic pto_executor_0_mix_aiv " ] ||
            fail "the executor of $generation has other entries: $(nm "$programs/executor-$generation.o")"
        # Compilations of pto have the macro that decides.
        cp -r tests/standin/long "$work/long-$generation"
        printf '#ifndef PTO_CHIP_%s\n#error\n#endif\n' ${generation^^} >>"$work/long-$generation/long_add.c"
        expect_with 0 -- build "$work/long-$generation" --platform $generation -o "$work/long.ptoc"
    done
    nm -C "$programs/executor-a5.o" | grep -q ' t core_anchor_threads' || fail "the executor of a5 has no launch of threads"
    ! nm -C "$programs/executor-a2a3.o" | grep -q core_anchor || fail "the executor of a2a3 has a launch of threads"
    echo "  ok     the executor of a5 has a launch of threads, which is never taken and is no entry"
}

# ---- the dialect of a core's compiler ----

# Compiles a kernel from stdin as the vendor's compiler would; $work/said gets what it says.
compile_for_core() { # folders of headers
    cat >"$work/dialect.cpp"
    "$home/bin/ccec" -c -O2 -x cce -std=c++17 --cce-aicore-only --cce-aicore-arch=dav-c220-vec "$@" -Iinclude -o "$work/dialect.o" \
        "$work/dialect.cpp" >"$work/said" 2>&1
}
refuse_for_core() { # phrase, what it is
    ! compile_for_core || fail "a core's compiler takes $2"
    grep -q "$1" "$work/said" || fail "$2 is refused for another reason: $(cat "$work/said")"
}

# Sources in C as kernels were before: each is refused.
refuse_plain_kernels() {
    refuse_for_core "cannot initialize a variable of type 'int32_t \*'" "a kernel in C" <<'C'
#include <pto/kernel.h>
void kernel_entry(int64_t *args)
{
    int32_t *x = pto_tensor_data(pto_arg_tensor(args, 0));
    x[0] = 1;
}
C
    refuse_for_core 'kernel_entry is not an extern "C" function of a core' "a kernel that is not marked" <<'C'
#include <stdint.h>
void kernel_entry(int64_t *args) { args[0] = 1; }
C
    refuse_for_core "no matching function for call to 'memcpy'" "a kernel with memcpy" <<'C'
#include <pto/kernel.h>
#include <string.h>
PTO_KERNEL(args) { memcpy(pto_tensor_data(pto_arg_tensor(args, 0)), pto_tensor_data(pto_arg_tensor(args, 1)), 64); }
C
    refuse_for_core "call to __host__ function from __device__ function" "a kernel with the library of mathematics" <<'C'
#include <pto/kernel.h>
#include <math.h>
PTO_KERNEL(args) { *PTO_ARG(args, 0, float) = expf(pto_arg_float(args, 1)); }
C
}

check_dialect() {
    local header name
    refuse_for_core "call to __host__ function from __device__ function" "a call of a function without __aicore__" <<'C'
#include <pto/kernel.h>
static int64_t twice(int64_t x) { return 2 * x; }
extern "C" __aicore__ void kernel_entry(__gm__ int64_t *args) { args[0] = twice(args[1]); }
C
    refuse_for_core "cannot initialize a variable of type 'int64_t \*'" "a plain pointer to __gm__" <<'C'
#include <pto/kernel.h>
extern "C" __aicore__ void kernel_entry(__gm__ int64_t *args) { int64_t *plain = args; plain[0] = 1; }
C
    refuse_for_core "no matching constructor for initialization of 'struct pto_tensor'" "a struct that is copied out of __gm__" <<'C'
#include <pto/kernel.h>
extern "C" __aicore__ void kernel_entry(__gm__ int64_t *args) { struct pto_tensor t = *pto_arg_tensor(args, 0); args[0] = t.ndims; }
C
    refuse_plain_kernels
    compile_for_core <<'C' || fail "the reference's style: $(cat "$work/said")"
#include <pto/kernel.h>
static __aicore__ int64_t twice(int64_t x) { return 2 * x; }
extern "C" __aicore__ void kernel_entry(__gm__ int64_t *args) { args[0] = twice(args[1]); }
C
    # Every function of the headers for kernels, each header alone; what is not referenced would not be checked.
    for header in aicore cache_lines dtype half kernel status tensor window; do
        {
            echo "#include <pto/$header.h>"
            echo "#include <pto/kernel.h>"
            echo "PTO_KERNEL(args) {"
            for name in $(tr '\n' ' ' <"include/pto/$header.h" | grep -oE 'static inline PTO_AICORE [^;{]*\{' | grep -oE 'pto_[a-z0-9_]+\(' | tr -d '('); do
                echo "    args[0] += (int64_t)(uintptr_t)&$name;"
            done
            echo "}"
        } >"$work/all.cpp"
        compile_for_core <"$work/all.cpp" || fail "pto/$header.h: $(cat "$work/said")"
    done
    grep -q 'pto_window_put_signal' "$work/all.cpp" || fail "the functions of the headers are not found"
    compile_for_core -Iinclude/simpler <<'C' || fail "the reference's headers for kernels: $(cat "$work/said")"
#include "pto/aicore.h"
#include "intrinsic.h"
#include "pipe_sync.h"
#include "pto_async_kernel_api.h"
#include "tensor.h"
extern "C" __aicore__ void kernel_entry(__gm__ int64_t *args)
{
    AsyncCtx ctx = get_async_ctx(args);
    CompletionToken token = {};
    args[0] = get_block_idx(args) + get_block_num(args) + get_sub_block_id(args) + (get_dma_workspace(args, 0) == nullptr);
    args[1] = async_ctx_is_deferred(ctx) && register_completion_condition(ctx, token);
    pipe_sync();
}
C
    echo "  ok     the compiler of cores refuses what the vendor's refuses, and takes all headers for kernels"
    # One source: kernels of examples as C11 and as C++, simulated, and for a core.
    for name in vector ring; do
        cp -r "examples/$name" "$work/$name"
        for header in "$work/$name"/kernels/*.c; do mv "$header" "${header}pp"; done
        sed -i -E 's#(kernels/[a-z_]+)\.c\b#\1.cpp#' "$work/$name/scene.yaml"
    done
    expect_all 0 "0 failed, 0 skipped" -- test examples/vector examples/ring --platform a2a3sim
    expect_all 0 "0 failed, 0 skipped" -- test "$work/vector" "$work/ring" --platform a2a3sim
    STANDIN_CARDS=8 expect_with 0 "0 failed, 0 skipped" -- test "$work/vector" --platform a2a3
    echo "  ok     kernels of examples run as C and as C++, simulated and on a card"
}

# ---- timelines ----

# Kernels are where they were, on cores that run one at a time, and no arrow goes backwards.
check_timeline() { # file, kernels that ran
    python3 - "$1" "$2" <<'PY' || fail "$1"
import json, sys
events = json.load(open(sys.argv[1]))["traceEvents"]
slices = [e for e in events if e["ph"] == "X"]
if len(slices) != int(sys.argv[2]):
    sys.exit(f"{len(slices)} slices instead of {sys.argv[2]}")
cores = {}
for e in sorted(slices, key=lambda e: e["ts"]):
    if e["ts"] + 0.002 < cores.get(e["tid"], 0):
        sys.exit(f"two kernels on one core at {e['ts']}")
    cores[e["tid"]] = e["ts"] + e["dur"]
ends = {e["id"]: e["ts"] for e in events if e["ph"] == "f"}
begins = {e["id"]: e["ts"] for e in events if e["ph"] == "s"}
if begins.keys() != ends.keys() or any(ends[i] + 0.002 < begins[i] for i in ends):
    sys.exit("an arrow goes backwards, or nowhere")
print(f"  ok     {len(slices)} kernels on {len(cores)} cores, {len(ends)} arrows")
PY
}

run_recorded() {
    local kernels
    for scene in softmax gang; do
        expect_with 0 -- run $scene --platform a2a3 --trace "$work/$scene"
        for mode in stream host; do
            kernels=$(awk -v mode="a2a3, $mode" 'index($0, mode) == 1 { here = 1; next } here && $1 == "cores" {
                for (i = 2; i <= NF; i++) if (split($i, part, ":") == 2) sum += part[2]; print sum; exit }' "$work/out")
            check_timeline "$(echo "$work/$scene"*"-a2a3-$mode.json")" "$kernels"
        done
    done
    expect_with 0 "result   ok" -- run softmax --platform a2a3 --mode stream --trace "$work/t" --trace-args
    grep -q 'softmax/orch.c","line":39,"arguments":\["in bfloat16' "$work"/t-*-stream.json || fail "slices lack the lines of their submits: $(head -c 2000 "$work"/t-*-stream.json)"
    # What tasks were given and made, what orders them, and how full the rings were, is what a simulated chip tells.
    for scene in vector softmax gang predicate pipeline; do
        expect_all 0 -- run $scene --platform a2a3sim --diagnostics "$work/sim" --no-guards
        expect_with 0 -- run $scene --platform a2a3 --diagnostics "$work/card" --no-guards
        for mode in stream host; do
            python3 tests/system/same_diagnostics.py "$work"/sim-*a2a3sim-$mode "$work"/card-*a2a3-$mode || fail "$scene in mode $mode"
        done
        rm -rf "$work"/sim-* "$work"/card-*
    done
    echo "  ok     timelines, and all diagnostics, which tell the same as those of a simulated chip"
}

# ---- a header of somebody else's changes ----

# The runtime copies a program for cores from its first section in memory and starts entries at the values of their symbols: that
# section is the code, at 0, with the half of cube cores first. A linker that places them otherwise is refused.
check_layout() { # executor
    local first
    first=$(readelf -SW "$1" | sed -E 's/^ *\[ *([0-9]+)\] /\1 /' | awk '$1 ~ /^[0-9]+$/ && $8 ~ /A/ { print $2, $4, $8; exit }')
    [ "$first" = ".text 0000000000000000 AX" ] || fail "the first section of the executor in memory is $first"
    readelf -SW "$1" | grep -q '\.debug_line' || fail "the executor has no lines of its source"
    [ "$(readelf -sW "$1" | awk '$4 == "FUNC" && $5 == "GLOBAL" { print $2, $8 }' | sort | awk '{ print $2 }' | tr '\n' ' ')" = \
        "pto_executor_0_mix_aic pto_executor_0_mix_aiv " ] || fail "the entries of the executor are $(readelf -sW "$1")"
}
refuse_linker() { # what it does, phrase
    mkdir -p "$work/linker"
    printf '#!/bin/bash\n%s\n' "$1" >"$work/linker/ld.lld"
    chmod +x "$work/linker/ld.lld"
    REAL=$(command -v ld.lld) PATH=$work/linker:$PATH build_with 1 "$2"
}

# Both device programs see a header of the tile library's, in which 40 becomes 48: without a commit, with its time stamp set back, and
# with a compiler in the path that serves what it made first. What is built has the new value, or it is refused.
check_rebuild() {
    local parts isa=$work/isa header=$work/isa/include/pto/comm/channels.hpp
    mkdir -p "${header%/*}" "$work/hostile" "$work/kept"
    : >"$isa/include/pto/pto-inst.hpp"
    set_channels() {
        touch -r "${2:-/etc/hostname}" "$work/stamp"
        echo "static const char channels_$1[] __attribute__((used)) = \"the number of channels is $1\";" >"$header"
        touch -r "$work/stamp" "$header"
    }
    build_with() { # exit code, phrase, channels
        expect_with "$1" "$2" -- build --programs --platform a2a3 --isa "$isa" --flag -include --flag pto/comm/channels.hpp --flag -O0 \
            -I "$PWD/tests/standin" -o "$work/programs" --store "$work/programs-store" --explain
        [ "$1" = 0 ] || return 0
        for program in libpto_dispatcher.so libpto_scheduler.so executor-a2a3.o; do
            [ "$(strings "$work/programs/$program" | grep 'number of channels' | sort -u)" = "the number of channels is $3" ] ||
                fail "$program has $(strings "$work/programs/$program" | grep 'number of channels' | sort -u), and not $3"
        done
    }
    set_channels 40
    build_with 0 " compiled, 1 from the store" 40 # both programs have one part in common
    parts=$(sed -nE 's/.*3 programs, ([0-9]+) compiled, 1 from the store.*/\1/p' "$work/out")
    build_with 0 "3 programs, 0 compiled" 40
    set_channels 48 "$header"
    build_with 0 "channels.hpp" 48
    grep -q "3 programs, $parts compiled, 1 from the store" "$work/out" || fail "not all parts were compiled: $(tail -1 "$work/out")"
    build_with 0 "3 programs, 0 compiled" 48
    check_layout "$work/programs/executor-a2a3.o"
    refuse_linker 'exec "$REAL" "${@:1:$#-2}" "${@: -1}" "${@: -2:1}"' "wants the second one to follow the first"
    refuse_linker 'exec "$REAL" "${@/-Ttext=0/-Ttext=0x1000}"' "begins with section '.text' at 0x1000"
    # What came of it runs; the stand-in's cores load an executor of their own kind.
    cp "$programs/executor-a2a3.o" "$work/programs"
    printf '#!/bin/sh\nexec %s env PTO_CANN_PROGRAMS=%s %s "$@"\n' "$with" "$work/programs" "$pto" >"$work/pto2"
    chmod +x "$work/pto2"
    "$work/pto2" run vector --platform a2a3 >"$work/out" 2>&1 || fail "the programs do not run: $(cat "$work/out")"
    # The compilers that the vendor's stand for are found in the path; g++ gets preprocessed text, whose first line names its source.
    cat >"$work/hostile/gcc" <<'SH'
#!/bin/bash
real=/usr/bin/${0##*/}
case " $* " in *" -c "*) ;; *) exec "$real" "$@" ;; esac
for word; do
    [ "${last:-}" != -o ] || output=$word
    [ "${last:-}" != -MF ] || rules=$word
    case $word in
    *.c) source=${word##*/} ;;
    *.ii) source=$(basename "$(sed -n '1s/.*"\(.*\)".*/\1/p' "$word")") ;;
    esac
    last=$word
done
if [ -e "$KEPT/$source" ]; then
    cp "$KEPT/$source" "$output" && cp "$KEPT/$source.d" "$rules"
else
    "$real" "$@" && cp "$output" "$KEPT/$source" && cp "$rules" "$KEPT/$source.d"
fi
SH
    chmod +x "$work/hostile/gcc"
    ln -s gcc "$work/hostile/g++"
    build_hostile() { # exit code, phrase
        KEPT=$work/kept PATH=$work/hostile:$PATH expect_with "$1" "$2" -- build --programs --platform a2a3 --isa "$isa" --flag -include \
            --flag pto/comm/channels.hpp --flag -O0 -I "$PWD/tests/standin" -o "$work/programs" --store "$work/other-store" --jobs 1
    }
    build_hostile 1 "executor.c: the object that" # the second half of the executor is served the first one
    grep -q 'lacks the key of this compilation' "$work/out" || fail "$(cat "$work/out")"
    set_channels 50 "$header"
    build_hostile 1 "lacks the key of this compilation"
    grep -q 'card_files.c: the object that' "$work/out" || fail "an old object is not noticed at once: $(cat "$work/out")"
    echo "  ok     a header that changes from 40 to 48 is in all programs of the card at the next build, and nothing is compiled without a change"
}

for part in ${*:-missing scenes guards declared qemu ranks comm life level worker scalars deaths steady cards sweep hang files killed rules routes long stay strict client selfcheck profiles hardware programs dialect rebuild recorded}; do
    case $part in
    missing) report_missing ;;
    scenes) run_scenes ;;
    guards) run_guards ;;
    declared) run_declared ;;
    qemu) run_qemu ;;
    built) run_built ;;
    ranks) run_ranks ;;
    comm) run_comm ;;
    comm-asan) run_comm_asan ;;
    life) run_life ;;
    level) run_level ;;
    worker) run_worker ;;
    scalars) run_scalars ;;
    asan | tsan) run_worker_checked $part ;;
    deaths) run_deaths ;;
    steady) run_steady ;;
    cards) run_cards ;;
    sweep) run_sweep ;;
    hang) run_hang ;;
    files) leave_no_file ;;
    killed) run_killed ;;
    whole-sweep) run_whole_sweep ;;
    rules) run_rules ;;
    flight) run_flight ;;
    routes) run_routes ;;
    long) run_long ;;
    stay) run_stay ;;
    strict) run_strict ;;
    client) run_client ;;
    selfcheck) run_selfcheck ;;
    profiles) run_profiles ;;
    hardware) run_hardware ;;
    programs) check_programs ;;
    dialect)
        check_dialect
        check_anchor
        ;;
    rebuild) check_rebuild ;;
    recorded) run_recorded ;;
    *) fail "there is no part $part" ;;
    esac
done
