# shellcheck shell=bash
# The gems that a release of Ruby bundles. A checkout of Ruby's repository lacks them, and BUNDLED_GEMS may name a folder with
# them. RUBY_SOURCE is Ruby's source.

bundled_gems_folder() { echo "${BUNDLED_GEMS:-$RUBY_SOURCE/.bundle/gems}"; }

# bundled_gem NAME: its folder, or nothing, also where there is no folder of bundled gems.
bundled_gem() { find "$(bundled_gems_folder)" -maxdepth 1 -name "$1-[0-9]*" 2>/dev/null | head -n 1 || true; }
