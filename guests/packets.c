/* UNIX sockets that keep message boundaries: SOCK_SEQPACKET and SOCK_DGRAM pairs, MSG_TRUNC and MSG_EOR, a full queue
 * that blocks its sender, empty datagrams, abstract names and autobind, a server that serves three clients with
 * accept4, connect to a name without a socket. About 0.8 s. */
#include "show.h"
#include <stddef.h>
#include <sys/un.h>

static socklen_t abstract(struct sockaddr_un *a, const char *name)
{
    memset(a, 0, sizeof *a);
    a->sun_family = AF_UNIX;
    int n = sprintf(a->sun_path + 1, "armento-%s-%d", name, getpid());
    return offsetof(struct sockaddr_un, sun_path) + 1 + n;
}

static void borders(int type, const char *name)
{
    int sv[2];
    char b[64];
    say("borders of %s", name);
    SHOW(socketpair(AF_UNIX, type, 0, sv));
    for (int i = 1; i <= 5; i++)
        send(sv[0], "abcdefghijklmnop", i * 3, MSG_EOR);
    for (int i = 1; i <= 5; i++) {
        struct iovec v = {b, 10};
        struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1};
        long n = recvmsg(sv[1], &m, i == 5 ? MSG_TRUNC : 0);
        say("got %ld flags %x", n, m.msg_flags);
    }
    SHOW(send(sv[0], "", 0, 0));
    SHOW(recv(sv[1], b, 10, 0));
    SHOW(recv(sv[1], b, 10, MSG_DONTWAIT));
    SHOW(send(sv[0], "peek", 4, 0));
    SHOW(recv(sv[1], b, 10, MSG_PEEK));
    SHOW(recv(sv[1], b, 2, MSG_PEEK | MSG_TRUNC));
    SHOW(recv(sv[1], b, 10, 0));
    int sent = 0;
    char block[1000];
    memset(block, 'x', sizeof block);
    while (send(sv[0], block, sizeof block, MSG_DONTWAIT) == sizeof block)
        sent++;
    say("full: %s, some %d", errno_name(errno), sent > 2);
    pid_t child = fork();
    if (!child) { /* blocks until there is room */
        int bad = 0;
        close(sv[1]);
        for (int i = 0; i < 30; i++) {
            memset(block, i, sizeof block);
            bad += send(sv[0], block, 500 + i, 0) != 500 + i;
        }
        _exit(bad);
    }
    rest(140);
    int wrong = 0, status;
    for (int i = 0; i < sent; i++)
        wrong += recv(sv[1], block, sizeof block, 0) != sizeof block || block[5] != 'x';
    for (int i = 0; i < 30; i++) {
        wrong += recv(sv[1], block, sizeof block, 0) != 500 + i || block[499] != i;
        if (i % 6 == 0)
            rest(20);
    }
    waitpid(child, &status, 0);
    say_status("sender", status);
    say("wrong %d", wrong);
    close(sv[0]);
    SHOW(recv(sv[1], b, 10, MSG_DONTWAIT));
    SHOW(send(sv[1], "x", 1, MSG_NOSIGNAL));
    close(sv[1]);
}

static void server(void)
{
    struct sockaddr_un a, who;
    socklen_t len = abstract(&a, "server"), l;
    int s = socket(AF_UNIX, SOCK_SEQPACKET, 0);
    SHOW(connect(s, (void *)&a, len));
    SHOW(bind(s, (void *)&a, len));
    SHOW(bind(s, (void *)&a, len));
    SHOW(listen(s, 4));
    l = sizeof who;
    SHOW(getsockname(s, (void *)&who, &l));
    HOLDS(l == len && !memcmp(&who, &a, len));
    for (int i = 0; i < 3; i++) {
        pid_t child = fork();
        if (!child) {
            char b[32];
            int c = socket(AF_UNIX, SOCK_SEQPACKET, 0);
            if (connect(c, (void *)&a, len))
                _exit(1);
            rest(60);
            send(c, "question", 8 - i, 0);
            long n = recv(c, b, sizeof b, 0);
            _exit(n == 10 + i ? 40 + i : 2);
        }
        l = sizeof who;
        int c = accept4(s, (void *)&who, &l, SOCK_CLOEXEC), status;
        say("accepted, unnamed client %d, cloexec %d", l == sizeof(sa_family_t), fcntl(c, F_GETFD));
        char b[32];
        SHOW(recv(c, b, sizeof b, 0));
        SHOW(send(c, "an answer of some length", 10 + i, 0));
        waitpid(child, &status, 0);
        say_status("client", status);
        SHOW(recv(c, b, sizeof b, 0));
        close(c);
    }
    close(s);
    int t = socket(AF_UNIX, SOCK_DGRAM, 0);
    a.sun_family = AF_UNIX;
    SHOW(bind(t, (void *)&a, sizeof(sa_family_t)));
    l = sizeof who;
    SHOW(getsockname(t, (void *)&who, &l));
    say("autobound: %d long, abstract %d", l, !who.sun_path[0]);
    SHOW(sendto(t, "x", 1, 0, (void *)&a, len));
    SHOW(connect(t, (void *)&who, l));
    SHOW(send(t, "to myself", 9, 0));
    rest(120);
    char b[16];
    SHOW(recv(t, b, 16, 0));
}

int main(void)
{
    borders(SOCK_SEQPACKET, "seqpacket");
    borders(SOCK_DGRAM, "datagrams");
    server();
    SHOW(socketpair(AF_UNIX, SOCK_RAW, 77, (int[2]){0, 0}));
    chew(40 * CHEW_MS);
    return 0;
}
