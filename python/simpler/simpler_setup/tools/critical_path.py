# SPDX-License-Identifier: Apache-2.0
"""Names the replacement of simpler's critical_path."""

from ._files import replaced

if __name__ == "__main__":
    replaced("critical_path", "use `pto profile chip_swimlane_records.json`, which shows the critical path")
