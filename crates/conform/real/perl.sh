exec perl -e '
use strict; use warnings; use POSIX ":sys_wait_h"; use Socket; use Time::HiRes "ualarm"; $| = 1;
my ($s, %c) = 7; my @l;
for my $i (1 .. 60000) { $s = $s * 16807 % 2147483647; push @l, "w" . $s % 5000; $c{$l[-1]}++ }
print scalar(keys %c), " ", join(",", (sort { $c{$b} <=> $c{$a} || $a cmp $b } keys %c)[0 .. 3]), "\n";
my $t = join " ", @l; my $n = () = $t =~ /\bw(\d)\d*\1\b/g; print "$n\n";
my @sorted = sort @l; print "$sorted[100] $sorted[-1]\n";
for my $k (1 .. 4) {
    pipe my $r, my $w; my $pid = fork;
    if (!$pid) { close $r; select undef, undef, undef, 0.05 * $k; my $x = 0; $x += $_ % $k for 1 .. 100000; print $w "child $k: $x\n"; close $w; exit $k }
    close $w; print <$r>; print waitpid($pid, 0) == $pid ? "status " . ($? >> 8) . "\n" : "lost\n";
}
print `echo backticks; exit 3`, $? >> 8, "\n";
open my $p, "|-", "tr a-z A-Z" or die; print $p "to a pipe\n"; close $p;
my $got = 0; $SIG{ALRM} = sub { $got++ }; alarm 1; my $left = select undef, undef, undef, 20; print "alarm $got $left\n";
eval { local $SIG{ALRM} = sub { die "timeout\n" }; ualarm 300000; 1 while 1 }; print "eval $@";
socketpair my $a, my $b, AF_UNIX, SOCK_STREAM, PF_UNSPEC; syswrite $a, "x" x 5000; sysread $b, my $buf, 9999; print length $buf, "\n";
open my $f, "+>", "file" or die; print $f pack("N n A5", 1, 2, "abc"); seek $f, 0, 0; read $f, $buf, 20; print unpack("H*", $buf), "\n"; close $f;
rename "file", "moved"; print -s "moved", " ", -e "file" ? 1 : 0, " ", sprintf("%04o", (stat "moved")[2] & 07777), "\n";
print "$!\n" unless open $f, "<", "none"; printf "%.10f %s\n", atan2(1, 1) * 4, POSIX::strftime("%Y-%m-%d", gmtime 86400 * 365);
die "the end\n";
'
