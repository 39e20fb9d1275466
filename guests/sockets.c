/* Sockets: unix stream and datagram pairs, TCP on loopback between parent and child, sendmsg and
 * recvmsg with SCM_RIGHTS, shutdown, SO_RCVTIMEO, non-blocking connect, MSG_PEEK, EPIPE,
 * ECONNREFUSED. Proves that connections stay at home. About 1.2 s. */
#include "show.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/un.h>

static void tcp(void)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)}, b;
    socklen_t len = sizeof b;
    int s = socket(AF_INET, SOCK_STREAM, 0), one = 1;
    SHOW(setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one));
    SHOW(bind(s, (void *)&a, sizeof a));
    SHOW(listen(s, 5));
    SHOW(getsockname(s, (void *)&b, &len));
    say("len %d family %d loopback %d port %d", len, b.sin_family,
        b.sin_addr.s_addr == a.sin_addr.s_addr, b.sin_port != 0);
    pid_t child = fork();
    if (!child) {
        int c = socket(AF_INET, SOCK_STREAM, 0);
        rest(60);
        if (connect(c, (void *)&b, sizeof b))
            _exit(1);
        char block[4096];
        long sum = 0;
        for (int n; (n = read(c, block, sizeof block)) > 0;)
            for (int i = 0; i < n; i++)
                sum += (unsigned char)block[i];
        rest(40);
        dprintf(c, "sum %ld", sum);
        _exit(0);
    }
    len = sizeof b;
    int c = accept(s, (void *)&b, &len);
    HOLDS(c >= 0 && len == sizeof b);
    SHOW(setsockopt(c, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one));
    int got = 0;
    len = sizeof got;
    SHOW(getsockopt(c, SOL_SOCKET, SO_TYPE, &got, &len));
    say("type %d", got);
    char block[30000];
    for (int i = 0; i < 100; i++) {
        memset(block, i, sizeof block);
        for (int at = 0, n; at < (int)sizeof block; at += n)
            if ((n = send(c, block + at, sizeof block - at, MSG_NOSIGNAL)) < 0) {
                say("send %s", errno_name(errno));
                return;
            }
        if (i % 10 == 0)
            chew(3 * CHEW_MS), rest(5);
    }
    SHOW(shutdown(c, SHUT_WR));
    SHOW(send(c, "x", 1, MSG_NOSIGNAL));
    memset(block, 0, 64);
    SHOW(recv(c, block, 3, MSG_PEEK));
    SHOW(recv(c, block, 64, 0) > 0);
    say("answer '%s'", block);
    SHOW(recv(c, block, 64, 0));
    int status;
    waitpid(child, &status, 0);
    say_status("client", status);
    close(c), close(s);
    int r = socket(AF_INET, SOCK_STREAM, 0);
    SHOW(connect(r, (void *)&a, sizeof a));
    a.sin_port = htons(1);
    SHOW(connect(r, (void *)&a, sizeof a));
    int n = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    long rc = connect(n, (void *)&a, sizeof a);
    HOLDS(rc < 0 && (errno == EINPROGRESS || errno == ECONNREFUSED));
    struct pollfd f = {n, POLLOUT};
    SHOW(poll(&f, 1, 1000));
    SHOW(recv(n, block, 1, 0));
    SHOW(recv(r, (void *)8, 10, 0));
    SHOW(socket(999, SOCK_STREAM, 0));
    SHOW(bind(99, (void *)&a, sizeof a));
    a.sin_addr.s_addr = htonl(0x01020304);
    SHOW(bind(r, (void *)&a, sizeof a));
    SHOW(accept(r, NULL, NULL));
    SHOW(getpeername(r, (void *)&b, &len));
}

