#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Limits of the process (`ulimit`): opening an isolated device, a worker or ranks fails with a sentence that names
# the limit, and `pto doctor` names it, too. The part is file, descriptor or address. PTO names the command.
set -eu
cd "$(dirname "$0")/../.."
pto=$(realpath "${PTO:-build/bin/pto}")
. tests/system/expect.sh

on=(--platform a5sim --mode host)
for scene in vector reduce ring; do # compiled, and kept: compilers have limits, too
    "$pto" run $scene "${on[@]}" >"$work/out" 2>&1 || fail "$scene: $(cat "$work/out")"
done

case ${1:-all} in
file | all)
    too_low="the limit of file sizes is too low (1.0 MiB); fix: ulimit -f unlimited"
    (
        ulimit -f 1024
        expect_all 1 "an isolated device needs a file of 32 GiB" "$too_low" -- run vector --isolated "${on[@]}"
        expect_all 1 "a worker needs a file of 32768 MiB" "$too_low" -- run reduce "${on[@]}"
        expect_all 1 "there is no memory for a window" "$too_low" -- run ring "${on[@]}"
        expect_all 1 "FAIL  file sizes " "(ulimit -f)" "fix: ulimit -f unlimited" -- doctor
    )
    (
        ulimit -f 24 # not even code, nor what ranks share first
        expect_all 1 "the limit of file sizes is too low (24.0 KiB)" -- run vector "${on[@]}"
        expect_all 1 "no memory can be shared: the limit of file sizes is too low (24.0 KiB)" -- run ring "${on[@]}"
        expect 1 "FAIL  file sizes " doctor
    )
    (
        ulimit -f 4 # the command itself writes more
        expect 1 "cannot be loaded: File too large" run vector "${on[@]}"
        expect 1 "cannot be loaded: File too large" run reduce "${on[@]}"
    )
    echo "ok    ulimit -f"
    ;;&
descriptor | all)
    met="the limit of open descriptors is reached (16); fix: ulimit -n"
    (
        ulimit -n 16
        expect 1 "$met" run vector --isolated "${on[@]}"
        expect 1 "$met" run reduce "${on[@]}"
        expect 1 "ulimit -n" run ring "${on[@]}"
        expect 0 "warn  descriptors     limited to 16 (ulimit -n)" doctor
    )
    echo "ok    ulimit -n"
    ;;&
address | all)
    too_low="the limit of address space is too low (7.6 GiB); fix: ulimit -v unlimited"
    (
        ulimit -v 8000000
        expect 1 "$too_low" doctor
        expect 1 "$too_low" run vector "${on[@]}"
        expect 1 "$too_low" run vector --isolated "${on[@]}"
        expect 1 "$too_low" run reduce "${on[@]}"
    )
    echo "ok    ulimit -v"
    ;;
esac
