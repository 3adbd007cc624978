#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Another user of the machine, who can write to shared folders, plants headers, links and entries of
# the store. None of them gets into what this user builds, and none of this user's files is
# overwritten.
set -eu
cd "$(dirname "$0")/../.."
pto=$PWD/build/bin/pto
export TMPDIR=/tmp # where the other user may look and write
source tests/system/expect.sh
unset PTO_STORE PTO_STORE_MAX PTO_ISA_ROOT
umask 022

if [ "$(id -u)" != 0 ] || ! command -v setpriv >/dev/null; then
    echo "skip  only root can be a second user as well (setpriv)"
    exit 77
fi
other() { setpriv --reuid=65534 --regid=65534 --clear-groups "$@"; }
if ! other test -x "$pto"; then
    echo "skip  the second user cannot run $pto: a folder above it is closed"
    exit 77
fi

# The kernel may protect links in sticky folders; the second folder is not sticky.
chmod 711 "$work"
mkdir -m 1777 "$work/sticky"
mkdir -m 0777 "$work/open"
mkdir "$work/mine"
cd "$work/mine"
"$pto" new scene >/dev/null
export PTO_STORE=$work/mine/store

# Runs pto, expects an exit code.
want() { # code arguments...
    local code=$1 got=0
    shift
    "$pto" "$@" >out 2>&1 </dev/null || got=$?
    [ "$got" = "$code" ] || fail "pto $*: exit $got instead of $code: $(cat out)"
}

# ---- output files ----

