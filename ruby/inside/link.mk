# A Ruby with Ashlar inside, from the objects of a Ruby that has been built already. Read
# beside that Ruby's own makefile, for its compiler, flags and lists of objects:
#   make -C BUILD -f GNUmakefile -f link.mk OUT=... RUBY_DIR=... COLLECTOR=... prefix=... inside-program
# OUT        folder for what is made; the build tree is only read
# RUBY_DIR   this repository's folder ruby
# COLLECTOR  the static library that cargo made
# prefix     where the Ruby will be installed
# PATH_MAPS  the compiler's options for names of folders that are not to be in the program; none unless given
# EDITS      a list of edits of Ruby's source, so that code is loaded when it first runs
#            (ruby/inside/edits); empty: without
# JIT_EDITS  a list of edits of YJIT; empty: without
# EDITED     folder for the edited files and their objects, which no place of installation is in
#
# Three objects differ from stock's: gc.o has our collector in it, version.o names it, and
# loadpath.o knows where the Ruby is installed. So does one extension, etc.so. Of a cross-compiled Ruby builtin.o
# differs, too (prelude.c). With EDITS or JIT_EDITS the objects of edited files differ, too.

inside_shim := $(wildcard $(RUBY_DIR)/shim/*.[ch])
inside_compile = $(CC) $(PATH_MAPS) $(CFLAGS) $(XCFLAGS) $(CPPFLAGS) $(lazy_flags)$(COUTFLAG)
# gc_impl.c is part of gc.c, and layout.c is a program of its own (ruby/build.rs).
inside_parts := $(patsubst %.c,$(OUT)/%.o,$(filter-out gc_impl.c layout.c,$(notdir $(wildcard $(RUBY_DIR)/shim/*.c))))
inside_objects := $(addprefix $(OUT)/,gc.o version.o loadpath.o)
ifeq ($(BUILTIN_BINARY),no)
inside_objects += $(OUT)/builtin.o
endif

ifneq ($(EDITS),)
# Files that are parts of vm.c have no objects of their own.
edited_parts := vm_insnhelper.c vm_method.c vm_eval.c
edited_files := $(shell awk '$$1 == "file" {print $$2}' $(EDITS))
edited_objects := $(patsubst %.c,$(EDITED)/%.o,$(filter-out $(edited_parts),$(edited_files)))
inside_objects += $(edited_objects)
lazy_flags = -DASHLAR_LAZY_CODE=1 #
endif

stock_objects := $(notdir $(inside_objects))

# A development build of YJIT is left as it is.
ifneq ($(and $(JIT_EDITS),$(filter yes,$(YJIT_SUPPORT)),$(YJIT_RUSTC_ARGS)),)
include $(RUBY_DIR)/inside/jit.mk
stock_objects += $(stock_jit)
endif

# The library that Ruby is: libruby-static.a, or a libruby.so if this Ruby is configured for one.
inside_library := $(OUT)/$(LIBRUBY)

.PHONY: inside-program
inside-program: $(OUT)/$(PROGRAM) $(inside_library) $(OUT)/etc.so

ifneq ($(EDITS),)
# An edited file finds the others beside itself, and all else where it was.
$(EDITED)/edits: $(EDITS) $(RUBY_DIR)/inside/edits/apply.sh $(addprefix $(srcdir)/,$(edited_files))
	mkdir -p $(EDITED)
	bash $(RUBY_DIR)/inside/edits/apply.sh $(EDITS) $(srcdir) $(EDITED)/source
	cp $(EDITS) $@

$(edited_objects): $(EDITED)/%.o: $(EDITED)/edits
	$(CC) $(PATH_MAPS) $(CFLAGS) $(XCFLAGS) $(CPPFLAGS) -DUSE_LAZY_LOAD=1 $(COUTFLAG)$@ -c $(EDITED)/source/$*.c
endif

# gc.c looks for the collector beside itself. Seen through this link, ours is there.
$(OUT)/alone/gc.o: $(inside_shim) $(RUBY_DIR)/inside/default.c
	mkdir -p $(OUT)/alone/gc/default
	ln -sf $(abspath $(srcdir)/gc.c) $(OUT)/alone/gc.c
	ln -sf $(RUBY_DIR)/inside/default.c $(OUT)/alone/gc/default/default.c
	$(inside_compile)$@ -I$(RUBY_DIR) -I$(RUBY_DIR)/shim -I$(srcdir)/gc -c $(OUT)/alone/gc.c

# The rest of the shim is what it is in the module, with the names of malloc exported.
$(inside_parts): $(OUT)/%.o: $(RUBY_DIR)/shim/%.c $(inside_shim)
	$(inside_compile)$@ -DBUILDING_MODULAR_GC -fvisibility=default -c $<

$(OUT)/gc.o: $(OUT)/alone/gc.o $(inside_parts) $(COLLECTOR) $(RUBY_DIR)/inside/join.sh
	CC="$(CC)" LD="$(LD)" NM="$(NM)" OBJCOPY="$(OBJCOPY)" bash $(RUBY_DIR)/inside/join.sh $@ $(COLLECTOR) $(OUT)/alone/gc.o $(inside_parts)

$(OUT)/version.o: $(RUBY_DIR)/inside/version.c
	$(inside_compile)$@ -I$(srcdir) -c $<

$(OUT)/builtin.o: $(RUBY_DIR)/inside/prelude.c $(srcdir)/builtin.c
	$(inside_compile)$@ -I$(srcdir) -c $<

# The file `prefix` is written when prefix is another one than before.
$(OUT)/verconf.h: verconf.h $(OUT)/prefix
	sed 's|^\(#define RUBY_EXEC_PREFIX[[:space:]]*\).*|\1"$(prefix)"|' $< >$@
	grep -q '"$(prefix)"' $@

$(OUT)/loadpath.o: $(OUT)/verconf.h
	$(CC) $(PATH_MAPS) $(CFLAGS) -I$(OUT) $(XCFLAGS) $(CPPFLAGS) $(COUTFLAG)$@ -c $(srcdir)/loadpath.c

# Etc.sysconfdir, where RubyGems looks for the system's gemrc, is compiled into the extension.
$(OUT)/etc/extconf.h: ext/etc/extconf.h $(OUT)/prefix
	mkdir -p $(OUT)/etc
	sed 's|^\(#define SYSCONFDIR[[:space:]]*\).*|\1"$(prefix)/etc"|' $< >$@
	grep -q '"$(prefix)/etc"' $@

$(OUT)/etc.so: $(OUT)/etc/extconf.h
	$(LDSHARED) $(PATH_MAPS) $(CFLAGS) -fPIC -I$(OUT)/etc -Iext/etc -I$(arch_hdrdir) -I$(hdrdir) -I$(srcdir)/ext/etc -I$(srcdir) -DRUBY_EXTCONF_H='"extconf.h"' \
		$(OUTFLAG)$@ $(srcdir)/ext/etc/etc.c

$(OUT)/$(LIBRUBY_A): $(inside_objects)
	$(RM) $@
	$(AR) $(ARFLAGS) $@ $(inside_objects) $(filter-out $(stock_objects),$(LIBRUBY_A_OBJS) $(INITOBJS))
	-$(RANLIB) $@

# As Ruby links its own. Nothing is bound to the library's own malloc here: the process's comes
# first, which is this one unless another is preloaded. Who unloads the library leaves it where it is:
# all objects' calls of free lead into it (ruby/src/interpose.rs), and so does what is called at a thread's end.
$(OUT)/$(LIBRUBY_SO): $(inside_objects)
	$(LDSHARED) $(DLDFLAGS) -Wl,-z,nodelete $(inside_objects) $(filter-out $(stock_objects),$(OBJS)) $(DLDOBJS) $(SOLIBS) $(EXTSOLIBS) $(OUTFLAG)$@.new
	$(OBJCOPY) -w -L 'Init_*' -L 'ruby_static_id_*' -L '*_threadptr_*' -L '*_ec_*' $@.new
	mv $@.new $@
	for name in $(filter-out $(LIBRUBY_SO),$(LIBRUBY_ALIASES)); do ln -sf $(LIBRUBY_SO) $(OUT)/$$name; done

# Our folder comes before the build tree's own among those that are searched for libraries.
$(OUT)/$(PROGRAM): $(inside_library)
	$(CC) -L$(OUT) $(EXE_LDFLAGS) $(XLDFLAGS) $(MAINOBJ) $(EXTOBJS) $(LIBRUBYARG) $(MAINLIBS) $(EXTLIBS) $(OUTFLAG)$@
