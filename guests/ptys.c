/* A terminal that the program opened for itself: canonical lines with erase, kill and end of file, raw reads by
 * VMIN and VTIME, echo, output processing, packet mode, flow control, window size with SIGWINCH, TIOCSTI refused
 * or not at all, tcdrain and tcflush, hang-up. About 0.8 s. */
#include "show.h"
#include <pty.h>
#include <termios.h>

static int master, slave;
static struct termios base;

static void show_bytes(const char *what, const char *b, long n)
{
    char line[256];
    int at = 0;
    for (long i = 0; i < n && at < 240; i++)
        at += sprintf(line + at, b[i] < 32 || b[i] > 126 ? "<%02x>" : "%c", (unsigned char)b[i]);
    line[at] = 0;
    say("%s: %ld %s%s", what, n, line, n < 0 ? errno_name(errno) : "");
}

/* Reads exactly what is expected, in as many pieces as it comes. */
static void expect(const char *what, int fd, long n)
{
    char b[256];
    long got = 0;
    while (got < n) {
        long r = read(fd, b + got, n - got);
        if (r <= 0)
            break;
        got += r;
    }
    show_bytes(what, b, got);
}

static void set(int lflag, int min, int time)
{
    struct termios t = base;
    t.c_lflag = lflag;
    t.c_cc[VMIN] = min, t.c_cc[VTIME] = time;
    if (tcsetattr(slave, TCSANOW, &t))
        say("tcsetattr %s", errno_name(errno));
}

static volatile int resized;
static void on_resize(int s) { resized++; }

static pid_t later(const char *text, int ms, int times)
{
    pid_t child = fork();
    if (!child) {
        for (int i = 0; i < times; i++) {
            rest(ms);
            write(master, text, strlen(text));
        }
        _exit(0);
    }
    return child;
}

int main(void)
{
    struct winsize w = {30, 100, 0, 0};
    char b[256];
    SHOW(openpty(&master, &slave, NULL, NULL, NULL));
    SHOW(tcgetattr(slave, &base));
    say("flags %x %x %x", base.c_lflag, base.c_iflag, base.c_oflag);
    SHOW(isatty(slave));
    set(ICANON, 1, 0);
    write(master, "wrong\x15rest\x7ft of line\nsecond", 27);
    long n = read(slave, b, sizeof b);
    show_bytes("line", b, n);
    write(master, " half\n", 6);
    n = read(slave, b, 3);
    show_bytes("a part", b, n);
    rest(60);
    n = read(slave, b, sizeof b);
    show_bytes("the rest", b, n);
    write(master, "no newline\x04", 11);
    n = read(slave, b, sizeof b);
    show_bytes("by end of file", b, n);
    write(master, "\x04", 1);
    SHOW(read(slave, b, sizeof b));
    pid_t child = later("typed slowly\n", 60, 1);
    n = read(slave, b, sizeof b);
    show_bytes("waited for", b, n);
    waitpid(child, NULL, 0);

    set(ICANON | ECHO | ECHOCTL | ECHOE, 1, 0);
    write(master, "ab\x7f\x01\n", 5);
    expect("echo", master, 9);
    n = read(slave, b, sizeof b);
    show_bytes("read", b, n);
    write(slave, "one\ntwo\n", 8);
    expect("output", master, 10);

    set(0, 5, 0);
    child = later("xy", 30, 3);
    n = read(slave, b, sizeof b);
    show_bytes("at least five", b, n >= 5 ? 5 : n);
    waitpid(child, NULL, 0);
    tcflush(slave, TCIFLUSH);
    set(0, 0, 1);
    double t0 = now();
    SHOW(read(slave, b, sizeof b));
    HOLDS(now() - t0 >= 0.095);
    set(0, 0, 0);
    SHOW(read(slave, b, sizeof b));
    fcntl(slave, F_SETFL, O_NONBLOCK);
    set(0, 1, 0);
    SHOW(read(slave, b, sizeof b));
    fcntl(slave, F_SETFL, 0);
    int waiting;
    write(master, "pending", 7);
    SHOW(poll(&(struct pollfd){slave, POLLIN}, 1, -1));
    SHOW(ioctl(slave, FIONREAD, &waiting));
    say("waiting %d", waiting);
    SHOW(tcflush(slave, TCIFLUSH));
    SHOW(ioctl(slave, FIONREAD, &waiting));
    say("waiting %d", waiting);

    int on = 1;
    SHOW(ioctl(master, TIOCPKT, &on));
    write(slave, "packet", 6);
    expect("packet", master, 7);
    SHOW(tcflow(slave, TCOOFF));
    n = read(master, b, sizeof b);
    show_bytes("stopped", b, n);
    SHOW(tcflow(slave, TCOON));
    n = read(master, b, sizeof b);
    show_bytes("started", b, n);
    on = 0;
    ioctl(master, TIOCPKT, &on);
    SHOW(tcdrain(slave));
    SHOW(tcsendbreak(slave, 0));

    SHOW(ioctl(master, TIOCSWINSZ, &w));
    w = (struct winsize){0};
    rest(60);
    SHOW(ioctl(slave, TIOCGWINSZ, &w));
    say("rows %d columns %d", w.ws_row, w.ws_col);
    SHOW(tcgetpgrp(slave));
    int p[2], status;
    pipe(p);
    child = fork();
    if (!child) {
        signal(SIGWINCH, on_resize);
        setsid();
        SHOW(ioctl(slave, TIOCSCTTY, 0));
        HOLDS(tcgetpgrp(slave) == getpid() && tcgetsid(slave) == getpid());
        close(master);
        write(p[1], "r", 1);
        while (!resized)
            rest(10);
        ioctl(slave, TIOCGWINSZ, &w);
        say("resized to %d", w.ws_row);
        write(p[1], "r", 1);
        for (;;)
            pause();
    }
    char r;
    read(p[0], &r, 1);
    rest(50);
    w.ws_row = 77;
    ioctl(master, TIOCSWINSZ, &w);
    read(p[0], &r, 1);
    rest(40);
    close(slave);
    close(master); /* SIGHUP */
    waitpid(child, &status, 0);
    say_status("session", status);
    chew(30 * CHEW_MS);
    return 0;
}
