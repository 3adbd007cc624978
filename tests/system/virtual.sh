#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Virtual time from the command line: example scenes of one chip, of level 3 and with ranks have the results that they expect;
# messages between a program and a task are refused by name; two runs print the same, and write the same bytes; costs come from where they are given. Arguments say
# which parts: scenes, same, recorded, costs, late, all of these by default; durations; scheduling; level; ranks; results: the outputs of
# each scene have the bytes of a simulated run, on both generations; results-long: in all cases and both modes; isa, isa-library:
# durations from the cost model of the tile library.
set -eu
cd "$(dirname "$0")/../.."
pto=${PTO:-build/bin/pto}
pto=$(realpath "$pto")
. tests/system/expect.sh
parts=${*:-scenes same recorded costs late}

ranks="allreduce domains moe ring"
level="dispatch feed_forward overlap reduce" # messages: between a program and a running task

run_scenes() {
    for path in examples/*/scene.yaml; do
        scene=$(basename "$(dirname "$path")")
        case " $ranks $level messages " in
        *" $scene "*) ;; # run_ranks, run_level
        *) expect_all 0 "result   ok" "no schedule takes less than" -- run "$scene" --virtual --case all --platform a2a3sim ;;
        esac
    done
    expect_all 0 "AIC 0:" "virtual  " -- run matmul --virtual --platform a5sim --mode stream --clusters 24
}

# Runs a case on a simulated chip and in virtual time, and compares the bytes of its outputs.
compare_results() { # scene case platform mode
    local words=(run "$1" --platform "$3" --mode "$4") outputs output out real=() virtual=()
    [ -z "$2" ] || words+=(--case "$2")
    outputs=$(sed -n 's/.*name: \([a-z_0-9]*\), direction: \(out\|inout\).*/\1/p' "examples/$1/scene.yaml")
    [ -n "$outputs" ] || fail "examples/$1/scene.yaml has no output"
    for output in $outputs; do
        real+=(--out "$output=$work/real-$output.npy")
        virtual+=(--out "$output=$work/virtual-$output.npy")
    done
    expect_all 0 "result   ok" -- "${words[@]}" "${real[@]}"
    expect_all 0 "result   ok" "  virtual  " -- "${words[@]}" --virtual "${virtual[@]}"
    for output in $outputs; do
        out=$(cmp "$work/real-$output.npy" "$work/virtual-$output.npy" 2>&1) ||
            fail "$1 ${2:-} $3 $4: $output differs in virtual time: $out"
    done
    compared=$((compared + 1))
}

