# SPDX-License-Identifier: Apache-2.0
#
# `make help` lists the targets. Everything is built below build/; a variant
# (VARIANT=asan, tsan or arm) has the same rules in a folder of its own. VARIANT=arm
# is the pure folders and their unit programs only (docs/internals/dependencies.md).

# Without its built-in rules make needs a tenth of the time to see that nothing is to be done.
MAKEFLAGS += --no-builtin-rules

VERSION = 0.1.0
SOVERSION = 0

PUBLIC_HEADERS = access_hooks.h aicore.h build.h cache_lines.h callable.h collective.h comm.h cost_entry.h device.h dtype.h error.h graph.h half.h kernel.h level.h log.h memory.h orch.h platform.h \
	pto.h recording.h region.h rules.h run.h scene.h sign.h sim.h status.h store.h tensor.h trace.h virtual.h wake.h watch.h window.h window_far.h worker.h worker_domain.h worker_region.h worker_trace.h worker_virtual.h

BASE_SRC = status.c absent.c arena.c code_file.c crash.c digest.c elf.c error.c fiber.c file.c guard.c job_key.c limit.c lines.c object.c os.c os_futex.c peek.c platforms.c \
	program.c sized.c spawn.c tcp_listen.c thread_state.c waker.c
OVERLAP_SRC = geom.c regions.c region_index.c region_frame.c region_table.c region_query.c region_join.c region_tree.c
GRAPH_SRC = graph.c graph_tasks.c data.c image.c ledger.c slots.c scope.c submit.c submit_tensors.c declared.c edges.c buffers.c guards.c
SCHED_SRC = sched.c offers.c returned.c settle.c faults.c order.c deferred.c sharing.c guarded.c
CORE_SRC =
ORCH_SRC = orch.c submission.c elements.c built_graph.c stall.c write_set.c record.c dumps.c
COMPAT_SRC = compat.c compat_log.c compat_source.c
CHIP_SRC = chip.c cost.c local_code.c null.c null_orch.c pipes.c status_record.c
# What connects processes.
LINK_SRC = channel.c endpoint.c hello.c line.c observe.c payload.c shared_clock.c watcher.c
# What connects processes of several hosts.
NET_SRC = gate.c lane.c lane_link.c mesh.c net_address.c secure.c
SIM_SRC = isolated.c isolated_memory.c isolated_record.c isolated_report.c isolated_runs.c isolated_serve.c isolated_wait.c port_sim.c sim.c sim_crash.c \
	sim_device.c sim_dump.c sim_graphs.c sim_guards.c sim_inputs.c sim_memory.c sim_record.c sim_run.c sim_signals.c sim_status.c sim_steps.c sim_stuck.c sim_teams.c sim_threads.c sim_touched.c touched.c touched_parts.c finite.c
# The real chips: the host's side. What runs on them is in src/cann/device.
CANN_SRC = driver_thread.c bring_up.c cann.c cann_build.c cann_code.c cann_cores.c cann_failures.c cann_graphs.c cann_mc2.c cann_memory.c cann_record.c \
	cann_runs.c cann_window.c generations.c vendor.c
CANN_SCHEDULER_SRC = $(OVERLAP_SRC:%=overlap/%) $(GRAPH_SRC:%=graph/%) $(SCHED_SRC:%=sched/%) $(ORCH_SRC:%=orch/%) cann/device/card_files.c \
	cann/device/port_ascend.c cann/device/port_ascend_meet.c cann/device/port_ascend_memory.c cann/device/port_ascend_reach.c cann/device/scheduler.c
# The chip in virtual time, and the card's scheduler program once more, with a clock for its port: one object whose
# names nobody else sees.
VIRTUAL_SRC = virtual_costs.c virtual_device.c virtual_jobs.c virtual_record.c virtual_run.c virtual_threads.c virtual_turns.c
VIRTUAL_SCHEDULER_SRC = $(filter-out cann/device/port_ascend_reach.c,$(CANN_SCHEDULER_SRC)) virtual/device/port_virtual.c
CANN_DISPATCHER_SRC = cann/device/card_files.c cann/device/dispatcher.c
# Artefacts: code and its description in one file, and signatures of it.
ARTEFACT_SRC = artefact.c artefact_make.c signature.c
HOST_SRC = built_graphs.c callable.c callable_load.c device.c device_status.c diagnostics.c due.c error_text.c error_text_crash.c error_text_declared.c error_text_touched.c failure_report.c handle.c limits.c \
	memory.c register.c run.c run_execute.c run_prepare.c run_queue.c staging.c timeline.c virtual_time.c watch_devices.c
# Ranks.
COMM_SRC = card_context.c collective.c collective_move.c collective_reduce.c collective_round.c comm.c comm_data.c comm_device.c comm_domain.c comm_env.c comm_hccl.c comm_keep.c comm_null.c comm_pmix.c \
	comm_shared.c comm_shared_domain.c comm_shared_turns.c comm_shm.c comm_thread.c comm_tls.c dispatch.c meet.c meet_file.c meet_host.c meet_socket.c reduce.c \
	tls_apply.c tls_far.c tls_local.c tls_meet.c tls_meet_host.c tls_mirrors.c tls_send.c tls_wire.c
