# shellcheck shell=bash
# System packages and the Rust toolchain: installed when root on Debian, otherwise the
# exact command is printed and the script stops.

BUILD_PACKAGES=(gcc libc6-dev make xz-utils libyaml-dev libffi-dev zlib1g-dev
  libssl-dev libgmp-dev ruby)
TEST_PACKAGES=(shellcheck python3)

# `type` wants both, `command` one of them.
is_debian() { [[ -e /etc/debian_version ]] && type -P dpkg-query apt-get >/dev/null; }

package_installed() {
  [[ $(dpkg-query -W -f '${db:Status-Abbrev}' "$1" 2>/dev/null) == ?i* ]]
}

# install_packages WHY PACKAGE...
install_packages() {
  local why=$1
  shift
  if ((EUID != 0)); then
    fail "$why needs packages that are not installed. Run:" \
      "  sudo apt-get install --no-install-recommends $*"
  fi
  mkdir -p "$CACHE"
  local log=$CACHE/packages.log
  say "installing $*"
  run_logged 'package lists' 10 "$log" apt-get -q update
  run_logged 'packages' 120 "$log" env DEBIAN_FRONTEND=noninteractive \
    apt-get -q -y install --no-install-recommends "$@"
}

# ensure_packages WHY PACKAGE...: installs those that are missing.
ensure_packages() {
  local why=$1 package missing=()
  shift
  for package in "$@"; do package_installed "$package" || missing+=("$package"); done
  ((${#missing[@]} == 0)) || install_packages "$why" "${missing[@]}"
}

ensure_build_packages() {
  is_debian || return 0
  ensure_packages 'building Ruby' "${BUILD_PACKAGES[@]}"
}

# What single parts of the tests run. Nobody else is asked to install it: a part says
# itself that it was not run.
ensure_test_packages() {
  is_debian && ((EUID == 0)) || return 0
  ensure_packages 'testing' "${TEST_PACKAGES[@]}"
}

# version_at_least HAVE WANT
version_at_least() { [[ $(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n 1) == "$2" ]]; }

rust_version() {
  local words
  command -v rustc >/dev/null || return 0
  read -ra words < <(rustc --version 2>/dev/null) && echo "${words[1]}"
  return 0
}

rust_is_new_enough() {
  local have
  have=$(rust_version)
  [[ -n $have ]] && command -v cargo >/dev/null && version_at_least "$have" "$RUST_MINIMUM"
}

# Debian's newest Rust is `rustc` in some releases and `rustc-web` in others.
debian_rust_packages() {
  local candidate
  candidate=$(apt-cache policy rustc | awk '/Candidate:/{print $2}')
  if version_at_least "$candidate" "$RUST_MINIMUM"; then
    echo rustc cargo rustfmt rust-clippy ca-certificates
    return
  fi
  candidate=$(apt-cache policy rustc-web | awk '/Candidate:/{print $2}')
  [[ $candidate ]] && version_at_least "$candidate" "$RUST_MINIMUM" &&
    echo rustc-web cargo-web rustfmt-web rust-web-clippy ca-certificates
}

ensure_rust() {
  rust_is_new_enough && return
  if [[ -x $HOME/.cargo/bin/cargo ]]; then
    PATH=$HOME/.cargo/bin:$PATH
    rust_is_new_enough && return
  fi
  local have packages
  have=$(rust_version)
  if command -v rustup >/dev/null; then
    fail "Rust $RUST_MINIMUM or newer is needed and this one is ${have:-absent}. Run:" '  rustup update stable'
  fi
  if is_debian; then
    ((EUID != 0)) || apt-get -q update >/dev/null 2>&1 || true
    packages=$(debian_rust_packages) || true
    if [[ $packages ]]; then
      # shellcheck disable=SC2086
      install_packages "Rust $RUST_MINIMUM or newer" $packages
      hash -r
      rust_is_new_enough && return
    fi
  fi
  fail "Rust $RUST_MINIMUM or newer (rustc and cargo) is needed; found ${have:-none}." \
    "Install it with your system's packages or with rustup, then try again."
}
