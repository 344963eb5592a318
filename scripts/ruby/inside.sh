# shellcheck shell=bash
# A Ruby with Ashlar inside: linked from the objects of the stock Ruby. Three of them and YJIT are
# replaced (ruby/inside/link.mk), once for each list of edits, so a change of ours takes as long as
# compiling the collector. With SHARED=yes it is one with a libruby.so; the
# objects of that are other ones, so a second Ruby is compiled then.
# `ensure_inside` needs what rubies.sh gives; it sets RUBY_INSIDE, RUBY_INSIDE_BUILD (a build tree
# with that program in it, for Ruby's own tests), RUBY_BASE and RUBY_BASE_BUILD (the Ruby that it is
# linked from).

# list_for_version NAME: prints the path of ruby/inside/edits/NAME.edits if that list was made for this version of Ruby.
list_for_version() {
  local list=$CLONE/ruby/inside/edits/$1.edits
  [[ ! -e $list ]] || ! grep -Eq "^for .*\b${SOURCE_VERSION//./[.]}( |$)" "$list" || echo "$list"
}

# find_edits: sets INSIDE_EDITS, the list of edits by which Ruby loads code when it first runs, empty without, and
# INSIDE_JIT_EDITS, the list of edits of YJIT; each is empty for versions that it was not made for.
find_edits() {
  local series=${SOURCE_VERSION%.*}
  INSIDE_JIT_EDITS=$(list_for_version yjit)
  [[ $INSIDE_JIT_EDITS ]] ||
    say "YJIT of Ruby $SOURCE_VERSION is as it was, and forked processes copy the memory of its code: ruby/inside/edits/yjit.edits does not name this version."
  INSIDE_EDITS=
  case ${LAZY-} in
    '' | yes) INSIDE_EDITS=$(list_for_version "ruby_${series/./_}") ;;
    no) return ;;
    *) fail "LAZY=$LAZY is not possible; it is yes, for a Ruby that loads kept code when it first runs, or no." ;;
  esac
  [[ $INSIDE_EDITS ]] || say "Ruby $SOURCE_VERSION loads all code at once: ruby/inside/edits has no list for this version."
}

# find_inside: sets what the functions below use, and builds the Ruby that it is linked from
# if it is not there.
find_inside() {
  local kind=stock
  case ${SHARED-} in
    '' | no) ;;
    yes) kind=shared ;;
    *) fail "SHARED=$SHARED is not possible; it is yes, for a Ruby with a libruby.so, or no." ;;
  esac
  ensure_kind "$kind"
  INSIDE_BASE=$(ruby_folder "$kind")
  # A folder for each clone: each tests and measures its own collector.
  INSIDE=$(ruby_folder inside)-$(printf %s "$CLONE" | digest8)
  [[ $kind == stock ]] || INSIDE=$INSIDE-$kind
  find_edits
  [[ ! $INSIDE_EDITS ]] || INSIDE=$INSIDE-lazy
  INSIDE_ARCH_HEADERS=$(dirname "$(dirname "$(find "$INSIDE_BASE/build/.ext/include" -path '*/ruby/config.h')")")
}

# make_inside OUT PREFIX: the collector and the program. The collectors of all versions are compiled in one folder, so one is made
# and linked at a time. The lock of this Ruby is kept.
make_inside() {
  local kept=$LOCK_DESCRIPTOR
  hold_lock "inside-$CLONE_LIBRARY"
  compile_inside_collector
  link_inside "$@"
  release_lock
  LOCK_DESCRIPTOR=$kept
}

# The collector for this Ruby, apart from that of the module: their headers differ.
compile_inside_collector() {
  local target=${CARGO_TARGET_DIR:-$CLONE/target}/inside
  INSIDE_COLLECTOR=$target/$CARGO_MADE/libashlar_ruby.a
  ASHLAR_RUBY_CFLAGS=$(RUBY_ARCH_HEADERS=$INSIDE_ARCH_HEADERS RUBY_SOURCE=$SOURCE RUBY_BUILD=$INSIDE_BASE/build ruby_include_flags) \
    cargo build --locked --quiet --release -p ashlar-ruby --manifest-path "$CLONE/Cargo.toml" --target-dir "$target" >&2 || exit 1
}

