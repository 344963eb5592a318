# frozen_string_literal: true

# Reads a configuration-like YAML document again and again: a C parser that calls back
# into Ruby, many short strings and small hashes.
#   yaml_load.rb [TIMES]
require_relative "figures"
require "yaml"

services = (1..60).to_h do |n|
  ["service_#{n}", {
    "image" => "registry/team#{n % 7}/service-#{n}:1.#{n}.0",
    "replicas" => n % 5 + 1,
    "ratio" => n / 7.0,
    "enabled" => n.odd?,
    "note" => (n % 6).zero? ? "a longer note\nover two lines for service #{n}\n" : nil,
    "ports" => [8000 + n, 9000 + n],
    "environment" => { "LOG_LEVEL" => "info", "REGION" => "zone-#{n % 3}", "TOKEN" => "value-#{n * 7919}" },
    "checks" => (1..4).map { |c| { "path" => "/health/#{c}", "interval_s" => c * 5, "kind" => c.even? ? :http : :tcp } },
  }]
end
text = YAML.dump({ "version" => 3, "services" => services })

checksum = 0
Integer(ARGV[0] || 190).times do
  loaded = YAML.load(text, permitted_classes: [Symbol])
  loaded["services"].each_value do |service|
    checksum += service["ports"].sum + service["image"].size + service["checks"].sum { |check| check["interval_s"] }
  end
end
puts "#{text.bytesize} bytes, checksum #{checksum}"
