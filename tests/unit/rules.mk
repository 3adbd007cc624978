# SPDX-License-Identifier: Apache-2.0
# test_cann_loss wraps the locks of cards.

$(B)/test/test_cann_loss: tests/unit/rules.mk
$(B)/test/test_cann_loss: private LDFLAGS_ALL += -Wl,--wrap=pthread_mutex_lock
