# SPDX-License-Identifier: Apache-2.0
# The Python package: build/python/pto, which PYTHONPATH=build/python makes importable.

# Debian's own interpreter: another python3 may come first in the path.
PYTHON ?= /usr/bin/python3
PYTHON_INCLUDE = $(shell $(PYTHON) -c 'import sysconfig; print(sysconfig.get_path("include"))')

EXT_OBJ = $(patsubst python/ext/%.c,$(B)/obj/ext/%.o,$(wildcard python/ext/*.c))
EXT = $(B)/python/pto/_pto.abi3.so
# Files of the package, linked so that an edit counts at once.
PYTHON_LINKS = $(patsubst python/pto/%,$(B)/python/pto/%,$(wildcard python/pto/*.py python/pto/*/*.py python/pto/*.pyi python/pto/*.c python/pto/py.typed))

python: all $(EXT) $(PYTHON_LINKS) ## build the Python package below build/python

$(B)/obj/ext/%.o: python/ext/%.c Makefile python/rules.mk
	@mkdir -p $(@D)
	$(call quiet,CC)$(CC) $(CPPFLAGS_ALL) -isystem $(PYTHON_INCLUDE) $(CFLAGS_ALL) -MMD -MP -c -o $@ $<

# The library is found beside the package in a wheel, and in lib/ in this tree.
$(EXT): $(EXT_OBJ) $(LIB) $(LIB_LINK)
	@mkdir -p $(@D)
	$(call quiet,LINK)$(CC) $(CFLAGS_ALL) $(LDFLAGS_ALL) -shared -o $@ $(EXT_OBJ) -L$(B)/lib -lpto \
		-Wl,-rpath,'$$ORIGIN/tree/lib:$$ORIGIN/../../lib' $(LDLIBS_ALL)

$(B)/python/pto/%: python/pto/%
	@mkdir -p $(@D)
	@ln -sfn $(abspath $<) $@

# The same for the debug build of the interpreter, which counts references, if its headers count them, too.
python-dbg: $(B)/python-dbg/pto/_pto.abi3.so $(subst /python/,/python-dbg/,$(PYTHON_LINKS))

$(B)/python-dbg/pto/_pto.abi3.so: $(wildcard python/ext/*.[ch]) $(LIB) $(LIB_LINK) python/rules.mk
	@mkdir -p $(@D)
	$(call quiet,LINK)$(CC) $(CPPFLAGS_ALL) -isystem $$($(PYTHON)-dbg -c 'import sysconfig; print(sysconfig.get_path("include"))') \
		-DPy_DEBUG $(CFLAGS_ALL) $(LDFLAGS_ALL) -shared -o $@ $(filter %.c,$^) -L$(B)/lib -lpto \
		-Wl,-rpath,'$$ORIGIN/../../lib' $(LDLIBS_ALL)

$(B)/python-dbg/pto/%: python/pto/%
	@mkdir -p $(@D)
	@ln -sfn $(abspath $<) $@

.PHONY: python python-dbg
-include $(EXT_OBJ:.o=.d)
