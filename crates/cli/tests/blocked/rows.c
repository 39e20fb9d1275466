/* Each row: name, the call's number, flags, setup, the call, what ends it (see blocked.h). */
#include "blocked.h"

static struct iovec *iov(void *base, size_t n)
{
    static struct iovec v[2];
    v[0] = (struct iovec){base, n / 2}, v[1] = (struct iovec){(char *)base + n / 2, n - n / 2};
    return v;
}
static char got[1 << 19];
static long left_;
static long and_got(long r)
{
    int kept = errno;
    if (r > 0 && r < 100)
        AND("got %.*s", (int)r, got);
    errno = kept;
    return r;
}

/* Calls that wait for bytes. */
ROW(read_pipe, SYS_read, 0, pipe(p), and_got(CALL(read, p[0], got, 50)), give(p[1], "hello"))
ROW(readv_pipe, SYS_readv, 0, pipe(p), and_got(CALL(readv, p[0], iov(got, 8), 2)), give(p[1], "hello"))
ROW(preadv2_pipe, SYS_preadv2, 0, pipe(p), and_got(CALL(preadv2, p[0], iov(got, 8), 2, -1L, -1L, 0)), give(p[1], "hello"))
ROW(read_end, SYS_read, 0, (pipe(p), signal(SIGPIPE, SIG_IGN)), (close(p[1]), CALL(read, p[0], got, 50)), close(p[1]))
ROW(read_socket, SYS_read, 0, sockets(SOCK_STREAM), and_got(CALL(read, p[0], got, 50)), give(p[1], "hello"))
static void terminal(void)
{
    char name[64];
    p[1] = posix_openpt(O_RDWR | O_NOCTTY);
    grantpt(p[1]), unlockpt(p[1]), ptsname_r(p[1], name, sizeof name);
    p[0] = open(name, O_RDWR | O_NOCTTY);
}
ROW(read_tty, SYS_read, 0, terminal(), and_got(CALL(read, p[0], got, 50)), give(p[1], "hello\n"))
ROW(read_eventfd, SYS_read, 0, fd = eventfd(0, 0), OK(CALL(read, fd, got, 8), *(long *)got), (*(long *)buf = 7, write(fd, buf, 8)))
ROW(read_eventfd_semaphore, SYS_read, 0, fd = eventfd(0, EFD_SEMAPHORE), OK(CALL(read, fd, got, 8), *(long *)got), (*(long *)buf = 7, write(fd, buf, 8)))
ROW(read_timerfd, SYS_read, 0, fd = timerfd_create(CLOCK_MONOTONIC, 0), OK(CALL(read, fd, got, 8), *(long *)got),
    (timerfd_settime(fd, 0, &(struct itimerspec){.it_value.tv_nsec = 1}, NULL)))
ROW(read_signalfd, SYS_read, 0, (block(SIGUSR2), fd = signalfd(-1, set(SIGUSR2), 0)),
    OK(CALL(read, fd, got, sizeof(struct signalfd_siginfo)), ((struct signalfd_siginfo *)got)->ssi_signo * 1000 + ((struct signalfd_siginfo *)got)->ssi_int),
    sigqueue(caller, SIGUSR2, (union sigval){77}))
ROW(read_inotify, SYS_read, 0, (fd = inotify_init(), inotify_add_watch(fd, ".", IN_CREATE)),
    OK(CALL(read, fd, got, 200), AND("%s", ((struct inotify_event *)got)->name)), mkdir("made", 0700))
