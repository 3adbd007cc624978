# SPDX-License-Identifier: Apache-2.0
# A conformance suite for each contract, run over all registered backends: of chips, and of
# communication.

CONFORMANCE_SRC = $(sort $(wildcard tests/conformance/*.c))

$(B)/conformance/chip: $(CONFORMANCE_SRC) tests/conformance/suite.h tests/fixture/counts_test.h $(UNIT_LIB) Makefile | $(CHIP)
	@mkdir -p $(@D)
	$(call quiet,LINK)$(CC) $(CPPFLAGS_ALL) -Isrc -I. $(CFLAGS_ALL) $(LDFLAGS_ALL) -o $@ \
		$(CONFORMANCE_SRC) $(UNIT_LIB) -lcmocka $(LIB_LIBS) $(LDLIBS_ALL)

COMM_SUITE_SRC = $(sort $(wildcard tests/conformance/comm/*.c))

$(B)/conformance/comm: $(COMM_SUITE_SRC) tests/conformance/comm/rank_suite.h tests/fixture/counts_test.h $(UNIT_LIB) Makefile
	@mkdir -p $(@D)
	$(call quiet,LINK)$(CC) $(CPPFLAGS_ALL) -Isrc -I. $(CFLAGS_ALL) $(LDFLAGS_ALL) -o $@ \
		$(COMM_SUITE_SRC) $(UNIT_LIB) -lcmocka $(LIB_LIBS) $(LDLIBS_ALL)

conformance: $(B)/conformance/chip $(B)/conformance/comm ## run the suites of both contracts, of chips and of communication, over every backend
	$(B)/conformance/chip
	$(B)/conformance/comm

.PHONY: conformance
