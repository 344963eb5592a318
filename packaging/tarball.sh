#!/usr/bin/env bash
# Makes a tarball of Ruby with Ashlar inside, to be unpacked at the root of machines with the
# same C library: the Ruby is in /opt/ruby-ashlar then.
#   packaging/tarball.sh [RUBY_VERSION=4.0] [SHARED=yes] [LAZY=no]
# It prints the path of the file, for
#   tar -C / -xf FILE
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=packaging/package.sh
. "$here/package.sh"
install_ruby /opt/ruby-ashlar
tarball=$packages/ruby-$version-${ASHLAR_MACHINE:-$(uname -m)}-linux-gnu.tar.xz
# Without /opt, which other machines have.
tar -C "$staged" --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner -cf - opt/ruby-ashlar | xz -T1 >"$tarball.new"
mv "$tarball.new" "$tarball"
echo "$tarball"
