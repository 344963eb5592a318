# Two strings that grow side by side, so that each blocks the other's way and both move.
a = +""
b = +""
200.times do
  a << "x" * 200_000
  b << "y" * 200_000
end
abort "lost" unless a.bytesize == 40_000_000 && a.count("x") == a.bytesize && b.count("y") == 40_000_000
puts "ok"
