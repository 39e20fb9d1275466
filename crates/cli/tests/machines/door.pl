# Runs scripts in the emulated machine. Server (no argument): receives a script, and returns its output and status. With
# the server's address: sends standard input there.
use Socket;
$SIG{CHLD} = 'IGNORE';
socket(S, PF_INET, SOCK_STREAM, 0) or die;
if (my ($at) = @ARGV) {
    connect(S, sockaddr_in(23, inet_aton($at))) or die "no door at $at: $!\n";
    local $/;
    select(S); $| = 1; select(STDOUT);
    print S <STDIN>;
    shutdown(S, 1);
    my $said = <S>;
    $said =~ s/\nstatus (\d+)\n\z// or die "no status: $said\n";
    my $status = $1;
    print $said;
    exit $status;
}
setsockopt(S, SOL_SOCKET, SO_REUSEADDR, 1);
bind(S, sockaddr_in(23, INADDR_ANY)) or die;
listen(S, 50);
while (1) {
    accept(C, S) or next;
    if (!fork) {
        $SIG{CHLD} = 'DEFAULT';
        close S;
        my $script = do { local $/; <C> };
        if (open(O, '-|') == 0) {
            close C;
            open STDIN, '<', '/dev/null';
            open STDERR, '>&', \*STDOUT;
            exec '/bin/sh', '-c', $script;
        }
        print C while read O, $_, 65536;
        close O;
        print C "\nstatus ", $? >> 8, "\n";
        exit;
    }
    close C;
}
