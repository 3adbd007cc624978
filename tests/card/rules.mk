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
		$(CARD)/caches/executor-aic.o $(CARD)/caches/executor-aiv.o
	$(call quiet,LINK)$(CC) -Itests/card/caches $(CARD_FLAGS) -O1 -o $@ $(filter %.c %.o,$^) $(LDLIBS_ALL)

$(CARD)/orchestration.so: tests/card/orchestration.c Makefile
	@mkdir -p $(@D)
	$(call quiet,LINK)$(CC) -Iinclude -std=gnu11 -Wall -Wextra $(WERROR) -O2 -fPIC -fvisibility=hidden -shared -o $@ $<

-include $(CANN_SCHEDULER_SRC:%.c=$(CARD)/caches/%.d)