static void pass_descriptor(void)
{
    int sv[2], p[2];
    SHOW(socketpair(AF_UNIX, SOCK_STREAM, 0, sv));
    pipe(p);
    char data[8] = "fd", control[CMSG_SPACE(2 * sizeof(int))] = {0};
    struct iovec v = {data, 3};
    struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = control};
    pid_t child = fork();
    if (!child) {
        m.msg_controllen = sizeof control;
        close(p[0]), close(p[1]);
        if (recvmsg(sv[1], &m, 0) != 3)
            _exit(1);
        int fd;
        memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof fd);
        rest(50);
        _exit(write(fd, "passed on", 9) == 9 ? 0 : 2);
    }
    rest(60);
    m.msg_controllen = CMSG_SPACE(sizeof(int));
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    c->cmsg_level = SOL_SOCKET, c->cmsg_type = SCM_RIGHTS, c->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(c), &p[1], sizeof(int));
    SHOW(sendmsg(sv[0], &m, 0));
    close(p[1]);
    char b[32] = {0};
    SHOW(read(p[0], b, 32));
    say("came back '%s'", b);
    int status;
    waitpid(child, &status, 0);
    say_status("receiver", status);
    struct ucred cred;
    socklen_t len = sizeof cred;
    SHOW(getsockopt(sv[0], SOL_SOCKET, SO_PEERCRED, &cred, &len));
    HOLDS(cred.pid == getpid() && cred.uid == getuid());
    struct timeval tv = {0, 100000};
    SHOW(setsockopt(sv[0], SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof tv));
    SHOW(recv(sv[0], b, 1, 0));
    SHOW(recv(sv[0], b, 1, MSG_DONTWAIT));
    close(sv[1]);
    SHOW(recv(sv[0], b, 1, 0));
    SHOW(send(sv[0], "x", 1, MSG_NOSIGNAL));
}

static void datagrams(void)
{
    struct sockaddr_un a = {AF_UNIX, "dgram.sock"}, from;
    int s = socket(AF_UNIX, SOCK_DGRAM, 0);
    SHOW(bind(s, (void *)&a, sizeof a));
    SHOW(bind(s, (void *)&a, sizeof a));
    pid_t child = fork();
    if (!child) {
        int c = socket(AF_UNIX, SOCK_DGRAM, 0);
        struct sockaddr_un mine = {AF_UNIX, "client.sock"};
        bind(c, (void *)&mine, sizeof mine);
        for (int i = 0; i < 10; i++) {
            char b[200];
            memset(b, 'a' + i, sizeof b);
            sendto(c, b, 20 * i + 1, 0, (void *)&a, sizeof a);
            rest(15);
        }
        _exit(0);
    }
    for (int i = 0; i < 10; i++) {
        char b[100] = {0};
        socklen_t len = sizeof from;
        long n = recvfrom(s, b, sizeof b, MSG_TRUNC, (void *)&from, &len);
        say("datagram %ld '%c' from %s", n, b[0], from.sun_path);
    }
    int status;
    waitpid(child, &status, 0);
    say_status("sender", status);
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int u = socket(AF_INET, SOCK_DGRAM, 0), w = socket(AF_INET, SOCK_DGRAM, 0);
    bind(u, (void *)&in, sizeof in);
    socklen_t len = sizeof in;
    getsockname(u, (void *)&in, &len);
    SHOW(sendto(w, "udp", 3, 0, (void *)&in, sizeof in));
    char b[8] = {0};
    SHOW(recv(u, b, 8, 0));
    struct mmsghdr mm[2] = {0};
    struct iovec v[2] = {{"one", 3}, {"three", 5}};
    for (int i = 0; i < 2; i++)
        mm[i].msg_hdr = (struct msghdr){.msg_name = &in, .msg_namelen = sizeof in, .msg_iov = &v[i], .msg_iovlen = 1};
    SHOW(sendmmsg(w, mm, 2, 0));
    SHOW(recv(u, b, 8, 0));
    SHOW(recv(u, b, 8, 0));
    SHOW(shutdown(u, 7));
}

int main(void)
{
    tcp();
    pass_descriptor();
    datagrams();
    SHOW(socketpair(AF_INET, SOCK_STREAM, 0, (int[2]){0, 0}));
    return 0;
}
