# SPDX-License-Identifier: Apache-2.0
# The explorer's tests of itself; tools/weaken compiles the scenarios.

$(B)/explore/test_explore: tests/explore/test_explore.c tests/explore/explore.c \
		$(wildcard tests/explore/*.h tests/explore/include/base/*.h) Makefile
	@mkdir -p $(@D)
	$(call quiet,LINK)$(CC) -std=gnu11 -O2 -g -Wall -Wextra $(WERROR) -Itests/explore/include \
		-Itests/explore -Isrc -o $@ tests/explore/explore.c tests/explore/test_explore.c
