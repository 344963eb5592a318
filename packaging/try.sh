#!/usr/bin/env bash
# Makes the Debian package and the tarball, installs each on this machine, tries the Ruby,
# and removes it again; installs into a folder of another user, from a cache of another user; installs a later
# version of the package over an earlier one; makes both again in another clone, which must give the same bytes; and compares what a
# release leaves with what it lists.
# All with a umask that forbids everything. As root, on Debian.
#   packaging/try.sh                    all of them, but suites
#   SHARED=yes packaging/try.sh tarball    one of them, with a libruby.so
#   BUNDLED_GEMS=no RUBY_SRC=~/src/ruby packaging/try.sh package    from a checkout of Ruby's repository, which lacks bundled gems
#   SUITES="bookworm trixie" packaging/try.sh suites    the package and the tarball in a Debian of each suite (needs mmdebstrap)
#   ASHLAR_MACHINE=aarch64 packaging/try.sh suites      that for arm64, in an emulator (needs qemu-user-static and binfmt-support, too)
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
    %w[json openssl psych zlib socket].each { require _1 }
    %w[bigdecimal fiddle].each { require _1 } unless ENV["BUNDLED_GEMS"] == "no"
    abort "not on Ashlar" unless GC.config[:implementation] == "ashlar"
    abort "wrong prefix" unless RbConfig::CONFIG["prefix"] == ARGV.first
    require "etc"
    abort "wrong sysconfdir: #{Etc.sysconfdir}" unless Etc.sysconfdir == "#{ARGV.first}/etc"
    texts = Array.new(3_000) { |n| JSON.parse(JSON.generate(n => "v" * (n % 300)))[n.to_s] }
    GC.start
    abort "wrong" unless Zlib.inflate(Zlib.deflate(texts.join)).size == texts.sum(&:size)' "$prefix"
  mkdir "$folder"
  try_extension '' "$ruby" "$folder"
}

# try_extension ROOT RUBY FOLDER: a gem in C of one's own, compiled in that folder of that root; an empty ROOT is this machine's.
try_extension() {
  local folder=$1$3 run=(chroot "$1/")
  cat >"$folder/three.c" <<'C'
#include <ruby.h>
static VALUE three(VALUE self) { return rb_ary_new_from_args(1, rb_str_new_cstr("three")); }
void Init_three(void) { rb_define_global_function("three", three, 0); }
C
  cat >"$folder/extconf.rb" <<'RUBY'
require "mkmf"
abort "no function found" unless have_func("rb_ary_new")
create_makefile("three")
RUBY
  # shellcheck disable=SC2016
  "${run[@]}" sh -c 'cd "$2" && "$1" extconf.rb && make' - "$2" "$3" >"$folder/log" 2>&1 ||
    fail "an extension in C was not made: $(tail -n 12 "$folder/log" "$folder/mkmf.log")"
  [[ $("${run[@]}" "$2" -I "$3" -e 'require "three"; print three.first') == three ]] || fail 'an extension in C gave a wrong answer'
}

# try_reports ROOT RUBY ASHLAR FOLDER: `ashlar` shows a profile, and who keeps what in a dump; both of that Ruby, in that folder of that
# root. An empty ROOT is this machine's.
try_reports() {
  local ruby=$2 ashlar=$3 folder=$4 run=(chroot "$1/" env PATH=/usr/bin:/bin)
  # shellcheck disable=SC2016
  "${run[@]}" sh -c 'cd "$1" && ASHLAR_PROFILE=app.heap ASHLAR_PROFILE_BYTES=4K exec "$2" -e "$3"' - "$folder" "$ruby" \
    'KEPT = Array.new(9_000) { "kept" * 20 }; GC.config(dump: "app.dump")'
  "${run[@]}" "$ashlar" heap "$folder/app.heap" | grep -F 'By line' >/dev/null || fail 'ashlar heap shows nothing'
  "${run[@]}" "$ashlar" retained "$folder/app.dump" | grep -F 'Classes by retained size' >/dev/null || fail 'ashlar retained shows nothing'
}

