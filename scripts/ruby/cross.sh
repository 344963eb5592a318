# shellcheck shell=bash disable=SC2034
# Making the Rubies and the collector for another processor than this machine's:
#   ASHLAR_MACHINE=aarch64 scripts/ruby/env.sh
# Compilers run here, and what must run the result, as Ruby's build does to check it, runs
# it under qemu-user. The other machine's headers and libraries are Debian's, in a root folder
# in the cache, which is also what the emulator boots (scripts/test/aarch64.sh).
# The functions here do nothing where ASHLAR_MACHINE is not set. `prepare_cross` needs what
# paths.sh, messages.sh, packages.sh and debian-source.sh give.

MACHINE=${ASHLAR_MACHINE-}
# The command in front of a program that was made; empty where it runs as it is.
RUN_MADE=()
# Where cargo puts what it makes, below its target folder.
CARGO_MADE=${CARGO_BUILD_TARGET:+$CARGO_BUILD_TARGET/}release

CROSS_SUITE=bookworm
CROSS_PACKAGES=(gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user-static mmdebstrap)
# What the other machine has: a system that boots, what Ruby needs, and what its tests start.
ROOT_PACKAGES=(bash libc-bin coreutils dash diffutils grep sed mawk findutils procps psmisc util-linux mount
  base-files base-passwd hostname netbase iproute2 tzdata gzip tar xz-utils perl-base passwd login
  kmod busybox-static gcc libc6-dev make libyaml-dev libffi-dev zlib1g-dev libssl-dev
  libgmp-dev openssl lsof)

check_machine() {
  case $MACHINE in
    '' | aarch64) ;;
    *) fail "ASHLAR_MACHINE=$MACHINE is not possible; it is aarch64, or not set for this machine itself." ;;
  esac
  [[ ! $MACHINE || $(uname -m) == x86_64 ]] ||
    fail "ASHLAR_MACHINE=$MACHINE is made on x86_64 only, and this machine is $(uname -m)."
  [[ ! $MACHINE ]] || is_debian ||
    fail "ASHLAR_MACHINE=$MACHINE needs Debian's cross compiler and packages, and this system is not Debian."
}

# prepare_cross: the root folder, the compilers under the names that configure looks for, and the
# environment for cargo. Uses the native Ruby as the one that builds.
prepare_cross() {
  check_machine
  [[ $MACHINE && ! ${CROSS-} ]] || return 0
  TRIPLE=aarch64-linux-gnu
  CROSS=$CACHE/$MACHINE
  ROOT=$CROSS/root
  RUN_MADE=(qemu-aarch64-static -L "$ROOT")
  ensure_packages "making Ruby for $MACHINE" "${CROSS_PACKAGES[@]}"
  ensure_rust
  ensure_rust_target aarch64-unknown-linux-gnu
  (
    hold_lock "$MACHINE-root"
    [[ -e $CROSS/finished && ! ${BASH_SOURCE[0]} -nt $CROSS/finished ]] && exit
    make_root
    make_tools
    touch "$CROSS/finished"
  ) || exit
  export PATH=$CROSS/tools:$PATH
  export CC=$TRIPLE-gcc OBJCOPY=$TRIPLE-objcopy
  export CARGO_BUILD_TARGET=aarch64-unknown-linux-gnu
  export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=$CC
  export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER=${RUN_MADE[*]}
  CARGO_MADE=$CARGO_BUILD_TARGET/release
}

# ensure_rust_target TRIPLE: Rust's standard library for it.
ensure_rust_target() {
  local library
  library=$(rustc --print target-libdir --target "$1") && [[ -e $library ]] && return
  ! command -v rustup >/dev/null || rustup target add "$1" >&2 || true
  [[ -e $library ]] ||
    fail "Rust has no standard library for $1 here. With rustup: rustup target add $1"
}