# link_inside OUT PREFIX: makes the program, for this place of installation. With ASHLAR_REPRODUCIBLE=yes, as for
# packages, no path of this clone is in it, and debuggers do not find its source by themselves.
link_inside() {
  local out=$1 prefix=$2 command
  local maps='' edited=$INSIDE/edited
  if [[ ${ASHLAR_REPRODUCIBLE-} == yes ]]; then
    edited=$INSIDE/edited-package
    maps="-ffile-prefix-map=$out=ashlar -ffile-prefix-map=$edited=ashlar -ffile-prefix-map=$CLONE=ashlar"
  fi
  mkdir -p "$out"
  [[ -e $out/prefix && $(<"$out/prefix") == "$prefix" ]] || printf '%s\n' "$prefix" >"$out/prefix"
  command=(make -C "$INSIDE_BASE/build" --no-print-directory -f GNUmakefile -f "$CLONE/ruby/inside/link.mk"
    OUT="$out" RUBY_DIR="$CLONE/ruby" COLLECTOR="$INSIDE_COLLECTOR" prefix="$prefix" PATH_MAPS="$maps" "$DEBUG_FLAGS" V=1 inside-program)
  command+=("-j$(nproc)" EDITED="$edited" EDITS="$INSIDE_EDITS" JIT_EDITS="$INSIDE_JIT_EDITS")
  ! "${command[@]}" --question >/dev/null 2>&1 || return 0
  check_source_contents
  run_logged 'Ashlar inside: link' 25 "$INSIDE/log" "${command[@]}"
}

# complete_bundled_gems FOLDER: Debian's source names fewer files of some gems than it has.
complete_bundled_gems() {
  local gem installed
  for gem in "$SOURCE"/.bundle/gems/*; do
    installed=$(find "$1/lib/ruby/gems" -maxdepth 3 -path "*/gems/${gem##*/}")
    [[ ! $installed || ! -d $gem/lib ]] || cp -rn "$gem/lib" "$installed/"
  done
}

# stage_ruby FOLDER PREFIX: everything of a Ruby for PREFIX but the program, in FOLDER: what
# stock's own installation makes, with the bundled gems, under another name.
stage_ruby() {
  local folder=$1 prefix=$2 base=$INSIDE_BASE/prefix file
  rm -rf "$folder"
  cp -a "$base" "$folder"
  mkdir -p "$folder/share/man/man1"
  cp "$SOURCE"/man/*.1 "$folder/share/man/man1/"
  complete_bundled_gems "$folder"
  while IFS= read -r file; do sed -i "s|$base|$prefix|g" "$file"; done \
    < <(grep -rlIF "$base" "$folder")
  # Ruby 4.0 names a library there that only its own build reads.
  find "$folder/lib" -name rbconfig.rb -exec sed -i "s|$INSIDE_BASE/build/||g" {} +
  describe_as_native "$folder"
  name_libraries "$base/bin/ruby" "$folder"
  forget_run_path "$base/lib" "$folder"
  forget_run_path "$INSIDE_BASE/build" "$folder"
}

# forget_run_path PATH FOLDER: extensions that were linked with a libruby.so look for all
# libraries where that was, in the cache or in the build tree, where a user might put others;
# they find libruby.so loaded already. In a file that is linked nothing can change its place,
# so the new path is as long as the old one: zeros follow it.
forget_run_path() {
  local old=$1 new='$ORIGIN' zeros file
  printf -v zeros '%*s' $((${#old} - ${#new})) ''
  while IFS= read -r file; do
    LC_ALL=C sed -i "s|$old\\x00|$new${zeros// /\\x00}\\x00|g" "$file"
  done < <(grep -rlF --include='*.so' "$old" "$2" || true)
}

# name_libraries PROGRAM FOLDER: rbconfig.rb names the libraries that a linker needs with libruby-static.a by the files that the program
# loads, such as libz.so.1. Every extconf.rb that looks for a function links them, and finds -lz only where the development package is installed.
name_libraries() {
  local library name edits=()
  while IFS= read -r library; do
    name=${library#lib}
    edits+=(-e "/MAINLIBS.*=/s/-l${name%%.so.*}\\b/-l:$library/g")
  done < <(readelf --dynamic "$1" | sed -nE 's/.*\(NEEDED\).*\[(lib(z|gmp|crypt)\.so\.[0-9]+)\]/\1/p')
  ((!${#edits[@]})) || find "$2/lib" \( -name rbconfig.rb -o -name 'ruby-*.pc' \) -exec sed -i "${edits[@]}" {} +
}

# add_files FOLDER: this clone's files in Ruby, for require "ashlar/profile". The folder is
# the last of those that every Ruby searches.
add_files() {
  mkdir -p "$1/lib/ruby/site_ruby"
  cp -r "$CLONE/ruby/lib/ashlar" "$1/lib/ruby/site_ruby/"
}

# compile_launcher SOURCE PROGRAM: a static one has the lowest floor of memory; where no static C library is installed a dynamic
# one does.
compile_launcher() {
  "${CC:-cc}" -O2 -static -o "$2" "$1" 2>/dev/null || "${CC:-cc}" -O2 -o "$2" "$1" >&2 ||
    fail 'the launcher of ashlar mem does not compile.'
}

# add_ashlar FOLDER PREFIX: the program `ashlar`, for Python's standard library alone, with its manual and what it starts: the launcher of
# `ashlar mem`, and what reads dumps for `ashlar retained`. Where this machine's Python is new enough its code is compiled, so that it starts as quickly for
# users who may not write there.
add_ashlar() {
  local place=$1/lib/ashlar target=${CARGO_TARGET_DIR:-$CLONE/target}/inside programs
  programs=$place/ashlar_programs/${MACHINE:-$(uname -m)}
  mkdir -p "$1/bin" "$1/share/man/man1" "$programs"
  cp "$CLONE/man/ashlar.1" "$1/share/man/man1/"
  tar -C "$CLONE/lab/src" --exclude=__pycache__ -cf - ashlar | tar -C "$place" -xf -
  cp "$CLONE/scripts/lab/ashlar" "$1/bin/ashlar"
  compile_launcher "$place/ashlar/memory/launcher.c" "$programs/launcher"
  cargo build --locked --quiet --release -p ashlar-heap-graph --manifest-path "$CLONE/Cargo.toml" --target-dir "$target" >&2 || exit 1
  cp "$target/$CARGO_MADE/ashlar-heap-graph" "$programs/heap-graph"
  ! python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null ||
    python3 -m compileall -q --invalidation-mode unchecked-hash -s "$place" -p "$2/lib/ashlar" "$place/ashlar"
}

# add_program OUT FOLDER: the program, its libraries and the extension that knows where it is installed,
# replaced by renaming: who runs the old ones keeps them.
add_program() {
  local out=$1 folder=$2 file place
  for file in "$out"/ruby "$out"/libruby* "$out"/etc.so; do
    case $file in
      */ruby) place=$folder/bin/ruby ;;
      */etc.so) place=$(find "$folder/lib/ruby" -path '*/gems' -prune -o -name etc.so -print) ;;
      *) place=$folder/lib/${file##*/} ;;
    esac
    cp -P --preserve=mode,links "$file" "$place.new"
    mv -T "$place.new" "$place"
  done
}

