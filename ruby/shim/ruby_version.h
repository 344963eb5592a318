/* Chooses the file that belongs to the version of Ruby that is being compiled for. */
#include "ruby/version.h"

#if RUBY_API_VERSION_MAJOR == 3 && RUBY_API_VERSION_MINOR == 4
#include "ruby_3_4.h"
#elif RUBY_API_VERSION_MAJOR == 4 && RUBY_API_VERSION_MINOR == 0
#include "ruby_4_0.h"
#else
#error "Ashlar is written for Ruby 3.4 and 4.0 (docs/design/inside-ruby.md)."
#endif
