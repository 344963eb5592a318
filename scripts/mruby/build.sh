#!/usr/bin/env bash
# Builds mruby with its own collector (stock) or on Ashlar's heap (ashlar), and prints the folder of the build: bin/mruby,
# bin/mrbtest. Nothing of mruby is changed or copied: ours is a folder of links to its source in which what vm/mruby
# has is the one in vm/mruby.
#   scripts/mruby/build.sh stock|ashlar [--sanitize]
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=scripts/ruby/paths.sh
. "$here/../ruby/paths.sh"
# shellcheck source=scripts/ruby/messages.sh
. "$here/../ruby/messages.sh"

collector=${1-} sanitize=${2-}
[[ $collector == stock || $collector == ashlar ]] || fail "build.sh: ${collector:-nothing}: say stock or ashlar."
[[ -z $sanitize || $sanitize == --sanitize ]] || fail "build.sh: $sanitize: there is no such option but --sanitize."
source=$("$here/source.sh")
exports=$("$here/../ruby/env.sh" --no-library)
eval "$exports"

build=$CLONE/build/mruby
name=$collector${sanitize:+-sanitized}
tree=$build/$name-tree
mkdir -p "$build"
exec {lock}>"$build/lock"
flock "$lock"

# link_all FROM TO: a link in TO for everything in FROM.
link_all() {
  mkdir -p "$2"
  find "$1" -mindepth 1 -maxdepth 1 -exec ln -sfn -t "$2" {} +
}

if [[ $(cat "$tree/of" 2>/dev/null) != "$source" ]]; then
  rm -rf "$tree" "${build:?}/$name"
  link_all "$source" "$tree"
  rm "$tree/src"
  link_all "$source/src" "$tree/src"
  echo "$source" >"$tree/of"
fi
unset ASHLAR_LIBRARY ASHLAR_INCLUDE SANITIZE
if [[ $collector == ashlar ]]; then
  # Ours in place of theirs; ours may include theirs.
  mkdir -p "$tree/src/theirs"
  for ours in "$CLONE"/vm/mruby/*.c; do
    ln -sf "$source/src/${ours##*/}" "$tree/src/theirs/${ours##*/}"
    ln -sf "$ours" "$tree/src/${ours##*/}"
  done
  (cd "$CLONE" && cargo build --release --quiet -p ashlar-heap-capi)
  export ASHLAR_LIBRARY=${CARGO_TARGET_DIR:-$CLONE/target}/release
  export ASHLAR_INCLUDE=$CLONE/crates/heap-capi/include
  # mruby's build does not know the library: what is linked with it is linked again.
  [[ $build/$name/host/bin/mruby -nt $ASHLAR_LIBRARY/libashlar.a ]] || rm -rf "$build/$name/host/bin"
fi
[[ -z $sanitize ]] || export SANITIZE=yes

export MRUBY_CONFIG=$CLONE/vm/mruby/build_config.rb MRUBY_BUILD_DIR=$build/$name INSTALL_DIR=$build/$name/installed
# Leaks are looked for in tests, not in what mruby runs while it is built.
export ASAN_OPTIONS=detect_leaks=0
run_logged "building mruby ($name)" 500 "$build/$name.log" \
  env -C "$tree" "$RUBY_STOCK" ./minirake -j "$(nproc)" all test:build
echo "$build/$name/host"
