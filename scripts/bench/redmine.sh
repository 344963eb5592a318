#!/usr/bin/env bash
# Gets Redmine and the gems that it needs beside those of rails.sh from Debian's packages into the cache, unpacked and not
# installed; makes a copy of it that runs without Bundler, and its database; prints shell exports:
#   eval "$(scripts/bench/redmine.sh)"
# REDMINE_FOLDER     the copy
# REDMINE_DATABASE   the file with its records (workloads/applications/redmine/seeds.rb)
# REDMINE_GEM_PATH   for GEM_PATH
# REDMINE_RUBYLIB    for RUBYLIB: files that Debian keeps outside gems
# The environment is what scripts/ruby/env.sh prints.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=scripts/ruby/rubies.sh
. "$here/../ruby/rubies.sh"
# shellcheck source=scripts/bench/debian-gems.sh
. "$here/debian-gems.sh"

# Raise when what is below makes something else.
REDMINE_RECIPE=1
# What Redmine's Gemfile names, and what that needs, without what rails.sh gets.
REDMINE_PACKAGES=(redmine ruby-actionpack-xml-parser ruby-addressable ruby-chunky-png ruby-css-parser ruby-html-pipeline
  ruby-htmlentities ruby-net-ldap ruby-public-suffix ruby-rails-propshaft ruby-rbpdf ruby-rbpdf-font ruby-roadie
  ruby-roadie-rails ruby-rotp ruby-rqrcode ruby-rqrcode-core ruby-sanitize ruby-task-list
  ruby-zip)
redmine=$CLONE/workloads/applications/redmine

is_debian || fail "Redmine comes from Debian's packages, and this is not Debian; leave its programs out (PROGRAMS=)."
rails=$(RAILS_FROM=debian "$here/rails.sh")
eval "$rails"
ensure_stock
made_of=$(cat "$redmine"/config/* | digest8)-r$REDMINE_RECIPE
folder=$CACHE/applications/redmine-debian-$SOURCE_ID-$made_of
gems=$folder/gems
application=$folder/application

# Redmine's files with those of workloads/applications/redmine/config in the place of Debian's. Links to what other packages
# have (scripts for browsers, /etc, /var) go. Action Cable wants an extension compiled for Debian's Ruby, and serves nothing here.
copy_application() {
  cp -r "$folder/tree/usr/share/redmine" "$application"
  rm "$application/instances" "$application/Gemfile"
  find "$application" -xtype l -delete
  mkdir -p "$application"/{plugins,themes,tmp} \
    "$application"/instances/default/{config,files,log,plugins,public/assets,themes,tmp/cache}
  cp "$redmine"/config/{boot,additional_environment}.rb "$application/config/"
  cp "$redmine/config/database.yml" "$application/instances/default/config/"
  sed -i "/^require 'action_cable\/engine'$/d; /^require 'rails\/test_unit\/railtie'$/d" "$application/config/application.rb"
}

[[ -e $folder/finished ]] || (
  [[ $(any_mirror) ]] || fail 'no Debian mirror is configured for apt on this system; leave Redmine out (PROGRAMS=).'
  hold_lock redmine-debian
  [[ ! -e $folder/finished ]] || exit 0
  begin_folder
  export redmine application
  step 'Redmine: packages' 25 download_packages "${REDMINE_PACKAGES[@]}"
  step 'Redmine: unpack' 5 unpack_packages
  step 'Redmine: gems of Ruby' 5 bundled_gems csv
  step 'Redmine: a copy' 5 copy_application
  finish_folder
) || exit

export REDMINE_FOLDER=$application REDMINE_DATABASE
export GEM_PATH=$gems:$RAILS_GEM_PATH RUBYLIB=$folder/lib:$RAILS_RUBYLIB
# The records are the same for every Ruby.
REDMINE_DATABASE=$CACHE/applications/redmine-$(cat "$redmine"/*.rb <(echo "$made_of") | digest8).sqlite3
hold_lock redmine-database
[[ -e $REDMINE_DATABASE ]] || run_logged "Redmine's records" 2080 "$folder.database.log" \
  "$RUBY_STOCK" -W0 "$redmine/prepare.rb" "$REDMINE_DATABASE"
REDMINE_GEM_PATH=$GEM_PATH REDMINE_RUBYLIB=$RUBYLIB
for name in REDMINE_FOLDER REDMINE_DATABASE REDMINE_GEM_PATH REDMINE_RUBYLIB; do
  printf 'export %s=%q\n' "$name" "${!name}"
done
