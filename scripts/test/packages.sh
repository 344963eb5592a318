#!/usr/bin/env bash
# Installs what parts of the tests run beside the Rubies and Rust, on Debian and as root;
# elsewhere it does nothing.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")/../ruby" && pwd)
# shellcheck source=scripts/ruby/paths.sh
. "$here/paths.sh"
# shellcheck source=scripts/ruby/messages.sh
. "$here/messages.sh"
# shellcheck source=scripts/ruby/packages.sh
. "$here/packages.sh"
ensure_test_packages
