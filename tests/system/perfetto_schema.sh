#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Timelines in Perfetto's binary format, read by protoc with Perfetto's own schema: the file perfetto_trace.proto that
# PERFETTO_PROTO names. Exits with 77 without it or without protoc.
set -eu
cd "$(dirname "$0")/../.."
pto=$(realpath "${PTO:-build/bin/pto}")
. tests/system/expect.sh
[ -n "${PERFETTO_PROTO:-}" ] || { echo "PERFETTO_PROTO names no perfetto_trace.proto" && exit 77; }
command -v protoc >/dev/null || { echo "there is no protoc: install protobuf-compiler" && exit 77; }
folder=$(dirname "$PERFETTO_PROTO")
files=0

for words in "matmul --mode host" "pipeline --mode stream --virtual" "paged_attention --mode stream" "gang --mode stream"; do
    # shellcheck disable=SC2086 # a scene and options
    "$pto" run $words --platform a2a3sim --trace "$work/$files.pftrace" >/dev/null
    file=$(echo "$work/$files"-*.pftrace)
    protoc --proto_path="$folder" --decode=perfetto.protos.Trace "$PERFETTO_PROTO" <"$file" >"$work/text" 2>"$work/out" ||
        fail "$words: $(cat "$work/out")"
    # protoc writes fields that the schema lacks by their number
    ! grep -E '^ *[0-9]+(:| \{)' "$work/text" || fail "$words: the schema lacks a field"
    [ "$(grep -c 'type: TYPE_SLICE_BEGIN' "$work/text")" -gt 10 ] || fail "$words: there are no slices"
    [ "$(grep -c 'type: TYPE_SLICE_BEGIN' "$work/text")" = "$(grep -c 'type: TYPE_SLICE_END' "$work/text")" ] ||
        fail "$words: a slice has no end"
    files=$((files + 1))
done
echo "ok    $files files"
