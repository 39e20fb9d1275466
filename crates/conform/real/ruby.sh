cat > main.rb <<'RUBY'
require 'socket'
require 'timeout'
q = Queue.new
takers = 4.times.map { |t| Thread.new { s = 0; while (n = q.pop) != :end; s += n; end; s } }
2000.times { |i| q << i; sleep 0.01 if i % 400 == 0 }
4.times { q << :end }
puts "threads #{takers.sum(&:value)}"
text = 80000.times.map { |i| "x#{i}" }.each_slice(97).map { |s| s.join.hash; s.last }.last(3)
GC.start; GC.compact rescue nil
puts text.join(' ')
r, w = IO.pipe
pid = fork { r.close; 5.times { |i| w.puts "child #{i}"; sleep 0.03 }; exit! 3 }
w.close
puts r.read.split("\n").join(','), Process.wait2(pid)[1].exitstatus
server = TCPServer.new('127.0.0.1', 0)
t = Thread.new { 3.times { c = server.accept; c.puts c.gets.upcase; c.close } }
3.times { |i| s = TCPSocket.new('127.0.0.1', server.addr[1]); s.puts "hello #{i}"; puts s.gets; s.close }
t.join
begin; Timeout.timeout(0.2) { sleep }; rescue Timeout::Error => e; puts e.class; end
trap('USR1') { puts 'usr1' }
Process.kill('USR1', Process.pid); sleep 0.1
fiber = Fiber.new { 3.times { |i| Fiber.yield i }; :done }
puts 4.times.map { fiber.resume }.inspect
begin; Thread.new { Thread.current.report_on_exception = false; raise ArgumentError, 'across' }.join; rescue => e; puts e.message; end
puts `echo sub; exit 2`.strip, $?.exitstatus
ractors = 2.times.map { |i| Ractor.new(i) { |n| (1..30000).reduce { |a, b| (a * 31 + b + n) % 1000003 } } }
puts ractors.map(&:take).inspect
at_exit { puts 'bye' }
exit 5
RUBY
ruby -W0 main.rb
echo "status $?"
