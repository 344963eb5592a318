# frozen_string_literal: true

# Documents part of Ruby's own library with rdoc into a folder that is removed at the end.
#   rdoc.rb ri|darkfish [FOLDER_OR_FILE_OF_THE_LIBRARY ...]
require_relative "figures"
require "digest"
require "rdoc"
require "tmpdir"

form, *parts = ARGV
abort "rdoc.rb: the form is #{form.inspect}; give ri or darkfish" unless %w[ri darkfish].include?(form)
parts = %w[set set.rb optparse optparse.rb net uri uri.rb] if parts.empty?

$VERBOSE = nil # the library refers to files that are not installed with it

# Dates and generated times differ from run to run.
def undated(text) = text.gsub(/\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d( [+-]\d{4}| UTC)?/, "DATE")

# In memory where there is such a folder: the time files take on a disk is not the program's.
memory = "/dev/shm"
Dir.mktmpdir("rdoc", File.writable?(memory) ? memory : nil) do |scratch|
  made = File.join(scratch, "made")
  Dir.chdir(RbConfig::CONFIG["rubylibdir"]) do
    RDoc::RDoc.new.document(["--quiet", "--force-update", "--format=#{form}", "--op=#{made}", *parts])
  end
  files = Dir.glob("**/*", base: made).select { |name| File.file?(File.join(made, name)) }.sort
  digest = Digest::SHA256.new
  bytes = 0
  files.each do |name|
    next if name == "created.rid" || name.end_with?(".gz") # both hold the time

    text = undated(File.binread(File.join(made, name)))
    digest << name << "\0" << text
    bytes += text.bytesize
  end
  puts "#{form}: #{files.size} files, #{bytes} bytes, #{digest}"
end
