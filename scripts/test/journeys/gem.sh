#!/usr/bin/env bash
# The author of a gem in C tries it on Ashlar, from an installation on: what was compiled for stock Ruby is loaded as it is, the gem's
# tests pass on both, `gem install` compiles it, and switches for tests find an object that the extension forgets to mark.
#   scripts/test/journeys/gem.sh
# Environment: INSTALLED, a folder with Ruby with Ashlar, in place of a fresh installation.
set -euo pipefail
# shellcheck source=scripts/test/journeys/installed.sh
. "$(dirname "${BASH_SOURCE[0]}")/installed.sh"

# the_gem FOLDER: a list in C that refers to Ruby's objects. With FORGETFUL defined it does not mark them.
the_gem() {
  mkdir -p "$1/ext/pocket" "$1/lib" "$1/test"
  cat >"$1/pocket.gemspec" <<'GEMSPEC'
Gem::Specification.new do |gem|
  gem.name = "pocket"
  gem.version = "1.0"
  gem.summary = "Keeps objects"
  gem.authors = ["Somebody"]
  gem.files = Dir["ext/**/*.{c,rb}"] + Dir["lib/*.rb"]
  gem.extensions = ["ext/pocket/extconf.rb"]
end
GEMSPEC
  cat >"$1/ext/pocket/extconf.rb" <<'RUBY'
require "mkmf"
create_makefile("pocket/pocket")
RUBY
  cat >"$1/ext/pocket/pocket.c" <<'C'
#include <ruby.h>

struct pocket { long count, room; VALUE *items; };

static void pocket_mark(void *data) {
    struct pocket *pocket = data;
#ifndef FORGETFUL
    for (long i = 0; i < pocket->count; i++) rb_gc_mark(pocket->items[i]);
#else
    (void)pocket;
#endif
}

static void pocket_free(void *data) {
    xfree(((struct pocket *)data)->items);
    xfree(data);
}

static size_t pocket_size(const void *data) {
    return sizeof(struct pocket) + (size_t)((const struct pocket *)data)->room * sizeof(VALUE);
}

static const rb_data_type_t pocket_type = { "Pocket", { pocket_mark, pocket_free, pocket_size }, 0, 0, RUBY_TYPED_FREE_IMMEDIATELY };

static VALUE pocket_allocate(VALUE class) {
    struct pocket *pocket;
    return TypedData_Make_Struct(class, struct pocket, &pocket_type, pocket);
}

static VALUE pocket_put(VALUE self, VALUE item) {
    struct pocket *pocket;
    TypedData_Get_Struct(self, struct pocket, &pocket_type, pocket);
    if (pocket->count == pocket->room) {
        pocket->room = pocket->room * 2 + 4;
        REALLOC_N(pocket->items, VALUE, pocket->room);
    }
    pocket->items[pocket->count++] = item;
    return self;
}

static VALUE pocket_at(VALUE self, VALUE index) {
    struct pocket *pocket;
    TypedData_Get_Struct(self, struct pocket, &pocket_type, pocket);
    return pocket->items[NUM2LONG(index)];
}

void Init_pocket(void) {
    VALUE class = rb_define_class("Pocket", rb_cObject);
    rb_define_alloc_func(class, pocket_allocate);
    rb_define_method(class, "put", pocket_put, 1);
    rb_define_method(class, "at", pocket_at, 1);
}
C
  echo 'require "pocket/pocket"' >"$1/lib/pocket.rb"
  cat >"$1/test/pocket_test.rb" <<'RUBY'
require "pocket"
pocket = Pocket.new
2_000.times { |n| pocket.put("item #{n}".dup) }
20_000.times { |n| "other #{n}".dup }
GC.start
wrong = 2_000.times.reject { |n| pocket.at(n) == "item #{n}" }
abort "wrong items: #{wrong.size}" unless wrong.empty?
puts "2000 items kept"
RUBY
}

# compile FOLDER RUBY FLAGS: the extension, as a developer has it beside the gem.
compile() {
  (cd "$1/ext/pocket" && "$2" extconf.rb && make clean && make "CPPFLAGS+=$3") >"$work/compile.log" 2>&1 ||
    fail "the extension was not compiled: $(tail -n 3 "$work/compile.log")"
  mkdir -p "$1/lib/pocket"
  cp "$1/ext/pocket/pocket.so" "$1/lib/pocket/"
}

# tests_on RUBY FOLDER [VARIABLE=VALUE...]
tests_on() { env "${@:3}" "$1" -I "$2/lib" "$2/test/pocket_test.rb"; }

ensure_rubies
release_lock
begin_journey gem
install_ruby
ashlar=$installed/bin/ruby
the_gem "$work/pocket"
compile "$work/pocket" "$RUBY_STOCK" ''
for ruby in "$RUBY_STOCK" "$ashlar"; do
  [[ $(tests_on "$ruby" "$work/pocket") == '2000 items kept' ]] || fail "the tests of a gem that stock Ruby has compiled fail on $ruby"
done
[[ $(tests_on "$ashlar" "$work/pocket" ASHLAR_STRESS=collect-every:100,verify,poison) == '2000 items kept' ]] ||
  fail 'the tests of the gem fail under ASHLAR_STRESS'

(cd "$work/pocket" && "$ashlar" -S gem build pocket.gemspec && GEM_HOME=$work/gems "$ashlar" -S gem install --local --no-document pocket-1.0.gem) \
  >"$left/gem-install.txt" 2>&1 || fail "gem install failed; see $left/gem-install.txt"
[[ $(GEM_HOME=$work/gems "$ashlar" "$work/pocket/test/pocket_test.rb") == '2000 items kept' ]] || fail 'the gem that was installed fails its tests'

# The same list, which marks nothing: wrong items, or a report of a crash, and never a success.
the_gem "$work/forgetful"
compile "$work/forgetful" "$RUBY_STOCK" -DFORGETFUL
if tests_on "$ashlar" "$work/forgetful" ASHLAR_STRESS=collect-every:100,verify,poison >"$left/forgetful.txt" 2>&1; then
  fail "an extension that forgets to mark passed its tests under ASHLAR_STRESS; see $left/forgetful.txt"
fi
echo "a gem in C: compiled for stock Ruby, tested on both, installed by Ashlar's gem; what it forgets to mark is found"
