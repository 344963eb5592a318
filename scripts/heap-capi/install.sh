#!/usr/bin/env bash
# Installs the heap's C interface: libraries, header, pkg-config file and man page.
#   PREFIX=/usr/local DESTDIR= LIBDIR=$PREFIX/lib scripts/heap-capi/install.sh
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
prefix=${PREFIX:-/usr/local}
libdir=${LIBDIR:-$prefix/lib}
root=${DESTDIR:-}
crate=crates/heap-capi

cargo build --locked --release --quiet -p ashlar-heap-capi
library=${CARGO_TARGET_DIR:-target}/release
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)

# Folders that exist stay as they are: `install -d` would set their modes.
umask 022
mkdir -p "$root$libdir/pkgconfig" "$root$prefix/include" "$root$prefix/share/man/man3"
install -m 755 "$library/libashlar.so" "$root$libdir/libashlar.so.$version"
ln -sf "libashlar.so.$version" "$root$libdir/libashlar.so.0"
ln -sf libashlar.so.0 "$root$libdir/libashlar.so"
install -m 644 "$library/libashlar.a" "$root$libdir/libashlar.a"
install -m 644 "$crate/include/ashlar.h" "$root$prefix/include/ashlar.h"
install -m 644 "$crate/man/ashlar.3" "$root$prefix/share/man/man3/ashlar.3"
sed -e "s|@PREFIX@|$prefix|; s|@LIBDIR@|$libdir|; s|@VERSION@|$version|" "$crate/ashlar.pc.in" |
  install -m 644 /dev/stdin "$root$libdir/pkgconfig/ashlar.pc"
# The loader finds a new library by its own list.
if [[ -z $root && $EUID == 0 ]] && command -v ldconfig >/dev/null; then ldconfig; fi
echo "installed libashlar $version below $root$prefix"
