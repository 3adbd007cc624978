# SPDX-License-Identifier: Apache-2.0
# test_inject stands between the library and what it asks of the system.

INJECT_WRAPPED = malloc calloc realloc aligned_alloc free mmap munmap mprotect madvise \
	pthread_create pthread_key_create pthread_setspecific pthread_atfork sigaltstack \
	sched_getaffinity syscall eventfd write memfd_create fcntl dlopen dlsym fopen rename

$(B)/test/test_inject: tests/process/rules.mk
$(B)/test/test_inject: private LDFLAGS_ALL += $(INJECT_WRAPPED:%=-Wl,--wrap=%)

# They load the libraries that the reference's worker loads.
$(B)/test/test_hostlib_comm $(B)/test/test_hostlib_global: | $(COMPAT_LIBS)
# The libraries call its pto_comm_open.
$(B)/test/test_hostlib_comm: tests/process/rules.mk
$(B)/test/test_hostlib_comm: private LDFLAGS_ALL += -Wl,--export-dynamic-symbol=pto_comm_open
# The function of its nested worker, in a shared object, submits.
$(B)/test/test_tree_faults: tests/process/rules.mk
$(B)/test/test_tree_faults: private LDFLAGS_ALL += -Wl,--export-dynamic-symbol=pto_level_submit_at
