/* TCP on loopback: half closes from either side, a reset by SO_LINGER 0, a non-blocking connect that poll ends,
 * urgent data and SIOCATMARK, SO_RCVLOWAT, FIONREAD and SIOCOUTQ, a full window that blocks a sender, accept4,
 * options that are read back. About 0.9 s. */
#include "show.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>

static struct sockaddr_in at;
static int s;

static int dial(void)
{
    int c = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(c, (void *)&at, sizeof at))
        say("connect %s", errno_name(errno));
    return c;
}

static void halves(void)
{
    int c = dial(), d = accept4(s, NULL, NULL, SOCK_CLOEXEC);
    char b[64];
    say("cloexec %d", fcntl(d, F_GETFD));
    pid_t child = fork();
    if (!child) {
        close(d);
        write(c, "first words", 11);
        rest(55);
        shutdown(c, SHUT_WR);
        long n = 0;
        for (long r; (r = read(c, b, sizeof b)) > 0;)
            n += r;
        _exit(n);
    }
    close(c);
    SHOW(recv(d, b, 11, MSG_WAITALL));
    SHOW(recv(d, b, 11, 0));
    struct pollfd f = {d, POLLIN | POLLRDHUP | POLLOUT};
    SHOW(poll(&f, 1, -1));
    say("revents %x", f.revents);
    for (int i = 0; i < 5; i++) {
        write(d, "0123456789", 10);
        rest(15);
    }
    SHOW(shutdown(d, SHUT_RD));
    SHOW(recv(d, b, 1, 0));
    SHOW(shutdown(d, SHUT_WR));
    int status;
    waitpid(child, &status, 0);
    say_status("child", status);
    SHOW(shutdown(d, SHUT_WR));
    SHOW(send(d, "x", 1, MSG_NOSIGNAL));
    close(d);
}

static void reset(void)
{
    int c = dial(), d = accept(s, NULL, NULL);
    struct linger l = {1, 0};
    char b[8];
    SHOW(setsockopt(c, SOL_SOCKET, SO_LINGER, &l, sizeof l));
    write(c, "lost", 4);
    rest(30);
    close(c);
    struct pollfd f = {d, POLLIN};
    SHOW(poll(&f, 1, -1));
    say("revents %x", f.revents & ~POLLRDHUP);
    rest(85);
    int error;
    SHOW(getsockopt(d, SOL_SOCKET, SO_ERROR, &error, &(socklen_t){sizeof error}));
    say("error %s", errno_name(error));
    SHOW(send(d, "x", 1, MSG_NOSIGNAL));
    SHOW(getpeername(d, (void *)b, &(socklen_t){sizeof b}));
    close(d);
}

static void urgent(void)
{
    int c = dial(), d = accept(s, NULL, NULL), mark = -1;
    char b[32] = {0};
    send(c, "abc", 3, 0);
    send(c, "!", 1, MSG_OOB);
    send(c, "def", 3, 0);
    struct pollfd f = {d, POLLPRI};
    SHOW(poll(&f, 1, -1));
    rest(85);
    SHOW(recv(d, b, 1, MSG_OOB));
    say("urgent %c", b[0]);
    SHOW(recv(d, b, 30, 0));
    SHOW(ioctl(d, 0x8905 /* SIOCATMARK */, &mark));
    say("at the mark %d", mark);
    SHOW(recv(d, b, 30, 0));
    SHOW(recv(d, b, 1, MSG_OOB));
    close(c), close(d);
}

static void windows(void)
{
    int c = dial(), d = accept(s, NULL, NULL), size = 8192, n = 0, low = 3000;
    setsockopt(c, SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
    pid_t child = fork();
    if (!child) {
        static char block[50000];
        long sent = 0;
        close(d);
        for (int i = 0; i < 20; i++) {
            memset(block, i, sizeof block);
            for (long k = 0, r; k < (long)sizeof block; k += r, sent += r)
                if ((r = write(c, block + k, sizeof block - k)) <= 0)
                    _exit(99);
        }
        _exit(sent == 1000000 ? 0 : 98);
    }
    close(c);
    SHOW(setsockopt(d, SOL_SOCKET, SO_RCVLOWAT, &low, sizeof low));
    static char b[9000];
    long got = 0, wrong = 0, little = 0;
    rest(140);
    SHOW(ioctl(d, FIONREAD, &n));
    HOLDS(n >= 3000);
    for (long r; (r = read(d, b, sizeof b)) > 0; got += r) {
        little += r < 3000 && got + r < 1000000;
        for (long i = 0; i < r; i++)
            wrong += b[i] != (got + i) / 50000;
        if (got % 5 == 0)
            chew(CHEW_MS / 2);
        if (got / 100000 != (got + r) / 100000)
            rest(15);
    }
    int status;
    waitpid(child, &status, 0);
    say_status("sender", status);
    say("got %ld wrong %ld little %ld", got, wrong, little);
    close(d);
}

static void pending(void)
{
    int c = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), error = -1, on = 1, value = 0;
    long r = connect(c, (void *)&at, sizeof at);
    HOLDS(r == 0 || errno == EINPROGRESS);
    struct pollfd f = {c, POLLOUT};
    SHOW(poll(&f, 1, -1));
    SHOW(getsockopt(c, SOL_SOCKET, SO_ERROR, &error, &(socklen_t){sizeof error}));
    say("error %d", error);
    SHOW(connect(c, (void *)&at, sizeof at));
    SHOW(connect(c, (void *)&at, sizeof at));
    char b[4];
    SHOW(recv(c, b, 4, 0));
    SHOW(setsockopt(c, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on));
    value = 7;
    SHOW(setsockopt(c, IPPROTO_TCP, TCP_KEEPCNT, &value, sizeof value));
    value = 0;
    SHOW(getsockopt(c, IPPROTO_TCP, TCP_KEEPCNT, &value, &(socklen_t){sizeof value}));
    say("keepcnt %d", value);
    SHOW(getsockopt(c, SOL_SOCKET, SO_PROTOCOL, &value, &(socklen_t){sizeof value}));
    say("protocol %d", value);
    struct tcp_info info;
    SHOW(getsockopt(c, IPPROTO_TCP, TCP_INFO, &info, &(socklen_t){sizeof info}));
    say("state %d", info.tcpi_state);
    int d = accept(s, NULL, NULL);
    SHOW(ioctl(d, 0x5411 /* SIOCOUTQ */, &value));
    say("out %d", value);
    close(c), close(d);
}

int main(void)
{
    socklen_t len = sizeof at;
    at = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    s = socket(AF_INET, SOCK_STREAM, 0);
    SHOW(bind(s, (void *)&at, sizeof at));
    SHOW(listen(s, 8));
    SHOW(getsockname(s, (void *)&at, &len));
    halves();
    reset();
    urgent();
    windows();
    pending();
    return 0;
}
