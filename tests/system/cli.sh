#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Output and exit codes of the command: help, refusals, JSON, `doctor`, `bench`, Ctrl-C, output that is
# not read, and the manual page. PTO names the command.
set -eu
cd "$(dirname "$0")/../.."
pto=${PTO:-build/bin/pto}
source tests/system/expect.sh
commands="run profile diff races test report graph launch new build check bench cache info top doctor inspect sign key drill selfcheck install-compat"

# Checks that the JSON in a file fulfils a condition on `d`.
json() { # file condition
    python3 - "$1" "$2" <<'PY' || fail "$1: not so: $2"
import json, sys
with open(sys.argv[1], encoding="utf-8") as file:
    d = json.load(file)
sys.exit(0 if eval(sys.argv[2]) else 1)
PY
}

# ---- help and refusals ----

platforms=$(PTO=$pto tests/system/platforms.sh)
listed=$(paste -sd, <<<"$platforms" | sed 's/,/, /g')
for command in $commands; do
    expect 0 "$command" --help
    expect 0 "usage: pto $command" "$command" --help
    cp "$work/out" "$work/help"
    expect 0 "usage: pto $command" help "$command"
    cmp -s "$work/help" "$work/out" || fail "pto help $command differs from pto $command --help"
    expect 2 "unknown option '--no-such-option'; see \`pto $command --help\`" "$command" --no-such-option
done
expect 0 "usage: pto COMMAND" help
expect 2 "unknown command 'nothing'" help nothing
expect 2 "one command at a time" help run bench
expect 2 "option '--json' takes no value" info --json=1
expect 2 "unexpected argument 'more'" doctor more
expect 2 "option '--tasks' needs a value" bench --tasks
expect 2 "--tasks must be a number from 1 to 10000000, not '0'" bench --tasks 0
expect 2 "--repeat must be a number from 1 to 100, not '1x'" bench --repeat 1x
expect 2 "--pattern must be nodep, indep, chain, fan64, stencil64, random3 or all, not 'tree'" bench --pattern tree
expect 2 "--api must be own or simpler, not 'other'" bench --api other
expect 2 "--layout must be buffers, tiles, tiles2d, again or all, not 'heap'" bench --layout heap
expect 2 "unexpected argument 'chat'" bench chat
expect 2 "takes --ranks, --quick and --json only" bench comm --tasks 5
expect 2 "ranks is an option of" bench --ranks 2
expect 2 "takes --tasks, --quick and --json only" bench tree --ranks 2
expect 0 "100 empty SUB tasks on one child" bench tree --tasks 100
expect 1 "cannot be opened: too many workers" bench --quick --workers 1000
expect 1 "where.json': No such file" bench --quick --json "$work/no/where.json"
expect 2 "usage: pto drill" drill
expect 2 "unknown code 'EVERYTHING'" drill EVERYTHING
expect 2 "unexpected argument 'more'" drill all more
expect 2 "unexpected argument 'ECRASH'" drill ECRASH --list
expect 2 "--mode must be stream, host or all, not 'fast'" drill all --mode fast
expect 2 "unknown platform 'nochip'; --platform must be $listed or all" drill all --platform nochip
expect 2 "--threads must be a number from 1 to 64, not '0'" drill all --threads 0
expect 2 "unknown option '-z'" test -xz
expect 2 "option '-o' needs a value" build -o
expect 2 "ambiguous option '--is'" build --is=here
expect 2 "unexpected argument '--list'" drill all -- --list
expect 2 "--timeout must be from 0.001 to 86400 seconds, not 'soon'" run --timeout soon
expect 2 "--grace must be from 0.001 to 86400 seconds, not '0'" test --grace 0
expect 2 "--launch-timeout must be from 0.001 to 86400 seconds, not '-1'" run --launch-timeout -1
expect 2 "--debug is for debugging without a time limit, after which --grace would begin" run --debug --grace 1
expect 2 "--debug is for debugging, which takes time, and --launch-timeout limits it" run --debug --launch-timeout 1
expect 2 "usage: pto launch" launch -n 2
expect 2 "--ranks must be a number from 1 to 1024, not '0'" launch -n 0 true
expect 2 "--bind must be auto, cpu or none, not 'core'" launch --bind core true
expect 127 "program 'nowhere' not found in PATH" launch nowhere
expect 127 "program './nowhere' not found" launch ./nowhere --help
expect 2 "--seed must be a 64-bit number, not '-1'" check --seed -1
expect 2 "--deps must be safe or simpler, not 'none'" check --deps none
expect 2 "unexpected argument 'more'" check more
expect 2 "option '--graphs' needs a value" check --graphs
expect 2 "--chips and --subs need --level 3" check --chips 1
expect 2 "--relaunch and --mode need --level 2" check --level 3 --relaunch
expect 2 "1 to 16 chips" check --level 3 --chips 0 --subs 0
expect 2 "needs two children" check --level 3 --chips 1 --subs 0 --drop-edge
expect 0 "graphs=2 tasks=10 mismatches=0" check --level 3 --chips 1 --subs 1 --graphs 2 --tasks 5 --seed 3
expect 0 "graphs=2 tasks=10 mismatches=0" check --graphs=2 --tas 5 --seed=0x10 --mode host
echo "ok    help and refusals"

