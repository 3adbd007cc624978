#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# `pto key`: the files that it makes, fingerprints, and which files it refuses.
set -eu
cd "$(dirname "$0")/../.."
pto=$(realpath "${PTO:-build/bin/pto}")
source tests/system/expect.sh

umask 000
expect 0 "$work/k" key --new "$work/k"
cp "$work/out" "$work/made"
[ "$(stat -c %a "$work/k")" = 600 ] || fail "mode $(stat -c %a "$work/k")"
grep -qxE '[0-9a-f]{64}' "$work/k" && [ "$(wc -c <"$work/k")" = 65 ] || fail "the file is not a key"
expect 0 "$work/k" key "$work/k"
cmp "$work/out" "$work/made" || fail "another fingerprint"
print=$(grep -oE '^[0-9a-f]{16}' "$work/out") || fail "no fingerprint: $(cat "$work/out")"
! grep -q "$print" "$work/k" || fail "the fingerprint is a part of the key"
cp "$work/k" "$work/copy"
chmod 400 "$work/copy"
expect 0 "$print" key "$work/copy"
expect 0 "" key --new "$work/other"
! grep -q "$print" "$work/out" || fail "two keys have one fingerprint"
expect 1 "File exists" key --new "$work/k"
expect 0 "$print" key "$work/k"

for mode in 640 604 700; do
    chmod $mode "$work/copy"
    expect 1 "$work/copy" key "$work/copy"
done
expect 1 "nowhere" key "$work/nowhere"
expect 1 "$work" key "$work"
tr -d '\n' <"$work/k" >"$work/short" && chmod 600 "$work/short"
expect 1 "$work/short" key "$work/short"
! grep -q "$(cut -c1-16 "$work/k")" "$work/out" || fail "the error shows a part of the key"
expect 2 "name a key file, or a new one" key
expect 2 "name a key file, or a new one" key --new "$work/a" "$work/b"
