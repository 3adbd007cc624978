# SPDX-License-Identifier: Apache-2.0
"""A SUB worker that is a Python interpreter. Internal: workers start it; do not run it directly."""

import atexit
import os
import signal
import sys


def main():
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the worker's process
    from pto import _function, _pto

    code = _pto._serve(_function.load, _function.describe)
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            pass
    os._exit(code)  # the worker waits for the exit, and large libraries take seconds to unload


if __name__ == "__main__":
    main()
