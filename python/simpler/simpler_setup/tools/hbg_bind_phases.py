# SPDX-License-Identifier: Apache-2.0
"""Names the replacement of simpler's hbg_bind_phases."""

from ._files import replaced

if __name__ == "__main__":
    replaced("hbg_bind_phases", "use strace_timing: its line chip.run.bind is the time of all phases, and logs have no lines of single ones")
