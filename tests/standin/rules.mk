# SPDX-License-Identifier: Apache-2.0
# The stand-in for the vendor's libraries, and the device programs built for it: for this machine, with separate
# ports. `build/standin/with COMMAND...` runs a command as if the vendor's software were installed.

STANDIN = $(B)/standin
STANDIN_HOME = $(STANDIN)/home
STANDIN_LIBS = $(STANDIN_HOME)/lib64/libascendcl.so $(STANDIN_HOME)/lib64/libascend_hal.so $(STANDIN_HOME)/lib64/libhcomm.so \
	$(STANDIN_HOME)/lib64/libruntime.so $(STANDIN_HOME)/lib64/libascendalog.so
STANDIN_SRC = standin.c standin_card.c standin_cores.c standin_events.c standin_heap.c standin_messages.c standin_process.c standin_programs.c standin_vmm.c cpu_programs.c
STANDIN_PROGRAMS = $(STANDIN)/programs/libpto_dispatcher.so $(STANDIN)/programs/libpto_scheduler.so \
	$(STANDIN)/programs/executor-a2a3.o $(STANDIN)/programs/executor-a5.o
STANDIN_OBJ = $(patsubst %,$(STANDIN)/obj/%.o,$(CANN_SCHEDULER_SRC:.c=))
STANDIN_FLAGS = $(CPPFLAGS_ALL) -Isrc -I. -Itests/standin $(CFLAGS_ALL)

$(STANDIN_HOME)/lib64/libascendcl.so: $(STANDIN_SRC:%=tests/standin/%) tests/standin/standin.h tests/standin/table.h tests/standin/sync_page.h tests/standin/cpu_process.h \
		tests/standin/cpu_programs.h Makefile
	@mkdir -p $(@D)
	$(call quiet,LINK)$(CC) $(STANDIN_FLAGS) $(LDFLAGS_ALL) -shared -Wl,-soname,$(@F) -o $@ $(filter %.c,$^) $(LDLIBS_ALL)

$(STANDIN_HOME)/lib64/libascend_hal.so: tests/standin/standin_hal.c
$(STANDIN_HOME)/lib64/libhcomm.so: tests/standin/standin_hccl.c
$(STANDIN_HOME)/lib64/libruntime.so: tests/standin/standin_rt.c
$(STANDIN_HOME)/lib64/libascendalog.so: tests/standin/standin_log.c
$(filter-out %/libascendcl.so,$(STANDIN_LIBS)): tests/standin/standin.h tests/standin/table.h $(STANDIN_HOME)/lib64/libascendcl.so
	$(call quiet,LINK)$(CC) $(STANDIN_FLAGS) $(LDFLAGS_ALL) -shared -Wl,-soname,$(@F) -o $@ $(filter %.c,$^) \
		-L$(@D) -lascendcl -Wl,-rpath,'$$ORIGIN'

$(STANDIN)/obj/%.o: src/%.c tests/standin/aicpu.h Makefile
	@mkdir -p $(@D)
	$(call quiet,CC)$(CC) $(STANDIN_FLAGS) $(PURE_FLAGS) -DPTO_CORES_APART -MMD -MP -c -o $@ $<

# The stand-in counts allocations of these programs.
STANDIN_HEAP = malloc calloc aligned_alloc free
$(STANDIN)/programs/libpto_scheduler.so: $(STANDIN_OBJ) tests/standin/program_heap.c
	@mkdir -p $(@D)
	$(call quiet,LINK)$(CC) $(CFLAGS_ALL) $(LDFLAGS_ALL) -shared -Wl,--build-id=sha1 -Wl,-S \
		$(STANDIN_HEAP:%=-Wl,--wrap=%) -o $@ $^ $(LDLIBS_ALL)

$(STANDIN)/programs/libpto_dispatcher.so: $(patsubst %,$(STANDIN)/obj/%.o,$(CANN_DISPATCHER_SRC:.c=))
	@mkdir -p $(@D)
	$(call quiet,LINK)$(CC) $(CFLAGS_ALL) $(LDFLAGS_ALL) -shared -Wl,--build-id=sha1 -Wl,-S -o $@ $^ $(LDLIBS_ALL)

