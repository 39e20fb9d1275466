/* Two processes that talk much, over TCP and over a socket pair: small and large messages both ways, scattered and
 * peeked at, without waiting, with MSG_WAITALL, interrupted by signals, beside dup, fork, poll, select, fcntl and
 * shutdown. Each byte is checked. About 1.8 s. */
#include "show.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/select.h>

enum { SMALL = 40, ROUNDS = 150, LARGE = 300 * 1000 };

static volatile int alarms;

static void ring(int s)
{
    (void)s;
    alarms++;
}

static unsigned char byte_at(uint64_t i, int side)
{
    return i * 31 + (i >> 8) * 7 + (i >> 16) * 3 + side * 101;
}

/* One direction of a connection, as far as this process knows it. */
static uint64_t sent, received, wrong;
static int fd, side;

static void fill(unsigned char *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        b[i] = byte_at(sent + i, side);
    sent += n;
}

static void check(const unsigned char *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        wrong += b[i] != byte_at(received + i, !side);
    received += n;
}

static void put(size_t n, int how)
{
    static unsigned char b[LARGE];
    fill(b, n);
    for (size_t at = 0; at < n;) {
        ssize_t w;
        struct iovec v[2] = {{b + at, (n - at) / 3}, {b + at + (n - at) / 3, (n - at) - (n - at) / 3}};
        struct msghdr m = {.msg_iov = v, .msg_iovlen = 2};
        switch (how % 5) {
        case 0: w = write(fd, b + at, n - at); break;
        case 1: w = writev(fd, v, 2); break;
        case 2: w = send(fd, b + at, n - at, MSG_NOSIGNAL); break;
        case 3: w = sendmsg(fd, &m, 0); break;
        default: w = send(fd, b + at, n - at, MSG_DONTWAIT); break;
        }
        if (w > 0)
            at += w;
        else if (w < 0 && errno == EAGAIN)
            usleep(200);
        else if (!(w < 0 && errno == EINTR)) {
            say("side %d: write %zd %s", side, w, errno_name(errno));
            _exit(3);
        }
    }
}

static void get(size_t n, int how)
{
    static unsigned char b[LARGE];
    for (size_t at = 0; at < n;) {
        ssize_t r;
        size_t some = (n - at) / 2;
        struct iovec v[2] = {{b + at, some}, {b + at + some, n - at - some}};
        struct msghdr m = {.msg_iov = v, .msg_iovlen = 2};
        char control[64];
        switch (how % 6) {
        case 0: r = read(fd, b + at, n - at); break;
        case 1: r = readv(fd, v, 2); break;
        case 2: r = recv(fd, b + at, n - at, MSG_WAITALL); break;
        case 3:
            m.msg_control = control;
            m.msg_controllen = sizeof control;
            r = recvmsg(fd, &m, 0);
            if (r > 0 && (m.msg_controllen || m.msg_flags))
                wrong += 1000000;
            break;
        case 4:
            r = recv(fd, b + at, n - at, MSG_PEEK);
            if (r > 0) {
                unsigned char first = b[at];
                r = recv(fd, b + at, n - at, 0);
                wrong += r > 0 && b[at] != first;
            }
            break;
        default: r = recv(fd, b + at, n - at, MSG_DONTWAIT); break;
        }
        if (r > 0)
            at += r;
        else if (r < 0 && errno == EAGAIN)
            usleep(200);
        else if (!(r < 0 && errno == EINTR)) {
            say("side %d: read %zd %s", side, r, errno_name(errno));
            _exit(4);
        }
    }
    check(b, n);
}

static void ping(int rounds, size_t n)
{
    for (int i = 0; i < rounds; i++) {
        if (side == 0)
            put(n, i);
        get(n, i);
        if (side == 1)
            put(n, i);
    }
}

static void verdict(const char *what)
{
    say("%s: side %d sent %lu received %lu wrong %lu", what, side, sent, received, wrong);
}

/* Both sides do the same in turn, each line in a fixed order: the other waits for a byte. */
static void turn(const char *what)
{
    if (side == 1)
        get(1, 0);
    verdict(what);
    if (side == 0) {
        put(1, 0);
        get(1, 0);
    } else {
        put(1, 0);
    }
}

