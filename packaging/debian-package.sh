#!/usr/bin/env bash
# Makes the Debian package ruby-ashlar: Ruby with Ashlar inside in /usr/lib/ruby-ashlar, and
# its programs as ruby-ashlar, gem-ashlar and so on; `ashlar` keeps its name. It shares no file with Debian's ruby.
#   packaging/debian-package.sh
#   apt install ./build/packages/ruby-ashlar_*.deb
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=packaging/package.sh
. "$here/package.sh"
command -v dpkg-deb dpkg-shlibdeps >/dev/null || {
  echo 'debian-package.sh: needs dpkg-deb and dpkg-shlibdeps (Debian: apt-get install dpkg-dev)' >&2
  exit 2
}
prefix=/usr/lib/ruby-ashlar
install_ruby "$prefix"
mkdir -p "$staged/usr/bin" "$staged/usr/share/man/man1" "$staged/DEBIAN"
for program in "$staged$prefix"/bin/*; do
  name=$(basename "$program")
  [[ $name == ashlar ]] || name=$name-ashlar
  ln -s "$prefix/bin/${program##*/}" "$staged/usr/bin/$name"
done
gzip -9n <"$clone/man/ashlar.1" >"$staged/usr/share/man/man1/ashlar.1.gz"

# dpkg-shlibdeps wants a source package around it.
mkdir -p "$staged/debian"
printf 'Source: ruby-ashlar\n\nPackage: ruby-ashlar\nArchitecture: any\n' >"$staged/debian/control"
mapfile -t binaries < <(find "$staged$prefix" -type f \( -path '*/bin/ruby' -o -name '*.so*' \))
depends=$(cd "$staged" && dpkg-shlibdeps --ignore-missing-info "-l$staged$prefix/lib" -O "${binaries[@]}" 2>/dev/null | sed 's/^shlibs:Depends=//')
rm -r "$staged/debian"
architecture=$(dpkg --print-architecture)
cat >"$staged/DEBIAN/control" <<CONTROL
Package: ruby-ashlar
Version: $version
Architecture: $architecture
Maintainer: ${DEBFULLNAME:-$(id -un)} <${DEBEMAIL:-$(id -un)@localhost}>
Installed-Size: $(du -sk "$staged" | cut -f1)
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
package=$packages/ruby-ashlar_${version}_$architecture.deb
dpkg-deb --root-owner-group -Zxz --build "$staged" "$package.new" >&2
mv "$package.new" "$package"
echo "$package"
