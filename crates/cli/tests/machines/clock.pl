# Sets the emulated machine's clock, as NTP would. Without an argument: serves the time. With the address of a server:
# sets the clock, returns, and keeps it right from then on.
use Socket;
sub now() { my $t = pack("qq", 0, 0); syscall(228, 0, $t); my ($s, $n) = unpack("qq", $t); $s * 1000000000 + $n } # clock_gettime
sub set { my $t = pack("qq", int($_[0] / 1000000000), $_[0] % 1000000000); syscall(227, 0, $t) } # clock_settime
socket(U, PF_INET, SOCK_DGRAM, 0) or die;
if (!@ARGV) {
    bind(U, sockaddr_in(2424, INADDR_ANY)) or die;
    while (defined(my $from = recv(U, my $asked, 64, 0))) { send(U, now, 0, $from) }
    die;
}
connect(U, sockaddr_in(2424, inet_aton($ARGV[0]))) or die;
# How far the local clock is ahead, ns, by the fastest of eight answers.
sub ahead {
    my ($best, $off);
    for (1 .. 8) {
        my $sent = now;
        send(U, "?", 0);
        vec(my $r = '', fileno(U), 1) = 1;
        select($r, undef, undef, 1) or next;
        recv(U, my $there, 64, 0);
        my $back = now;
        ($best, $off) = ($back - $sent, int(($sent + $back) / 2) - $there) if !defined $best || $back - $sent < $best;
    }
    $off
}
my $right = 0;
for (1 .. 50) {
    my $off = ahead;
    select(undef, undef, undef, 0.1), next if !defined $off;
    $right = 1, last if abs($off) < 2e6;
    set(now - $off);
}
$right or die "the clock could not be set\n";
exit if fork;
while (1) {
    sleep 2;
    my $off = ahead;
    set(now - $off) if defined $off && abs($off) > 5e6;
}
