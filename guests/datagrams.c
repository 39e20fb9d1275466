/* UDP on loopback: connected and not, MSG_PEEK and MSG_TRUNC, empty datagrams, recvmmsg and sendmmsg with many vectors,
 * recvmmsg that waits for the first, a refusal that is reported by the next call, IP_PKTINFO and IP_TTL, a child that
 * answers. About 0.8 s. */
#include "show.h"
#include <arpa/inet.h>
#include <netinet/in.h>

static int bound(struct sockaddr_in *a)
{
    socklen_t len = sizeof *a;
    int s = socket(AF_INET, SOCK_DGRAM, 0);
    *a = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (bind(s, (void *)a, sizeof *a) || getsockname(s, (void *)a, &len))
        say("bind %s", errno_name(errno));
    return s;
}

static void many(int to, struct sockaddr_in *a, int from)
{
    struct mmsghdr out[12] = {0}, in[12] = {0};
    struct iovec vo[12][2], vi[12];
    static char text[12][40], got[12][30];
    for (int i = 0; i < 12; i++) {
        memset(text[i], 'a' + i, 40);
        vo[i][0] = (struct iovec){text[i], i}, vo[i][1] = (struct iovec){text[i] + 10, 20};
        out[i].msg_hdr = (struct msghdr){.msg_name = a, .msg_namelen = sizeof *a, .msg_iov = vo[i], .msg_iovlen = 2};
        vi[i] = (struct iovec){got[i], 30};
        in[i].msg_hdr = (struct msghdr){.msg_iov = &vi[i], .msg_iovlen = 1};
    }
    SHOW(sendmmsg(from, out, 12, 0));
    rest(85);
    SHOW(recvmmsg(to, in, 5, 0, NULL));
    SHOW(recvmmsg(to, in + 5, 7, MSG_DONTWAIT, NULL));
    for (int i = 0; i < 12; i++)
        say("sent %u got %u '%c' flags %x hash %lx", out[i].msg_len, in[i].msg_len, got[i][0],
            in[i].msg_hdr.msg_flags, (unsigned long)hash(got[i], in[i].msg_len));
    SHOW(recvmmsg(to, in, 2, MSG_DONTWAIT, NULL));
    pid_t child = fork();
    if (!child) {
        rest(110);
        _exit(sendmmsg(from, out, 3, 0));
    }
    int n = recvmmsg(to, in, 1, MSG_WAITFORONE, NULL), status;
    while (n < 3)
        n += recvmmsg(to, in + n, 3 - n, MSG_WAITFORONE, NULL);
    say("waited for %d: %u %u %u", n, in[0].msg_len, in[1].msg_len, in[2].msg_len);
    waitpid(child, &status, 0);
    say_status("sender", status);
}

static void information(int to, struct sockaddr_in *a, int from)
{
    int on = 1, ttl = 33;
    SHOW(setsockopt(to, IPPROTO_IP, IP_PKTINFO, &on, sizeof on));
    SHOW(setsockopt(to, IPPROTO_IP, IP_RECVTTL, &on, sizeof on));
    SHOW(setsockopt(from, IPPROTO_IP, IP_TTL, &ttl, sizeof ttl));
    SHOW(sendto(from, "with more", 9, 0, (void *)a, sizeof *a));
    char b[32], control[256];
    struct iovec v = {b, sizeof b};
    struct sockaddr_in who;
    struct msghdr m = {.msg_name = &who, .msg_namelen = sizeof who, .msg_iov = &v, .msg_iovlen = 1,
        .msg_control = control, .msg_controllen = sizeof control};
    SHOW(recvmsg(to, &m, 0));
    for (struct cmsghdr *c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c))
        if (c->cmsg_type == IP_PKTINFO) {
            struct in_pktinfo info;
            memcpy(&info, CMSG_DATA(c), sizeof info);
            say("to %s", inet_ntoa(info.ipi_addr));
        } else if (c->cmsg_type == IP_TTL) {
            memcpy(&ttl, CMSG_DATA(c), sizeof ttl);
            say("ttl %d", ttl);
        }
    HOLDS(who.sin_family == AF_INET && who.sin_addr.s_addr == htonl(INADDR_LOOPBACK) && who.sin_port);
}

int main(void)
{
    struct sockaddr_in a, b, nobody;
    char t[64] = {0};
    int s = bound(&a), c = bound(&b), status;
    SHOW(send(c, "x", 1, 0));
    SHOW(sendto(c, "hello", 5, 0, (void *)&a, sizeof a));
    SHOW(recv(s, t, 3, MSG_PEEK));
    SHOW(recv(s, t, 3, MSG_PEEK | MSG_TRUNC));
    SHOW(recv(s, t, 3, MSG_TRUNC));
    SHOW(recv(s, t, 3, MSG_DONTWAIT));
    SHOW(sendto(c, "", 0, 0, (void *)&a, sizeof a));
    SHOW(recv(s, t, 3, 0));
    static char huge[70000];
    SHOW(sendto(c, huge, sizeof huge, 0, (void *)&a, sizeof a));
    SHOW(sendto(c, huge, 60000, 0, (void *)&a, sizeof a));
    SHOW(recv(s, huge, sizeof huge, 0));
    many(s, &a, c);
    information(s, &a, c);

    SHOW(connect(c, (void *)&a, sizeof a));
    pid_t child = fork();
    if (!child) {
        for (int i = 0; i < 10; i++) {
            struct sockaddr_in who;
            socklen_t len = sizeof who;
            long n = recvfrom(s, t, sizeof t, 0, (void *)&who, &len);
            rest(40);
            for (int k = 0; k < n; k++)
                t[k] |= 32;
            sendto(s, t, n, 0, (void *)&who, len);
        }
        _exit(10);
    }
    for (int i = 0; i < 10; i++) {
        int n = sprintf(t, "PING%d", i);
        send(c, t, n, 0);
        n = recv(c, t, sizeof t, 0);
        say("answer %.*s", n, t);
        chew(4 * CHEW_MS);
    }
    waitpid(child, &status, 0);
    say_status("server", status);
    int gone = bound(&nobody);
    close(gone);
    SHOW(connect(c, (void *)&nobody, sizeof nobody));
    SHOW(send(c, "x", 1, 0));
    struct pollfd f = {c, POLLIN};
    SHOW(poll(&f, 1, 5000));
    say("revents %x", f.revents);
    SHOW(send(c, "x", 1, 0));
    struct sockaddr none = {AF_UNSPEC};
    SHOW(connect(c, &none, sizeof none));
    SHOW(getpeername(c, (void *)&b, &(socklen_t){sizeof b}));
    return 0;
}
