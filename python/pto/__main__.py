# SPDX-License-Identifier: Apache-2.0
"""The command `pto`: python -m pto."""

import os
import sys


def main():
    from pto._tree import command

    os.environ.setdefault("PTO_PYTHON", sys.executable)  # for `pto test` of files in Python
    os.execv(command(), ["pto", *sys.argv[1:]])


if __name__ == "__main__":
    main()