for place in sticky open; do
    dir=$work/$place
    echo precious >victim
    for name in a.ptoc y.npy r.xml t-small-a2a3sim-stream.json; do
        other ln -s "$PWD/victim" "$dir/$name"
    done
    want 1 build scene -o "$dir/a.ptoc"
    grep -q "belongs to another user" out || fail "-o: $(cat out)"
    want 1 run scene --case small --platform a2a3sim --mode stream --out y="$dir/y.npy"
    want 1 run scene --case small --platform a2a3sim --mode stream --trace "$dir/t"
    want 1 test scene --platform a2a3sim --mode stream --junit "$dir/r.xml"
    [ "$(cat victim)" = precious ] || fail "$place: a planted link was followed"
    # A link of this user is followed, and stays.
    ln -s a-real.ptoc "$dir/own.ptoc"
    want 0 build scene -o "$dir/own.ptoc"
    [ -L "$dir/own.ptoc" ] && [ -s "$dir/a-real.ptoc" ] || fail "$place: a link of one's own"
    # The name of the temporary file cannot be predicted, even if the process id can.
    export -f other
    bash -c 'for n in "" -0 -1 -2; do other ln -s "$3" "$2/c.ptoc.$$$n.part"; done
        exec "$1" build scene -o "$2/c.ptoc"' - "$pto" "$dir" "$PWD/victim" >out 2>&1 || fail "$(cat out)"
    [ "$(cat victim)" = precious ] || fail "$place: a planted part was followed"
    rm -f "$dir"/*
done
# A file with the same bytes that belongs to the other user is replaced, so that the other user
# cannot change it later.
want 0 build scene -o "$work/open/d.ptoc"
chown 65534 "$work/open/d.ptoc"
want 0 build scene -o "$work/open/d.ptoc"
[ "$(stat -c %u "$work/open/d.ptoc")" = 0 ] || fail "an artefact of another user was left in place"
want 0 build scene -o /dev/stdout
ln -s "$work/no/where" dangling
want 1 build scene -o dangling
echo "ok    output files do not follow links of others"

# ---- the store ----

want 0 build scene -o a.ptoc
grep -q "0 compiled" out || fail "the store is not used: $(cat out)"
cp a.ptoc good.ptoc
entry=$(find store/entries -type f -size +3k | head -n 1)
[ "$(stat -c %a "$entry")" = 600 ] && [ "$(stat -c %a store)" = 700 ] || fail "the store is not private"

# Entries of the other user, made by that user's store, with the right digest.
mkdir -m 0777 "$work/theirs"
cp -r scene "$work/theirs/scene"
sed -i 's/alpha \* x\[i\]/666 * x[i]/' "$work"/theirs/scene/kernels/*.c
chown -R 65534 "$work/theirs"
(cd "$work/theirs" && other env HOME="$work/theirs" PTO_STORE="$work/theirs/store" "$pto" build scene -o bad.ptoc) \
    >out 2>&1 || fail "the other user's build: $(cat out)"
PTO_STORE=$work/theirs/store want 0 build scene -o b.ptoc
grep -q "the store is not used: $work/theirs/store belongs to another user" out || fail "$(cat out)"
grep -q "2 compiled" out || fail "another user's store was used: $(cat out)"
cmp good.ptoc b.ptoc || fail "another user's store changes what is built"

# An entry of the other user with the key of this user's store.
chmod -R a+rX "$work/theirs/store"
planted=$(find "$work/theirs/store/entries" -type f -size +3k | head -n 1)
for entry in $(find store/entries -type f); do cp "$planted" "$entry"; done
want 0 build scene -o b.ptoc
grep -q "was damaged" out || fail "planted entries: $(cat out)"
cmp good.ptoc b.ptoc || fail "a planted entry was used"

# A store to which all users can write.
chmod 777 store
want 0 build scene -o b.ptoc
grep -q 'others can write to .*chmod -R go-w' out || fail "an open store: $(cat out)"
want 1 cache verify
want 0 cache show
grep -q "others can write" out || fail "pto cache: $(cat out)"
want 0 doctor
grep -q "^warn *store .*others can write" out || fail "pto doctor: $(cat out)"
chmod -R go-w store
want 0 build scene -o b.ptoc
grep -q "0 compiled" out || fail "the advice did not help: $(cat out)"
# The other user has created the store's folder first.
other mkdir "$work/sticky/first"
PTO_STORE=$work/sticky/first want 0 build scene -o b.ptoc
grep -q "belongs to another user" out || fail "a planted store: $(cat out)"
[ -z "$(ls "$work/sticky/first")" ] || fail "something was put into a planted store"
echo "ok    the store is its owner's"

# ---- the tile library's overlay ----

if ! command -v g++ >/dev/null || [ "$(echo __GNUC__ | g++ -E -P -)" -ge 13 ]; then
    echo "skip  this compiler reads the tile library as it is"
    exit 0
fi
export CXX=g++
mkdir -p isa/include/pto/cpu isa/include/pto/common
echo '#include "pto/common/parts.hpp"' >isa/include/pto/pto-inst.hpp
printf '#include "pto/cpu/TReduceIdx.hpp"\n#define VALUE "THE RIGHT HEADER"\n' >isa/include/pto/common/parts.hpp
cat >isa/include/pto/cpu/TReduceIdx.hpp <<'C'
template <typename DType> struct Order {
    static bool apply(DType a) { static_assert(false, "none"); return a; }
};
C
cat >tile.cpp <<'C'
#include <pto/pto-inst.hpp>
extern "C" const char marker[] = VALUE;
extern "C" void kernel_entry(long *args) { args[0] = (long)marker; }
C
printf '#include <pto/pto.h>\nvoid orchestrate(struct pto_orch *o, const struct pto_entry *e) { (void)o; (void)e; }\n' >orch.c
tile() { want 0 build --orchestration orch.c --kernel 0:aiv:tile.cpp --isa isa -o tile.ptoc; }
is_right() { grep -q "THE RIGHT HEADER" tile.ptoc && ! grep -q "A PLANTED HEADER" tile.ptoc; }
tile
dir=$(dirname "$(find store/overlay -type d -name pto)")
name=$(basename "$dir")
# A predictable folder in TMPDIR, because the store cannot be used.
mkdir -m 1777 shared
cat >plant <<'SH'
mkdir -p "$1/pto/cpu" "$1/pto/common"
cp "$2" "$1/pto/cpu/TReduceIdx.hpp"
printf '#include "pto/cpu/TReduceIdx.hpp"\n#define VALUE "A PLANTED HEADER"\n' >"$1/pto/common/parts.hpp"
SH
chmod a+rx "$PWD" plant
cp "$dir/pto/cpu/TReduceIdx.hpp" patched.hpp
chmod a+r patched.hpp
other bash "$PWD/plant" "$PWD/shared/pto-overlay-$(id -u)/$name" "$PWD/patched.hpp"
TMPDIR=$PWD/shared PTO_STORE=/proc/none tile
is_right || fail "a planted header was compiled: TMPDIR"
[ "$(ls shared)" = "pto-overlay-$(id -u)" ] || fail "the build left something in TMPDIR: $(ls shared)"
# A store to which all users could write for a while, and which was closed as the message advises.
bash plant "$dir" patched.hpp
rm -f tile.ptoc
tile
is_right || fail "a planted header was compiled: the store's overlay"
chmod 777 store/overlay
rm -f tile.ptoc
tile
is_right || fail "an open overlay"
echo "ok    no header of others gets into a build"
