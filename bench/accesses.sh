#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# How much slower --accesses makes each example: the shortest of 31 runs with one thread, in microseconds, with guards,
# as a table. Compilation and the comparison of results do not count. PTO names the command.
set -eu
cd "$(dirname "$0")/.."
pto=$(realpath "${PTO:-build/bin/pto}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export XDG_CACHE_HOME=${XDG_CACHE_HOME:-$work/cache}

shortest() { # example, mode, options
    "$pto" run "$1" --platform a2a3sim --mode "$2" --threads 1 --rounds 31 "${@:3}" >"$work/out" 2>&1 ||
        { cat "$work/out" >&2; exit 1; }
    awk '$1 ~ /^\[[0-9]+\]$/ { $1 = ""; $0 = $0 } $1 == "time" && $2 > most { most = $2 } END { print most }' "$work/out"
}

echo "| example | without | with \`--accesses\` | times slower |"
echo '| --- | ---: | ---: | ---: |'
for example in $("$pto" run --list | awk '{ print $1 }'); do
    mode=host
    "$pto" test "examples/$example" --list --platform a2a3sim --mode host 2>/dev/null | grep -q . || mode=stream
    plain=$(shortest "$example" $mode)
    checked=$(shortest "$example" $mode --accesses)
    awk -v e="$example" -v p="$plain" -v c="$checked" \
        'BEGIN { printf "| %s | %.0f | %.0f | %.1f |\n", e, p, c, c / p }'
done