# Compiled once for each type of core, by the stand-in's compiler, which accepts what the vendor's accepts.
STANDIN_CORE_a2a3 = -DPTO_CHIP_A2A3 --cce-aicore-arch=dav-c220
STANDIN_CORE_a5 = -DPTO_CHIP_A5 --cce-aicore-arch=dav-c310
$(STANDIN)/programs/executor-%.o: src/cann/device/executor.c src/cann/device/cce/core_port.h include/pto/cache_lines.h include/pto/aicore.h \
		src/wire/board.h $(STANDIN_HOME)/stamp Makefile
	@mkdir -p $(@D)
	$(call quiet,CCEC)$(STANDIN_HOME)/bin/ccec -c -O2 -Wall -Wextra $(WERROR) -x cce -std=c++17 $(STANDIN_CORE_$*)-cube -Iinclude -Isrc -Isrc/cann/device/cce -o $@.aic.o $<
	@$(STANDIN_HOME)/bin/ccec -c -O2 -Wall -Wextra $(WERROR) -x cce -std=c++17 $(STANDIN_CORE_$*)-vec -Iinclude -Isrc -Isrc/cann/device/cce -o $@.aiv.o $<
	@$(CC) $(CFLAGS_ALL) $(LDFLAGS_ALL) -shared -o $@ $@.aic.o $@.aiv.o

# An installation, with the files that are looked at: compilers, and the file with the version.
$(STANDIN_HOME)/stamp: tests/standin/ccec tests/standin/cce_dialect.h tests/standin/cce_core.h tests/standin/sync_page.h tests/standin/ld.lld tests/standin/hcc \
		tests/standin/kernel_runtime.c Makefile
	@mkdir -p $(STANDIN_HOME)/bin $(STANDIN_HOME)/tools/hcc/bin $(STANDIN_HOME)/runtime $(STANDIN_HOME)/share/info/runtime
	@cp tests/standin/ccec tests/standin/cce_dialect.h tests/standin/cce_core.h tests/standin/sync_page.h tests/standin/ld.lld $(STANDIN_HOME)/bin
	@$(CC) -O2 -fPIC -fno-stack-protector -fno-tree-loop-distribute-patterns -fcf-protection=none -c \
		-o $(STANDIN_HOME)/bin/kernel_runtime.o tests/standin/kernel_runtime.c
	@cp tests/standin/hcc $(STANDIN_HOME)/tools/hcc/bin/aarch64-target-linux-gnu-gcc
	@cp tests/standin/hcc $(STANDIN_HOME)/tools/hcc/bin/aarch64-target-linux-gnu-g++
	@rm -f $(STANDIN_HOME)/runtime/version.info
	@printf 'Version=9.0.0\nversion_dir=cann\n' >$(STANDIN_HOME)/share/info/runtime/version.info
	@touch $@

# The same for other versions, with the files that differ: tests/standin/with.
$(STANDIN)/homes: $(STANDIN_LIBS) $(STANDIN_HOME)/stamp
	@for version in 8.5 9.1 9.2; do rm -rf $(STANDIN_HOME)-$$version && cp -rs $(abspath $(STANDIN_HOME)) $(STANDIN_HOME)-$$version && \
		rm $(STANDIN_HOME)-$$version/share/info/runtime/version.info; done
	@printf 'Version=7.8.0.5.206\nversion_dir=8.5.0\n' >$(STANDIN_HOME)-8.5/runtime/version.info
	@mv $(STANDIN_HOME)-8.5/lib64/libhcomm.so $(STANDIN_HOME)-8.5/lib64/libhccl.so
	@for version in 9.1.0 9.2.0-beta.1; do home=$(STANDIN_HOME)-$$(echo $$version | cut -c1-3) && \
		printf 'Version=%s\nversion_dir=cann\n' $$version >$$home/share/info/runtime/version.info; done
	@touch $@

