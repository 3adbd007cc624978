# SPDX-License-Identifier: Apache-2.0
# Programs that measure; never part of a test of correctness.

$(B)/bench/count: bench/count.c src/cli/bench_patterns.h $(LIB) $(LIB_LINK) Makefile
	@mkdir -p $(@D)
	$(call quiet,LINK)$(CC) $(CPPFLAGS_ALL) -Isrc $(CFLAGS_ALL) $(LDFLAGS_ALL) -o $@ $< -L$(B)/lib -lpto \
		-Wl,-rpath,'$$ORIGIN/../lib'

instructions: ## count instructions per task with callgrind, for every pattern and layout
	@tools/setup.sh test
	@+$(MAKE) --no-print-directory $(B)/bench/count
	@bench/instructions