# ---- info, doctor ----

expect 0 "a2a3sim" info
grep -qE '^  a5 +- +36 +not available here: ASCEND_HOME_PATH is not set; .*; fix: ' "$work/out" ||
    fail "the real chips are not listed"
expect 0 "" info --workers
expect 0 '"workers"' info --workers --json
expect 0 '"devices"' top --json
expect 1 "there is no process 2147483647" top 2147483647
expect 0 '"platforms"' info --json
json "$work/out" '{"version", "platforms", "cpus", "compilers", "memory", "kernel", "libc"} <= set(d)'
json "$work/out" '[p["name"] for p in d["platforms"] if p["usable"]] == """'"$platforms"'""".split()'
json "$work/out" '{p["name"] + "sim" for p in d["platforms"] if not p["usable"]} == {p["name"] for p in d["platforms"] if p["usable"]}'
json "$work/out" 'all(p["usable"] or p["missing"] and p["fix"] for p in d["platforms"])'
json "$work/out" '1 <= d["cpus"]["allowed"] <= d["cpus"]["online"]'
json "$work/out" 'any(c["path"] and c["version"] for c in d["compilers"])'
printf '#!/bin/sh\nprintf "a \\"b\\" \\\\ \\t\\377\\303\\251\\n"\n' >"$work/cc"
chmod +x "$work/cc"
PATH=$work:$PATH $pto info --json >"$work/out"
json "$work/out" 'd["compilers"][0]["version"] == "a \"b\" \\ \t\ufffd\u00e9"'

expect 0 "0 FAIL" doctor
for mode in stream host; do
    for platform in $platforms; do
        grep -q "^ok    $platform $mode" "$work/out" || fail "doctor: $platform $mode"
    done
done
if grep -vE '^(ok|info|warn) ' "$work/out" | grep -vE '^[0-9]+ ok, [0-9]+ warn, 0 FAIL$'; then
    fail "doctor prints other lines"
fi
expect 0 '"checks"' doctor --json
json "$work/out" 'd["ok"] and all(c["state"] in ("ok", "warn", "info") for c in d["checks"])'
json "$work/out" 'all(c["fix"] for c in d["checks"] if c["state"] == "warn")'
got=0
(ulimit -v 8000000 && $pto doctor) >"$work/out" || got=$?
[ "$got" = 1 ] && grep -q '^FAIL  address space .*fix: ulimit -v unlimited' "$work/out" ||
    fail "doctor does not notice ulimit -v: $(cat "$work/out")"
