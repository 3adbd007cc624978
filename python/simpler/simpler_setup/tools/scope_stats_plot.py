# SPDX-License-Identifier: Apache-2.0
"""Says what there is in place of simpler's scope_stats_plot."""

from ._files import replaced

if __name__ == "__main__":
    replaced("scope_stats_plot", "scope_stats/scope_stats.jsonl has a line for the begin and the end of each scope, which any plotting tool reads")
