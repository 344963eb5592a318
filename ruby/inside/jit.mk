# YJIT with its edits (yjit.edits), from the same compiler and flags as stock's. Read by link.mk, where a
# Ruby was configured with YJIT in Rust's release mode.
# JIT_EDITS  the list of edits
# EDITED     folder for what is made
#
# Ruby 3.4, and Ruby 4.0 without ZJIT, make one library of YJIT; in 4.0 it takes a file of the folder jit beside it.
# Ruby 4.0 with ZJIT makes a library of three parts: YJIT is compiled again, the others are as they were.

jit_source := $(EDITED)/jit-source
jit_made := $(EDITED)/jit
jit_object := $(jit_made)/libyjit.o
stock_jit := $(YJIT_LIBOBJ) $(RUST_LIBOBJ)
inside_objects += $(jit_object)

# Paths in the program are those that PATH_MAPS gives to C, too.
jit_rustc = $(RUSTC) $(patsubst -ffile-prefix-map=%,--remap-path-prefix=%,$(PATH_MAPS))
jit_arguments = $(subst $(top_srcdir)/yjit/,$(jit_source)/yjit/,$(subst $(CARGO_TARGET_DIR)/release,$(jit_made),$(YJIT_RUSTC_ARGS)))

ifneq ($(strip $(YJIT_LIBS)),)
jit_library := $(jit_made)/libyjit.a
jit_commands = $(jit_rustc) $(jit_arguments)
else
jit_library := $(jit_made)/libruby.a
define jit_commands
$(jit_rustc) '-L$(dir $(RUST_LIB))' --extern=jit $(jit_arguments)
$(jit_rustc) --edition=2024 '-L$(dir $(RUST_LIB))' --extern=yjit=$(jit_made)/libyjit.rlib --extern=zjit \
	--crate-type=staticlib --cfg 'feature="yjit"' --cfg 'feature="zjit"' '--out-dir=$(jit_made)' '$(top_srcdir)/ruby.rs'
endef
endif

$(jit_object): $(JIT_EDITS) $(RUBY_DIR)/inside/edits/apply.sh $(RUBY_DIR)/inside/jit.mk $(YJIT_SRC_FILES)
	bash $(RUBY_DIR)/inside/edits/apply.sh $(JIT_EDITS) $(srcdir) $(jit_source)-edited
	rm -rf $(jit_source) $(jit_made)
	mkdir -p $(jit_source) $(jit_made)
	cp -R $(srcdir)/yjit $(wildcard $(srcdir)/jit) $(jit_source)
	cp -R $(jit_source)-edited/. $(jit_source)
	$(jit_commands)
	$(LD) -r -o $@.new --whole-archive $(jit_library)
	$(OBJCOPY) --wildcard --keep-global-symbol='$(SYMBOL_PREFIX)rb_*' $@.new
	mv $@.new $@