# Packages are unpacked and none of their scripts is run, so no emulator is needed. Links that name
# a place from the root on would lead a linker here into this machine's own libraries.
make_root() {
  local mirror log=$CROSS/log link keyring=/usr/share/keyrings/debian-archive-keyring.gpg packages
  mirror=$(any_mirror)
  [[ $mirror ]] || fail 'no Debian mirror is configured for apt on this system.'
  rm -rf "$ROOT" "$CROSS/finished"
  mkdir -p "$CROSS"
  packages=$(IFS=,; echo "${ROOT_PACKAGES[*]}")
  run_logged "Debian for $MACHINE" 60 "$log" mmdebstrap --variant=extract --architectures=arm64 \
    --include="$packages" "$CROSS_SUITE" "$ROOT" "deb [signed-by=$keyring] $mirror $CROSS_SUITE main"
  while IFS= read -r link; do
    ln -sfn "../../..$(readlink "$link")" "$link"
  done < <(find "$ROOT/usr/lib/$TRIPLE" -maxdepth 1 -type l -lname '/*')
}

# The names that a configure script looks for when it is told of the other machine.
make_tools() {
  local tool
  mkdir -p "$CROSS/tools"
  for tool in gcc cpp; do
    printf '#!/bin/sh\nexec /usr/bin/%s --sysroot=%s "$@"\n' "$TRIPLE-$tool" "$ROOT" >"$CROSS/tools/$TRIPLE-$tool"
  done
  printf '#!/bin/sh\nexec rustc --target=aarch64-unknown-linux-gnu "$@"\n' >"$CROSS/tools/$TRIPLE-rustc"
  chmod +x "$CROSS"/tools/*
}

# What configure is told besides. The Ruby that builds must be of the same version: it runs the
# new one's own scripts in its place.
cross_configure_flags() {
  [[ $MACHINE ]] || return 0
  echo "--build=x86_64-linux-gnu --host=$TRIPLE --with-baseruby=$CROSS_BASE_RUBY RUSTC=$TRIPLE-rustc"
}

# ensure_base_ruby: the native Ruby of the same source.
ensure_base_ruby() {
  [[ $MACHINE ]] || return 0
  CROSS_BASE_RUBY=$(env -u ASHLAR_MACHINE -u CC -u OBJCOPY -u CARGO_BUILD_TARGET "$CLONE/scripts/ruby/env.sh" --no-library |
    sed -n 's/^export RUBY_STOCK=//p')
  [[ -x $CROSS_BASE_RUBY ]] || fail 'the Ruby of this machine, which builds the other, could not be built.'
}

# describe_as_native FOLDER: its rbconfig.rb says what it would say if the Ruby had been compiled on the other machine. Extensions are
# compiled there, with the compiler that it names. It names no path of this machine.
describe_as_native() {
  [[ $MACHINE ]] || return 0
  find "$1/lib" -name rbconfig.rb -exec sed -i \
    -e "s/ = \"$TRIPLE-/ = \"/" \
    -e "/\[\"configure_args\"\]/s/ '--build=.*/\"/" \
    -e 's/\["CROSS_COMPILING"\] = "yes"/["CROSS_COMPILING"] = "no"/' \
    -e 's/\["TEST_RUNNABLE"\] = "no"/["TEST_RUNNABLE"] = "yes"/' \
    -e 's/\["PREP"\] = .*/["PREP"] = "miniruby$(EXEEXT)"/' \
    -e 's/\["build_alias"\] = .*/["build_alias"] = ""/' \
    -e 's/\["build_cpu"\] = .*/["build_cpu"] = "$(target_cpu)"/' \
    -e 's/\["build_vendor"\] = .*/["build_vendor"] = "$(target_vendor)"/' \
    -e 's/\["build"\] = .*/["build"] = "$(target_cpu)-$(target_vendor)-$(build_os)"/' \
    -e '/\["LIBRUBYARG_/s/-Wl,-rpath,$(libdir)/& -L$(libdir)/' {} +
}
