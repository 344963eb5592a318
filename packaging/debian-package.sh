#!/usr/bin/env bash
# Makes the Debian package ruby-ashlar: Ruby with Ashlar inside in /usr/lib/ruby-ashlar, and
# its programs as ruby-ashlar, gem-ashlar and so on; `ashlar` keeps its name. It shares no file with Debian's ruby.
#   packaging/debian-package.sh
#   apt install ./build/packages/ruby-ashlar_*.deb
# With ASHLAR_MACHINE=aarch64 it is one for arm64. Its dependencies are those of the package of the same
# version for this machine, which is made first: nothing that Debian has installed for arm64 names them here.
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=packaging/package.sh
. "$here/package.sh"
command -v dpkg-deb dpkg-shlibdeps >/dev/null || fail 'needs dpkg-deb and dpkg-shlibdeps (Debian: apt-get install dpkg-dev)'
prefix=/usr/lib/ruby-ashlar
install_ruby "$prefix"
mkdir -p "$staged/usr/bin" "$staged/usr/share/man/man1" "$staged/DEBIAN"
for program in "$staged$prefix"/bin/*; do
  name=$(basename "$program")
  [[ $name == ashlar ]] || name=$name-ashlar
  ln -s "$prefix/bin/${program##*/}" "$staged/usr/bin/$name"
done
gzip -9n <"$clone/man/ashlar.1" >"$staged/usr/share/man/man1/ashlar.1.gz"

# The libraries that its programs and extensions name, without its own.
mapfile -t binaries < <(find "$staged$prefix" -type f \( -path '*/bin/ruby' -o -name '*.so*' \))
needed=$("${OBJDUMP:-objdump}" -p "${binaries[@]}" 2>/dev/null | awk '$1 == "NEEDED" && $2 !~ /^libruby|^ld-linux/ {print $2}' | sort -u)

# dpkg-shlibdeps wants a source package around it.
native_depends() {
  mkdir -p "$staged/debian"
  printf 'Source: ruby-ashlar\n\nPackage: ruby-ashlar\nArchitecture: any\n' >"$staged/debian/control"
  (cd "$staged" && dpkg-shlibdeps --ignore-missing-info "-l$staged$prefix/lib" -O "${binaries[@]}" 2>/dev/null | sed 's/^shlibs:Depends=//')
  rm -r "$staged/debian"
}

# foreign_depends: as the native package has them, if that names the same libraries.
foreign_depends() {
  local native
  native=$packages/ruby-ashlar_${version}_$(dpkg --print-architecture)
  [[ -e $native.deb && -e $native.needed ]] || fail "a package for $architecture takes its dependencies from $native.deb, which is not there; make that first"
  diff "$native.needed" - <<<"$needed" >&2 || fail "the libraries for $architecture differ from those of $native.deb, as above"
  dpkg-deb --field "$native.deb" Depends
}

if [[ ${ASHLAR_MACHINE-} ]]; then
  depends=$(foreign_depends)
else
  depends=$(native_depends)
fi
cat >"$staged/DEBIAN/control" <<CONTROL
Package: ruby-ashlar
Version: $version
Architecture: $architecture
Maintainer: ${DEBFULLNAME:-Ashlar} <${DEBEMAIL:-root@localhost}>
Installed-Size: $(du -sk --apparent-size "$staged" | cut -f1)
Depends: $depends
Recommends: gcc, make, python3 (>= 3.11)
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
[[ ${ASHLAR_MACHINE-} ]] || printf '%s\n' "$needed" >"${package%.deb}.needed"
echo "$package"
