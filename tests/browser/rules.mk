# SPDX-License-Identifier: Apache-2.0
# A report of a run with very many executions.

$(B)/browser/large_report: tests/browser/large_report.c $(UNIT_LIB)
	@mkdir -p $(@D)
	$(call quiet,LINK)$(CC) $(CPPFLAGS_ALL) -I. -Isrc $(CFLAGS_ALL) $(LDFLAGS_ALL) -o $@ $< $(UNIT_LIB) -lm $(CLI_LIBS) $(LIB_LIBS) $(LDLIBS_ALL)