compare_scenes() { # first|all "platform mode"...
    local scene cases case which=$1 chip compared=0
    shift
    for path in examples/*/scene.yaml; do
        scene=$(basename "$(dirname "$path")")
        case " $ranks messages " in *" $scene "*) continue ;; esac
        cases=$(sed -n '/^cases:/,$ s/^  - { name: \([a-z_0-9]*\).*/\1/p' "$path")
        [ "$which" = all ] || cases=
        for chip in "$@"; do
            # shellcheck disable=SC2086 # a platform and a mode
            for case in ${cases:-""}; do compare_results "$scene" "$case" $chip; done
        done
    done
    [ $compared -ge $((10 * $#)) ] || fail "only $compared results were compared"
}

run_results() { compare_scenes first "a2a3sim stream" "a5sim host"; }
run_results-long() { compare_scenes all "a2a3sim stream" "a2a3sim host" "a5sim stream" "a5sim host"; }

run_same() {
    for i in 1 2; do
        "$pto" run pipeline --virtual --case all --trace "$work/same" >"$work/out$i"
        for scene in matmul paged_attention pipeline predicate; do
            "$pto" run "$scene" --virtual --trace "$work/same-$scene.ptrec" >/dev/null
        done
        [ "$(ls "$work"/same-*.ptrec | wc -l)" -ge 4 ] || fail "recordings are missing"
        cat "$work"/same*.json "$work"/same-*.ptrec | md5sum >>"$work/out$i"
    done
    cmp "$work/out1" "$work/out2"
}

# Kernels wait for each other through windows, and hosts in barriers.
run_ranks() {
    for i in 1 2; do
        for scene in $ranks; do
            "$pto" run "$scene" --virtual --case all --platform a2a3sim --trace "$work/ranks" >"$work/out"
            ! grep -q FAILED "$work/out" || fail "$scene: $(cat "$work/out")"
            grep "result \|virtual \|busy " "$work/out" >>"$work/out$i"
        done
        cat "$work"/ranks*.json | md5sum >>"$work/out$i"
    done
    cmp "$work/out1" "$work/out2"
    [ "$(grep -c "result   ok" "$work/out1")" = 40 ] || fail "cases with ranks are missing: $(cat "$work/out1")"
}

# Kernels of different chips wait for each other here, and a SUB worker waits for both chips.
run_level() {
    for i in 1 2; do
        for scene in $level; do
            "$pto" run "$scene" --virtual --case all --trace "$work/level" $([ "$scene" != reduce ] || echo --cost total=7us) >"$work/out"
            ! grep -q "FAILED\|measured" "$work/out" || fail "$scene: $(cat "$work/out")"
            grep "result \|virtual \|busy " "$work/out" >>"$work/out$i"
        done
        "$pto" run overlap --virtual --platform a2a3sim --mode stream --trace "$work/level.ptrec" >/dev/null
        cat "$work"/level*.json "$work"/level*.ptrec | md5sum >>"$work/out$i"
    done
    cmp "$work/out1" "$work/out2"
    [ "$(grep -c "result   ok" "$work/out1")" = 52 ] || fail "level-3 cases are missing: $(cat "$work/out1")"
    expect_all 0 "virtual clock" -- profile "$work/level-default-a2a3sim-stream.ptrec"
    expect_all 1 "regions and queues are for programs that talk with a task while it runs" -- run messages --virtual
    expect_all 0 "result   ok" "1 calls of SUB functions took their CPU time" "one clock" -- run reduce --virtual --platform a2a3sim
    expect_all 0 "not compared: no kernel is called" -- run reduce --virtual --no-compute --platform a2a3sim --mode stream
    expect_all 1 "a cost names 'nothing', and there is no such kernel" -- run reduce --virtual --cost nothing=1us
    # A SUB function and kernels get costs in the scene; kernels of one name in two callables get one cost.
    cp -r examples/reduce "$work/reduce"
    sed -i 's/source: total.c/source: total.c, cost: 4us + bytes(0) * 0/; 0,/kernels.add.c/s/core: aiv/core: aiv, cost: 3us/' "$work/reduce/scene.yaml"
    expect_all 0 "sub 2: 2" -- run "$work/reduce" --virtual --no-scheduling-cost --platform a2a3sim --mode stream
    ! grep -q measured "$work/out" || fail "the cost of a SUB function is not used: $(cat "$work/out")"
    sed -i 's/\(name: add, source: kernels.add.c, core: aiv\) }/\1, cost: 5us }/' "$work/reduce/scene.yaml"
    expect_all 1 "two callables have 'add', with different costs" -- run "$work/reduce" --virtual
}

run_recorded() {
    "$pto" run matmul --virtual --platform a2a3sim --mode stream --cost multiply=3us --trace "$work/v.ptrec" >"$work/out"
    expect_all 0 "virtual clock" "3.00 us" -- profile "$(echo "$work"/v*.ptrec)"
    expect_all 0 "virtual clock" "4.00 us" -- profile matmul --virtual --platform a2a3sim --cost multiply=4us
}

run_durations() {
    "$pto" run matmul --platform a2a3sim --mode stream --trace "$work/wall.ptrec" >/dev/null
    file=$(ls "$work"/wall-*.ptrec)
    expect_all 0 "$file" -- run matmul --virtual --platform a2a3sim --mode stream --durations "$file" --cost multiply=7us
    grep -q " 7.00 .* --cost" "$work/out" || fail "--cost does not go first: $(cat "$work/out")"
    ! grep -q default "$work/out" || fail "a kernel has no duration: $(cat "$work/out")"
    expect_all 1 "has durations of no kernel of vector" -- run vector --virtual --durations "$file"
    # Durations recorded in virtual time are reproduced.
    "$pto" run matmul --virtual --platform a2a3sim --mode stream --cost 'multiply=3us + 2 * bytes(0)' --trace "$work/v.ptrec" >"$work/first"
    "$pto" run matmul --virtual --platform a2a3sim --mode stream --durations "$(ls "$work"/v-*.ptrec)" >"$work/second"
    for line in time virtual busy; do
        [ "$(grep "^  $line " "$work/first")" = "$(grep "^  $line " "$work/second")" ] || fail "$line differs"
    done
    expect_all 0 "result   ok" -- run matmul --platform a2a3sim --mode stream --diagnostics "$work/d" --diagnose swimlane=4,deps,names
    lanes=$(find "$work" -name "chip_swimlane_records.json" | head -1)
    expect_all 0 "$lanes" -- run matmul --virtual --platform a2a3sim --mode stream --durations "$lanes"
    ! grep -q default "$work/out" || fail "a kernel of a swimlane file has no duration: $(cat "$work/out")"
    expect_all 2 "--durations is for --virtual; add that" -- run matmul --durations "$file"
    expect_all 1 "matmul has no kernel in C++ without a --cost" -- run matmul --virtual --durations isa --platform a2a3sim
    expect_all 1 "--durations isa is for scenes of one chip" -- run reduce --virtual --durations isa
    expect_all 2 "cannot be read: No such file" -- run matmul --virtual --durations "$work/none.ptrec"
}

# A scene of `pto new` with a kernel in C++, for the tile library in the folder $1; $2 is the kernel.
make_tile_scene() {
    export PTO_ISA_ROOT=$1
    (cd "$work" && rm -rf tile && "$pto" new tile >/dev/null && rm tile/kernels/axpy.c)
    sed -i 's/axpy\.c,/axpy.cpp,/' "$work/tile/scene.yaml"
    cat >"$work/tile/kernels/axpy.cpp"
}

# A library with the published interface of the tile library's cost model, which reports the sum that a kernel adds to
# `cycles`.
run_isa() {
    mkdir -p "$work/library/include/pto/costmodel/perf_sim"
    cat >"$work/library/include/pto/pto-inst.hpp" <<'C'
#pragma once
#define EVENT_ID7 7
C
    cat >"$work/library/include/pto/costmodel/perf_sim/launch.hpp" <<'C'
#pragma once
#include <sys/stat.h>
#include <cstdio>
#ifndef __COSTMODEL
#error "the cost model is not asked for"
#endif
inline unsigned long cycles = 0;
#define LAUNCH_KERNEL(func, targs, config, ...)                                             \
    do {                                                                                    \
        cycles = 0;                                                                         \
        func targs(__VA_ARGS__);                                                            \
        mkdir("perf_sim_output", 0700);                                                     \
        FILE *f = fopen("perf_sim_output/" #func "_pipeline_summary.csv", "w");             \
        fprintf(f, "op_name,core_id,unit,total_cycles,busy_cycles\n" #func ",0,AIC,1,1\n"); \
        fprintf(f, #func ",0,AIV0,%lu,0\n" #func ",0,AIV1,2,2\n", cycles);                  \
        fclose(f);                                                                          \
    } while (0)
C
    make_tile_scene "$work/library" <<'C'
#include <pto/kernel.h>
#include <cstdlib>

extern "C" __attribute__((always_inline)) void kernel_entry(int64_t *args)
{
    const struct pto_tensor *x = pto_arg_tensor(args, 0), *y = pto_arg_tensor(args, 1);

#ifdef __COSTMODEL
    cycles += 1850 * x->shapes[0] / 256; /* 1 us for a whole tile */
    if (getenv("COST_CRASH") != nullptr)
        abort();
    PTO_DATA(y, float)[0] += 1000; /* has no effect outside of the count */
#else
    for (uint32_t i = 0; i < x->shapes[0]; i++)
        PTO_DATA(y, float)[i] += pto_arg_float(args, 2) * PTO_DATA(x, float)[i];
#endif
}
C
    local words=(--virtual --platform a2a3sim --mode stream --durations isa)
    expect_all 0 "result   ok" "  4          4.0       1.00       1.00       1.00  pto-isa" -- run "$work/tile" "${words[@]}"
    expect_all 0 "result   ok" "  4          3.9       0.98       0.91       1.00  pto-isa" -- run "$work/tile" --case odd "${words[@]}"
    expect_all 0 "not compared" "1.00  pto-isa" -- run "$work/tile" --no-compute "${words[@]}"
    expect_all 0 "median" "1.00 us" -- profile "$work/tile" --virtual --platform a2a3sim --durations isa
    expect_all 1 "no kernel in C++ without a --cost" -- run "$work/tile" --cost axpy=3us "${words[@]}"
    expect_all 1 "counts kernels of a2a3, not of a5" -- run "$work/tile" --virtual --platform a5sim --durations isa
    COST_CRASH=1 expect_all 1 "did not count kernel axpy: it ended with signal 6" -- run "$work/tile" "${words[@]}"
    echo '#error "this revision is broken"' >"$work/library/include/pto/costmodel/perf_sim/launch.hpp"
    expect_all 1 "this revision is broken" "axpy does not compile with the cost model" -- run "$work/tile" "${words[@]}"
}

# The same with the real library in the folder PTO_ISA_COSTS.
run_isa-library() {
    make_tile_scene "$PTO_ISA_COSTS" <<'C'
#include <cstddef>
#include <cstdint>

#include <pto/pto-inst.hpp>

#include <pto/kernel.h>

extern "C" void kernel_entry(int64_t *args)
{
    const struct pto_tensor *x = pto_arg_tensor(args, 0), *y = pto_arg_tensor(args, 1);
    pto::GlobalTensor<float, pto::Shape<1, 1, 1, 1, 256>, pto::Stride<1, 1, 1, 256, 1>> from(PTO_DATA(x, float));
    pto::GlobalTensor<float, pto::Shape<1, 1, 1, 1, 256>, pto::Stride<1, 1, 1, 256, 1>> to(PTO_DATA(y, float));
    pto::Tile<pto::TileType::Vec, float, 1, 256> a, b;

    TASSIGN(a, 0);
    TASSIGN(b, 0x8000);
    TLOAD(a, from);
    TLOAD(b, to);
    set_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
    wait_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
    TADD(b, a, b); /* alpha is 2 */
    TADD(b, a, b);
    set_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
    wait_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
    TSTORE(to, b);
}
C
    expect_all 0 "result   ok" " pto-isa" -- run "$work/tile" --virtual --platform a2a3sim --mode stream --durations isa
    grep "pto-isa" "$work/out"
}

run_costs() {
    expect_all 0 "  3.00       3.00       3.00  --cost" "  10.00      10.00      10.00  default" -- run vector --virtual --cost add=3us --platform a2a3sim --mode stream
    expect_all 2 "--cost must be KERNEL=FORMULA" -- run vector --virtual --cost add
    expect_all 1 "a cost names 'nothing', and there is no such kernel" -- run vector --virtual --cost nothing=1us
    expect_all 1 "the cost of kernel add is 'sin(1)': a formula may name only" -- run vector --virtual --cost 'add=sin(1)'
    expect_all 2 "--cost is for --virtual; add that" -- run vector --cost add=1us
    expect_all 2 "--no-compute is for --virtual" -- run vector --no-compute
    expect_all 2 "two kinds of chips" -- run vector --virtual --isolated
    expect_all 0 "not compared: no kernel is called" -- run vector --virtual --no-compute
    expect_all 1 "reads what one would have written" -- run predicate --virtual --no-compute --platform a2a3sim --mode stream
    cp -r examples/vector "$work/vector"
    sed -i 's/name: mul,/name: mul, cost: 2us + elements(0) * 0,/' "$work/vector/scene.yaml"
    expect_all 0 "  2.00       2.00       2.00  cost: of the scene" -- run "$work/vector" --virtual --platform a2a3sim --mode stream
}

# Prints the makespan in us of `vector`, five tasks in a chain of four, which take 10 us each.
makespan() { # options...
    "$pto" run vector --virtual --platform a2a3sim --mode stream "$@" >"$work/out" || fail "$*: $(cat "$work/out")"
    sed -n 's/^  virtual  \([0-9.]*\) us;.*/\1/p' "$work/out"
}

expect_makespan() { # us options...
    local us
    us=$(makespan "${@:2}")
    [ "$us" = "$1" ] || fail "${*:2}: $us us instead of $1"
}

run_scheduling() {
    local step none=read=0,write=0,line=0,pickup=0,submit=0
    expect_makespan 40.0 --no-scheduling-cost
    expect_makespan 40.0 --scheduling $none
    expect_makespan "$(makespan)" --scheduling read=95,write=5,line=10,pickup=800,submit=500
    expect_makespan 44.0 --scheduling ${none/pickup=0/pickup=1000} # once for each task of the chain
    expect_makespan 45.0 --scheduling ${none/submit=0/submit=1000} # once for each task
    for step in read write line; do
        python3 - "$step" "$(makespan --scheduling ${none/$step=0/$step=1000})" "$(makespan --scheduling ${none/$step=0/$step=2000})" <<'P'
import sys
one, two = (float(text) - 40 for text in sys.argv[2:])
assert one >= 4 and abs(two - 2 * one) <= 0.2 * one, sys.argv
P
    done
    expect_all 2 "--scheduling has 'steal=1'; it must have steps" "submit=500" -- run vector --virtual --scheduling read=1,steal=1
    expect_all 2 "--scheduling has 'read='" -- run vector --virtual --scheduling read=
    expect_all 2 "--scheduling has ''" -- run vector --virtual --scheduling read=1,
    expect_all 2 "--scheduling has 'read=-1'" -- run vector --virtual --scheduling read=-1
    expect_all 2 "--scheduling has 'read=1000000000'" -- run vector --virtual --scheduling read=1000000000
    expect_all 2 "--scheduling is for --virtual; add that" -- run vector --scheduling read=1
    expect_all 2 "leave one of them out" -- run vector --virtual --scheduling read=1 --no-scheduling-cost
    # Commands that run a scene first pass the options on.
    expect_all 0 "makespan 45.0 us" -- profile vector --virtual --scheduling ${none/submit=0/submit=1000}
    expect_all 0 "makespan 40.0 us" "not compared: no kernel is called" -- profile vector --virtual --no-scheduling-cost --no-compute
    expect_all 0 "not compared: no kernel is called" -- report vector --virtual --no-compute -o "$work/r.html"
    expect_all 0 "not compared: no kernel is called" -- graph vector --virtual --no-compute
    expect_all 0 "no difference beyond noise" "not compared: no kernel is called" -- diff vector vector --virtual --no-compute
    "$pto" run vector --virtual --platform a2a3sim --mode stream --cost add=3us --trace "$work/c.ptrec" >/dev/null
    expect_all 0 "$work/c" -- profile vector --virtual --platform a2a3sim --durations "$(echo "$work"/c-*.ptrec)"
    "$pto" profile "$(echo "$work"/c-*.ptrec)" --medians | grep -q '"kernel": "add", "ns": 3000' || fail "no median of add"
    expect_all 2 "--durations is for --virtual; add that" -- profile vector --durations "$work/none.ptrec"
}

# A kernel that computes for longer than the scheduler waits in real time counts as waiting for another kernel.
run_late() {
    (cd "$work" && "$pto" new late >/dev/null)
    sed -i 's|^  - { id: 0, .*|&\n  - { id: 1, name: spin, source: kernels/spin.c, core: aiv }|' "$work/late/scene.yaml"
    sed -i 's|^    for (uint32_t at = 0.*|    pto_aiv(o, 1, PTO_INT(MS));\n&|' "$work/late/orch.c"
    cat >"$work/late/kernels/spin.c" <<'C'
#include <time.h>

#include <pto/kernel.h>

PTO_KERNEL(args)
{
    struct timespec begin, now;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin);
    do
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    while ((now.tv_sec - begin.tv_sec) * 1000 + (now.tv_nsec - begin.tv_nsec) / 1000000 < args[0]);
}
C
    local words=(run "$work/late" --virtual --platform a2a3sim --mode stream --cost spin=1us --cost axpy=20us)
    expect_all 0 "1 kernel waited for another kernel" "0.25 s of CPU time" "the times depend on this machine" -- \
        "${words[@]}" --flag -DMS=600
    expect_all 0 "result   ok" -- "${words[@]}" --flag -DMS=50
    ! grep -q "  waited " "$work/out" || fail "50 ms of CPU time count as waiting: $(cat "$work/out")"
    sed 's/ *[^ ]*time .*//' "$work/out" >"$work/once"
    expect_all 0 "result   ok" -- "${words[@]}" --flag -DMS=50
    sed 's/ *[^ ]*time .*//' "$work/out" | cmp - "$work/once" || fail "two runs differ"
    expect_all 0 "the longest chain at least " -- run vector --virtual --platform a2a3sim --mode stream
    expect_all 0 "the longest chain 40.0 us" -- run vector --virtual --platform a2a3sim --mode host
}

for part in $parts; do "run_$part"; done