ROW(recv_stream, SYS_recvfrom, 0, sockets(SOCK_STREAM), and_got(CALL(recvfrom, p[0], got, 50, 0, 0, 0)), give(p[1], "hello"))
ROW(recv_all, SYS_recvfrom, TWICE, sockets(SOCK_STREAM), and_got(CALL(recvfrom, p[0], got, 11, MSG_WAITALL, 0, 0)), give(p[1], part ? "ended and more" : "begun "))
static long with_timeout(void)
{
    struct timeval t = {limit, 0};
    return setsockopt(p[0], SOL_SOCKET, SO_RCVTIMEO, &t, sizeof t);
}
ROW(recv_timeo, SYS_recvfrom, TIMED, (sockets(SOCK_STREAM), with_timeout()), and_got(CALL(recvfrom, p[0], got, 50, 0, 0, 0)), give(p[1], "hello"))
ROW(recv_datagram, SYS_recvfrom, 0, sockets(SOCK_DGRAM), and_got(CALL(recvfrom, p[0], got, 3, 0, 0, 0)), (give(p[1], "hello"), give(p[1], "again")))
ROW(recv_datagram_all, SYS_recvfrom, STAYS, sockets(SOCK_DGRAM), and_got(CALL(recvfrom, p[0], got, 11, MSG_WAITALL, 0, 0)), (give(p[1], "hello"), give(p[1], "again")))
ROW(recv_peek, SYS_recvfrom, 0, sockets(SOCK_STREAM), and_got(CALL(recvfrom, p[0], got, 3, MSG_PEEK, 0, 0)), give(p[1], "hello"))
/* A message with a descriptor, from which the receiver must be able to read. */
static struct msghdr *message(void *base)
{
    static char control[CMSG_SPACE(4)];
    static struct msghdr m;
    m = (struct msghdr){.msg_iov = iov(base, 8), .msg_iovlen = 2, .msg_control = control, .msg_controllen = sizeof control};
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    c->cmsg_level = SOL_SOCKET, c->cmsg_type = SCM_RIGHTS, c->cmsg_len = CMSG_LEN(4);
    return &m;
}
static void send_message(void)
{
    struct msghdr *m = message("message!");
    pipe(q), give(q[1], "through");
    *(int *)CMSG_DATA(CMSG_FIRSTHDR(m)) = q[0];
    sendmsg(p[1], m, 0);
}
static long received(long r)
{
    if (r > 0) {
        char t[8] = "";
        AND("fd read %ld %s", (long)read(*(int *)CMSG_DATA(CMSG_FIRSTHDR(message(got))), t, 7), t);
    }
    return r;
}
ROW(recvmsg, SYS_recvmsg, 0, sockets(SOCK_STREAM), received(CALL(recvmsg, p[0], message(got), 0)), send_message())
static struct mmsghdr *messages(void *base)
{
    static struct mmsghdr m[2];
    static struct iovec v[2];
    for (int i = 0; i < 2; i++)
        v[i] = (struct iovec){(char *)base + 5 * i, 5}, m[i].msg_hdr = (struct msghdr){.msg_iov = v + i, .msg_iovlen = 1};
    return m;
}
ROW(recvmmsg, SYS_recvmmsg, 0, sockets(SOCK_DGRAM), OK(CALL(recvmmsg, p[0], messages(got), 2, 0, NULL), r_ + AND("got %.10s", got)), (give(p[1], "hello"), give(p[1], "again")))
ROW(recvmmsg_first, SYS_recvmmsg, 0, sockets(SOCK_DGRAM), CALL(recvmmsg, p[0], messages(got), 2, MSG_WAITFORONE, NULL), give(p[1], "hello"))

/* Calls that wait for room. The other process drains it, and prints what was read. */
#define FULL(how) (how, fill(p[1]))
ROW(write_pipe, SYS_write, TWICE, FULL(pipe(p)), CALL(write, p[1], buf, 100000), drain(p[0], part ? 145536 : 20000))
ROW(write_pipe_small, SYS_write, 0, FULL(pipe(p)), CALL(write, p[1], buf, 1000), drain(p[0], 66536))
ROW(writev_pipe, SYS_writev, TWICE, FULL(pipe(p)), CALL(writev, p[1], iov(buf, 100000), 2), drain(p[0], part ? 145536 : 20000))
ROW(pwritev2_pipe, SYS_pwritev2, 0, FULL(pipe(p)), CALL(pwritev2, p[1], iov(buf, 3000), 2, -1L, -1L, 0), drain(p[0], 68536))
static long room;
ROW(write_socket, SYS_write, TWICE, (FULL(sockets(SOCK_STREAM)), room = queued(p[0])), CALL(write, p[1], buf, 400000), drain(p[0], part ? room + 350000 : 50000))
ROW(sendto_stream, SYS_sendto, TWICE, (FULL(sockets(SOCK_STREAM)), room = queued(p[0])), CALL(sendto, p[1], buf, 400000, 0, 0, 0), drain(p[0], part ? room + 350000 : 50000))
ROW(sendmsg_stream, SYS_sendmsg, 0, (FULL(sockets(SOCK_STREAM)), room = queued(p[0])),
    CALL(sendmsg, p[1], (&(struct msghdr){.msg_iov = iov(buf, 50000), .msg_iovlen = 2}), 0), drain(p[0], room + 50000))
static void crowd(void)
{
    sockets(SOCK_DGRAM);
    while (send(p[1], "12345", 5, MSG_DONTWAIT) > 0)
        fd++;
}
static void take_all(int more)
{
    int n = 0;
    for (; n < fd + more && recv(p[0], got, sizeof got, 0) > 0; n++)
        ;
    AND("one more than %d: %d", fd > 0, n - fd);
}
ROW(sendto_datagram, SYS_sendto, 0, crowd(), CALL(sendto, p[1], buf, 1000, 0, 0, 0), take_all(1))
ROW(sendmmsg, SYS_sendmmsg, 0, crowd(), CALL(sendmmsg, p[1], messages("helloagain"), 2, 0), take_all(2))
ROW(write_eventfd, SYS_write, 0, (fd = eventfd(0, 0), *(uint64_t *)buf = ~1ull, write(fd, buf, 8)),
    (*(long *)buf = 5, OK(CALL(write, fd, buf, 8), r_ + (read(fd, got, 8), AND("%ld", *(long *)got)))), read(fd, got, 8))