# Workers of level 3.
TREE_SRC = child_copy.c child_domain.c child_load.c child_nested.c child_region.c child_serve.c child_task.c child_time.c child_trace.c tree_children.c tree_clock.c tree_copy.c tree_dispatch.c \
	tree_cards.c tree_domain.c tree_failed.c tree_in_flight.c tree_memory.c tree_mirror.c tree_nested.c tree_options.c tree_recording.c tree_region.c tree_register.c tree_run.c tree_shared_queue.c tree_show.c tree_submit.c \
	tree_time.c tree_trace.c worker.c
# The program that they start for each child.
CHILD_MAIN_SRC = child_main.c
TOOLCHAIN_SRC = lexer.c scan.c scan_memo.c scan_order.c store.c store_files.c store_owner.c
TOOLCHAIN_SRC += build.c command.c compilers.c core_program.c identity.c isa.c link.c manifest.c note.c overlay.c pack.c precompiled.c process.c unit.c \
	words.c work.c
TRACE_SRC = args_dump.c deps.c name_map.c perfetto.c pmu.c recording.c recording_edges.c recording_file.c recording_regions.c recording_rules.c scope_stats.c slices.c slices_cpu.c swimlane.c track_event.c
SCENE_SRC = compare.c document.c element.c names.c npy.c python.c python_paths.c python_text.c scene.c scene_build.c scene_costs.c scene_data.c scene_isa.c \
	scene_config.c scene_explain.c scene_fields.c scene_find.c scene_level.c scene_level_fields.c scene_lines.c scene_manifest.c scene_meta.c scene_order.c scene_rank_fields.c scene_ranks.c scene_session.c scene_sources.c \
	scene_writer.c
CHECK_SRC = check_compare.c check_effect.c check_failed.c check_graph.c check_helper.c check_kernel.c check_model.c check_object.c \
	check_oracle.c check_orch.c check_place.c check_print.c check_race.c check_reason.c check_region.c check_run.c check_shrink.c check_tree.c \
	check_view.c
# What children of level 3 run: a shared object that is a part of the command; the same for bench.
CHECK_CHILD_SRC = check_child.c check_effect.c check_region.c
DRILL_SRC = drills_args.c drills_artefacts.c drills_host.c drills_kernels.c drills_rings.c drills_views.c stage.c
BENCH_SRC = bench_bare.c bench_comm.c bench_link.c bench_measure.c bench_object.c bench_simpler.c bench_tree.c
BENCH_CHILD_SRC = bench_child.c
# What recorded runs are read with.
SEE_SRC = analysis.c chip_model.c chip_work.c critical_path.c difference.c edge_groups.c idle_time.c kernel_table.c list_schedule.c recording_index.c \
	recording_read.c samples.c schedule_jobs.c verdict.c what_if.c
SEE_SRC += unused_arguments.c byte_view.c precedence.c race_graph.c race_order.c races.c
# The page of a report, and what else is drawn of a recording.
SEE_SRC += columns.c graph_text.c json_text.c legend.c group_time.c links.c page_lanes.c page_write.c recording_join.c recording_part.c swimlane_read.c worker_view.c
# The script of the page, in the order in which it is read.
PAGE_SCRIPTS = $(addprefix src/tool/see/page/,text.js data.js lanes.js selection.js tables.js charts.js main.js)
CLI_SRC = main.c check_recorded.c bench_report.c programs.c cmd_bench.c cmd_build.c cmd_cache.c cmd_check.c cmd_doctor.c cmd_drill.c cmd_info.c \
	cmd_inspect.c cmd_install_compat.c cmd_launch.c cmd_new.c cmd_run.c cmd_selfcheck.c selfcheck_elf.c selfcheck_facts.c selfcheck_pack.c selfcheck_pair.c selfcheck_read.c selfcheck_rules.c selfcheck_steps.c cmd_sign.c cmd_test.c info_workers.c json.c junit.c key_file.c machine.c options.c probe.c ranks.c repeat.c run_artefact.c \
	run_diagnose.c run_gdb.c run_network.c run_notes.c run_print.c run_alarm.c run_durations.c run_ranks.c run_virtual.c test_child.c test_jobs.c test_python.c usage.c
CLI_SRC += cmd_graph.c cmd_report.c profile_worker.c recorded.c report_analysis.c report_compare.c report_meta.c report_page.c
CLI_SRC += cmd_key.c launch_agent.c launch_channel.c launch_hub.c launch_job.c launch_places.c launch_program.c launch_remote.c supervised.c
CLI_SRC += cmd_diff.c cmd_profile.c cmd_races.c cmd_top.c top_print.c diff_print.c profile_print.c races_print.c
# What the command links of src/base: files without state of the process, which the library has already.
CLI_BASE_SRC = error.c file.c digest.c job_key.c os.c sized.c tcp_listen.c
# libhost_runtime.so, which the reference's worker loads: one for each generation and mode.
HOSTLIB_SRC = hostlib_absent.c hostlib_callables.c hostlib_comm.c hostlib_device.c hostlib_failure.c hostlib_global.c \
	hostlib_log.c hostlib_runs.c hostlib_staging.c hostlib_windows.c
