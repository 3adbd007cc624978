#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# No stale object is used: whatever a source can see, and however it changes, the artefact has the
# new value, or the build is refused. And nothing is compiled if nothing changed. PTO names the
# command.
set -eu
cd "$(dirname "$0")/../.."
pto=$(realpath "${PTO:-build/bin/pto}")
work=$(mktemp -d)
children=
trap 'for p in $children; do kill -9 "$p" 2>/dev/null || :; done; rm -rf "$work"' EXIT
unset CC CXX CPATH C_INCLUDE_PATH PTO_ISA_ROOT XDG_CONFIG_HOME
export PTO_STORE=$work/store TMPDIR=$work/tmp HOME=$work
cd "$work"
mkdir tmp k first second second/deep

fail() {
    echo "FAIL  $1"
    [ ! -s out ] || cat out
    exit 1
}

build() { # options: exit code in $code, what was said in ./out
    code=0
    "$pto" build --orchestration orch.c --kernel 0:aiv:k/a.c -I first -I second -o t.ptoc "$@" \
        >out 2>&1 || code=$?
}

# Checks that the artefact has the value, and that the number of compilations is the expected one.
expect() { # value compiled what
    [ "$code" = 0 ] || fail "$3: exit $code"
    grep -q "compiled, .* from the store" out || fail "$3: no summary"
    grep -q ": $2 compiled" out || fail "$3: not $2 compiled"
    grep -qa "the value is $1\$\|the value is $1[^0-9]" t.ptoc || fail "$3: the artefact has not $1"
}

refused() { # phrase what
    [ "$code" = 1 ] || fail "$2: exit $code"
    grep -qF -- "$1" out || fail "$2: no '$1'"
}

cat >orch.c <<'C'
#include <pto/orch.h>
void orchestrate(struct pto_orch *o, const struct pto_entry *entry)
{
    (void)o;
    (void)entry;
}
C
cat >k/a.c <<'C'
#include <pto/kernel.h>
#include "one.h"
#define TEXT(x) #x
#define TEXT_OF(x) TEXT(x)
#if __has_include("maybe.h")
#include "maybe.h"
#endif
const char marker[] = "the value is " TEXT_OF(VALUE) "\n";
void kernel_entry(int64_t *args)
{
    args[0] = (int64_t)(intptr_t)marker;
}
C
echo '#include "deep/two.h"' >second/one.h
echo '#define VALUE 40' >second/deep/two.h

# Logs each start of a compiler that compiles; queries of the driver are not counted.
cat >logged <<'SH'
#!/bin/sh
case " $* " in
*" -print-search-dirs "* | *" -E "*) ;;
*) echo "$@" >>"$LOG" ;;
esac
exec gcc "$@"
SH
chmod +x logged
export LOG=$work/log
started() { [ -e log ] && wc -l <log || echo 0; }

# ---- headers ----

build
expect 40 2 "the first build"
build
expect 40 0 "the same again"
touch -r second/deep/two.h stamp
echo '#define VALUE 48' >second/deep/two.h
touch -r stamp second/deep/two.h
build --explain
expect 48 1 "a header two levels deep, with its time stamp set back"
grep -q 'two.h changed ([0-9a-f]* -> [0-9a-f]*)' out || fail "no reason with old and new digest"
grep -q 'unchanged orch.c: [0-9]* files' out || fail "no reason for what was not compiled"
echo '#define VALUE 49' >first/one.h
build --explain
expect 49 1 "a new header that shadows from an earlier folder"
grep -q 'first/one.h has appeared' out || fail "no reason for the shadow"
echo '#undef VALUE
#define VALUE 50' >first/maybe.h
build
expect 50 1 "__has_include of a file that has appeared"
rm first/maybe.h first/one.h
build
expect 48 0 "everything as it was before"
mkdir third
echo '#define VALUE 51' >third/one.h
ln -s second link
build -I link
mv third/one.h one.h
export CPATH=$work
build
expect 48 2 "CPATH comes after -I"
rm second/one.h
build
expect 51 1 "a header by CPATH"
unset CPATH
build
refused "one.h: No such file" "a header that is gone"
grep -q '^k/a.c:' out || fail "the compiler's words do not name their file"
mv one.h third/one.h
echo '#include "deep/two.h"' >second/one.h
rm link
ln -s third link
build -I link --flag -DNOTHING
expect 48 2 "the second folder is before the link"
mv second/one.h second/other.h
build -I link --flag -DNOTHING
expect 51 1 "a header behind a link"
mkdir fourth
echo '#define VALUE 52' >fourth/one.h
ln -sfn fourth link
build -I link --flag -DNOTHING
expect 52 2 "a link that leads elsewhere"
mv second/other.h second/one.h
sed 's/"one.h"/INCLUDED/' k/a.c >k/b.c
echo '#define VALUE 60' >second/computed.h
computed() {
    build --kernel 1:aiv:k/b.c --flag '-DINCLUDED="computed.h"' "$@"
}
computed
expect 60 3 "an include that a macro names"
computed
expect 60 0 "the same again"
echo '#define VALUE 61' >second/computed.h
computed
expect 61 1 "what a macro names has changed"
echo '#define FORCED 70' >second/forced.h
gcc -std=gnu11 -O2 -fPIC -x c-header second/forced.h -o second/forced.h.gch
sed 's/TEXT_OF(VALUE)/TEXT_OF(FORCED)/' k/a.c >k/c.c
echo '#define FORCED 71' >second/forced.h
build --kernel 1:aiv:k/c.c --flag -include --flag "$work/second/forced.h"
expect 71 3 "an old precompiled header beside a new one"
rm second/forced.h.gch
echo "ok    headers: deep, shadowing, probed, by environment, by link, by macro, precompiled"

