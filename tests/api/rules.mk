# SPDX-License-Identifier: Apache-2.0
# test_hostlib loads the libraries that the reference's worker loads.

$(B)/test/test_hostlib: | $(COMPAT_LIBS)
