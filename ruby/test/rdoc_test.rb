claim "rdoc documents a part of Ruby's library without an error", needs: "rdoc" do
  sources = %w[set.rb optparse.rb delegate.rb tempfile.rb pstore.rb forwardable.rb ostruct.rb time.rb]
            .map { "#{Subject.source}/lib/#{_1}" }
  finished = ruby_command(["-S", "rdoc", "--quiet", "--format", "darkfish", "--op", "#{folder}/html", *sources],
                          limit: 180, env: { "HOME" => folder, "SOURCE_DATE_EPOCH" => "0" })
  check(finished.ok?) { finished.describe }
  page = File.read("#{folder}/html/Set.html")
  check_match(/superset\?/, page)
  check_match(/OptionParser/, File.read("#{folder}/html/index.html"))
end

claim "rdoc writes the same pages as the stock Ruby does", needs: "rdoc" do
  sources = %w[set.rb delegate.rb singleton.rb].map { "#{Subject.source}/lib/#{_1}" }
  arguments = ["-S", "rdoc", "--quiet", "--format", "ri", "--op"]
  finished = ruby_command([*arguments, "#{folder}/ours", *sources], limit: 180, env: { "HOME" => folder })
  check(finished.ok?) { finished.describe }
  stock = Subject.command(Subject.environment({ "HOME" => folder }), [RbConfig.ruby, *arguments, "#{folder}/stock", *sources],
                          folder:, limit: 180)
  check(stock.ok?) { stock.describe }
  pages = ->(place) { Dir.glob("**/*.ri", base: place).sort.to_h { |name| [name, File.binread("#{place}/#{name}")] } }
  ours = pages.call("#{folder}/ours")
  check(ours.size > 50) { "only #{ours.size} pages" }
  check_equal(pages.call("#{folder}/stock").keys, ours.keys)
  differing = ours.reject { |name, page| File.binread("#{folder}/stock/#{name}") == page }.keys
  check_equal([], differing.reject { _1.start_with?("cache") })
end
