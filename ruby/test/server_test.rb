# A Rack-style application behind a threaded HTTP/1.1 server, both in the program under
# test, and clients that load it over the loopback interface. Bounded: 6 clients, 2,400
# requests, then it stops by itself.
claim "a Rack-style server answers every request right under load" do
  ruby_ok <<~'RUBY', limit: 120
    require "socket"
    require "json"
    require "erb"
    require "net/http"

    APP = lambda do |env|
      case env["PATH_INFO"]
      when %r{\A/json/(\d+)\z}
        n = $1.to_i
        [200, { "content-type" => "application/json" }, [JSON.generate("n" => n, "squares" => Array.new(n % 50) { |i| i * i }, "agent" => env["HTTP_X_CLIENT"])]]
      when %r{\A/page/(\d+)\z}
        rows = Array.new($1.to_i % 40) { |i| { name: "row <#{i}>", value: i * 1.5 } }
        [200, { "content-type" => "text/html" }, [PAGE.result_with_hash(rows: rows)]]
      when "/collect"
        GC.start
        [204, {}, []]
      else
        [404, {}, ["nothing at #{env["PATH_INFO"]}"]]
      end
    end
    PAGE = ERB.new("<ul><% rows.each do |row| %><li><%= ERB::Util.h(row[:name]) %>: <%= row[:value] %></li><% end %></ul>")

    def serve(socket)
      while (request = socket.gets)
        method, path, = request.split
        env = { "REQUEST_METHOD" => method, "PATH_INFO" => path }
        while (header = socket.gets) && header != "\r\n"
          name, value = header.chomp.split(": ", 2)
          env["HTTP_#{name.upcase.tr("-", "_")}"] = value
        end
        status, headers, body = APP.call(env)
        text = body.join
        socket.write("HTTP/1.1 #{status} OK\r\n", headers.map { |k, v| "#{k}: #{v}\r\n" }.join, "content-length: #{text.bytesize}\r\n\r\n", text)
      end
    ensure
      socket.close
    end

    listener = TCPServer.new("127.0.0.1", 0)
    port = listener.addr[1]
    acceptor = Thread.new { loop { Thread.new(listener.accept) { |socket| serve(socket) } } }
    clients = Array.new(6) do |c|
      Thread.new do
        Net::HTTP.start("127.0.0.1", port) do |http|
          400.times do |i|
            case i % 4
            when 0, 1
              answer = JSON.parse(http.get("/json/#{i}", "X-Client" => "client #{c}").body)
              abort "json" unless answer == { "n" => i, "squares" => Array.new(i % 50) { |k| k * k }, "agent" => "client #{c}" }
            when 2
              abort "page" unless http.get("/page/#{i}").body.scan("&lt;").size == i % 40
            else
              abort "missing" unless http.get("/nowhere").code == "404"
              http.get("/collect") if i % 100 == 99
            end
          end
        end
      end
    end
    clients.each { |client| client.report_on_exception = true; client.join }
    acceptor.kill
    puts "ok"
  RUBY
end

claim "a preforking server's workers answer after the parent warmed up" do
  ruby_ok <<~'RUBY', limit: 90
    require "socket"
    table = Array.new(20_000) { |i| "entry #{i}" }
    Process.warmup
    listener = TCPServer.new("127.0.0.1", 0)
    workers = Array.new(3) do
      fork do
        loop do
          socket = listener.accept
          n = socket.gets.to_i
          exit!(0) if n < 0
          Array.new(200) { |i| i.to_s * 5 }
          socket.puts(table[n])
          socket.close
        end
      end
    end
    600.times do |i|
      TCPSocket.open("127.0.0.1", listener.addr[1]) { |socket| socket.puts(i * 7); abort "answer" unless socket.gets == "entry #{i * 7}\n" }
    end
    3.times { TCPSocket.open("127.0.0.1", listener.addr[1]) { |socket| socket.puts(-1); socket.gets } }
    workers.each { |pid| Process.wait(pid); abort "worker #{$?}" unless $?.success? }
    puts "ok"
  RUBY
end
