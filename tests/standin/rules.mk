# SPDX-License-Identifier: Apache-2.0
# The stand-in for the vendor's libraries, and the device programs built for it: for this machine, with ports of
# its own. `build/standin/with COMMAND...` runs a command as if the vendor's software were installed.

STANDIN = $(B)/standin
STANDIN_HOME = $(STANDIN)/home
STANDIN_LIBS = $(STANDIN_HOME)/lib64/libascendcl.so $(STANDIN_HOME)/lib64/libascend_hal.so $(STANDIN_HOME)/lib64/libhcomm.so
STANDIN_SRC = standin.c standin_card.c standin_cores.c standin_events.c standin_heap.c standin_process.c standin_vmm.c cpu_programs.c
STANDIN_PROGRAMS = $(STANDIN)/programs/libpto_dispatcher.so $(STANDIN)/programs/libpto_scheduler.so \
	$(STANDIN)/programs/executor-a2a3.o $(STANDIN)/programs/executor-a5.o
STANDIN_OBJ = $(patsubst %,$(STANDIN)/obj/%.o,$(CANN_SCHEDULER_SRC:.c=))
STANDIN_FLAGS = $(CPPFLAGS_ALL) -Isrc -I. -Itests/standin $(CFLAGS_ALL)

$(STANDIN_HOME)/lib64/libascendcl.so: $(STANDIN_SRC:%=tests/standin/%) tests/standin/standin.h tests/standin/table.h tests/standin/cpu_process.h \
		tests/standin/cpu_programs.h Makefile
	@mkdir -p $(@D)
	$(call quiet,LINK)$(CC) $(STANDIN_FLAGS) $(LDFLAGS_ALL) -shared -Wl,-soname,$(@F) -o $@ $(filter %.c,$^) $(LDLIBS_ALL)

$(STANDIN_HOME)/lib64/libascend_hal.so: tests/standin/standin_hal.c
$(STANDIN_HOME)/lib64/libhcomm.so: tests/standin/standin_hccl.c
$(STANDIN_HOME)/lib64/libascend_hal.so $(STANDIN_HOME)/lib64/libhcomm.so: tests/standin/standin.h tests/standin/table.h $(STANDIN_HOME)/lib64/libascendcl.so
	$(call quiet,LINK)$(CC) $(STANDIN_FLAGS) $(LDFLAGS_ALL) -shared -Wl,-soname,$(@F) -o $@ $(filter %.c,$^) \
		-L$(@D) -lascendcl -Wl,-rpath,'$$ORIGIN'

$(STANDIN)/obj/%.o: src/%.c tests/standin/aicpu.h Makefile
	@mkdir -p $(@D)
	$(call quiet,CC)$(CC) $(STANDIN_FLAGS) $(PURE_FLAGS) -DPTO_CORES_APART -MMD -MP -c -o $@ $<

# Its heap is in the account of the stand-in.
STANDIN_HEAP = malloc calloc aligned_alloc free
$(STANDIN)/programs/libpto_scheduler.so: $(STANDIN_OBJ) tests/standin/program_heap.c
	@mkdir -p $(@D)
	$(call quiet,LINK)$(CC) $(CFLAGS_ALL) $(LDFLAGS_ALL) -shared -Wl,--build-id=sha1 -Wl,-S \
		$(STANDIN_HEAP:%=-Wl,--wrap=%) -o $@ $^ $(LDLIBS_ALL)

$(STANDIN)/programs/libpto_dispatcher.so: $(patsubst %,$(STANDIN)/obj/%.o,$(CANN_DISPATCHER_SRC:.c=))
	@mkdir -p $(@D)
	$(call quiet,LINK)$(CC) $(CFLAGS_ALL) $(LDFLAGS_ALL) -shared -Wl,--build-id=sha1 -Wl,-S -o $@ $^ $(LDLIBS_ALL)

# Once for each type of core, as the vendor's compiler does; the same for both generations here.
$(STANDIN)/programs/executor-%.o: src/cann/device/executor.c tests/standin/core_port.h src/wire/board.h Makefile
	@mkdir -p $(@D)
	$(call quiet,CC)$(CC) $(STANDIN_FLAGS) -c -o $@.aic.o $<
	@$(CC) $(STANDIN_FLAGS) -D__DAV_VEC__ -c -o $@.aiv.o $<
	@$(CC) $(CFLAGS_ALL) $(LDFLAGS_ALL) -shared -o $@ $@.aic.o $@.aiv.o

# An installation, as far as it is looked at: compilers, and what says which version it is.
$(STANDIN_HOME)/stamp: tests/standin/ccec tests/standin/hcc tests/standin/kernel_runtime.c Makefile
	@mkdir -p $(STANDIN_HOME)/bin $(STANDIN_HOME)/tools/hcc/bin $(STANDIN_HOME)/runtime
	@cp tests/standin/ccec $(STANDIN_HOME)/bin/ccec
	@$(CC) -O2 -fPIC -fno-stack-protector -fno-tree-loop-distribute-patterns -fcf-protection=none -c \
		-o $(STANDIN_HOME)/bin/kernel_runtime.o tests/standin/kernel_runtime.c
	@cp tests/standin/hcc $(STANDIN_HOME)/tools/hcc/bin/aarch64-target-linux-gnu-gcc
	@cp tests/standin/hcc $(STANDIN_HOME)/tools/hcc/bin/aarch64-target-linux-gnu-g++
	@echo version_dir=9.0.0 >$(STANDIN_HOME)/runtime/version.info
	@touch $@

