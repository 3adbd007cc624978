#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# `pto cache` on stores that are filled, damaged, written to by others, read-only and full.
set -eu
cd "$(dirname "$0")/../.."
pto=$PWD/build/bin/pto
work=$(mktemp -d)
writers=
trap 'kill -9 $writers 2>/dev/null || true; rm -rf "$work"' EXIT
unset PTO_STORE PTO_STORE_MAX

fail() {
    echo "FAIL  $*"
    exit 1
}

# Runs pto cache, expects an exit code and a phrase in its output.
expect() {
    local code=$1 phrase=$2 got=0
    shift 2
    "$pto" cache "$@" >"$work/out" 2>&1 </dev/null || got=$?
    [ "$got" = "$code" ] || fail "pto cache $*: exit $got instead of $code: $(cat "$work/out")"
    grep -qF -- "$phrase" "$work/out" || fail "pto cache $*: no '$phrase' in: $(cat "$work/out")"
}

# Checks that the JSON of pto cache fulfils a condition on `d`.
json() { # condition arguments...
    local condition=$1
    shift
    "$pto" cache "$@" --json >"$work/json"
    python3 -c 'import json, sys; d = json.load(open(sys.argv[1])); sys.exit(not eval(sys.argv[2]))' \
        "$work/json" "$condition" || fail "not so: $condition in $(cat "$work/json")"
}

make -s --no-print-directory all build/obj/units.a
gcc -Iinclude -Isrc -o "$work/put" tests/system/cache_put.c build/obj/units.a -lnettle -lpthread
put=$work/put

# ---- words ----

expect 2 "unknown action 'empty'; choose show, verify or clear" empty
expect 2 "unexpected argument 'more'" show more
expect 2 "option '--store' needs a value" --store
expect 2 "option '--json' takes no value" --json=1
expect 1 "cannot be the folder of a store" --store ""
PTO_STORE_MAX=much expect 1 "PTO_STORE_MAX is 'much'; it is a number of bytes" show
PTO_STORE_MAX=3M json 'd["max_bytes"] == 3 << 20'
HOME=$work expect 0 "$work/.cache/pto  (does not exist yet)"
XDG_CACHE_HOME=$work/x expect 0 "$work/x/pto  (does not exist yet)"
PTO_STORE=$work/y expect 0 "$work/y  (does not exist yet)" verify
env -u HOME "$pto" cache 2>"$work/out" && fail "a store without a folder"
grep -q 'set PTO_STORE or HOME' "$work/out" || fail "$(cat "$work/out")"
[ ! -e "$work/x" ] && [ ! -e "$work/y" ] || fail "a look makes folders"
echo "ok    words"

# ---- counts, damage, clearing ----

store=$work/store
"$put" "$store" 40 5000 >"$work/out"
grep -qx '0 failed' "$work/out" || fail "put: $(cat "$work/out")"
json 'd["present"] and d["writable"] and d["entries"] == 40 and 200000 < d["entry_bytes"] < 210000' \
    --store "$store"
json 'd["max_bytes"] == 2 << 30 and d["damaged"] == d["removed"] == d["leftovers"] == 0' \
    verify --store "$store"
find "$store/entries" -type f | sort >"$work/files"
printf x >>"$(sed -n 1p "$work/files")"
truncate -s 100 "$(sed -n 2p "$work/files")"
: >"$(sed -n 3p "$work/files")"
printf '\001' | dd of="$(sed -n 4p "$work/files")" bs=1 seek=3000 conv=notrunc 2>"$work/err" ||
    fail "dd: $(cat "$work/err")"
expect 1 "4 damaged, 4 files removed" verify --store "$store"
for i in 1 2 3 4; do
    grep -qF "damaged: $(sed -n ${i}p "$work/files")" "$work/out" || fail "damage $i is not named"
    [ ! -e "$(sed -n ${i}p "$work/files")" ] || fail "damage $i is still there"
done
json 'd["entries"] == 36 and d["damaged"] == 0' verify --store "$store"
mkdir "$store/mine"
echo keep >"$store/entries/mine.txt"
expect 0 "36 files removed" clear --store "$store"
json 'd["entries"] == 0 and d["entry_bytes"] == 0' --store "$store"
[ -d "$store/mine" ] && [ -s "$store/entries/mine.txt" ] || fail "clear removes what is not its own"
expect 0 "0 files removed" clear --store "$store"
echo "ok    counts, damage, clearing"

# ---- writers at work, and killed ----

for i in 1 2; do
    "$put" "$work/busy" 0 200000 &
    writers="$writers $!"
done
end=$((SECONDS + 2))
while [ $SECONDS -lt $end ]; do
    json 'd["damaged"] == 0' verify --store "$work/busy"
    "$pto" cache clear --store "$work/busy" >/dev/null || fail "clear beside writers"
done
# Waits for a complete entry: temporary files are not entries.
until [ -n "$(find "$work/busy/entries" -type f ! -name '*.part' 2>/dev/null)" ]; do
    kill -0 $writers || fail "a writer has ended"
done
kill -9 $writers
wait $writers 2>/dev/null || true
writers=
json 'd["damaged"] == 0 and d["entries"] > 0' verify --store "$work/busy"
echo "ok    writers at work, and killed"

# ---- disks of their own ----

cat >"$work/disks" <<'SH'
set -eu
pto=$1 put=$2 work=$3
mkdir -p "$work/small"
mount -t tmpfs -o size=400k none "$work/small"
"$put" "$work/small/s" 64 20000 >"$work/out" || { echo "a full disk is not noted"; exit 1; }
grep -q 'no room in' "$work/out" || { echo "full: $(cat "$work/out")"; exit 1; }
"$pto" cache verify --store "$work/small/s" >"$work/out" || { echo "damage: $(cat "$work/out")"; exit 1; }
grep -q leftovers "$work/out" && { echo "leftovers: $(cat "$work/out")"; exit 1; }
mount -o remount,ro "$work/small"
"$put" "$work/small/s" 3 20000 >"$work/out" || { echo "a read-only disk is not noted"; exit 1; }
grep -q 'cannot be written: Read-only file system' "$work/out" || { echo "ro: $(cat "$work/out")"; exit 1; }
"$pto" cache --store "$work/small/s" | grep -q 'read-only; no objects are added' || { echo "ro: not shown"; exit 1; }
"$pto" cache clear --store "$work/small/s" 2>"$work/out" && { echo "cleared a read-only store"; exit 1; }
grep -q 'could be removed: Read-only' "$work/out" || { echo "ro: $(cat "$work/out")"; exit 1; }
SH
if unshare -m true 2>/dev/null; then
    unshare -m bash "$work/disks" "$pto" "$put" "$work" || fail "on disks of their own"
    echo "ok    a full disk, a read-only disk"
elif unshare -rm true 2>/dev/null; then
    unshare -rm bash "$work/disks" "$pto" "$put" "$work" || fail "on disks of their own"
    echo "ok    a full disk, a read-only disk"
else
    echo "skip  mounts are not permitted here: no full and no read-only disk"
fi
