# SPDX-License-Identifier: Apache-2.0
"""Says what there is in place of simpler's core_swimlane."""

from ._files import replaced

if __name__ == "__main__":
    replaced("core_swimlane", "it traces the pipelines inside of a core, which simulated chips do not have; `pto profile` compares kernels")
