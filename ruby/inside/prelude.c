// Ruby's builtin.c for a Ruby that was cross-compiled, which parses its own methods when it starts. Ruby 4.0 forgets to load RubyGems,
// `did_you_mean` and the like then: its `Init_builtin_features` is empty. This one does what it does in every other Ruby.
#define Init_builtin_features Init_builtin_features_of_ruby
#include "builtin.c"
#undef Init_builtin_features

void Init_builtin_features(void)
{
    rb_load_with_builtin_functions("gem_prelude", NULL);
}