static void file(void) { fd = open("file", O_CREAT | O_RDWR, 0600), write(fd, buf, 100000), lseek(fd, 0, SEEK_SET); }
ROW(sendfile_pipe, SYS_sendfile, 0, (FULL(pipe(p)), file()), CALL(sendfile, p[1], fd, NULL, 5000), drain(p[0], 70536))
ROW(splice_from_pipe, SYS_splice, 0, (pipe(p), file()), OK(CALL(splice, p[0], 0L, fd, 0L, 50, 0), r_ + AND("at %ld", (long)lseek(fd, 0, SEEK_CUR))), give(p[1], "hello"))
ROW(splice_to_pipe, SYS_splice, 0, (FULL(pipe(p)), file()), CALL(splice, fd, 0L, p[1], 0L, 4096, 0), drain(p[0], 69632))
ROW(tee, SYS_tee, 0, (pipe(p), pipe(q)), OK(CALL(tee, p[0], q[1], 50, 0), r_ * 100 + read(q[0], got, 50)), give(p[1], "hello"))
ROW(vmsplice, SYS_vmsplice, COMES, FULL(pipe(p)), CALL(vmsplice, p[1], iov(buf, 4000), 1, 0), drain(p[0], 67536))

/* Connections. */
static struct sockaddr_un at = {AF_UNIX, "sock"};
static void listening(int backlog) { fd = socket(AF_UNIX, SOCK_STREAM, 0), bind(fd, (void *)&at, sizeof at), listen(fd, backlog); }
static int call_unix(void) { int s = socket(AF_UNIX, SOCK_STREAM, 0); connect(s, (void *)&at, sizeof at); return s; }
static long greeted(long s) { return s < 0 ? s : and_got(read(s, got, 50)) * 100 + (accept(fd, 0, 0) < 0); }
#define ONE_ONLY fcntl(fd, F_SETFL, O_NONBLOCK)
ROW(accept, SYS_accept, 0, listening(4), greeted((left_ = CALL(accept, fd, NULL, NULL), ONE_ONLY, left_)), give(call_unix(), "hello"))
ROW(accept4, SYS_accept4, 0, listening(4), greeted((left_ = CALL(accept4, fd, NULL, NULL, SOCK_CLOEXEC), ONE_ONLY, left_)), give(call_unix(), "hello"))
static struct sockaddr_in in = {.sin_family = AF_INET};
static void listening_in(int backlog)
{
    socklen_t n = sizeof in;
    in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    fd = socket(AF_INET, SOCK_STREAM, 0), bind(fd, (void *)&in, n), listen(fd, backlog);
    getsockname(fd, (void *)&in, &n);
}
static int call_in(void) { int s = socket(AF_INET, SOCK_STREAM, 0); connect(s, (void *)&in, sizeof in); return s; }
ROW(accept_tcp, SYS_accept, 0, listening_in(4), greeted((left_ = CALL(accept, fd, NULL, NULL), ONE_ONLY, left_)), give(call_in(), "hello"))
ROW(recv_tcp, SYS_recvfrom, 0, (listening_in(4), p[1] = call_in(), p[0] = accept(fd, 0, 0)), and_got(CALL(recvfrom, p[0], got, 50, 0, 0, 0)), give(p[1], "hello"))
/* The backlog is full: the other process accepts. */
ROW(connect, SYS_connect, 0, (listening(0), call_unix(), q[0] = socket(AF_UNIX, SOCK_STREAM, 0)),
    OK(CALL(connect, q[0], &at, sizeof at), and_got(read(q[0], got, 5))), (accept(fd, 0, 0), give(accept(fd, 0, 0), "hello")))
/* The backlog is full: the SYN is not answered before the other process has accepted. */
ROW(connect_tcp, SYS_connect, 0, (listening_in(0), call_in(), q[0] = socket(AF_INET, SOCK_STREAM, 0)),
    OK(CALL(connect, q[0], &in, sizeof in), and_got(read(q[0], got, 5))), (accept(fd, 0, 0), give(accept(fd, 0, 0), "hello")))
static void fifo(void) { mkfifo("fifo", 0600); }
ROW(open_fifo_read, SYS_open, 0, fifo(), OK(CALL(open, "fifo", O_RDONLY), and_got(read(r_, got, 50))), give(open("fifo", O_WRONLY), "hello"))
ROW(openat_fifo_write, SYS_openat, 0, fifo(), OK(CALL(openat, AT_FDCWD, "fifo", O_WRONLY, 0), 0), open("fifo", O_RDONLY))
ROW(openat2_fifo, SYS_openat2, 0, fifo(), OK(CALL(openat2, AT_FDCWD, "fifo", ((uint64_t[]){O_RDONLY, 0, 0}), 24), 0), open("fifo", O_WRONLY))
/* An open that breaks a lease waits until the lease is released. */
static void lease(void)
{
    signal(SIGIO, SIG_IGN);
    fd = open("leased", O_CREAT | O_RDONLY, 0600), fcntl(fd, F_SETLEASE, F_RDLCK);
}
ROW(creat_lease, SYS_creat, 0, lease(), OK(CALL(creat, "leased", 0600), 0), fcntl(fd, F_SETLEASE, F_UNLCK))
