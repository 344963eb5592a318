#!/usr/bin/env bash
# Makes the Debian package and the tarball, installs each on this machine, tries the Ruby,
# and removes it again; and installs into a folder of another user, from a cache of another user.
# All with a umask that forbids everything. As root, on Debian.
#   packaging/try.sh                    all of them
#   SHARED=yes packaging/try.sh tarball    one of them, with a libruby.so
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

fail() {
  echo "try.sh: $*" >&2
  exit 2
}

# What a user does first: a version, libraries in C, a gem in C of their own.
try() {
  local ruby=$1 prefix=$2 folder=$3
  "$ruby" -v | grep -F '+GC[ashlar]'
  "$ruby" -e '
    %w[json openssl psych zlib bigdecimal fiddle socket].each { require _1 }
    abort "not on Ashlar" unless GC.config[:implementation] == "ashlar"
    abort "wrong prefix" unless RbConfig::CONFIG["prefix"] == ARGV.first
    texts = Array.new(3_000) { |n| JSON.parse(JSON.generate(n => "v" * (n % 300)))[n.to_s] }
    GC.start
    abort "wrong" unless Zlib.inflate(Zlib.deflate(texts.join)).size == texts.sum(&:size)' "$prefix"
  mkdir "$folder"
  cat >"$folder/three.c" <<'C'
#include <ruby.h>
static VALUE three(VALUE self) { return rb_ary_new_from_args(1, rb_str_new_cstr("three")); }
void Init_three(void) { rb_define_global_function("three", three, 0); }
C
  (cd "$folder" && "$ruby" -e 'require "mkmf"; abort "no function found" unless have_func("rb_ary_new"); create_makefile("three")' && make) \
    >"$folder/log" 2>&1 || fail "an extension in C was not made; see $folder/log"
  [[ $("$ruby" -I "$folder" -e 'require "three"; print three.first') == three ]] || fail 'an extension in C gave a wrong answer'
}

# `ashlar`, which is installed with it, shows a profile, who keeps what in a dump, a command's memory, and that on the Ruby beside it; what these
# start is there, and so is its manual.
try_ashlar() {
  local ruby=$1 ashlar=$2 folder=$3 manual=$4
  (cd "$folder" && ASHLAR_PROFILE=app.heap ASHLAR_PROFILE_BYTES=4K "$ruby" -e 'KEPT = Array.new(9_000) { "kept" * 20 }; GC.config(dump: "app.dump")')
  PATH=/usr/bin:/bin "$ashlar" heap "$folder/app.heap" | grep -F 'By line' >/dev/null || fail 'ashlar heap shows nothing'
  PATH=/usr/bin:/bin "$ashlar" retained "$folder/app.dump" | grep -F 'Classes by retained size' >/dev/null || fail 'ashlar retained shows nothing'
  PATH=/usr/bin:/bin "$ashlar" mem -- true 2>&1 | grep -F 'at exit' >/dev/null || fail 'ashlar mem shows nothing'
  PATH=/usr/bin:/bin "$ashlar" try --only ashlar --form terminal -- ruby -e 'sleep 1' | grep -F 'memory, mean' >/dev/null || fail 'ashlar try shows nothing'
  [[ -e $manual ]] || fail "the manual of ashlar is not in $manual"
}

# Libraries are those of the system and of this Ruby, wherever it was made. An extension finds
# libruby.so loaded.
check_libraries() {
  local prefix=$1 file path missing
  while IFS= read -r file; do
    missing=$(ldd "$file" 2>/dev/null | awk '/not found/{print $1}')
    [[ ! $missing || ($file == *.so && $missing == libruby.so.*) ]] || fail "$file lacks a library: $missing"
    path=$(objdump -p "$file" 2>/dev/null | awk '/RUNPATH|RPATH/{print $2}')
    [[ ! $path || $path == "$prefix/lib" || $path == '$ORIGIN' ]] || fail "$file looks for libraries in $path"
  done < <(find "$prefix/bin/ruby" "$prefix/lib" -type f \( -name ruby -o -name '*.so*' \))
  [[ ${SHARED-} != yes || -e $prefix/lib/libruby.so ]] || fail "$prefix has no libruby.so"
}

# check_owners FOLDER: everything in it is root's, everybody may read it, only root write it,
# and no program gives rights.
check_owners() {
  local found
  found=$(find "$1" -mindepth 1 \( ! -user 0 -o ! -group 0 -o ! -type l -perm /7022 \
    -o -type f ! -perm -444 -o -type d ! -perm -555 \) | head -n 3)
  [[ ! $found ]] || fail "owners or modes are wrong: $(xargs -d '\n' ls -ld <<<"$found")"
}

