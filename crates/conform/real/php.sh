cat > main.php <<'PHP'
<?php
function numbers($n) { for ($i = 0; $i < $n; $i++) yield $i => $i * $i % 1009; }
$sum = 0; foreach (numbers(200000) as $k => $v) $sum = ($sum * 31 + $v + $k) % 1000003;
echo "sum $sum\n";
$p = proc_open(['sh', '-c', 'read x; echo "got $x"; sleep 0.2; echo err >&2; exit 4'], [['pipe', 'r'], ['pipe', 'w'], ['pipe', 'w']], $pipes);
fwrite($pipes[0], "words\n"); fclose($pipes[0]);
echo stream_get_contents($pipes[1]), stream_get_contents($pipes[2]), proc_close($p), "\n";
$pair = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0);
if (($pid = pcntl_fork()) == 0) { for ($i = 0; $i < 6; $i++) { fwrite($pair[1], "part $i\n"); usleep(40000); } exit(3); }
fclose($pair[1]); echo strlen(stream_get_contents($pair[0])), "\n";
pcntl_waitpid($pid, $status); echo pcntl_wexitstatus($status), "\n";
pcntl_async_signals(true); pcntl_signal(SIGALRM, function () { echo "alarm\n"; });
pcntl_alarm(1); $t = microtime(true); while (microtime(true) - $t < 1.1) usleep(20000);
preg_match_all('/(\d+)-(\w+)/', str_repeat('12-ab 345-cd ', 500), $m); echo count($m[0]), end($m[2]), "\n";
file_put_contents('out', serialize(range(1, 2000))); echo md5_file('out'), ' ', array_sum(unserialize(file_get_contents('out'))), "\n";
try { intdiv(1, 0); } catch (DivisionByZeroError $e) { echo get_class($e), "\n"; }
$f = fopen('out', 'c+'); echo flock($f, LOCK_EX | LOCK_NB) ? "locked\n" : "no\n";
$fiber = new Fiber(function () { $x = Fiber::suspend(1); echo "fiber $x\n"; }); $fiber->start(); $fiber->resume(2);
exit(6);
PHP
php -n main.php || echo "status $?"
