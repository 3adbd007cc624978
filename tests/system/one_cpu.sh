#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Runs a command on one CPU only, of those that this process may use the first, or the one after as
# many as CLAIMS_SLOT says, so that two of these at once do not get the same one:
#
#     tests/system/one_cpu.sh build/bin/pto run
#
# Exit code: the command's; 2 without one.
set -u

if [ $# = 0 ]; then
    echo "usage: one_cpu.sh COMMAND [ARGUMENT...]" >&2
    exit 2
fi
cpus=($(grep -o '[0-9]*\(-[0-9]*\)\?' <<<"$(taskset -cp $$ | sed 's/.*: //')" |
    while IFS=- read -r first last; do seq "$first" "${last:-$first}"; done)) || exit 2
exec taskset -c "${cpus[${CLAIMS_SLOT:-0} % ${#cpus[@]}]}" "$@"
