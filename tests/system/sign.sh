#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# `pto sign`, and --require-signature of the commands that load artefacts.
set -eu
cd "$(dirname "$0")/../.."
pto=$PWD/build/bin/pto
source tests/system/expect.sh
cd "$work"
export PTO_STORE=$work/store

printf '#include <pto/orch.h>\nvoid orchestrate(struct pto_orch *o, const struct pto_entry *e) { (void)o; (void)e; }\n' >orch.c
expect 0 "compiled" build --orchestration orch.c -o a.ptoc
expect 2 "name an artefact and its --key" sign a.ptoc
expect 2 "name an artefact and its --key" sign --new-key me --key me.key
umask 0
expect 0 "made the secret key me.key" sign --new-key me
umask 022
[ "$(stat -c %a me.key)" = 600 ] || fail "the secret key has mode $(stat -c %a me.key)"
expect 1 "me.pub already exists" sign --new-key me
expect 0 "key other.key" sign --new-key other
expect 1 "a.ptoc is not signed" inspect a.ptoc --require-signature me.pub
expect 1 "a.ptoc is not signed" run a.ptoc --require-signature me.pub
expect 0 "signed by      nobody" inspect a.ptoc
cp a.ptoc b.ptoc
expect 0 "signed b.ptoc" sign b.ptoc --key me.key
expect 0 "signed c.ptoc" sign a.ptoc --key me.key -o c.ptoc
cmp b.ptoc c.ptoc || fail "two signatures of the same differ"
digits=$(sed 's/pto-public-key //' me.pub)
expect 0 "signed by      $digits" inspect b.ptoc --require-signature me.pub
expect 0 "\"signed_by\": [" inspect b.ptoc --require-signature "$digits" --json
expect 0 "result   ok" run b.ptoc --require-signature me.pub
expect 1 "is signed by $digits, which is not trusted here" run b.ptoc --require-signature other.pub
cat other.pub me.pub >both.pub
expect 0 "result   ok" run b.ptoc --require-signature both.pub --isolated
printf x | dd of=c.ptoc bs=1 seek=$(($(stat -c %s c.ptoc) - 1)) conv=notrunc status=none
expect 1 "signature 1 of it is invalid" run c.ptoc
expect 1 "expected 'pto-public-key ' and 64" inspect b.ptoc --require-signature me.key
expect 1 "cannot be read" inspect b.ptoc --require-signature none.pub
expect 2 "--require-signature is for artefacts" run vector --require-signature me.pub
chmod 600 orch.c; expect 1 "expected 'pto-secret-key ' and 64" sign b.ptoc --key orch.c
chmod 644 me.key
expect 1 "other users can read" sign b.ptoc --key me.key
chmod 600 me.key
expect 1 "it is neither an artefact" sign orch.c --key me.key
echo "ok    signatures"