# Scenes: what `pto run` finds by name.
EXAMPLES = $(sort $(patsubst examples/%/scene.yaml,%,$(wildcard examples/*/scene.yaml)))
EXAMPLE_FILES = $(sort $(wildcard $(EXAMPLES:%=examples/%/*) $(EXAMPLES:%=examples/%/kernels/*) \
	examples/service/* examples/programs/*))

PREFIX ?= /usr/local
DESTDIR ?=

# ---------------------------------------------------------------------------

ifeq ($(origin CC),default)
CC = gcc
endif
AR ?= ar
OBJCOPY ?= objcopy
ARCH := $(shell uname -m)
WERROR ?= -Werror

VARIANT ?=
# Sanitized code is as fast with -O1, and compiled sooner, also if only lines are described; but there the
# compiler knows less about lengths. PTO_CHECKED: locks are asserted to be held (src/base/lock.h).
SANITIZED = -g1 -Wno-format-truncation -DPTO_CHECKED
ifeq ($(VARIANT),)
B = build
else ifeq ($(VARIANT),asan)
B = build/asan
OPT ?= -O1
VARIANT_FLAGS = $(SANITIZED) -fsanitize=address,undefined -fno-sanitize-recover=undefined \
	-fno-omit-frame-pointer
else ifeq ($(VARIANT),tsan)
B = build/tsan
OPT ?= -O1
# The compiler warns of every fence, because TSan does not see them.
VARIANT_FLAGS = $(SANITIZED) -fsanitize=thread -DPTO_TSAN -Wno-tsan
else ifeq ($(VARIANT),arm)
B = build/arm
ARCH = aarch64
override CC = aarch64-linux-gnu-gcc
override AR = aarch64-linux-gnu-ar
VARIANT_LDFLAGS = -static
else
$(error VARIANT is empty, asan, tsan or arm)
endif
OPT ?= -O2

ifeq ($(ARCH),aarch64)
ARCH_FLAGS = -mno-outline-atomics
endif
ifeq ($(VARIANT),)
# A sanitizer's symbols come with the program, not with the library.
SHARED_FLAGS = -Wl,-z,defs
endif

CPPFLAGS_ALL = -Iinclude $(CPPFLAGS)
CFLAGS_ALL = -std=gnu11 -Wall -Wextra $(WERROR) $(OPT) -g -fPIC -fvisibility=hidden \
	$(ARCH_FLAGS) $(VARIANT_FLAGS) $(CFLAGS)
LDFLAGS_ALL = $(VARIANT_FLAGS) $(VARIANT_LDFLAGS) $(LDFLAGS)
LDLIBS_ALL = -pthread -ldl $(LDLIBS)
# Signatures; digests; reading ELF; the manifests of scenes; the columns of reports.
LIB_LIBS = -lhogweed -lnettle -lelf
CLI_LIBS = -lyaml -lz -lnettle

# The pure folders may need nothing from libc but memcpy and its like.
# Vectors would be made of a few integers just to store them: more instructions than the stores.
# Arguments of a function that are split up would no longer fit registers.
PURE_FLAGS = -fno-stack-protector -U_FORTIFY_SOURCE -fno-tree-slp-vectorize -fno-ipa-sra

objects = $(patsubst %.c,$(B)/obj/$(1)/%.o,$(2))
OVERLAP_OBJ = $(call objects,overlap,$(OVERLAP_SRC))
GRAPH_OBJ = $(call objects,graph,$(GRAPH_SRC))
SCHED_OBJ = $(call objects,sched,$(SCHED_SRC))
ORCH_OBJ = $(call objects,orch,$(ORCH_SRC))
VIRTUAL_SCHEDULER = $(B)/obj/virtual/scheduler.o
PURE_OBJ = $(OVERLAP_OBJ) $(GRAPH_OBJ) $(SCHED_OBJ) $(ORCH_OBJ)
LIB_OBJ = $(call objects,base,$(BASE_SRC)) $(PURE_OBJ) \
	$(call objects,core,$(CORE_SRC)) $(call objects,compat/orch,$(COMPAT_SRC)) $(call objects,chip,$(CHIP_SRC)) \
	$(call objects,link,$(LINK_SRC)) $(call objects,net,$(NET_SRC)) $(call objects,sim,$(SIM_SRC)) $(call objects,cann,$(CANN_SRC)) \
	$(call objects,virtual,$(VIRTUAL_SRC)) $(VIRTUAL_SCHEDULER) \
	$(call objects,artefact,$(ARTEFACT_SRC)) $(call objects,host,$(HOST_SRC)) $(call objects,comm,$(COMM_SRC)) $(call objects,toolchain,$(TOOLCHAIN_SRC)) \
	$(call objects,trace,$(TRACE_SRC)) $(call objects,tree,$(TREE_SRC))
CLI_OBJ = $(call objects,tool/scene,$(SCENE_SRC)) $(call objects,tool/check,$(CHECK_SRC)) \
	$(call objects,tool/drill,$(DRILL_SRC)) $(call objects,tool/bench,$(BENCH_SRC)) $(call objects,tool/see,$(SEE_SRC)) \
	$(call objects,tool/cli,$(CLI_SRC))
CLI_BASE_OBJ = $(call objects,base,$(CLI_BASE_SRC))

LIB = $(B)/lib/libpto.so.$(SOVERSION)
LIB_LINK = $(B)/lib/libpto.so
# What simulated kernels look up by name, in a library of its own.
HOOKS = $(B)/lib/libptosim.so.$(SOVERSION)
HOOKS_OBJ = $(call objects,sim,hooks.c) $(call objects,base,os_futex.c)
# What reads the text of C++ exceptions; only where there is a compiler for it.
ifneq ($(shell [ "$(VARIANT)" = arm ] || command -v $(CXX)),)
GUARD = $(B)/lib/libptoguard.so.$(SOVERSION)
endif
CLI = $(B)/bin/pto
MAN3 = build/man/man3
ifneq ($(VARIANT),arm)
# A child of a worker, or an isolated device: found beside the library.
CHILD = $(B)/lib/pto/pto-child
# Reads debug information for the library when a kernel has crashed.
LINES = $(B)/lib/pto/pto-lines
endif
# What `pto install-compat` copies, below a folder beside the library, as the reference lays them out.
COMPAT = $(B)/lib/pto/compat
HOSTLIB_OBJ = $(call objects,compat/hostlib,$(HOSTLIB_SRC)) $(call objects,base,limit.c os.c)
HOSTLIBS = $(foreach generation,a2a3 a5,$(foreach mode,tensormap_and_ringbuffer host_build_graph,\
	$(COMPAT)/$(generation)/sim/$(mode)/libhost_runtime.so))
SIM_CONTEXT = $(COMPAT)/libcpu_sim_context.so
ifneq ($(VARIANT),arm)
COMPAT_LIBS = $(HOSTLIBS) $(SIM_CONTEXT)
endif

# What unit tests link: each takes the objects it uses, internals included.
UNIT_LIB = $(B)/obj/units.a
UNIT_LIB_OBJ = $(LIB_OBJ) $(HOOKS_OBJ)
TEST_FOLDERS = unit api process
TEST_SRC = $(wildcard $(TEST_FOLDERS:%=tests/%/test_*.c))
PLAIN_UNITS = $(sort $(basename $(notdir $(wildcard tests/unit/plain_*.c))))
CMOCKA_UNITS = $(sort $(basename $(notdir $(TEST_SRC))))
ifeq ($(VARIANT),arm)
UNITS = $(PLAIN_UNITS)
# There are no libraries for it here.
UNIT_LIB_OBJ = $(call objects,base,$(filter-out code_file.c digest.c elf.c lines.c object.c program.c,$(BASE_SRC))) \
	$(call objects,sim,port_sim.c) $(PURE_OBJ)
LIB_LIBS =
CLI_LIBS =
else ifeq ($(VARIANT),tsan)
# The head of a test says in which variants it runs (tests/README.md).
UNITS = $(sort $(basename $(notdir $(shell grep -l '^/\* variants: [a-z ]*\<tsan\>' $(TEST_SRC)))))
else
UNITS = $(PLAIN_UNITS) $(CMOCKA_UNITS)
UNIT_LIB_OBJ += $(filter-out %/main.o,$(CLI_OBJ))
endif
UNIT_PROGRAMS = $(UNITS:%=$(B)/test/%)

ifeq ($(V),)
quiet = @printf '  %-7s %s\n' $(1) $@;
endif

ifeq ($(VARIANT),arm)
ifneq ($(filter lib cli run install uninstall python,$(MAKECMDGOALS)),)
$(error VARIANT=arm is the pure folders and their unit programs, without a library: make VARIANT=arm, or tools/unit arm, which \
	also runs them. The library for aarch64 is built on an aarch64 machine, by plain make; see docs/internals/dependencies.md)
endif
all: pure units
else
all: lib cli ## build the library and the command (default)
endif
	@:
lib: $(LIB) $(LIB_LINK) $(GUARD) $(CHILD) $(LINES) $(COMPAT_LIBS)
cli: $(CLI)
pure: $(PURE_OBJ)
units: $(UNIT_PROGRAMS)

$(PURE_OBJ): CFLAGS_ALL += $(PURE_FLAGS)
$(call objects,compat/orch,$(COMPAT_SRC)): CFLAGS_ALL += -fno-tree-slp-vectorize
# Loops become vectors; a product and a sum are rounded apart, on every machine.
$(call objects,comm,reduce.c): CFLAGS_ALL += -O3 -ffp-contract=off

# Headers of other packages are looked for once, before anything is compiled: what is missing is named with the
# command that installs it.
ifneq ($(VARIANT),arm)
HEADERS = $(B)/headers
$(HEADERS): tools/setup.sh
	@CC='$(CC)' CPPFLAGS='$(CPPFLAGS)' tools/setup.sh --look base
	@mkdir -p $(@D) && touch $@
endif

$(B)/obj/%.o: src/%.c Makefile | $(HEADERS)
	@mkdir -p $(@D)
	$(call quiet,CC)$(CC) $(CPPFLAGS_ALL) -Isrc $(CFLAGS_ALL) -MMD -MP -c -o $@ $<

$(B)/obj/apart/%.o: src/%.c Makefile | $(HEADERS)
	@mkdir -p $(@D)
	$(call quiet,CC)$(CC) $(CPPFLAGS_ALL) -Isrc -Isrc/virtual/device $(CFLAGS_ALL) $(PURE_FLAGS) -fno-common -DPTO_CORES_APART \
		-DPTO_VIRTUAL_TIME -MMD -MP -c -o $@ $<

$(VIRTUAL_SCHEDULER): $(VIRTUAL_SCHEDULER_SRC:%.c=$(B)/obj/apart/%.o)
	@mkdir -p $(@D)
	$(call quiet,LINK)$(CC) -nostdlib -no-pie -r -o $@ $^ && \
		$(OBJCOPY) --redefine-sym pto_scheduler=virtual_scheduler --localize-hidden $@

$(HOOKS): $(HOOKS_OBJ)
	@mkdir -p $(@D)
	$(call quiet,LINK)$(CC) $(CFLAGS_ALL) $(LDFLAGS_ALL) -shared \
		-Wl,-soname,libptosim.so.$(SOVERSION) $(SHARED_FLAGS) -o $@ $(HOOKS_OBJ)

$(B)/lib/libptoguard.so.$(SOVERSION): src/base/guard.cc | $(HEADERS)
	@mkdir -p $(@D)
	$(call quiet,CXX)$(CXX) -std=c++17 -Wall -Wextra $(WERROR) $(OPT) -g -fPIC -fvisibility=hidden \
		-Iinclude $(ARCH_FLAGS) $(VARIANT_FLAGS) $(LDFLAGS_ALL) -shared \
		-Wl,-soname,libptoguard.so.$(SOVERSION) -o $@ $<

$(LIB): $(LIB_OBJ) $(HOOKS) pto.map
	@mkdir -p $(@D)
	$(call quiet,LINK)$(CC) $(CFLAGS_ALL) $(LDFLAGS_ALL) -shared -Wl,-soname,libpto.so.$(SOVERSION) \
		-Wl,--version-script,pto.map $(SHARED_FLAGS) -o $@ $(LIB_OBJ) $(HOOKS) \
		-Wl,-rpath,'$$ORIGIN' $(LIB_LIBS) $(LDLIBS_ALL)

$(LIB_LINK): $(LIB)
	@ln -sf $(<F) $@

# With the library itself, so that functions which children load find it.
$(B)/lib/pto/pto-child: $(call objects,tree,$(CHILD_MAIN_SRC)) $(LIB) $(LIB_LINK)
	@mkdir -p $(@D)
	$(call quiet,LINK)$(CC) $(CFLAGS_ALL) $(LDFLAGS_ALL) -o $@ $(call objects,tree,$(CHILD_MAIN_SRC)) -L$(B)/lib -lpto \
		-Wl,-rpath,'$$ORIGIN/..' $(LDLIBS_ALL)

$(B)/lib/pto/pto-lines: $(call objects,base,pto_lines.c)
	@mkdir -p $(@D)
	$(call quiet,LINK)$(CC) $(CFLAGS_ALL) $(LDFLAGS_ALL) -o $@ $< -ldw -lelf $(LDLIBS_ALL)

# Programs for the control processor of real chips: any aarch64 compiler will do. Those for cores need the vendor's.
CANN_CC ?= aarch64-linux-gnu-gcc
CANN_PROGRAMS = $(B)/lib/pto/cann/libpto_scheduler.so $(B)/lib/pto/cann/libpto_dispatcher.so

$(B)/obj/aicpu/%.o: src/%.c Makefile
	@mkdir -p $(@D)
	$(call quiet,CC)$(CANN_CC) -Iinclude -Isrc -Isrc/cann/device/aarch64 -std=gnu11 -Wall -Wextra $(WERROR) -O2 -g -fPIC -fno-common \
		-fvisibility=hidden -mno-outline-atomics $(PURE_FLAGS) -DPTO_CORES_APART -MMD -MP -c -o $@ $<

$(B)/lib/pto/cann/libpto_scheduler.so: $(CANN_SCHEDULER_SRC:%.c=$(B)/obj/aicpu/%.o)
$(B)/lib/pto/cann/libpto_dispatcher.so: $(CANN_DISPATCHER_SRC:%.c=$(B)/obj/aicpu/%.o)
$(CANN_PROGRAMS):
	@mkdir -p $(@D)
	$(call quiet,LINK)$(CANN_CC) -shared -Wl,--build-id=sha1 -Wl,-z,defs -Wl,-z,noexecstack -o $@ $^ -ldl

cann: $(CANN_PROGRAMS) ## build the programs for the control processor of real chips, with an aarch64 compiler
	@:

# $(COMPAT)/GENERATION/sim/MODE/libhost_runtime.so; the words of a path are told apart by their place.
HOSTLIB_MODE_tensormap_and_ringbuffer = STREAM
HOSTLIB_MODE_host_build_graph = HOST
words_of = $(subst /, ,$(patsubst $(COMPAT)/%/libhost_runtime.so,%,$(1)))
hostlib_variant = -DHOSTLIB_GENERATION=$(word 1,$(call words_of,$(1))) \
	-DHOSTLIB_MODE=$(HOSTLIB_MODE_$(word 3,$(call words_of,$(1))))
# Room for the path that `pto install-compat` writes there; until then it is found from where it was built.
HOSTLIB_RUNPATH = $$ORIGIN/../../../../..:$(subst x,/pto-compat-runpath,$(shell printf 'x%.0s' $$(seq 60)))

$(HOSTLIBS): src/compat/hostlib/hostlib_variant.c $(HOSTLIB_OBJ) $(LIB) $(LIB_LINK)
	@mkdir -p $(@D)
	$(call quiet,LINK)$(CC) $(CPPFLAGS_ALL) -Isrc $(CFLAGS_ALL) $(LDFLAGS_ALL) $(call hostlib_variant,$@) -shared \
		-Wl,-z,nodelete $(SHARED_FLAGS) -o $@ $< $(HOSTLIB_OBJ) -L$(B)/lib -lpto \
		-Wl,-rpath,'$(HOSTLIB_RUNPATH)' $(LDLIBS_ALL)

$(SIM_CONTEXT): src/compat/hostlib/sim_context.c $(HOOKS_OBJ)
	@mkdir -p $(@D)
	$(call quiet,LINK)$(CC) $(CPPFLAGS_ALL) -Isrc $(CFLAGS_ALL) $(LDFLAGS_ALL) -shared \
		-Wl,-soname,libptosim.so.$(SOVERSION) $(SHARED_FLAGS) -o $@ $< $(HOOKS_OBJ)

$(B)/obj/tool/check/check_child.so: $(call objects,tool/check,$(CHECK_CHILD_SRC)) $(call objects,base,os.c)
$(B)/obj/tool/bench/bench_child.so: $(call objects,tool/bench,$(BENCH_CHILD_SRC))
$(B)/obj/%_child.so:
	$(call quiet,LINK)$(CC) $(CFLAGS_ALL) $(LDFLAGS_ALL) -shared $(SHARED_FLAGS) -Wl,-s -o $@ $^
$(B)/obj/tool/check/check_object.o: $(B)/obj/tool/check/check_child.so
$(B)/obj/tool/bench/bench_object.o: $(B)/obj/tool/bench/bench_child.so
$(B)/obj/tool/check/check_object.o $(B)/obj/tool/bench/bench_object.o: CPPFLAGS_ALL += -DOBJECT_PATH='"$(@:object.o=child.so)"'

# The page of a report is a part of the command.
$(B)/obj/tool/see/page.js: $(PAGE_SCRIPTS) | $(HEADERS)
	@mkdir -p $(@D)
	@cat $^ >$@
$(call objects,tool/see,page_write.c): CPPFLAGS_ALL += -DPAGE_PATH='"src/tool/see/page"' -DPAGE_SCRIPT_PATH='"$(@:_write.o=.js)"'
$(call objects,tool/see,page_write.c): $(B)/obj/tool/see/page.js src/tool/see/page/page.html src/tool/see/page/page.css

# What `pto build --programs` compiles.
$(call objects,tool/cli,programs.c): CPPFLAGS_ALL += -DSCHEDULER_PARTS='"$(CANN_SCHEDULER_SRC)"' -DDISPATCHER_PARTS='"$(CANN_DISPATCHER_SRC)"'

$(CLI): $(CLI_OBJ) $(CLI_BASE_OBJ) $(LIB) $(LIB_LINK)
	@mkdir -p $(@D)
	$(call quiet,LINK)$(CC) $(CFLAGS_ALL) $(LDFLAGS_ALL) -o $@ $(CLI_OBJ) $(CLI_BASE_OBJ) -L$(B)/lib -lpto \
		-Wl,-rpath,'$$ORIGIN/../lib' $(CLI_LIBS) $(LDLIBS_ALL)

$(UNIT_LIB): $(UNIT_LIB_OBJ)
	@rm -f $@
	$(call quiet,AR)$(AR) rcs $@ $(UNIT_LIB_OBJ)

# Tests run for a moment each, and so are compiled sooner than they would gain by being fast; but
# ThreadSanitizer takes long over each access that an optimiser would leave out.
TEST_OPT = $(if $(filter tsan,$(VARIANT)),-O1,-O0)
# Objects are in folders as their tests are: the dependencies of a test that was moved name its old place.
define test_rules
$(B)/obj/tests/$(1)/%.o: tests/$(1)/%.c Makefile
	@mkdir -p $$(@D)
	$$(call quiet,CC)$$(CC) $$(CPPFLAGS_ALL) -Isrc -I. $$(CFLAGS_ALL) $$(TEST_OPT) $(if $(filter unit,$(1)),,-D_GNU_SOURCE) -Wno-psabi -MMD -MP -c -o $$@ $$<

$(B)/test/%: $(B)/obj/tests/$(1)/%.o $(UNIT_LIB) | $(CHILD) $(LINES) $(GUARD)
	@mkdir -p $$(@D)
	$$(call quiet,LINK)$$(CC) $$(CFLAGS_ALL) $$(LDFLAGS_ALL) -o $$@ $$< $(UNIT_LIB) $$(UNIT_LIBS) -lm \
		$$(CLI_LIBS) $$(LIB_LIBS) $$(LDLIBS_ALL)
endef
$(B)/test/test_%: UNIT_LIBS = -lcmocka
$(foreach folder,$(TEST_FOLDERS),$(eval $(call test_rules,$(folder))))

# Benchmarks and larger tests bring rules of their own.
include $(wildcard bench/rules.mk python/rules.mk tests/*/rules.mk)

run: ## install what is missing, build, and run an example scene on every simulated chip
	@tools/setup.sh base
	@+$(MAKE) --no-print-directory all
	@build/bin/pto run --trace build/timeline

# The claims use every CPU; so does the build before them, unless it was told otherwise.
JOBS_ALL = $(if $(filter -j%,$(MAKEFLAGS)),,-j$(shell nproc))

test: ## install what is missing, build, and check every claim of tests/claims.tsv (ROW="a b": only those)
	@tools/setup.sh test
	@+$(MAKE) --no-print-directory $(JOBS_ALL) all
	@tools/claims run test $(ROW)

quick: ## the claims that take a minute together, for between two edits
	@tools/setup.sh test
	@+$(MAKE) --no-print-directory $(JOBS_ALL) all
	@tools/claims run quick $(ROW)

soak: ## as test, and the claims that take long
	@tools/setup.sh test
	@+$(MAKE) --no-print-directory $(JOBS_ALL) all
	@tools/claims run soak $(ROW)

mutate: ## break the code at each labelled place, in a copy, and see it noticed (IDS="a b": only those labels or rows)
	@tools/setup.sh test
	@tools/claims mutate $(IDS)

man: $(MAN3)/pto.3 ## make the manual pages of the interface from its headers

$(MAN3)/pto.3: tools/man3 Makefile docs/pto.1 $(PUBLIC_HEADERS:%=include/pto/%)
	@rm -rf $(MAN3) && mkdir -p $(MAN3)
	$(call quiet,MAN)awk -f tools/man3 $(MAN3) $(VERSION) "$$(sed -n 's/^\.Dd //p' docs/pto.1)" \
		$(PUBLIC_HEADERS:%=include/pto/%)

docs: man ## build the documents and manual pages as a site, build/site/index.html
	@tools/setup.sh docs
	@tools/site build/site

manual: all ## write docs/pto.1 anew from its template and the tables of options
	@tools/manual >build/pto.1 && mv build/pto.1 docs/pto.1

tidy: ## format, headers, layers, names, paths and links in the documents, labels of mutations
	@tools/tidy

# For sources that were written for simpler.
SIMPLER_HEADERS = $(wildcard include/simpler/*.h include/simpler/*/*.h include/simpler/*/*.hpp)

# The overlay of the tile library.
ISA_HEADERS = $(wildcard include/pto/isa/*/*/*.hpp include/pto/isa/*/*/*/*.hpp)

# For `pto build --programs`.
CANN_SOURCES = $(sort $(wildcard $(foreach folder,overlap graph sched orch core wire port cann/device cann/device/aarch64 cann/device/cce,src/$(folder)/*.[ch]) src/base/*.h))

install: all man ## copy to $(DESTDIR)$(PREFIX)
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/include/pto \
		$(sort $(dir $(SIMPLER_HEADERS:%=$(DESTDIR)$(PREFIX)/%))) \
		$(DESTDIR)$(PREFIX)/lib/pkgconfig $(DESTDIR)$(PREFIX)/lib/pto \
		$(HOSTLIBS:$(B)/%/libhost_runtime.so=$(DESTDIR)$(PREFIX)/%) \
		$(EXAMPLES:%=$(DESTDIR)$(PREFIX)/share/pto/examples/%/kernels) \
		$(DESTDIR)$(PREFIX)/share/pto/examples/service $(DESTDIR)$(PREFIX)/share/pto/examples/programs \
		$(DESTDIR)$(PREFIX)/share/man/man1 $(DESTDIR)$(PREFIX)/share/man/man3 $(DESTDIR)$(PREFIX)/share/doc/pto
	install -m 644 README.md CHANGELOG.md LICENSE $(DESTDIR)$(PREFIX)/share/doc/pto
	for file in $(wildcard docs/*.md docs/*/*.md docs/*/*.png); do \
		install -D -m 644 $$file $(DESTDIR)$(PREFIX)/share/doc/pto/$$file || exit 1; done
	install -m 755 $(CLI) $(DESTDIR)$(PREFIX)/bin/pto
	install -m 644 docs/pto.1 $(DESTDIR)$(PREFIX)/share/man/man1
	install -m 644 $(MAN3)/*.3 $(DESTDIR)$(PREFIX)/share/man/man3
	install -m 644 $(PUBLIC_HEADERS:%=include/pto/%) $(DESTDIR)$(PREFIX)/include/pto
	for file in $(SIMPLER_HEADERS) $(ISA_HEADERS); do \
		install -D -m 644 $$file $(DESTDIR)$(PREFIX)/$$file || exit 1; done
	install -m 755 $(LIB) $(HOOKS) $(GUARD) $(DESTDIR)$(PREFIX)/lib
	install -m 755 $(CHILD) $(LINES) $(DESTDIR)$(PREFIX)/lib/pto
	for file in $(COMPAT_LIBS:$(B)/%=%); do \
		install -m 755 $(B)/$$file $(DESTDIR)$(PREFIX)/$$file || exit 1; done
	ln -sf $(notdir $(LIB)) $(DESTDIR)$(PREFIX)/lib/libpto.so
	for file in $(EXAMPLE_FILES); do [ -d $$file ] || \
		install -m 644 $$file $(DESTDIR)$(PREFIX)/share/pto/$$file || exit 1; done
	for file in $(CANN_SOURCES); do \
		install -D -m 644 $$file $(DESTDIR)$(PREFIX)/share/pto/$$file || exit 1; done
	sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@VERSION@|$(VERSION)|' pto.pc.in \
		> $(DESTDIR)$(PREFIX)/lib/pkgconfig/pto.pc

uninstall: man ## remove what install copied
	rm -f $(DESTDIR)$(PREFIX)/bin/pto $(PUBLIC_HEADERS:%=$(DESTDIR)$(PREFIX)/include/pto/%) \
		$(DESTDIR)$(PREFIX)/lib/libpto.so $(DESTDIR)$(PREFIX)/lib/$(notdir $(LIB)) \
		$(DESTDIR)$(PREFIX)/lib/$(notdir $(HOOKS)) \
		$(DESTDIR)$(PREFIX)/lib/libptoguard.so.$(SOVERSION) \
		$(DESTDIR)$(PREFIX)/lib/pkgconfig/pto.pc \
		$(DESTDIR)$(PREFIX)/lib/pto/pto-child $(DESTDIR)$(PREFIX)/lib/pto/pto-lines \
		$(COMPAT_LIBS:$(B)/%=$(DESTDIR)$(PREFIX)/%) \
		$(DESTDIR)$(PREFIX)/share/man/man1/pto.1
	cd $(MAN3) && for page in *.3; do rm -f $(DESTDIR)$(PREFIX)/share/man/man3/$$page; done
	rm -f $(SIMPLER_HEADERS:%=$(DESTDIR)$(PREFIX)/%)
	rm -rf $(DESTDIR)$(PREFIX)/include/pto/isa
	-rmdir $(filter-out %/simpler/,$(sort $(dir $(SIMPLER_HEADERS:%=$(DESTDIR)$(PREFIX)/%)))) \
		$(DESTDIR)$(PREFIX)/include/simpler
	rm -rf $(DESTDIR)$(PREFIX)/share/pto/examples $(DESTDIR)$(PREFIX)/share/pto/src $(DESTDIR)$(PREFIX)/share/doc/pto
	-cd $(DESTDIR)$(PREFIX)/lib/pto && rmdir -p --ignore-fail-on-non-empty \
		$(HOSTLIBS:$(B)/lib/pto/%/libhost_runtime.so=%)
	-rmdir $(DESTDIR)$(PREFIX)/include/pto $(DESTDIR)$(PREFIX)/share/pto $(DESTDIR)$(PREFIX)/lib/pto

clean: ## remove build/
	rm -rf build

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1|\2/p' $(MAKEFILE_LIST) | \
		while IFS='|' read -r name text; do printf '  %-13s %s\n' "$$name" "$$text"; done

# For the tools: the objects of the pure folders.
print-pure:
	@printf '%s\n' $(PURE_OBJ)

.PHONY: all lib cli cann pure units run test quick soak mutate man docs manual tidy install uninstall clean help \
	print-pure
.SECONDARY:
.DELETE_ON_ERROR:
.DEFAULT_GOAL = all

-include $(CANN_SCHEDULER_SRC:%.c=$(B)/obj/aicpu/%.d) $(CANN_DISPATCHER_SRC:%.c=$(B)/obj/aicpu/%.d)
-include $(VIRTUAL_SCHEDULER_SRC:%.c=$(B)/obj/apart/%.d)
-include $(LIB_OBJ:.o=.d) $(patsubst %.c,$(B)/obj/tree/%.d,$(CHILD_MAIN_SRC)) $(HOSTLIB_OBJ:.o=.d) $(HOOKS_OBJ:.o=.d) $(CLI_OBJ:.o=.d) $(patsubst %.c,$(B)/obj/tool/check/%.d,$(CHECK_CHILD_SRC)) \
	$(patsubst %.c,$(B)/obj/tool/bench/%.d,$(BENCH_CHILD_SRC)) $(wildcard $(B)/obj/tests/*/*.d)
