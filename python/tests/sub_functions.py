# SPDX-License-Identifier: Apache-2.0
"""Functions that SUB workers of the tests import: this module needs nothing that is slow to load."""


def total(p, q, f):
    for i, (x, y) in enumerate(zip(p.tolist(), q.tolist())):
        memoryview(f)[i] = x + y


def nothing(*args):
    pass
