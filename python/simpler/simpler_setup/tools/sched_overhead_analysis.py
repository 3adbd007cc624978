# SPDX-License-Identifier: Apache-2.0
"""Names the replacement of simpler's sched_overhead_analysis."""

from ._files import replaced

if __name__ == "__main__":
    replaced("sched_overhead_analysis", "use `pto profile chip_swimlane_records.json`, which shows why cores were idle")
