# SPDX-License-Identifier: Apache-2.0
# One suite for the contract of a backend, over all that are registered.

CONFORMANCE_SRC = $(sort $(wildcard tests/conformance/*.c))

$(B)/conformance/chip: $(CONFORMANCE_SRC) tests/conformance/suite.h $(UNIT_LIB) Makefile | $(CHIP)
	@mkdir -p $(@D)
	$(call quiet,LINK)$(CC) $(CPPFLAGS_ALL) -Isrc -I. $(CFLAGS_ALL) $(LDFLAGS_ALL) -o $@ \
		$(CONFORMANCE_SRC) $(UNIT_LIB) -lcmocka $(LIB_LIBS) $(LDLIBS_ALL)

conformance: $(B)/conformance/chip ## run the suite of the chip's contract over every backend
	$(B)/conformance/chip

.PHONY: conformance
