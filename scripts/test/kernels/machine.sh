# shellcheck shell=bash
# The file system of the emulated machine: the Rubies at the places that they were built for, what they are linked with,
# and the checks. `make_machine FOLDER` makes it, packed, as FOLDER/machine.cpio.

here_machine=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

# put_ruby ROOT PROGRAM: without documentation, bundled gems and what only debuggers read.
put_ruby() {
  local root=$1 prefix library
  prefix=$(dirname "$(dirname "$2")")
  library=$prefix/lib/ruby/$("$2" --disable-gems -rrbconfig -e 'print RbConfig::CONFIG["ruby_version"]')
  mkdir -p "$root$prefix/bin" "$root$prefix/lib/ruby"
  cp "$2" "$root$prefix/bin/ruby"
  cp -a "$library" "$root$prefix/lib/ruby/"
  rm -rf "$root$library"/{bundler,rdoc,irb,syntax_suggest,prism/translation,ruby_vm/rjit}
  find "$root$prefix" -type f \( -name '*.so' -o -name ruby \) -exec strip --strip-unneeded {} +
}

# put_collector ROOT: the collector's library at the path where the modular Ruby looks for it, which need not be below its prefix.
put_collector() {
  mkdir -p "$1$(dirname "$ASHLAR_LIB")"
  cp "$ASHLAR_LIB" "$1$ASHLAR_LIB"
  strip --strip-unneeded "$1$ASHLAR_LIB"
}

# put_libraries ROOT: all that the programs in it are linked with.
put_libraries() {
  local root=$1 library
  find "$root" -type f \( -name '*.so' -o -name ruby \) -exec ldd {} + 2>/dev/null |
    awk '/=> \//{print $3} /^\t\/.*ld-/{print $1}' | sort -u |
    while read -r library; do
      mkdir -p "$root$(dirname "$library")"
      cp -L "$library" "$root$library"
    done
}

# put_checks ROOT: the programs, and the plan that init reads.
put_checks() {
  local root=$1 rounds=20 variants='inside module preloaded' claims=claims name
  [[ $SHORT != yes ]] || claims='claims-short'
  mkdir -p "$root/checks/workloads" "$root/checks/ruby"
  cp "$here_machine"/{guest,growth_lines,refused,garbage}.rb "$here_machine/$claims" "$root/checks/"
  cp "$CLONE"/workloads/ruby/{growth,figures,numbers}.rb "$root/checks/workloads/"
  cp -r "$CLONE/ruby/test" "$root/checks/ruby/"
  {
    for name in RUBY RUBY_INSIDE; do printf 'export %s=%q\n' "$name" "${!name}"; done
    printf 'export LIBRARY=%q LIBRARY_FILE=%q CLAIMS=/checks/%q\n' "$ASHLAR_GC_LIBRARY" "$ASHLAR_LIB" "$claims"
    printf "export VARIANTS='%s'\n" "$variants"
    printf "export GROWTH='%s'\n" "$rounds $("$RUBY_STOCK" --disable-gems "$CLONE/workloads/ruby/growth.rb" "$rounds")"
  } >"$root/checks/plan"
}

make_machine() {
  local root=$1/root
  rm -rf "$root"
  mkdir -p "$root"/{bin,tmp,etc}
  cp -L "$(command -v busybox)" "$root/bin/busybox"
  cp "$here_machine/init" "$root/init"
  chmod 755 "$root/init"
  printf 'root:x:0:0::/tmp:/bin/sh\n' >"$root/etc/passwd"
  put_ruby "$root" "$RUBY"
  put_ruby "$root" "$RUBY_INSIDE"
  put_collector "$root"
  put_libraries "$root"
  put_checks "$root"
  (cd "$root" && find . | cpio --quiet -o -H newc) >"$1/machine.cpio"
  rm -rf "$root"
}