# The same in other versions, as far as they differ: tests/standin/with.
$(STANDIN)/homes: $(STANDIN_LIBS) $(STANDIN_HOME)/stamp
	@for version in 8.5 9.1 9.2; do rm -rf $(STANDIN_HOME)-$$version && cp -rs $(abspath $(STANDIN_HOME)) $(STANDIN_HOME)-$$version && \
		rm $(STANDIN_HOME)-$$version/runtime/version.info; done
	@echo version_dir=8.5.0 >$(STANDIN_HOME)-8.5/runtime/version.info
	@mv $(STANDIN_HOME)-8.5/lib64/libhcomm.so $(STANDIN_HOME)-8.5/lib64/libhccl.so
	@mkdir -p $(STANDIN_HOME)-9.1/share/info/runtime && echo version_dir=9.1.T500 >$(STANDIN_HOME)-9.1/share/info/runtime/version.info
	@echo version=9.2.0-beta.1 >$(STANDIN_HOME)-9.2/ascend_toolkit_install.info
	@touch $@

$(STANDIN)/with: tests/standin/with $(STANDIN_LIBS) $(STANDIN_PROGRAMS) $(STANDIN_HOME)/stamp $(STANDIN)/homes
	@cp $< $@

$(STANDIN)/lifecycle $(STANDIN)/sweep $(STANDIN)/level $(STANDIN)/built $(STANDIN)/flight: $(STANDIN)/%: tests/standin/%.c tests/standin/client.h $(LIB) $(LIB_LINK) Makefile
	$(call quiet,LINK)$(CC) $(CPPFLAGS_ALL) $(CFLAGS_ALL) $(LDFLAGS_ALL) -I. -o $@ $< -L$(B)/lib -lpto -Wl,-rpath,$(abspath $(B)/lib) -ldl -pthread

$(STANDIN)/strict: tests/standin/strict.c tests/standin/standin.h tests/standin/table.h $(STANDIN_LIBS) Makefile
	$(call quiet,LINK)$(CC) $(STANDIN_FLAGS) $(LDFLAGS_ALL) -o $@ $< -L$(STANDIN_HOME)/lib64 -lhcomm -lascend_hal -lascendcl -pthread

# The library as it would be if every run registered the executor: what comes of that is told as what it is.
$(STANDIN)/each-run/libpto.so.$(SOVERSION): tests/mutations/registers-every-run.patch $(LIB) Makefile
	@mkdir -p $(@D)
	@patch -s -o $(@D)/cann_runs.c src/cann/cann_runs.c $<
	$(call quiet,LINK)$(CC) $(CPPFLAGS_ALL) -Isrc $(CFLAGS_ALL) $(LDFLAGS_ALL) -shared -Wl,-soname,$(@F) -Wl,--version-script,pto.map $(SHARED_FLAGS) -o $@ \
		$(@D)/cann_runs.c $(filter-out %/cann_runs.o,$(LIB_OBJ)) $(HOOKS) -Wl,-rpath,$(abspath $(B)/lib) $(LIB_LIBS) $(LDLIBS_ALL)

# The same with a control processor that is a process: the aarch64 programs themselves, under an emulator.
STANDIN_ARM = $(STANDIN)/arm
STANDIN_QEMU = $(shell command -v qemu-aarch64 || command -v qemu-aarch64-static)

$(STANDIN_ARM)/aicpusd: tests/standin/aicpusd.c tests/standin/cpu_programs.c tests/standin/cpu_programs.h tests/standin/cpu_process.h Makefile
	@mkdir -p $(@D)
	$(call quiet,LINK)$(CANN_CC) -I. -std=gnu11 -Wall -Wextra $(WERROR) -O2 -g -o $@ $(filter %.c,$^) -pthread -ldl

$(STANDIN_ARM)/with: $(STANDIN)/with $(STANDIN_ARM)/aicpusd $(CANN_PROGRAMS) tests/standin/hcc-cross
	@rm -rf $(STANDIN_ARM)/home $(STANDIN_ARM)/programs && mkdir -p $(STANDIN_ARM)/programs
	@cp -r $(STANDIN_HOME) $(STANDIN_ARM)/home
	@for name in gcc g++; do cp tests/standin/hcc-cross $(STANDIN_ARM)/home/tools/hcc/bin/aarch64-target-linux-gnu-$$name; done
	@cp $(CANN_PROGRAMS) $(STANDIN)/programs/*.o $(STANDIN_ARM)/programs
	@printf '#!/bin/sh\nexec env ASCEND_HOME_PATH=%s LD_LIBRARY_PATH=%s PTO_CANN_PROGRAMS=%s STANDIN_AICPU="%s" "$$@"\n' \
		$(abspath $(STANDIN_ARM)/home) $(abspath $(STANDIN_ARM)/home/lib64) $(abspath $(STANDIN_ARM)/programs) \
		"$(STANDIN_QEMU) -L /usr/aarch64-linux-gnu $(abspath $(STANDIN_ARM)/aicpusd)" >$@
	@chmod +x $@

standin: $(STANDIN)/with ## build the stand-in for the vendor's libraries, for the tests of real chips

.PHONY: standin

-include $(STANDIN_OBJ:.o=.d)
