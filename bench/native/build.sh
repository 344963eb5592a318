#!/usr/bin/env bash
# Compiles the programs for every contender into build/native/NAME/native.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
out=$PWD/build/native
library=${CARGO_TARGET_DIR:-$PWD/target}/release
cargo build --release --quiet -p ashlar-heap-capi
mkdir -p "$out/lib"
for name in libashlar.so libashlar.so.0; do ln -sf "$library/libashlar.so" "$out/lib/$name"; done

compile() { # NAME WORD...: more words for the compiler
  local name=$1
  shift
  mkdir -p "$out/$name"
  cc -std=gnu11 -O2 -Wall -Wextra -Icrates/heap-capi/include "-DWITH=\"with_$name.h\"" bench/native/*.c \
    -o "$out/$name/native" "$@" -lpthread
}

compile malloc
compile bump
for name in ashlar callbacks payloads; do
  compile "$name" "-L$out/lib" -lashlar "-Wl,-rpath,$out/lib"
done
compile bdwgc -lgc
