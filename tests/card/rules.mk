# SPDX-License-Identifier: Apache-2.0
# The scheduler program driven without a host: build/card/caches with caches that are not coherent.

CARD = $(B)/card
CARD_FLAGS = -Iinclude -Isrc -I. -std=gnu11 -Wall -Wextra $(WERROR) -g -DPTO_CORES_APART $(PURE_FLAGS)

$(CARD)/caches/%.o: src/%.c Makefile
	@mkdir -p $(@D)
	$(call quiet,CC)$(CC) -Itests/card/caches $(CARD_FLAGS) -O1 -MMD -MP -c -o $@ $<

$(CARD)/caches/executor-%.o: src/cann/device/executor.c tests/card/caches/core_port.h src/wire/board.h Makefile
	@mkdir -p $(@D)
	$(call quiet,CC)$(CC) -Itests/card/caches $(CARD_FLAGS) -O1 $(if $(filter aiv,$*),-D__DAV_VEC__) -c -o $@ $<

$(CARD)/caches.out: tests/card/caches.c tests/card/drive.c tests/card/drive.h $(call objects,base,fiber.c os.c) $(CANN_SCHEDULER_SRC:%.c=$(CARD)/caches/%.o) \
		$(CARD)/caches/cann/device/dispatcher.o $(CARD)/caches/executor-aic.o $(CARD)/caches/executor-aiv.o
	$(call quiet,LINK)$(CC) -Itests/card/caches $(CARD_FLAGS) -O1 -rdynamic -o $@ $(filter %.c %.o,$^) $(LDLIBS_ALL)

$(CARD)/orchestration.so: tests/card/orchestration.c tests/card/lines/pto/cache_lines.h include/pto/region.h Makefile
	@mkdir -p $(@D)
	$(call quiet,LINK)$(CC) -Itests/card/lines -Iinclude -std=gnu11 -Wall -Wextra $(WERROR) -O2 -fPIC -fvisibility=hidden -shared -o $@ $<

-include $(CANN_SCHEDULER_SRC:%.c=$(CARD)/caches/%.d)

# Measures the cost of a task: for aarch64 under an emulator, and for this machine.
CARD_WRAPPED = -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=aligned_alloc
CARD_COUNT_SRC = tests/card/at_once.c tests/card/drive.c
CARD_CC_arm = $(CANN_CC) -mno-outline-atomics
CARD_CC_native = $(CC)

define card_count
$(CARD)/count-$(1)/%.o: src/%.c Makefile
	@mkdir -p $$(@D)
	$$(call quiet,CC)$(CARD_CC_$(1)) -Itests/card/at_once $(CARD_FLAGS) -O2 -fPIC -MMD -MP -c -o $$@ $$<
$(CARD)/count-$(1).out: $(CARD_COUNT_SRC) tests/card/rules.mk tests/card/drive.h tests/card/at_once/aicpu.h $(CANN_SCHEDULER_SRC:%.c=$(CARD)/count-$(1)/%.o)
	$$(call quiet,LINK)$(CARD_CC_$(1)) -Itests/card/at_once $(CARD_FLAGS) -DDRIVE_CLUSTERS=8 '-DDRIVE_HEAP=(4 << 20)' -O2 $(CARD_WRAPPED) -o $$@ $$(filter %.c %.o,$$^) -ldl
$(CARD)/orchestration-$(1).so: tests/card/orchestration.c Makefile
	@mkdir -p $$(@D)
	$$(call quiet,LINK)$(CARD_CC_$(1)) -Iinclude -std=gnu11 -Wall -Wextra $(WERROR) -O2 -fPIC -fvisibility=hidden -shared -o $$@ $$<
-include $(CANN_SCHEDULER_SRC:%.c=$(CARD)/count-$(1)/%.d)
endef
$(eval $(call card_count,arm))
$(eval $(call card_count,native))

$(CARD)/insns.so: tests/card/insns.c Makefile
	@mkdir -p $(@D)
	$(call quiet,LINK)$(CC) -std=gnu11 -Wall -Wextra $(WERROR) -O2 -fPIC -fvisibility=hidden -shared -o $@ $<

# `pto check` whose orchestration and kernels run on cards of the stand-in.
CARD_CHECK_WRAPS = check_graph_generate check_make_callable check_compare_edges pto_run pto_graph_build pto_graph_run pto_graph_destroy
$(CARD)/check: tests/card/check/wrap.c tests/card/check/page.h $(CLI_OBJ) $(CLI_BASE_OBJ) $(LIB) Makefile tests/card/rules.mk
	@mkdir -p $(@D)
	$(call quiet,LINK)$(CC) $(CPPFLAGS_ALL) -Isrc -Itests/card/check $(CFLAGS_ALL) $(LDFLAGS_ALL) $(CARD_CHECK_WRAPS:%=-Xlinker --wrap=%) -o $@ \
		$(filter %.c %.o,$^) -L$(B)/lib -lpto -Wl,-rpath,$(abspath $(B)/lib) $(CLI_LIBS) $(LDLIBS_ALL)
