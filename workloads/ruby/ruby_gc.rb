# frozen_string_literal: true

# Runs one of the programs that Ruby's own source keeps for its collector (benchmark/gc), with the same random numbers each time.
#   RUBY_SOURCE=~/src/ruby-4.0.5 ruby_gc.rb redblack
require_relative "figures"

name = ARGV.shift
folder = File.join(ENV.fetch("RUBY_SOURCE") { abort "ruby_gc.rb: RUBY_SOURCE is not set; give the folder of Ruby's source" }, "benchmark/gc")
program = File.join(folder, "#{name}.rb")
abort "ruby_gc.rb: there is no #{program}; #{folder} has #{Dir.children(folder).grep(/\.rb\z/).map { |file| file.delete_suffix(".rb") }.sort.join(", ")}" unless File.file?(program)

srand(20)
load program