$(STANDIN)/with: tests/standin/with $(STANDIN_LIBS) $(STANDIN_PROGRAMS) $(STANDIN_HOME)/stamp $(STANDIN)/homes
	@cp $< $@

$(STANDIN)/lifecycle $(STANDIN)/sweep $(STANDIN)/level $(STANDIN)/built $(STANDIN)/flight: $(STANDIN)/%: tests/standin/%.c tests/standin/client.h $(LIB) $(LIB_LINK) Makefile
	$(call quiet,LINK)$(CC) $(CPPFLAGS_ALL) $(CFLAGS_ALL) $(LDFLAGS_ALL) -I. -o $@ $< -L$(B)/lib -lpto -Wl,-rpath,$(abspath $(B)/lib) -ldl -pthread

$(STANDIN)/strict: tests/standin/strict.c tests/standin/standin.h tests/standin/table.h $(STANDIN_LIBS) Makefile
	$(call quiet,LINK)$(CC) $(STANDIN_FLAGS) $(LDFLAGS_ALL) -o $@ $< -L$(STANDIN_HOME)/lib64 -lhcomm -lruntime -lascend_hal -lascendcl -pthread

# A second client with separate programs, which uses nothing of the backend.
STANDIN_SECOND = $(STANDIN)/second
$(STANDIN_SECOND)/client: tests/standin/second/second_client.c tests/standin/second/second.h $(STANDIN_LIBS) $(patsubst %,$(STANDIN_SECOND)/%.so,dispatcher scheduler executor) Makefile
	$(call quiet,LINK)$(CC) -I. $(CFLAGS_ALL) $(LDFLAGS_ALL) -o $@ $< -L$(STANDIN_HOME)/lib64 -lascend_hal -lascendcl -pthread

$(STANDIN_SECOND)/%.so: tests/standin/second/second_%.c tests/standin/second/second.h Makefile
	@mkdir -p $(@D)
	$(call quiet,LINK)$(CC) -I. $(CFLAGS_ALL) $(LDFLAGS_ALL) -fvisibility=default -shared -o $@ $< -ldl

# The same client with its program for cores in the dialect of the vendor's compiler.
$(STANDIN_SECOND)/dialect/executor.so: tests/standin/second/second_dialect.c tests/standin/second/second.h $(STANDIN_HOME)/stamp Makefile
	@mkdir -p $(@D)
	$(call quiet,CCEC)for half in cube vec; do $(STANDIN_HOME)/bin/ccec -c -O2 -Wall -Wextra $(WERROR) -x cce -std=c++17 --cce-aicore-arch=dav-c220-$$half -I. -o $@.$$half.o $< || exit 1; done
	@$(CC) $(CFLAGS_ALL) $(LDFLAGS_ALL) -shared -Wl,-Bsymbolic -o $@ $@.cube.o $@.vec.o
	@cp $(STANDIN_SECOND)/dispatcher.so $(STANDIN_SECOND)/scheduler.so $(@D)
$(STANDIN_SECOND)/dialect/executor.so: $(STANDIN_SECOND)/dispatcher.so $(STANDIN_SECOND)/scheduler.so

# The same with a control processor in a separate process: the aarch64 programs themselves, under an emulator.
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

# The second client's, for the same.
$(STANDIN_ARM)/second/%.so: tests/standin/second/second_%.c tests/standin/second/second.h Makefile
	@mkdir -p $(@D)
	$(call quiet,LINK)$(CANN_CC) -I. -std=gnu11 -Wall -Wextra $(WERROR) -O2 -g -fPIC -shared -o $@ $< -ldl
$(STANDIN_ARM)/second/executor.so: $(STANDIN_SECOND)/executor.so
	@mkdir -p $(@D)
	@cp $< $@

standin: $(STANDIN)/with ## build the stand-in for the vendor's libraries, for the tests of real chips

.PHONY: standin

-include $(STANDIN_OBJ:.o=.d)
