# SPDX-License-Identifier: Apache-2.0
# test_inject wraps the calls that the library makes to the system.

INJECT_WRAPPED = malloc calloc realloc aligned_alloc free mmap munmap mprotect madvise \
	pthread_create pthread_key_create pthread_setspecific pthread_atfork sigaltstack \
	sched_getaffinity syscall eventfd write memfd_create fcntl dlopen dlsym fopen rename

$(B)/test/test_inject: tests/process/rules.mk
$(B)/test/test_inject: private LDFLAGS_ALL += $(INJECT_WRAPPED:%=-Wl,--wrap=%)

# These tests load the libraries that the reference's worker loads.
$(B)/test/test_hostlib_comm $(B)/test/test_hostlib_global: | $(COMPAT_LIBS)
# These libraries call the test's pto_comm_open.
$(B)/test/test_hostlib_comm: tests/process/rules.mk
$(B)/test/test_hostlib_comm: private LDFLAGS_ALL += -Wl,--export-dynamic-symbol=pto_comm_open
# A function for a nested worker, in a shared object, which submits tasks.
$(B)/test/test_tree_faults: tests/process/rules.mk
$(B)/test/test_tree_faults: private LDFLAGS_ALL += -Wl,--export-dynamic-symbol=pto_level_submit_at
