#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# tools/claims in a separate tree, with rows that fail as real ones do: what it prints about each, the
# commands that it names, and the logs that it keeps. Also checks that the rows run all test programs.
#
# tools/claims in a tree of its own, over rows that fail in the ways in which real ones do: what it prints of
# each, the commands that it names, and the logs that it keeps. And whether the rows run all test programs.
set -eu
cd "$(dirname "$0")/../.."
root=$PWD
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
unset CLAIMS_JOBS CLAIMS_TIMEOUT

fail() {
    echo "claims: $1"
    sed 's/^/    /' "$work/printed"
    exit 1
}

mkdir -p "$work/tools" "$work/tests/logs"
cp tools/claims "$work/tools"
cd "$work"
printf 'all:\n\t@:\n' >Makefile

# A log as each kind of test writes it: the decisive line is in the middle, followed by many others.
rest() { for i in $(seq 60); do echo "nothing to see in line $i"; done; }
unit() {
    cat <<'END'
ok    plain test_first  (3 ms)
FAIL  plain test_second  (exit 1 after 5 ms)
test_second:
[==========] Running 2 test(s).
[  ERROR   ] --- 0x1 != 0x2
[   LINE   ] --- tests/unit/test_second.c:33: error: Failure!
[  FAILED  ] the_broken_one
[       OK ] expected_to_pass
END
    rest
    echo '[  FAILED  ] 1 test(s), listed below:'
    echo '[  PASSED  ] 1 test(s).'
}
asan() {
    cat <<'END'
FAIL  asan test_third  (exit 1 after 5 ms)
==77==ERROR: AddressSanitizer: heap-buffer-overflow on address 0x602000000014
READ of size 4 at 0x602000000014 thread T0
    #0 0x4011f6 in slots_take src/graph/slots.c:77
    #1 0x401313 in main tests/unit/test_third.c:12
END
    rest
}
pytest() {
    cat <<'END'
    def test_sum():
>       assert total == 3
E       assert 2 == 3
python/tests/test_sums.py:12: AssertionError
END
    rest
    echo 'FAILED python/tests/test_sums.py::test_sum - assert 2 == 3'
}
python() {
    printf 'Traceback (most recent call last):\n  File "bench/check.py", line 5, in <module>\n'
    printf 'ValueError: 3 tasks instead of 4\n'
    rest
}
many() { for i in $(seq 500); do echo "x.c:$i: error: number $i"; done; }
for name in unit asan pytest python many; do $name >"tests/logs/$name"; done
cat >tests/script.sh <<'END'
#!/bin/bash
set -eu
check() {
    grep -q 'what is not there' "$0.log"
}
if false; then :; fi
x=$(false; echo 1)
echo "got $x" >"$0.log"
check
echo "this is not reached"
END
chmod +x tests/script.sh

row() { printf '%s\t%s\tquick\t%s\n' "$1" "the claim of $1" "$2"; }
{
    row good 'echo fine'
    for name in unit asan pytest python many; do row $name "cat tests/logs/$name; exit 1"; done
    row script tests/script.sh
    row silent 'exit 9'
    row plain 'for i in $(seq 40); do echo "line $i"; done; exit 1'
} >tests/claims.tsv

status=0
tools/claims run quick >printed 2>&1 || status=$?
[ $status = 1 ] || fail "exit $status instead of 1"