# `ashlar`, which is installed with it, shows those, a command's memory, and that on the Ruby beside it; what these start is there, and so is
# its manual.
try_ashlar() {
  local ruby=$1 ashlar=$2 folder=$3 manual=$4
  try_reports '' "$ruby" "$ashlar" "$folder"
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

# make_package: sets package, a Debian package of this clone; it is made once for all that try it.
package=
make_package() { [[ $package ]] || package=$(umask 077 && "$here/debian-package.sh"); }

# install_package PREFIX: until the trap is set again, the end of this command removes it.
install_package() {
  [[ ! -e $1 ]] || fail "$1 is there already; remove it (apt remove ruby-ashlar), then try again"
  make_package
  trap 'dpkg --purge ruby-ashlar >/dev/null 2>&1; rm -rf /usr/lib/ruby-ashlar "$work"' EXIT
  dpkg -i "$package" >/dev/null
}

try_package() {
  local prefix=/usr/lib/ruby-ashlar
  install_package "$prefix"
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

# try_upgrade: a later version of the package takes the place of an earlier one and keeps gems that the user has installed and
# a gemrc; who runs the old Ruby meanwhile goes on.
try_upgrade() {
  local prefix=/usr/lib/ruby-ashlar later=$work/later.deb gem=$work/gem old
  install_package "$prefix"
  mkdir -p "$gem/lib" "$prefix/etc"
  echo 'module Kept; VALUE = "kept"; end' >"$gem/lib/kept.rb"
  echo 'Gem::Specification.new { |s| s.name = "kept"; s.version = "1"; s.summary = s.author = "kept"; s.files = ["lib/kept.rb"] }' >"$gem/kept.gemspec"
  (cd "$gem" && gem-ashlar build kept.gemspec && gem-ashlar install --local --no-document kept-1.gem) >"$work/gem.log" 2>&1 ||
    fail "a gem was not installed; see $(cat "$work/gem.log")"
  echo ':verbose: false' >"$prefix/etc/gemrc"
  ruby-ashlar -e 'sleep 0.1 until File.exist?(ARGV[0]); require "json"; exit JSON.parse("[1]") == [1]' "$work/upgraded" &
  old=$!
  dpkg-deb --raw-extract "$package" "$work/deb"
  sed -i 's/^Version: .*/&.1/' "$work/deb/DEBIAN/control"
  dpkg-deb --root-owner-group -Zgzip --build "$work/deb" "$later" >/dev/null
  dpkg -i "$later" >/dev/null
  touch "$work/upgraded"
  wait "$old" || fail 'a Ruby that ran while its package was upgraded did not go on'
  [[ $(dpkg-query -W -f='${Version}' ruby-ashlar) == *.1 ]] || fail 'the later version is not the one that is installed'
  [[ $(ruby-ashlar -rkept -e 'print Kept::VALUE') == kept ]] || fail 'a gem that was installed is gone after an upgrade'
  [[ $(<"$prefix/etc/gemrc") == ':verbose: false' ]] || fail "$prefix/etc/gemrc was changed by an upgrade"
  check_owners "$prefix"
  dpkg --purge ruby-ashlar >/dev/null 2>&1
  [[ ! -e $prefix/bin/ruby && -e $prefix/etc/gemrc ]] || fail "removing the package has left its Ruby, or taken the user's files"
  rm -r "$prefix"
  trap 'rm -rf "$work"' EXIT
  echo "$package: upgraded, with a gem and a gemrc kept"
}

# try_twice: another clone of the same commit, in another folder, makes the same bytes.
try_twice() {
  local kind first second
  git -C "$here/.." diff --quiet HEAD || fail 'the clone differs from its commit, so another clone would differ, too; commit first'
  git clone --quiet "$here/.." "$work/clone/of/it"
  for kind in tarball debian-package; do
    first=$(umask 077 && "$here/$kind.sh")
    second=$(umask 022 && "$work/clone/of/it/packaging/$kind.sh")
    cmp "$first" "$second" >&2 || fail "$first and one of another clone differ"
    echo "$first: made twice, the same bytes"
  done
}

# try_release: a release lists the packages that it leaves, these alone, and what is inside; whatever an earlier one made there. The
# packages are as small as such files can be: how they are made is tried above.
try_release() {
  local clone=$work/clone/of/release made=$work/release kind
  mkdir -p "$clone/packaging"
  cp "$here/release.sh" "$clone/packaging/"
  for kind in tarball debian-package; do
    cat >"$clone/packaging/$kind.sh" <<'SMALL'
#!/usr/bin/env bash
set -euo pipefail
machine=${ASHLAR_MACHINE:-$(uname -m)}
name=$PACKAGES/ruby-$ASHLAR_RUBY_VERSION-$machine
mkdir -p "$name/opt" "$name/DEBIAN"
echo "$machine" >"$name/opt/$machine"
printf 'Package: small\nVersion: 1\nArchitecture: all\nMaintainer: a <a@b>\nDescription: small\n' >"$name/DEBIAN/control"
[[ $ASHLAR_RUBY_VERSION != broken ]] || exit 1
case ${0##*/} in
  tarball.sh) file=$name.tar.xz && tar -C "$name" -cJf "$file" opt ;;
  *) file=$name.deb && dpkg-deb --build "$name" "$file" >&2 ;;
esac
rm -r "$name"
echo "$file"
SMALL
    chmod +x "$clone/packaging/$kind.sh"
  done
  local release=(env -u RUBY_SRC_3_4 -u RUBY_SRC_4_0 PACKAGES="$made" "$clone/packaging/release.sh")
  "${release[@]}" >/dev/null || fail 'a release failed'
  check_release "$made" ruby-{3.4,4.0}-{aarch64,x86_64}.{deb,tar.xz}
  MACHINES=aarch64 RUBIES=3.4 "${release[@]}" >/dev/null || fail 'a release for aarch64 alone failed'
  check_release "$made" ruby-3.4-aarch64.{deb,tar.xz}
  ! MACHINES=x86_64 RUBIES='4.0 broken' "${release[@]}" >/dev/null 2>"$work/release.log" || fail 'a release that was not made whole says nothing'
  grep -F 'not made: Ruby broken for x86_64: tarball' "$work/release.log" >/dev/null || fail "a release does not say what was not made: $(<"$work/release.log")"
  check_release "$made" ruby-4.0-x86_64.{deb,tar.xz}
  echo 'a release: it lists what it leaves'
}

# check_release FOLDER NAME...: these packages are there and no others, with their sums, and what is in each is listed.
check_release() {
  local names name
  names=$(printf '%s\n' "${@:2}" | sort)
  [[ $(cd "$1" && find . -name '*.deb' -o -name '*.tar.xz' | sed 's|^./||' | sort) == "$names" ]] || fail "a release leaves other packages than $names: $(ls "$1")"
  [[ $(cut -c67- "$1/SHA256SUMS" | sort) == "$names" ]] || fail "SHA256SUMS does not name the packages: $(<"$1/SHA256SUMS")"
  (cd "$1" && sha256sum --check --quiet SHA256SUMS) || fail 'SHA256SUMS has other sums'
  for name in "${@:2}"; do
    [[ $(awk -v name="$name" 'NF == 1 {now = $1} now == name && /opt\/[ax]/ {print}' "$1/CONTENTS") == -rw-*opt/* ]] ||
      fail "CONTENTS does not list what is in $name: $(<"$1/CONTENTS")"
  done
}

# What the tarball needs, as docs/guide/installing.md says.
TARBALL_NEEDS=(libcrypt1 libffi8 libgmp10 libssl3 libyaml-0-2 zlib1g)

# try_suites: apt installs it in an empty Debian, with what it depends on and nothing else. The tarball is unpacked in another one, with
# what it is said to need.
try_suites() {
  local suite root architecture tarball
  command -v mmdebstrap >/dev/null || fail "trying other suites takes mmdebstrap (apt-get install mmdebstrap)"
  make_package
  tarball=$(umask 077 && "$here/tarball.sh")
  architecture=$(dpkg-deb --field "$package" Architecture)
  for suite in ${SUITES:-bookworm trixie}; do
    root=$work/$suite
    make_root "$suite" "$root"
    cp "$package" "$root/ruby-ashlar.deb"
    install_in "$root" /ruby-ashlar.deb
    try_in "$root" /usr/bin/ruby-ashlar /usr/bin/ashlar
    echo "$package: installed by apt on Debian $suite for $architecture"
    root=$work/$suite-tarball
    make_root "$suite" "$root"
    tar -C "$root" -xf "$tarball"
    install_in "$root" "${TARBALL_NEEDS[@]}"
    try_in "$root" /opt/ruby-ashlar/bin/ruby /opt/ruby-ashlar/bin/ashlar
    echo "$tarball: unpacked on Debian $suite for $architecture"
  done
}

# make_root SUITE ROOT: an empty Debian for `architecture`, with this machine's way to its packages.
make_root() {
  mmdebstrap --quiet --variant=apt --architectures="$architecture" "$1" "$2" || fail "a Debian $1 was not to be had"
  cp /etc/resolv.conf "$2/etc/resolv.conf"
  cp -r /etc/apt/apt.conf.d/. "$2/etc/apt/apt.conf.d/" 2>/dev/null || true
  chroot "$2" apt-get -q update >"$2.log" 2>&1 || fail "apt has no lists of packages for $1: $(tail -n 3 "$2.log")"
}

# install_in ROOT PACKAGE...
install_in() {
  chroot "$1" apt-get -q -y install --no-install-recommends "${@:2}" >>"$1.log" 2>&1 || fail "apt did not install ${*:2} in $1: $(tail -n 3 "$1.log")"
}

# try_in ROOT RUBY ASHLAR: it runs there; then with a compiler, but no development files of the libraries that Ruby uses, and with Python.
try_in() {
  run_in "$1" "$2"
  install_in "$1" gcc make libc6-dev python3
  mkdir "$1/tried"
  try_extension "$1" "$2" /tried
  try_reports "$1" "$2" "$3" /tried
}

# run_in ROOT RUBY: it runs there, with its libraries in C.
run_in() {
  chroot "$1" "$2" -e '
    %w[json openssl psych zlib socket etc].each { require _1 }
    require "fiddle" unless ENV["BUNDLED_GEMS"] == "no"
    abort "not on Ashlar" unless GC.config[:implementation] == "ashlar"
    abort "made for the compiler of another machine" unless RbConfig::CONFIG["CC"] == "gcc"
    GC.start
    puts RUBY_DESCRIPTION' | grep -F '+GC[ashlar]' || fail "$2 does not run in $1"
}

((EUID == 0)) || fail 'installing takes root; run it with sudo.'
command -v dpkg >/dev/null || fail 'this needs Debian, for its package.'
work=$(mktemp -d)
chmod 755 "$work"
trap 'rm -rf "$work"' EXIT
kinds=("$@")
((${#kinds[@]})) || kinds=(package tarball place upgrade twice release)
for kind in "${kinds[@]}"; do
  case $kind in
    package | tarball | place | upgrade | twice | release | suites) "try_$kind" ;;
    *) fail "there is no '$kind'; there are: package tarball place upgrade twice release suites" ;;
  esac
done