PATH=/nonexistent $pto doctor >"$work/out" && fail "doctor is content without a compiler"
grep -q '^FAIL  compiler .*fix: ' "$work/out" || fail "doctor does not miss a compiler"
taskset -c 0 $pto doctor >"$work/out" || fail "doctor fails on one CPU: $(cat "$work/out")"
grep -q '^warn  cpus .*fix: ' "$work/out" || [ "$(nproc)" = 1 ] || fail "doctor ignores affinity"
mkdir "$work/gcc"
printf '#!/bin/sh\necho "g++-16 (A) 16.1.0 20270101"\n' >"$work/gcc/g++-16"
printf '#!/bin/sh\necho "g++ (A 14) 13.4.0"\n' >"$work/gcc/g++"
chmod +x "$work"/gcc/*
(unset CXX; PATH=$work/gcc:$PATH $pto doctor) >"$work/out"
grep -q '^ok    bfloat16 .*gcc/g++-16 .* has bfloat16_t' "$work/out" || fail "doctor does not see g++-16"
rm "$work/gcc/g++-16"
(unset CXX; PATH=$work/gcc $pto doctor) >"$work/out" || true
grep -q '^ok    bfloat16 .*gets a bfloat16_t from' "$work/out" ||
    fail "doctor is not content with GCC 13: $(grep bfloat16 "$work/out")"
printf '#!/bin/sh\necho "g++ (A 14) 11.4.0"\n' >"$work/gcc/g++"
(unset CXX; PATH=$work/gcc $pto doctor) >"$work/out" || true
grep -q '^info  bfloat16 .*no _Float16.*fix: apt-get install g++-12' "$work/out" ||
    fail "doctor is content with GCC 11: $(grep bfloat16 "$work/out")"
echo "ok    info, doctor"

# ---- bench ----

$pto bench --quick --tasks 500 --repeat 1 --json "$work/bench.json" >"$work/out" 2>"$work/err"
[ ! -s "$work/err" ] || fail "bench writes to stderr without a terminal"
[ "$(grep -cE '^(nodep|indep|chain|fan64|stencil64|random3) ' "$work/out")" = 24 ] ||
    fail "bench: not 24 lines: $(cat "$work/out")"
json "$work/bench.json" 'len({(p["name"], p["layout"], p["workers"]) for p in d["patterns"]}) == 48'
json "$work/bench.json" 'len(d["patterns"]) == 48 and {p["tasks"] for p in d["patterns"]} == {500}'
json "$work/bench.json" 'all(0 < p["ns_min"] <= p["ns_median"] for p in d["patterns"])'
json "$work/bench.json" 'all(0 <= p["stolen"] <= 1 for p in d["patterns"])'
json "$work/bench.json" 'all(p["stolen"] == 0 for p in d["patterns"] if p["workers"] == 1)'
json "$work/bench.json" '0 < d["one_task"]["p50_us"] <= d["one_task"]["p99_us"]'
$pto bench comm --quick --ranks 2 --json "$work/bench.json" >"$work/out" || fail "bench comm"
grep -q "^barrier  *[0-9]" "$work/out" || fail "bench comm: $(cat "$work/out")"
$pto bench tree --quick --json "$work/tree.json" >"$work/tree" || fail "bench tree"
grep -q "^empty SUB task, hot  *[0-9]" "$work/tree" || fail "bench tree: $(cat "$work/tree")"
json "$work/tree.json" 'len(d["runs"]) == 2 and all(0 < t["p50_us"] <= t["p99_us"] for r in d["runs"] for t in r["trips"])'
json "$work/tree.json" 'all(0 < s["ns"] for s in d["streams"]) and d["start_ms"] > 0 and d["idle_cpu_ms"] >= 0'
json "$work/bench.json" 'len(d["runs"][0]["cases"]) == 9 and all(0 < c["p50_ns"] <= c["p99_ns"] for c in d["runs"][0]["cases"])'
if command -v "${CXX:-g++}" >/dev/null; then
    $pto bench --quick --tasks 500 --repeat 1 --api simpler --pattern stencil64 --json "$work/bench.json" >"$work/out"
    json "$work/bench.json" 'len(d["patterns"]) == 6 and all(0 < p["ns_simpler_rules"] and 0 < p["ns_simpler_api"] for p in d["patterns"])'
    grep -q "^stencil64 *tiles2d *2 .*[0-9]$" "$work/out" || fail "bench --api simpler: $(cat "$work/out")"
fi
json "$work/bench.json" 'set(d["pingpong_ns"]) == {"before", "after"}'
[ "$(echo "$work"/bench.json*)" = "$work/bench.json" ] || fail "bench leaves a temporary file"
$pto bench --quick --tasks 100 --pattern chain --layout tiles --workers 3 --json - >"$work/out"
json "$work/out" '[(p["name"], p["layout"], p["workers"]) for p in d["patterns"]] == [("chain", "tiles", 3)]'
ln -s bench.json "$work/link"
$pto bench --quick --tasks 100 --pattern nodep --json "$work/link" >/dev/null
[ -L "$work/link" ] || fail "bench replaces a link"
json "$work/bench.json" 'len(d["patterns"]) == 8'
$pto bench --quick --tasks 100 --pattern nodep --json /dev/null >/dev/null
[ -c /dev/null ] || fail "bench replaces a device"
taskset -c 0 $pto bench --quick --tasks 100 --json - >"$work/out"
json "$work/out" 'len(d["patterns"]) == 48 and d["pingpong_ns"]["before"] is None'
echo "ok    bench"

# ---- drill ----

for code in -7 7 ESYNC_START PTO_ESYNC_START esync_start; do
    expect 0 "2 ok, 0 FAILED, 0 skipped" drill $code
    grep -q ' gang-of-aiv .* OK ' "$work/out" && grep -q 'this device has room for 16' "$work/out" ||
        fail "drill $code: $(cat "$work/out")"
done
expect 0 "1 ok, 0 FAILED, 0 skipped" drill gang-of-aiv
expect 0 "not provoked: only isolated devices and workers return it, and drills use a device in their own process" drill EPEER
expect 0 "1 ok, 0 FAILED, 0 skipped" drill 104 --mode host
expect 0 "memory-max" drill --list
expect 0 '"codes"' drill --list --json
json "$work/out" 'all(c["name"] and (c["drills"] or c["not_provoked"]) for c in d["codes"])'
expect 0 '"drills"' drill EMEMORY --platform all --mode all --threads 3 --json
json "$work/out" 'd["ok"] and len(d["drills"]) == 7 * 2 * '"$(wc -l <<<"$platforms")"' and all(r["outcome"] == "ok" for r in d["drills"])'
json "$work/out" '{(r["platform"], r["mode"]) for r in d["drills"]} == {(p, m) for p in """'"$platforms"'""".split() for m in ("stream", "host")}'
json "$work/out" 'all(r["text"] and r["code"] == 211 and r["ms"] > 0 for r in d["drills"])'
echo "ok    drill"

# ---- Ctrl-C ----

# Prints the CPU time that a process has used, in hundredths of a second; nothing after its end.
cpu_ms() {
    awk '{ sub(/.*\) /, ""); print ($12 + $13) * 10 }' "/proc/$1/stat" 2>/dev/null || :
}

# Interrupts a command after it has used a second of CPU time, or has printed a phrase. It must end with
# 130, and use less than two more seconds of CPU time. Real time is not judged, because other processes
# may use the machine.
interrupt() { # worked|phrase arguments
    local when=$1 got=0 pid before now last
    shift
    # bash would make it ignore the signal
    env --default-signal=INT $pto "$@" >"$work/out" 2>"$work/err" </dev/null &
    pid=$!
    before=0
    while now=$(cpu_ms $pid) && [ -n "$now" ]; do
        before=$now
        if [ "$when" != worked ] && grep -qF -- "$when" "$work/out"; then break; fi
        if [ "$when" = worked ] && [ "$now" -ge 1000 ]; then break; fi
        sleep 0.05
    done
    kill -INT $pid || fail "pto $* ended by itself: $(cat "$work/out" "$work/err")"
    last=$before
    while now=$(cpu_ms $pid) && [ -n "$now" ]; do
        last=$now
        [ $((last - before)) -lt 2000 ] || break
        sleep 0.05
    done
    [ $((last - before)) -lt 2000 ] || { kill -KILL $pid; fail "Ctrl-C on pto $*: it goes on"; }
    wait $pid || got=$?
    [ "$got" = 130 ] || fail "Ctrl-C on pto $*: exit $got: $(cat "$work/out" "$work/err")"
}
interrupt worked bench --repeat 100 --tasks 5000 --json "$work/part.json"
json "$work/part.json" 'd["interrupted"] and 0 < len(d["patterns"]) <= 48'
grep -q '^interrupted' "$work/out" || fail "bench does not say that it was interrupted"
interrupt worked bench --tasks 10000000 --json -
json "$work/out" 'd["interrupted"] and d["one_task"]["p50_us"] is None'
interrupt worked check --graphs 1000000
grep -qE '^graphs=[0-9]+ tasks=[0-9]+ mismatches=0$' "$work/out" || fail "check: no sum"
interrupt ' OK ' drill all --platform all --mode all
grep -qE '^[0-9]+ ok, 0 FAILED, ' "$work/out" && grep -q '^interrupted$' "$work/out" || fail "drill: no sum"
interrupt '"outcome"' drill all --platform all --mode all --json
json "$work/out" 'd["interrupted"] and len(d["drills"]) > 0'
echo "ok    Ctrl-C"

# ---- output that nobody reads, colours ----

# SIGPIPE usually ends the command; where SIGPIPE is ignored, the exit code is 1; any other signal is a
# crash.
set +e
for arguments in --help info doctor "cache --json" "info --json" "drill --list" "drill ELOAD" "run" "bench --quick --tasks 100" "check --graphs 5"; do
    $pto $arguments 2>"$work/err" | true
    code=${PIPESTATUS[0]}
    [ "$code" -le 1 ] || [ "$code" = 141 ] || fail "pto $arguments | true: exit $code"
    $pto $arguments >/dev/full 2>"$work/err"
    code=$?
    [ "$code" = 1 ] && grep -q 'No space left' "$work/err" ||
        fail "pto $arguments >/dev/full: exit $code: $(cat "$work/err")"
    $pto $arguments >&- 2>"$work/err"
    code=$?
    [ "$code" = 1 ] || fail "pto $arguments with stdout closed: exit $code"
done
set -e
if command -v script >/dev/null; then
    escape=$(printf '\033')
    TERM=xterm script -qec "env -u NO_COLOR $pto doctor" /dev/null </dev/null >"$work/out"
    grep -q "$escape" "$work/out" || fail "no colours on a terminal"
    TERM=xterm NO_COLOR=1 script -qec "$pto doctor" /dev/null </dev/null >"$work/out"
    ! grep -q "$escape" "$work/out" || fail "colours in spite of NO_COLOR"
fi
echo "ok    output that nobody reads, colours"

# ---- the manual page ----

PTO=$pto tools/manual | cmp - docs/pto.1 || fail "docs/pto.1 is not what the tables of options give; make manual"
for command in $commands; do
    grep -q "^\.Ss pto $command" docs/pto.1 || fail "docs/pto.1 does not have $command"
    [ "$command" = new ] || grep -qx "@options $command" docs/pto.1.in || fail "docs/pto.1.in lacks the options of $command"
done
if command -v groff >/dev/null; then
    groff -mdoc -ww -Tutf8 -z docs/pto.1 >"$work/out" 2>&1 || fail "docs/pto.1: $(cat "$work/out")"
elif command -v mandoc >/dev/null; then
    mandoc -Tlint -Wwarning docs/pto.1 >"$work/out" 2>&1 || fail "docs/pto.1: $(cat "$work/out")"
elif command -v man >/dev/null; then
    man --warnings -l docs/pto.1 2>"$work/out" >/dev/null </dev/null || true
else
    echo "skip  nothing here can render the manual page"
    : >"$work/out"
fi
[ ! -s "$work/out" ] || fail "docs/pto.1: $(cat "$work/out")"
echo "ok    the manual page"
