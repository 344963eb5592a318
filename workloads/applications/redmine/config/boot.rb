# frozen_string_literal: true

# In the place of Redmine's config/boot.rb: what Bundler would require, without Bundler, whose
# Gemfile says that Ruby must be older. GEM_PATH and RUBYLIB are what scripts/bench/redmine.sh exports.
ENV["RAILS_ENV"] ||= "production"

module Bundler
  GEMS = %w[rails rouge mini_mime actionpack-xml_parser roadie-rails marcel mail nokogiri i18n rbpdf addressable zip propshaft
            rack csv net/imap net/pop net/smtp rotp rqrcode html/pipeline sanitize net/ldap sqlite3].freeze

  def self.require(*) = GEMS.each { |name| Kernel.instance_method(:require).bind_call(self, name) }
end
