#!/usr/bin/env bash
# Makes the Debian package ruby-ashlar: Ruby with Ashlar inside in /usr/lib/ruby-ashlar, and
# its programs as ruby-ashlar, gem-ashlar and so on; `ashlar` keeps its name. It shares no file with Debian's ruby.
#   packaging/debian-package.sh [RUBY_VERSION=4.0] [SHARED=yes] [LAZY=no]
# It prints the path of the file, for
#   apt install FILE
# With ASHLAR_MACHINE=aarch64 it is one for arm64. Its dependencies are those that a package of the same
# version for this machine has: nothing that Debian has installed here names them for arm64.
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=packaging/package.sh
. "$here/package.sh"
# `type` wants all of them, `command` one.
type -P dpkg-deb dpkg-shlibdeps >/dev/null || fail 'needs dpkg-deb and dpkg-shlibdeps (Debian: apt-get install dpkg-dev)'
prefix=/usr/lib/ruby-ashlar
install_ruby "$prefix"
mkdir -p "$staged/usr/bin" "$staged/usr/share/man/man1" "$staged/DEBIAN"
for program in "$staged$prefix"/bin/*; do
  name=$(basename "$program")
  [[ $name == ashlar ]] || name=$name-ashlar
  ln -s "$prefix/bin/${program##*/}" "$staged/usr/bin/$name"
done
gzip -9n <"$clone/man/ashlar.1" >"$staged/usr/share/man/man1/ashlar.1.gz"

# find_libraries: sets `binaries` in the staged Ruby, and `needed`, the libraries that they name, without its own.
find_libraries() {
  mapfile -t binaries < <(find "$staged$prefix" -type f \( -path '*/bin/ruby' -o -name '*.so*' \))
  needed=$(readelf --dynamic "${binaries[@]}" | awk '/\(NEEDED\)/ && $5 !~ /^\[(libruby|ld-linux)/ {print $5}' | sort -u)
  [[ $needed ]] || fail "no program or extension in $staged$prefix names a library"
}

# native_depends: of what is staged for this machine. dpkg-shlibdeps wants a source package around it.
native_depends() {
  mkdir -p "$staged/debian"
  printf 'Source: ruby-ashlar\n\nPackage: ruby-ashlar\nArchitecture: any\n' >"$staged/debian/control"
  (cd "$staged" && dpkg-shlibdeps --ignore-missing-info "-l$staged$prefix/lib" -O "${binaries[@]}" 2>/dev/null | sed 's/^shlibs:Depends=//')
  rm -r "$staged/debian"
}

# foreign_depends: those of this machine's Ruby, staged beside the other one, if both name the same libraries. In a subshell.
foreign_depends() {
  local staged=$work/native foreign=$needed
  mkdir "$staged"
  unset ASHLAR_MACHINE
  install_ruby "$prefix"
  find_libraries
  diff <(printf '%s\n' "$needed") <(printf '%s\n' "$foreign") >&2 || fail "the libraries for $architecture differ from those for this machine, as above"
  native_depends
}

find_libraries
if [[ ${ASHLAR_MACHINE-} ]]; then
  depends=$(foreign_depends)
else
  depends=$(native_depends)
fi
[[ $depends ]] || fail 'dpkg-shlibdeps names no package for the libraries'
cat >"$staged/DEBIAN/control" <<CONTROL
Package: ruby-ashlar
Version: $version
Architecture: $architecture
Maintainer: ${DEBFULLNAME:-Ashlar} <${DEBEMAIL:-root@localhost}>
Installed-Size: $(du -sk --apparent-size "$staged" | cut -f1)
Depends: $depends
Recommends: gcc, libc6-dev, make, python3 (>= 3.11)
Section: ruby
Priority: optional
Description: Ruby with the Ashlar collector inside
 Ruby whose garbage collector and malloc are Ashlar: one heap for
 objects and the memory they own. Installed beside Debian's ruby, as
 ruby-ashlar. The program ashlar runs an application on both
 and compares, and shows what such a heap holds.
CONTROL
find "$staged" -exec touch --no-dereference --date="@$SOURCE_DATE_EPOCH" {} +
package=$packages/ruby-ashlar_${version}_$architecture.deb
dpkg-deb --root-owner-group -Zxz --build "$staged" "$package.new" >&2
mv "$package.new" "$package"
echo "$package"
