# SPDX-License-Identifier: Apache-2.0
"""Names the replacement of simpler's scene_test_compile."""

from ._files import replaced

if __name__ == "__main__":
    replaced("scene_test_compile", "the store keeps what scenes compile, so run them once with --skip-golden")