# The output about a row: from its line to that of the next row.
section() { awk -v id="$1" '/^\[/ { mine = $0 ~ "FAIL  " id "  " } mine' printed | sort -u; }
has() { # row phrase...
    section "$1" >shown
    for phrase in "${@:2}"; do grep -qF -- "$phrase" shown || fail "$1: no '$phrase'"; done
    grep -qF "again  make test ROW=$1" shown || fail "$1: no command that repeats it"
    grep -qF "log    build/claims/failed/$1.1.log" shown || fail "$1: no log that is kept"
}
has_not() { # row phrase
    section "$1" >shown
    ! grep -qF -- "$2" shown || fail "$1: prints '$2'"
}
has unit 'test_second.c:33: error' '0x1 != 0x2' '[  FAILED  ] the_broken_one' 'or tools/unit plain test_second'
has_not unit 'nothing to see'
has_not unit 'test_first'
has_not unit 'expected_to_pass'
has asan 'heap-buffer-overflow' 'slots_take src/graph/slots.c:77' 'or tools/unit asan test_third'
has pytest 'assert 2 == 3' 'test_sums.py:12: AssertionError' "or tools/pytest 'python/tests/test_sums.py::test_sum'"
has python 'bench/check.py", line 5' 'ValueError: 3 tasks instead of 4'
has_not python 'nothing to see'
has many 'number 1' 'number 500' '470 more lines'
has_not many 'number 250'
has script 'tests/script.sh:4: exit 1: grep -q'
has_not script 'false'
has silent 'exit 9'
has plain 'line 40' 'line 16'
! grep -q 'again  make test ROW=good' printed || fail "a row that passed is printed as a failed one"
grep -q '1 passed, 8 failed' printed || fail "counts"
# Once where it failed, and once at the end.
[ "$(grep -c 'FAIL  unit  ' printed)" = 2 ] || fail "a failure is printed twice in a long run"

# The log of a failure outlives the next run of its row, whether that passes or fails.
rm -r build/claims/unit.log
first=$(cat build/claims/failed/unit.1.log)
[ "$first" = "$(cat tests/logs/unit)" ] || fail "the log that is kept is not the row's"
printf '%s\n' "$(row unit 'echo fine')" >tests/claims.tsv
tools/claims run quick unit >printed 2>&1 || fail "a row that passes"
[ "$(cat build/claims/failed/unit.1.log)" = "$first" ] || fail "a run that passes changes the log of a failure"
printf '%s\n' "$(row unit 'echo FAIL in another way; exit 1')" >tests/claims.tsv
for i in $(seq 2 12); do echo older >build/claims/failed/unit.$i.log; done
! tools/claims run quick unit >printed 2>&1 || fail "a row that fails"
grep -q 'log    build/claims/failed/unit.13.log' printed || fail "no log of the thirteenth failure"
[ "$(ls build/claims/failed | grep -c '^unit\.')" = 10 ] || fail "logs of failures pile up: $(ls build/claims/failed)"

# A claim is short; what rows want installed is installed once, before the first of them.
printf 'long\t%s\tquick\ttrue\n' "$(seq -s' ' 26)" >tests/claims.tsv
! tools/claims run quick >printed 2>&1 || fail "a claim of 26 words"
grep -q 'claims.tsv:1: the claim has 26 words; say it in at most 25' printed || fail "a claim of 26 words is not named"
printf '#!/bin/sh\necho "$1" >>installed\n' >tools/setup.sh && chmod +x tools/setup.sh
{ row one 'tools/setup.sh extra && [ "$(cat installed)" = "extra$(printf "\nextra")" ]'; row two 'grep -q extra installed'; } >tests/claims.tsv
CLAIMS_JOBS=1 tools/claims run quick >printed 2>&1 || fail "a row that installs something"

# In the real tree: the same lines, from a log that exists.
[ "$("$root/tools/claims" digest tests/logs/python | wc -l)" = 2 ] || fail "digest"
echo "ok    what is printed of rows that fail"

# Every test program runs in some row, in each variant that its head names.
cd "$root"
for variant in plain asan tsan arm; do
    tools/unit --list $variant | sort -u >"$work/all"
    awk -F'\t' '$3 == "quick" || $3 == "test" { print $4 }' tests/claims.tsv | grep -o "tools/unit $variant [^&|;]*" |
        while read -r tool _ words; do $tool --list $variant $words; done | sort -u >"$work/run"
    comm -23 "$work/all" "$work/run" >"$work/printed"
    [ ! -s "$work/printed" ] || fail "no row runs these in variant $variant:"
done
echo "ok    every test program has a row"
