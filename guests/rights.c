/* Descriptors and credentials over UNIX sockets: many at once, of many kinds, a socket inside a socket, to a child and
 * back, MSG_CTRUNC when there is no room, MSG_CMSG_CLOEXEC, SCM_CREDENTIALS with SO_PASSCRED, false credentials,
 * descriptors that were never received. About 0.8 s. */
#include "show.h"
#include <sys/eventfd.h>
#include <sys/un.h>

#define MOST 20

static long give(int s, const char *text, const int *fds, int n)
{
    char control[CMSG_SPACE(MOST * sizeof(int))] = {0};
    struct iovec v = {(char *)text, strlen(text) + 1};
    struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1};
    if (n) {
        m.msg_control = control, m.msg_controllen = CMSG_SPACE(n * sizeof(int));
        struct cmsghdr *c = CMSG_FIRSTHDR(&m);
        c->cmsg_level = SOL_SOCKET, c->cmsg_type = SCM_RIGHTS, c->cmsg_len = CMSG_LEN(n * sizeof(int));
        memcpy(CMSG_DATA(c), fds, n * sizeof(int));
    }
    return sendmsg(s, &m, 0);
}

/* Returns how many descriptors came. */
static int take(int s, char *text, int *fds, int room, int flags, int *seen)
{
    char control[CMSG_SPACE(MOST * sizeof(int))] = {0};
    struct iovec v = {text, 64};
    struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = room ? control : NULL,
        .msg_controllen = room ? CMSG_SPACE(room * sizeof(int)) : 0};
    long got = recvmsg(s, &m, flags);
    if (got < 0) {
        say("recvmsg %s", errno_name(errno));
        return -1;
    }
    *seen = m.msg_flags;
    struct cmsghdr *c = m.msg_controllen ? CMSG_FIRSTHDR(&m) : NULL;
    int n = c && c->cmsg_type == SCM_RIGHTS ? (c->cmsg_len - CMSG_LEN(0)) / sizeof(int) : 0;
    memcpy(fds, c ? CMSG_DATA(c) : NULL, n * sizeof(int));
    return n;
}

static void many(void)
{
    int sv[2], p[2], fds[MOST], got[MOST], flags, status;
    char text[64];
    socketpair(AF_UNIX, SOCK_STREAM, 0, sv);
    pipe(p);
    pid_t child = fork();
    if (!child) {
        int n = take(sv[1], text, got, MOST, 0, &flags), bad = 0;
        rest(130);
        for (int i = 0; i < n; i++) {
            char line[32];
            int len = sprintf(line, "number %d\n", i);
            bad += pwrite(got[i], line, len, i * 10) != len;
        }
        int back = open("from-child", O_CREAT | O_RDWR, 0600);
        write(back, "the child opened this", 21);
        give(sv[1], "back", &back, 1);
        _exit(n + bad);
    }
    for (int i = 0; i < MOST; i++) {
        char name[32];
        sprintf(name, "passed-%d", i);
        fds[i] = open(name, O_CREAT | O_RDWR, 0600);
    }
    rest(130);
    SHOW(give(sv[0], "twenty", fds, MOST));
    SHOW(take(sv[0], text, got, 1, MSG_CMSG_CLOEXEC, &flags));
    say("text %s flags %x cloexec %d", text, flags & ~MSG_CMSG_CLOEXEC, fcntl(got[0], F_GETFD));
    char b[32] = {0};
    SHOW(pread(got[0], b, 31, 0));
    say("%s", b);
    waitpid(child, &status, 0);
    say_status("child", status);
    for (int i = 0; i < MOST; i += 7) {
        memset(b, 0, sizeof b);
        pread(fds[i], b, 31, i * 10);
        say("file %d: %s", i, b);
    }
    for (int i = 0; i < MOST; i++)
        close(fds[i]);
    close(got[0]), close(sv[0]), close(sv[1]), close(p[0]), close(p[1]);
}

static void short_of_room(void)
{
    int sv[2], got[MOST], flags;
    char text[64];
    socketpair(AF_UNIX, SOCK_DGRAM, 0, sv);
    int e = eventfd(3, 0), three[3] = {e, 0, 1};
    SHOW(give(sv[0], "no room", three, 3));
    SHOW(take(sv[1], text, got, 0, 0, &flags));
    say("flags %x", flags);
    SHOW(give(sv[0], "some room", three, 3));
    SHOW(take(sv[1], text, got, 1, 0, &flags) > 0);
    say("flags %x", flags);
    uint64_t n;
    SHOW(read(got[0], &n, 8));
    say("event %lu", (unsigned long)n);
    int bad = 999;
    SHOW(give(sv[0], "bad", &bad, 1));
    SHOW(give(sv[0], "never taken", three, 3));
    /* A socket is sent over a socket, with its queued data. */
    int inner[2];
    socketpair(AF_UNIX, SOCK_STREAM, 0, inner);
    write(inner[0], "inside", 6);
    take(sv[1], text, got, 3, 0, &flags);
    SHOW(give(sv[0], "a socket", &inner[1], 1));
    close(inner[1]);
    rest(130);
    SHOW(take(sv[1], text, got, 1, 0, &flags));
    memset(text, 0, sizeof text);
    SHOW(read(got[0], text, 64));
    say("%s", text);
    close(inner[0]);
    SHOW(read(got[0], text, 64));
}

static void credentials(void)
{
    int sv[2], on = 1;
    socketpair(AF_UNIX, SOCK_STREAM, 0, sv);
    SHOW(setsockopt(sv[0], SOL_SOCKET, SO_PASSCRED, &on, sizeof on));
    pid_t child = fork();
    if (!child) {
        for (int i = 0; i < 3; i++) {
            rest(90);
            write(sv[1], "who", 3);
        }
        _exit(0);
    }
    char text[64], control[CMSG_SPACE(sizeof(struct ucred))];
    struct iovec v = {text, 3};
    struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = control};
    struct ucred u = {0};
    for (int i = 0; i < 3; i++) {
        m.msg_controllen = sizeof control;
        SHOW(recvmsg(sv[0], &m, 0));
        struct cmsghdr *c = CMSG_FIRSTHDR(&m);
        HOLDS(c && c->cmsg_type == SCM_CREDENTIALS);
        memcpy(&u, CMSG_DATA(c), sizeof u);
        HOLDS(u.pid == child && u.uid == getuid() && u.gid == getgid());
    }
    waitpid(child, NULL, 0);
    m.msg_controllen = sizeof control;
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    c->cmsg_level = SOL_SOCKET, c->cmsg_type = SCM_CREDENTIALS, c->cmsg_len = CMSG_LEN(sizeof u);
    u = (struct ucred){getpid(), getuid(), getgid()};
    memcpy(CMSG_DATA(c), &u, sizeof u);
    SHOW(sendmsg(sv[1], &m, 0));
    u.pid = 1;
    memcpy(CMSG_DATA(c), &u, sizeof u);
    SHOW(sendmsg(sv[1], &m, 0));
    u = (struct ucred){getpid(), 0, getgid()};
    memcpy(CMSG_DATA(c), &u, sizeof u);
    SHOW(sendmsg(sv[1], &m, 0));
    m.msg_controllen = sizeof control;
    SHOW(recvmsg(sv[0], &m, 0));
    memcpy(&u, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof u);
    HOLDS(u.pid == getpid());
}

int main(void)
{
    many();
    short_of_room();
    credentials();
    chew(40 * CHEW_MS);
    rest(130);
    return 0;
}
