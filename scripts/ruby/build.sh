# shellcheck shell=bash
# Builds and installs one Ruby from SOURCE into the cache. A build is finished when its
# folder has the file `finished`, written last; anything else is removed and built again.
# The kinds: modular, which can load a collector, stock, and shared, which is stock with a
# libruby.so. Trees are kept: Ruby's tests run from them, and a Ruby with Ashlar inside is linked
# from the objects of stock or shared (inside.sh).

# Raise a kind's number when the recipe below changes what it makes.
declare -A RECIPE=([modular]=2 [stock]=3 [shared]=2 [inside]=2)

# Ruby's own -ggdb3 puts each macro into each object. Names and lines are enough for backtraces and profilers. Then
# compiling takes three quarters of the time, and a Ruby two fifths of the space. This is told to make, so extensions that
# users compile have what configure chose.
DEBUG_FLAGS=debugflags=-g1

# Lines that each step prints, for the progress bar.
CONFIGURE_LINES=620
MAKE_LINES=1150

ruby_folder() { echo "$RUBIES/$SOURCE_ID-$1-r${RECIPE[$1]}"; }

configure_flags() {
  local folder
  folder=$(ruby_folder "$1")
  echo "--prefix=$folder/prefix --disable-install-doc --enable-yjit"
  case $1 in
    modular) echo "--with-modular-gc=$folder/prefix/lib/ruby-gc" ;;
    shared) echo --enable-shared ;;
  esac
  cross_configure_flags
}

ruby_is_built() { [[ -e $(ruby_folder "$1")/finished ]]; }

# build_ruby modular|stock|shared
build_ruby() {
  local kind=$1 folder
  folder=$(ruby_folder "$kind")
  ruby_is_built "$kind" && return
  ensure_build_packages
  ensure_rust
  ensure_base_ruby
  (
    hold_lock "$(basename "$folder")"
    ruby_is_built "$kind" && exit 0
    check_source_contents
    rm -rf "$folder"
    mkdir -p "$folder/build"
    cd "$folder/build" || exit
    local log=$folder/log label="Ruby $SOURCE_VERSION $kind"
    : >"$log"
    # What `make install` was told is about the Ruby with Ashlar inside: this one's own makefiles
    # would obey it, too, and its configure would take STRIP=yes for the name of a program.
    unset DESTDIR STRIP MAKEFLAGS MFLAGS MAKEOVERRIDES
    # shellcheck disable=SC2046
    CONFIG_SITE=$(site_file) run_logged "$label: configure" $CONFIGURE_LINES "$log" "$SOURCE/configure" $(configure_flags "$kind")
    reuse_yjit
    run_logged "$label: compile" $MAKE_LINES "$log" make "-j$(nproc)" "$DEBUG_FLAGS"
    # Ruby's own tests are started by it. For another machine nothing else wants it.
    [[ ! $MACHINE ]] || run_logged "$label: miniruby" 60 "$log" make "-j$(nproc)" "$DEBUG_FLAGS" miniruby
    install_ruby "$label" "$log"
    [[ $kind != modular ]] || run_logged "$label: default collector" 30 "$log" \
      make install-modular-gc MODULAR_GC=default "$DEBUG_FLAGS"
    check_ruby "$folder/prefix/bin/ruby"
    touch "$folder/finished"
  ) || exit
  CONFIGURED=$folder/build
}

# site_file: a file that configure reads at its start, in the current folder. It says where to keep what is found out about this machine, a
# minute's work on one core. What this process has found for another kind is there already; what an earlier one found may be so no more. An
# argument of configure would say so, too, but Ruby tells its users the arguments.
CONFIGURED=
site_file() {
  if [[ ${CONFIG_SITE-} ]]; then
    echo "$CONFIG_SITE"
    return
  fi
  [[ ! -e $CONFIGURED/config.cache ]] || cp "$CONFIGURED/config.cache" .
  echo "cache_file=$PWD/config.cache" >config.site
  echo "$PWD/config.site"
}

# YJIT is a library in Rust, of the same source and options in each kind: in the current
# folder, what another kind's build has made of it is taken.
reuse_yjit() {
  local made=yjit/target/release build
  for build in "$RUBIES/$SOURCE_ID"-*/build; do
    [[ -e $build/../finished && -e $build/$made/libyjit.a && -e $build/$made/libyjit.o ]] || continue
    mkdir -p "$made"
    cp "$build/$made/libyjit.a" "$made/"
    cp "$build/$made/libyjit.o" "$made/"
    return
  done
}

# Part by part: installing all at once would fetch the bundled gems that a source lacks from the network. Those that it has
# come with the extensions. The common headers too.
install_ruby() {
  run_logged "$1: install" 60 "$2" make install-bin \
    INSTRUBY_OPTS='--install=lib --install=ext --install=arch --install=hdr'
}

# A Ruby built without these would run, and fail later.
check_ruby() {
  local library
  for library in openssl psych zlib fiddle; do
    # From Ruby 4.0 on a bundled gem, which a checkout of Ruby's repository lacks.
    [[ $library != fiddle || -d $SOURCE/ext/fiddle || -d $(echo "$SOURCE"/.bundle/gems/fiddle-*) ]] || continue
    "${RUN_MADE[@]}" "$1" -e "require '$library'" ||
      fail "the Ruby just built has no $library: its development files were missing." \
        'Install the headers of OpenSSL, libyaml, zlib and libffi, then try again.'
  done
  "${RUN_MADE[@]}" "$1" --yjit -e 'exit RubyVM::YJIT.enabled?' || fail 'the Ruby just built has no YJIT: rustc was not usable.'
}
