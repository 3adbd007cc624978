# SPDX-License-Identifier: Apache-2.0
"""Counts the threads of this process, for tests of leaks."""

import os

EXITING = 4  # PF_EXITING of the kernel's include/linux/sched.h


def count_threads():
    """Without those that were joined: /proc lists them for a moment longer, and the kernel has marked them before."""
    count = 0
    for task in os.listdir("/proc/self/task"):
        try:
            with open(f"/proc/self/task/{task}/stat", encoding="utf-8", errors="replace") as file:
                flags = int(file.read().rpartition(")")[2].split()[6])
        except (FileNotFoundError, ProcessLookupError):
            continue
        count += flags & EXITING == 0
    return count
