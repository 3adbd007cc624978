# SPDX-License-Identifier: Apache-2.0
# Programs that measure; never part of a test of correctness.

$(B)/bench/count_compat.so: bench/count_compat.c src/tool/bench/bench_patterns.h src/compat/orch/layout.h Makefile
	@mkdir -p $(@D)
	$(call quiet,LINK)$(CC) $(CPPFLAGS_ALL) -Isrc $(CFLAGS_ALL) -O3 -fvisibility=default -shared -o $@ $<

$(B)/bench/count: bench/count.c bench/count_simpler.cc src/tool/bench/bench_patterns.h $(LIB) $(LIB_LINK) $(B)/bench/count_compat.so \
		$(wildcard include/simpler/*.h) Makefile
	@mkdir -p $(@D) $(B)/obj/bench
	$(call quiet,CXX)$(CXX) -std=c++17 -O3 -g -fPIC $(ARCH_FLAGS) -Wall -Wextra $(WERROR) -Iinclude -Iinclude/simpler \
		-c -o $(B)/obj/tool/bench/count_simpler.o bench/count_simpler.cc
	$(call quiet,LINK)$(CC) $(CPPFLAGS_ALL) -Isrc $(CFLAGS_ALL) $(LDFLAGS_ALL) -o $@ $< $(B)/obj/tool/bench/count_simpler.o \
		-L$(B)/lib -lpto -lstdc++ -Wl,-rpath,'$$ORIGIN/../lib'

$(B)/bench/virtual: bench/virtual.c $(LIB) $(LIB_LINK) include/pto/virtual.h Makefile
	@mkdir -p $(@D)
	$(call quiet,LINK)$(CC) $(CPPFLAGS_ALL) $(CFLAGS_ALL) $(LDFLAGS_ALL) -o $@ $< -L$(B)/lib -lpto -lm -Wl,-rpath,'$$ORIGIN/../lib'

instructions: ## count instructions per task with callgrind, beside their bounds
	@tools/setup.sh test
	@+$(MAKE) --no-print-directory $(B)/bench/count
	@bench/instructions

# ---- other task systems, under one clock: bench/peers ----

CLANG ?= clang
PEER_OPT ?= -O3
PEER_FLAGS = -Wall -Wextra $(WERROR) $(PEER_OPT) -g $(ARCH_FLAGS) -Ibench/peers -Iinclude -Isrc
PEER_MAIN = bench/peers/peer_main.c bench/peers/peer_load.c bench/peers/peer_grain.c
PEER_HEADERS = $(wildcard bench/peers/*.h) src/tool/bench/bench_patterns.h

# Each has three programs: empty bodies, checking ones, working ones.
run_FLAGS =
verify_FLAGS = -DVERIFY
grain_FLAGS = -DGRAIN

# (kind, name, compiler, flags, libraries): the harness is bench/peers/$(name).c.
define c_peer
$(B)/bench/$(1)/$(2): bench/peers/$(if $(filter lib%,$(2)),omp,$(2)).c $(PEER_MAIN) $(PEER_HEADERS)
	@mkdir -p $$(@D)
	$$(call quiet,PEER)$(3) -std=gnu11 $(PEER_FLAGS) $($(1)_FLAGS) $(4) -o $$@ $$(filter %.c,$$^) \
		$(5) -pthread -lm
endef

# The same for bench/peers/$(name).cc, with flags for C++ only.
define cc_peer
$(B)/bench/$(1)/$(2): bench/peers/$(2).cc $(PEER_MAIN) $(PEER_HEADERS)
	@mkdir -p $$(@D) $(B)/obj/tool/bench/$(1)/$(2)
	$$(call quiet,PEER)for file in $(basename $(notdir $(PEER_MAIN))); do \
		$$(CC) -std=gnu11 $(PEER_FLAGS) $($(1)_FLAGS) -c \
			-o $(B)/obj/tool/bench/$(1)/$(2)/$$$$file.o bench/peers/$$$$file.c || exit 1; done; \
	$$(CXX) $(PEER_FLAGS) $($(1)_FLAGS) $(3) -o $$@ bench/peers/$(2).cc \
		$$(patsubst %,$(B)/obj/tool/bench/$(1)/$(2)/%.o,$(basename $(notdir $(PEER_MAIN)))) $(4) -pthread -lm
endef

$(foreach kind,run verify grain,\
	$(eval $(call c_peer,$(kind),ours,$$(CC),,-L$(B)/lib -lpto -Wl$$(comma)-rpath$$(comma)'$$$$ORIGIN/../../lib'))\
	$(eval $(call c_peer,$(kind),libgomp,gcc,-fopenmp))\
	$(eval $(call c_peer,$(kind),libomp,$$(CLANG),-fopenmp))\
	$(eval $(call c_peer,$(kind),starpu,$$(CC),$$(shell pkg-config --cflags starpu-1.3),$$(shell pkg-config --libs starpu-1.3)))\
	$(eval $(call c_peer,$(kind),reverse,$$(CC)))\
	$(eval $(call cc_peer,$(kind),tbb,-std=gnu++17,-ltbb))\
	$(eval $(call cc_peer,$(kind),taskflow,-std=gnu++20 -isystem $$(TASKFLOW_DIR)))\
	$(eval $(call cc_peer,$(kind),superglue,-std=gnu++17 -isystem $$(SUPERGLUE_DIR)/include)))
comma = ,

$(B)/bench/run/ours $(B)/bench/verify/ours $(B)/bench/grain/ours: $(LIB) $(LIB_LINK)

$(B)/bench/scale: src/tool/bench/bench_fresh.h

$(B)/bench/scale $(B)/bench/recorder: $(B)/bench/%: bench/%.c $(LIB) $(LIB_LINK) Makefile
	@mkdir -p $(@D)
	$(call quiet,LINK)$(CC) $(CPPFLAGS_ALL) -Isrc $(CFLAGS_ALL) $(LDFLAGS_ALL) -o $@ $< -L$(B)/lib -lpto \
		-Wl,-rpath,'$$ORIGIN/../lib'

$(B)/bench/pingpong: bench/pingpong.c Makefile
	@mkdir -p $(@D)
	$(call quiet,LINK)$(CC) $(CFLAGS_ALL) $(LDFLAGS_ALL) -o $@ $< -pthread

# Open MPI, for communication.
$(B)/bench/comm_mpi: bench/comm_mpi.c src/tool/bench/bench_link.c src/base/os.c src/tool/bench/bench_link.h
	@mkdir -p $(@D)
	$(call quiet,PEER)mpicc $(PEER_FLAGS) -Wno-cast-function-type -o $@ $(filter %.c,$^)

# Ranks on two hosts, beside a plain TLS connection.
$(B)/bench/far: bench/far.c $(UNIT_LIB)
	@mkdir -p $(@D)
	$(call quiet,LINK)$(CC) $(CPPFLAGS_ALL) -Isrc $(CFLAGS_ALL) $(LDFLAGS_ALL) -o $@ bench/far.c $(UNIT_LIB) $(LIB_LIBS) $(LDLIBS_ALL) -lm

$(B)/bench/far_mpi: bench/far_mpi.c
	@mkdir -p $(@D)
	$(call quiet,PEER)mpicc $(PEER_FLAGS) -Wno-cast-function-type -o $@ $<

# Meeting, barrier and all-reduce of up to 1024 ranks in one process.
$(B)/bench/far_many: bench/far_many.c $(UNIT_LIB)
	@mkdir -p $(@D)
	$(call quiet,LINK)$(CC) $(CPPFLAGS_ALL) -Isrc $(CFLAGS_ALL) $(LDFLAGS_ALL) -o $@ $< $(UNIT_LIB) $(LIB_LIBS) $(LDLIBS_ALL) -lm

bench-far: ## measure communication between two hosts beside plain TLS and Open MPI; needs root
	@+$(MAKE) --no-print-directory all $(B)/bench/far $(if $(shell command -v mpicc),$(B)/bench/far_mpi)
	@bench/far.sh

bench-many: ## measure how meeting, barrier and all-reduce grow from 2 to 1024 ranks
	@+$(MAKE) --no-print-directory all $(B)/bench/far_many
	@$(B)/bench/far_many

bench-comm: ## measure communication beside Open MPI (QUICK=1: a look)
	@tools/setup.sh bench
	@+$(MAKE) --no-print-directory all $(B)/bench/comm_mpi
	@bench/comm.py $(if $(QUICK),--quick) $(BENCH_OPTIONS)

bench-virtual: ## measure virtual time: speed, accuracy, busy share (QUICK=1: a look; PUBLISH=1: into bench/README.md)
	@+$(MAKE) --no-print-directory all
	@bench/run.py --sections virtual $(if $(QUICK),--quick) $(if $(PUBLISH),--publish) $(BENCH_OPTIONS)

bench-page: ## measure the page of a report in Chromium (PUBLISH=1: into bench/README.md)
	@tools/setup.sh browser
	@+$(MAKE) --no-print-directory all
	@bench/run.py --sections page $(if $(PUBLISH),--publish) $(BENCH_OPTIONS)

# What is missing is left out, and said: a peer is never required.
bench: ## measure beside other task systems (QUICK=1: two minutes; TASKFLOW_DIR=, SUPERGLUE_DIR=: header-only ones)
	@tools/setup.sh bench || echo "bench: goes on with what is there"
	@+$(MAKE) --no-print-directory all
	@bench/run.py $(if $(QUICK),--quick) $(BENCH_OPTIONS)

bench-publish: ## the same, in full; table and pictures go into bench/, to be committed
	@tools/setup.sh bench
	@+$(MAKE) --no-print-directory all
	@bench/run.py --publish $(BENCH_OPTIONS)

bench-verify: ## see that every task system compared with runs each task after its predecessors
	@tools/setup.sh bench || echo "bench: goes on with what is there"
	@+$(MAKE) --no-print-directory all
	@bench/run.py --verify $(BENCH_OPTIONS)

.PHONY: instructions bench bench-comm bench-far bench-many bench-page bench-virtual bench-publish bench-verify