# lay_out_build_tree: the build tree that Ruby's own tests run from, with our program in it. It is
# the other Ruby's, seen through links, but for what is ours and for rbconfig.rb, which says where
# it is itself and where the Ruby will be installed. That is written last.
lay_out_build_tree() {
  local base=$INSIDE_BASE/build tree=$INSIDE/build file
  rm -rf "$tree"
  mkdir "$tree"
  while IFS= read -r file; do ln -s "$base/$file" "$tree/$file"; done \
    < <(find "$base" -mindepth 1 -maxdepth 1 ! -name '*.o' ! -name rbconfig.rb -printf '%f\n')
  ln -sf "$INSIDE/prefix/bin/ruby" "$tree/ruby"
  for file in "$INSIDE"/objects/libruby*; do ln -sf "$INSIDE/prefix/lib/${file##*/}" "$tree/"; done
  sed "s|$INSIDE_BASE/prefix|$INSIDE/prefix|g" "$base/rbconfig.rb" >"$tree/rbconfig.new"
  mv "$tree/rbconfig.new" "$tree/rbconfig.rb"
}

# A Ruby of this name that does not name the collector is another one.
check_inside() {
  [[ $("${RUN_MADE[@]}" "$1" --disable-gems -e 'print GC.config[:implementation]') == ashlar ]] ||
    fail "$1 was built and does not run on Ashlar; see $INSIDE/log."
  local libraries=(openssl psych)
  # A bundled gem, which a checkout of Ruby's repository lacks.
  [[ ! -d $(echo "$SOURCE"/.bundle/gems/bigdecimal-*) ]] || libraries+=(bigdecimal)
  "${RUN_MADE[@]}" "$1" "${libraries[@]/#/-r}" -e 0 ||
    fail "$1 was built and lacks a library; see $INSIDE/log."
}

# ensure_inside: this clone's Ruby with this clone's collector, in the cache.
# shellcheck disable=SC2034
ensure_inside() {
  find_inside
  ensure_rust
  hold_lock "$(basename "$INSIDE")"
  mkdir -p "$INSIDE"
  : >"$INSIDE/log"
  make_inside "$INSIDE/objects" "$INSIDE/prefix"
  if [[ ! $INSIDE/finished -nt $INSIDE_BASE/finished ]]; then
    stage_ruby "$INSIDE/prefix" "$INSIDE/prefix"
  fi
  add_files "$INSIDE/prefix"
  RUBY_INSIDE=$INSIDE/prefix/bin/ruby
  if [[ ! $INSIDE/finished -nt $INSIDE/objects/ruby ]]; then
    add_program "$INSIDE/objects" "$INSIDE/prefix"
    check_inside "$RUBY_INSIDE"
    touch "$INSIDE/finished"
  fi
  RUBY_INSIDE_BUILD=$INSIDE/build
  [[ $RUBY_INSIDE_BUILD/rbconfig.rb -nt $INSIDE_BASE/finished ]] || lay_out_build_tree
  RUBY_BASE=$INSIDE_BASE/prefix/bin/ruby
  RUBY_BASE_BUILD=$INSIDE_BASE/build
}
