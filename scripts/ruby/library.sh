# shellcheck shell=bash
# Compiles the collector library of this clone and puts it where the modular Ruby looks.
# `ensure_library` needs what `ensure_rubies` sets; it sets ASHLAR_LIB.

SHIM_FLAGS=(-DBUILDING_MODULAR_GC -fPIC -O3 -g1 -fno-strict-aliasing
  -fno-semantic-interposition -Wall)
# Not -Bsymbolic: it would make the library find its own malloc when it looks for the process's.
LINK_FLAGS=(-shared -Wl,-Bsymbolic-functions -Wl,-z,lazy -Wl,--gc-sections)
RUST_NEEDS=(-lgcc_s -lpthread -ldl -lm)

compile_library() {
  local shim=$CLONE/ruby/shim objects=$BUILD/library source
  local static=${CARGO_TARGET_DIR:-$CLONE/target}/$CARGO_MADE/libashlar_ruby.a made=$BUILD/librubygc.ashlar.so
  ASHLAR_RUBY_CFLAGS=$(ruby_include_flags)
  export ASHLAR_RUBY_CFLAGS
  (cd "$CLONE" && cargo build --locked --quiet --release -p ashlar-ruby) >&2 || exit 1
  if [[ -e $made && ! $static -nt $made && ! ${BASH_SOURCE[0]} -nt $made &&
    ! $RUBY_ARCH_HEADERS/ruby/config.h -nt $made && -z $(find "$shim" -type f -newer "$made") ]]; then
    return
  fi
  check_source_contents
  rm -rf "$objects"
  mkdir -p "$objects"
  for source in "$shim"/*.c; do
    [[ $source == */layout.c ]] && continue # a program of its own, run by ruby/build.rs
    # shellcheck disable=SC2086
    ${CC:-cc} "${SHIM_FLAGS[@]}" $ASHLAR_RUBY_CFLAGS -c "$source" \
      -o "$objects/$(basename "$source" .c).o" >&2 || exit 1
  done
  # Under LD_PRELOAD the library is also in processes without a Ruby: there, Ruby's symbols are 0.
  for source in "$objects"/*.o; do
    "${OBJCOPY:-objcopy}" --wildcard --weaken-symbol='rb_*' --weaken-symbol='ruby_*' "$source" || exit 1
  done
  ${CC:-cc} "${LINK_FLAGS[@]}" -Wl,--version-script="$shim/exports.map" \
    "$objects"/*.o "$static" "${RUST_NEEDS[@]}" -o "$made.new" >&2 || exit 1
  mv "$made.new" "$made"
}

# Processes that already run keep the file they have open: files are replaced, never
# written over. `ashlar` is the library that was made last, whichever clone it is from.
install_library() {
  local made=$BUILD/librubygc.ashlar.so
  ASHLAR_LIB=$COLLECTORS/librubygc.$CLONE_LIBRARY.so
  [[ -w $COLLECTORS ]] || fail "$COLLECTORS, where this Ruby looks for collectors, cannot be written to." \
    'Run as the user who owns that Ruby, or set RUBY_SRC to build one of your own.'
  if ! cmp -s "$made" "$ASHLAR_LIB"; then
    cp "$made" "$ASHLAR_LIB.new"
    mv "$ASHLAR_LIB.new" "$ASHLAR_LIB"
  fi
  ln -sfn "librubygc.$CLONE_LIBRARY.so" "$COLLECTORS/ashlar.$$"
  mv -T "$COLLECTORS/ashlar.$$" "$COLLECTORS/librubygc.ashlar.so"
}

ensure_library() {
  ensure_rust
  hold_lock "library-$CLONE_LIBRARY"
  compile_library
  install_library
}