try_package() {
  local prefix=/usr/lib/ruby-ashlar package
  [[ ! -e $prefix ]] || fail "$prefix is there already; remove it (apt remove ruby-ashlar), then try again"
  package=$(umask 077 && "$here/debian-package.sh")
  trap 'dpkg --purge ruby-ashlar >/dev/null 2>&1; rm -rf "$work"' EXIT
  dpkg -i "$package" >/dev/null
  check_owners "$prefix"
  try /usr/bin/ruby-ashlar "$prefix" "$work/package"
  try_ashlar /usr/bin/ruby-ashlar /usr/bin/ashlar "$work/package" /usr/share/man/man1/ashlar.1.gz
  check_libraries "$prefix"
  dpkg --purge ruby-ashlar >/dev/null
  trap 'rm -rf "$work"' EXIT
  [[ ! -e $prefix && ! -e /usr/bin/ruby-ashlar && ! -e /usr/bin/ashlar ]] || fail 'the package has left files behind'
  echo "$package: installed, tried and removed"
}

try_tarball() {
  local prefix=/opt/ruby-ashlar tarball
  [[ ! -e $prefix ]] || fail "$prefix is there already; remove it, then try again"
  tarball=$(umask 077 && "$here/tarball.sh")
  ! tar -tf "$tarball" | grep -Ex '(\./|opt/)' || fail "$tarball has folders that are not Ruby's"
  trap 'rm -rf /opt/ruby-ashlar "$work"' EXIT
  tar -C / -xf "$tarball"
  check_owners "$prefix"
  try "$prefix/bin/ruby" "$prefix" "$work/tarball"
  try_ashlar "$prefix/bin/ruby" "$prefix/bin/ashlar" "$work/tarball" "$prefix/share/man/man1/ashlar.1"
  check_libraries "$prefix"
  rm -r "$prefix"
  trap 'rm -rf "$work"' EXIT
  echo "$tarball: unpacked, tried and removed"
}

# As from a cache that belongs to another user, who lets a group write in it: in a file system
# of this command's own, so the cache stays as it is.
try_place() {
  local prefix=$work/place exports base before='1751 23456:23457' folder
  exports=$("$here/../scripts/ruby/env.sh" --inside)
  base=$(eval "$exports" && dirname "$(dirname "$RUBY_BASE")")
  cp -a "$base" "$work/theirs"
  chown -hR 12345:12346 "$work/theirs"
  chmod -R g+w,o-rx "$work/theirs"
  mkdir "$prefix" "$prefix/lib" "$prefix/share"
  chown 23456:23457 "$prefix" "$prefix/lib" "$prefix/share"
  chmod 1751 "$prefix" "$prefix/lib" "$prefix/share"
  # shellcheck disable=SC2016
  (umask 077 && unshare --mount bash -c 'mount --bind "$1" "$2" && exec make -C "$3" --no-print-directory install PREFIX="$4"' - \
    "$work/theirs" "$base" "$here/.." "$prefix") || fail "make install from another user's cache failed"
  rm -r "$work/theirs"
  for folder in "$prefix" "$prefix/lib" "$prefix/share"; do
    [[ $(stat -c '%a %u:%g' "$folder") == "$before" ]] || fail "$folder was changed: $(stat -c '%a %u:%g' "$folder") instead of $before"
  done
  chown 0:0 "$prefix/lib" "$prefix/share"
  chmod 755 "$prefix" "$prefix/lib" "$prefix/share"
  check_owners "$prefix"
  try "$prefix/bin/ruby" "$prefix" "$work/installed"
  try_ashlar "$prefix/bin/ruby" "$prefix/bin/ashlar" "$work/installed" "$prefix/share/man/man1/ashlar.1"
  check_libraries "$prefix"
  rm -r "$prefix"
  echo "make install from another user's cache: installed, tried and removed"
}

((EUID == 0)) || fail 'installing takes root; run it with sudo.'
command -v dpkg >/dev/null || fail 'this needs Debian, for its package.'
work=$(mktemp -d)
chmod 755 "$work"
trap 'rm -rf "$work"' EXIT
kinds=("$@")
((${#kinds[@]})) || kinds=(package tarball place)
for kind in "${kinds[@]}"; do
  case $kind in
    package | tarball | place) "try_$kind" ;;
    *) fail "there is no '$kind'; there are: package tarball place" ;;
  esac
done
