# frozen_string_literal: true

# The start of a program with much code: requires hundreds of files of Ruby's own library,
# then makes tables from what they define, as frameworks do when they start.
#   boot.rb
require_relative "../ruby/figures"
require "rbconfig"

FOLDERS = %w[rdoc prism bundler rubygems reline irb net openssl psych optparse cgi uri json digest erb did_you_mean
             error_highlight syntax_suggest ruby_vm/rjit].freeze
# They start a program, change the process when they are loaded, or want what is not there.
LEFT_OUT = %r{bundler/(?:setup|inline|gem_tasks|capistrano|deployment|vlad)|bundler/templates|rubygems/(?:bundler_version_finder|exclude|test_)|
              rubygems/(?:gem_runner|win_platform)|irb/(?:cmd|lc/ja|ws-for)|rdoc/(?:rubygems_hook|task|servlet)|irb/ext/tracer|did_you_mean/(?:formatters|verbose)|rubygems_plugin|rubygems/core_ext|/cli/|
              /vendor/|/vendored_|ruby_vm/|prism/translation|rdoc/generator/template|syntax_suggest/(?:core_ext|cli)|did_you_mean/experimental}x

library = RbConfig::CONFIG.fetch("rubylibdir")
require "rubygems"
require "bundler"
%w[rdoc prism reline irb net/http openssl psych optparse cgi uri json digest erb].each do |name|
  require name
rescue LoadError
  next # a gem since Ruby 4.0, which may not be there
end
files = FOLDERS.flat_map { |folder| Dir.glob("#{folder}/**/*.rb", base: library) }.grep_v(LEFT_OUT).sort
before = $LOADED_FEATURES.size
files.each do |file|
  require File.join(library, file)
rescue LoadError, NameError
  next # wants a library that is not part of Ruby, or another file first
end

modules = ObjectSpace.each_object(Module).select { |found| found.name&.match?(/\A(?:RDoc|Prism|Bundler|Gem|Reline|IRB|Net|OpenSSL|Psych|OptionParser|CGI|URI|JSON|Digest|ERB)\b/) }
table = modules.sort_by(&:name).to_h do |found|
  methods = found.instance_methods(false).sort.map { |name| found.instance_method(name) }
  [found.name, methods.map { |method| [method.name, method.parameters] }]
end
puts "#{files.size} files, #{$LOADED_FEATURES.size - before} loaded after the first, #{table.size} modules, #{table.values.sum(&:size)} methods"
