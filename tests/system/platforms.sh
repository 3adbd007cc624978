#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Prints the platforms that can be opened, one per line, for tests that run on every platform.
set -eu
cd "$(dirname "$0")/../.."
"${PTO:-build/bin/pto}" info --json | python3 -c '
import json, sys
for platform in json.load(sys.stdin)["platforms"]:
    if platform["missing"] is None:
        print(platform["name"])'