# ---- time stamps, flags, compilers ----

build
sleep 0.01
find . -name '*.[ch]' -exec touch {} +
export CC=$work/logged
build
expect 48 2 "another compiler"
[ "$(started)" = 2 ] || fail "started $(started) compilers instead of 2"
find . -name '*.[ch]' -exec touch {} +
build
expect 48 0 "every file touched"
[ "$(started)" = 2 ] || fail "a compiler was started for nothing"
build --flag -DVALUE_TOO=1
expect 48 2 "another flag"
echo '# another one' >>logged
build --explain
expect 48 2 "a compiler with another content"
grep -q 'logged changed' out || fail "the compiler is not named"
unset CC
mkdir path
cp "$(command -v as)" path/as
build
PATH=$work/path:$PATH build
expect 48 0 "a copy of the assembler, earlier in PATH"
echo >>path/as
PATH=$work/path:$PATH build --explain
expect 48 2 "another assembler, earlier in PATH"
grep -q 'path/as is now part of the compiler' out || fail "the assembler is not named"
echo "ok    touched files compile nothing, another flag or compiler everything"

# ---- wrappers ----

mkdir hostile kept
cat >hostile/gcc <<'SH'
#!/bin/bash
# Always returns the first object that it has compiled, like a cache with a wrong key.
real=/usr/bin/gcc
case " $* " in *" -print-search-dirs "* | *" -E "*) exec "$real" "$@" ;; esac
for word; do
    [ "${last:-}" != -o ] || output=$word
    [ "${last:-}" != -MF ] || rules=$word
    case $word in *.c) source=${word##*/} ;; esac
    last=$word
done
if [ -e "$KEPT/$source" ]; then
    cp "$KEPT/$source" "$output"
    cp "$KEPT/$source.d" "$rules"
else
    "$real" "$@" && cp "$output" "$KEPT/$source" && cp "$rules" "$KEPT/$source.d"
fi
SH
chmod +x hostile/gcc
export KEPT=$work/kept
if [ -x /usr/bin/gcc ]; then
    value=70
    for how in PATH CC; do
        rm -f kept/*
        echo "#define VALUE $value" >second/deep/two.h
        case $how in
        PATH) run="env PATH=$work/hostile:$PATH" ;;
        CC) run="env CC=$work/hostile/gcc" ;;
        esac
        hostile() {
            code=0
            $run "$pto" build --orchestration orch.c --kernel 0:aiv:k/a.c -I first -I second \
                -o t.ptoc >out 2>&1 || code=$?
        }
        hostile
        grep -q ': [12] compiled' out || fail "the wrapper's first time"
        touch -r second/deep/two.h stamp
        value=$((value + 1))
        echo "#define VALUE $value" >second/deep/two.h
        touch -r stamp second/deep/two.h
        hostile
        refused "lacks the key" "a wrapper in $how that serves an old object"
        value=$((value + 1))
    done
    echo '#define VALUE 71' >second/deep/two.h
    cp hostile/gcc hostile/ccache
    ln -sf ccache hostile/gcc
    PATH=$work/hostile:$PATH build
    expect 71 1 "a cache that is known by its name is left out"
    CC="ccache gcc" PATH=$work/hostile:$PATH build --verbose
    expect 71 0 "CC with a cache before it"
    grep -q 'CC names it; skipped because it may return cached objects: ccache' out ||
        fail "what was left out is not said"
fi
echo "ok    a wrapper that serves old objects is refused, a known one left out"

# ---- a source that changes while it is compiled ----

cat >changing <<'SH'
#!/bin/bash
case " $* " in *" -print-search-dirs "* | *" -E "* | *orch.c*) exec gcc "$@" ;; esac
gcc "$@" || exit
[ "$(wc -l <"$LOG.changes")" -ge "$CHANGES" ] || {
    echo >>"$LOG.changes"
    echo "#define VALUE 8$(wc -l <"$LOG.changes")" >"$HEADER"
}
SH
chmod +x changing
export HEADER=$work/second/deep/two.h
echo '#define VALUE 80' >"$HEADER"
: >log.changes
CHANGES=1 CC=$work/changing build
expect 81 2 "a header that changed while it was compiled"
: >log.changes
echo '#define VALUE 80' >"$HEADER"
CHANGES=99 CC=$work/changing build --force
refused "change while it is compiled" "a header that changes all the time"
echo "ok    what changes while it is compiled is compiled again, or refused"

# ---- deaths ----

cat >slow <<'SH'
#!/bin/sh
case " $* " in *" -print-search-dirs "* | *" -E "*) exec gcc "$@" ;; esac
[ -z "${BEGUN-}" ] || : >"$BEGUN"
sleep ${DELAY:-0.4}
exec gcc "$@"
SH
chmod +x slow
kernels=
for i in 1 2 3 4 5 6; do
    sed "s/TEXT_OF(VALUE)/\"9$i\"/" k/a.c >"k/n$i.c"
    kernels="$kernels --kernel $i:aiv:k/n$i.c"
done
many() { # options
    # shellcheck disable=SC2086
    exec "$pto" build --orchestration orch.c $kernels -I second -o many.ptoc --jobs 2 "$@"
}
quiet() { # no process of the build is left
    for _ in $(seq 3000); do
        pgrep -f "$work/slow" >/dev/null || return 0
        sleep 0.1
    done
    fail "a compiler is left running"
}

(BEGUN=$work/begun DELAY=600 CC=$work/slow many >out 2>&1) &
children=$!
until [ -e begun ]; do # until a compiler is at work
    kill -0 "$children" || fail "the build has ended: $(cat out)"
    sleep 0.05
done
kill -INT "$children"
code=0
wait "$children" || code=$?
[ "$code" = 130 ] || fail "Ctrl-C: exit $code"
grep -q "interrupted; no file was written" out || fail "Ctrl-C says nothing"
[ ! -e many.ptoc ] || fail "Ctrl-C left an artefact"
[ -z "$(ls tmp)" ] || fail "Ctrl-C left $(ls tmp)"
quiet
for delay in 05 3 6 9; do
    (CC=$work/slow many >out 2>&1) &
    children=$!
    sleep "0.$delay"
    kill -9 "$children"
    wait "$children" 2>/dev/null || :
done
quiet
(CC=$work/slow many >out 2>&1) || fail "after kill -9"
grep -qa "the value is 96" many.ptoc || fail "after kill -9: not in the artefact"
if "$pto" help cache >/dev/null 2>&1; then
    "$pto" cache verify >out 2>&1 || fail "the store is damaged"
fi
echo "ok    Ctrl-C and kill -9 leave no process, no half file, no damaged store"

# ---- many at once ----

rm -rf store
for i in 1 2 3; do
    (DELAY=0.1 CC=$work/slow many -o "at-once-$i.ptoc" >"out-$i" 2>&1) &
    children="$children $!"
done
for p in $children; do wait "$p" 2>/dev/null || :; done
children=
cmp at-once-1.ptoc at-once-2.ptoc || fail "two builds at once differ"
cmp at-once-1.ptoc at-once-3.ptoc || fail "two builds at once differ"
echo "ok    builds of the same at once"

# ---- a store that cannot be written ----

# Root can write despite the mode, so it needs a read-only mount.
if unshare -rm true 2>/dev/null; then
    export pto
    build_in='"$pto" build --orchestration orch.c --kernel 0:aiv:k/a.c -I first -I second -o t.ptoc'
    echo '#define VALUE 90' >second/deep/two.h
    build
    rm -f t.ptoc
    unshare -rm sh -c "mount --bind store store && mount -o remount,bind,ro store && $build_in" \
        >out 2>&1 || fail "read-only store"
    code=0
    expect 90 0 "a read-only store is read"
    echo '#define VALUE 91' >second/deep/two.h
    unshare -rm sh -c "mount --bind store store && mount -o remount,bind,ro store && $build_in" \
        >out 2>&1 || fail "read-only store"
    expect 91 1 "a read-only store is not needed"
    grep -q "^pto build: .*store" out || fail "nothing says that the store is read-only"
    mkdir -p small
    unshare -rm sh -c "mount -t tmpfs -o size=64k none small && export PTO_STORE=small/store &&
        $build_in && $build_in" >out 2>&1 || fail "full disk"
    expect 91 2 "a store on a full disk"
    grep -q "^pto build: .*[Nn]o space" out || fail "nothing says that the disk is full"
    rm -f t.ptoc
    unshare -rm sh -c "mount -t tmpfs -o size=4k none small && export TMPDIR=\$PWD/small &&
        $build_in --force" >out 2>&1 && fail "a full temporary folder: no error"
    grep -qi "no space" out || fail "a full temporary folder is not named"
    [ ! -e t.ptoc ] || fail "a full temporary folder: an artefact"
    echo "ok    a read-only store and a full disk"
else
    echo "note  no mounts here: read-only store and full disk are left out"
fi

# ---- what only a compiler can follow ----

rm -rf store
sed 's/^const char marker/__asm__(".pushsection .rodata\\n.incbin \\"second\/blob\\"\\n.popsection");\n&/' \
    k/a.c >k/c.c
echo "the value is 100" >second/blob
every() { build --kernel 1:aiv:k/c.c "$@"; }
every
expect 100 3 "a file that the assembler includes"
echo "the value is 101" >second/blob
every --explain
expect 101 1 "it has changed"
grep -q 'k/c.c:.*it is compiled every time' out || fail "no reason for compiling every time"
echo 'int unused_one(void) { int unused; return 0; }' >>k/a.c
build --verbose
grep -q "unused variable" out || fail "no warning with --verbose"
build --verbose
expect 91 0 "warnings"
grep -q "unused variable" out || fail "no warning with --verbose from the store"
build
! grep -q "unused variable" out || fail "a warning without --verbose"
echo "ok    assembler's includes are compiled every time; warnings are kept"

# ---- nothing changed ----

hundred=
mkdir h
for i in $(seq 0 99); do
    sed "s/the value/kernel $i: the value/" k/a.c >"h/k$i.c"
    hundred="$hundred --kernel $i:aiv:h/k$i.c"
done
: >log
# shellcheck disable=SC2086
time_hundred() {
    CC=$work/logged "$pto" build --orchestration orch.c $hundred -I second -o h.ptoc >out 2>&1 ||
        fail "100 kernels"
}
time_hundred
first=$(started)
[ "$first" = 101 ] || fail "100 kernels and an orchestration: $first compilers started"
# Time on the CPU is judged, as others may use the machine; the time that passed is shown.
least=1000000
shortest=1000000
TIMEFORMAT='%3U %3S'
for _ in 1 2 3 4 5; do
    cpu=$({ time time_hundred; } 2>&1)
    cpu=$(awk '{ printf "%d", ($1 + $2) * 1000 }' <<<"$cpu")
    grep -q ": 0 compiled, 101 from the store" out || fail "100 kernels again"
    ms=$(sed -n 's/.* \([0-9]*\) ms$/\1/p' out)
    [ "$ms" -ge "$shortest" ] || shortest=$ms
    [ "$cpu" -ge "$least" ] || least=$cpu
done
[ "$(started)" = "$first" ] || fail "a compiler was started although nothing changed"
[ "$least" -lt "${LIMIT_MS:-50}" ] || fail "100 kernels take $least ms of a CPU when nothing changed"
echo "ok    100 kernels without a change: $shortest ms, $least ms of a CPU, no compiler started"