static void talk(void)
{
    ping(ROUNDS, SMALL);
    turn("small");
    for (int i = 0; i < 4; i++)
        ping(2, LARGE);
    turn("large");

    /* one side only sends */
    for (int i = 0; i < 200; i++)
        side == 0 ? put(2000, i) : get(2000, i);
    turn("one way");

    /* poll and select in between */
    for (int i = 0; i < 60; i++) {
        if (side == 0)
            put(SMALL, i);
        if (i % 2) {
            struct pollfd f = {fd, POLLIN, 0};
            while (poll(&f, 1, i % 4 == 1 ? -1 : 5000) < 0)
                ;
            wrong += f.revents != POLLIN;
        } else {
            fd_set in;
            FD_ZERO(&in);
            FD_SET(fd, &in);
            while (select(fd + 1, &in, NULL, NULL, NULL) < 0)
                ;
            wrong += !FD_ISSET(fd, &in);
        }
        get(SMALL, i);
        if (side == 1)
            put(SMALL, i);
    }
    turn("polled");

    /* signals: with and without SA_RESTART */
    for (int restart = 0; restart < 2; restart++) {
        struct sigaction a = {.sa_handler = ring, .sa_flags = restart ? SA_RESTART : 0};
        sigaction(SIGALRM, &a, NULL);
        ping(70, SMALL);
        if (side == 0) {
            struct itimerval t = {{0, 0}, {0, 40000}};
            alarms = 0;
            setitimer(ITIMER_REAL, &t, NULL);
            unsigned char b[4];
            errno = 0;
            ssize_t r = read(fd, b, sizeof b);
            say("interrupted: %zd %s alarms %d", r, r < 0 ? errno_name(errno) : "", alarms);
            if (r > 0)
                check(b, r);
            else
                get(4, 0);
        } else {
            usleep(400000);
            put(4, 0);
        }
    }
    turn("signals");

    /* other descriptors of it, and other processes */
    ping(70, SMALL);
    int other = dup(fd);
    ping(5, SMALL);
    int kept = fd;
    fd = other;
    ping(5, SMALL);
    fd = kept;
    close(other);
    ping(100, SMALL);
    pid_t child = fork();
    if (!child) {
        if (side == 0)
            put(SMALL, 0);
        _exit(0);
    }
    int status;
    waitpid(child, &status, 0);
    if (side == 0)
        sent += SMALL;
    else
        get(SMALL, 0);
    ping(100, SMALL);
    turn("shared");

    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    ping(100, SMALL);
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
    int n = -1;
    ping(100, SMALL);
    if (side == 0) {
        put(7, 0);
        get(1, 0);
    } else {
        get(3, 2);
        ioctl(fd, FIONREAD, &n);
        say("FIONREAD %d", n);
        get(4, 2);
        put(1, 0);
    }
    turn("without waiting");

    /* the end: what was written last comes, then the end of the stream */
    ping(80, SMALL);
    char c;
    if (side == 0) {
        put(5000, 0);
        int done = shutdown(fd, SHUT_WR);
        get(5000, 0);
        say("shutdown %d, end %zd", done, read(fd, &c, 1));
        verdict("end");
    } else {
        get(5000, 0);
        wrong += read(fd, &c, 1) != 0;
        put(5000, 0);
        close(fd);
    }
}

static void run(const char *name, int a, int b)
{
    pid_t child = fork();
    side = child == 0;
    fd = side ? b : a;
    close(side ? a : b);
    sent = received = wrong = 0;
    talk();
    if (side)
        _exit(wrong != 0);
    int status;
    waitpid(child, &status, 0);
    say_status(name, status);
    close(fd);
}

int main(void)
{
    int pair[2];
    socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
    run("pair", pair[0], pair[1]);

    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;
    int s = socket(AF_INET, SOCK_STREAM, 0), on = 1;
    bind(s, (void *)&at, sizeof at);
    listen(s, 1);
    getsockname(s, (void *)&at, &len);
    int c = socket(AF_INET, SOCK_STREAM, 0);
    connect(c, (void *)&at, sizeof at);
    int d = accept(s, NULL, NULL);
    setsockopt(c, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(d, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    close(s);
    run("tcp", c, d);
    return wrong != 0;
}
