#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Tests on real cards. PTO_HARDWARE names a file that says which may be used: a line for each with the platform and its number
# (`a2a3 0`), and lines that begin with #. Without it, or without enough of them, tests are skipped by name (exit code 77), and do not count as passed.
set -eu
cd "$(dirname "$0")/../.."
pto=$(realpath build/bin/pto)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
platforms=() cards=() skipped=0 ran=0

fail() {
    echo "FAIL  $*"
    exit 1
}
skip() {
    echo "  skipped: $*"
    skipped=1
}

# ---- which cards ----

read_cards() {
    local platform card number=0
    while read -r platform card _; do
        number=$((number + 1))
        case $platform in '' | \#*) continue ;; esac
        [ "$platform" = a2a3 ] || [ "$platform" = a5 ] || fail "$PTO_HARDWARE, line $number: '$platform' is no platform; a2a3 and a5 are"
        case $card in '' | *[!0-9]*) fail "$PTO_HARDWARE, line $number: '$card' is no number of a card" ;; esac
        platforms+=("$platform")
        cards+=("$card")
    done <"$PTO_HARDWARE"
}
[ -z "${PTO_HARDWARE:-}" ] || read_cards

# ---- tests ----

run() { # what it is, command...
    local name=$1
    shift
    "$@" >"$work/out" 2>&1 </dev/null || fail "$name: $(cat "$work/out")"
    echo "  ok     $name"
    ran=1
}

for i in "${!cards[@]}"; do
    run "selfcheck on ${platforms[$i]}, card ${cards[$i]}" "$pto" selfcheck --platform "${platforms[$i]}" --card "${cards[$i]}" --alone --runs 200 -o "$work/self.txt"
done
if [ ${#cards[@]} -ge 1 ]; then # the driver shows the card as its number 0
    export ASCEND_RT_VISIBLE_DEVICES=${cards[0]}
    for scene in vector softmax pipeline; do
        run "$scene on ${platforms[0]}, card ${cards[0]}, both modes" "$pto" run "$scene" --platform "${platforms[0]}"
    done
else
    skip "selfcheck of a card, PTO_HARDWARE names none"
    skip "scenes on a card, PTO_HARDWARE names none"
fi
if [ ${#cards[@]} -ge 2 ] && [ "${platforms[0]}" = "${platforms[1]}" ]; then
    export ASCEND_RT_VISIBLE_DEVICES=${cards[0]},${cards[1]}
    run "ranks on two cards" "$pto" run ring --case two --platform "${platforms[0]}"
else
    skip "ranks on two cards, PTO_HARDWARE names no two of one platform"
fi
[ $ran = 1 ] || [ $skipped = 0 ] || exit 77
