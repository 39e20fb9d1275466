/* Results of poll for descriptors of many kinds in many states: pipes and FIFOs without a reader or writer, sockets
 * half or wholly closed, a listening one, files, a terminal that hung up, closed descriptors; and that poll, ppoll,
 * select and epoll agree. About 0.7 s. */
#include "show.h"
#include <pty.h>
#include <sys/epoll.h>

static void state(const char *what, int fd)
{
    short asks[] = {POLLIN, POLLOUT, POLLIN | POLLOUT | POLLPRI | POLLRDHUP, 0};
    int seen[4];
    for (int i = 0; i < 4; i++) {
        struct pollfd f = {fd, asks[i]};
        poll(&f, 1, 0);
        seen[i] = f.revents;
    }
    struct pollfd f = {fd, asks[2]};
    struct timespec none = {0, 0};
    int p = ppoll(&f, 1, &none, NULL);
    fd_set r, w, x;
    FD_ZERO(&r);
    FD_ZERO(&w);
    FD_ZERO(&x);
    FD_SET(fd, &r);
    FD_SET(fd, &w);
    FD_SET(fd, &x);
    struct timeval now_ = {0, 0};
    int s = select(fd + 1, &r, &w, &x, &now_);
    int e = epoll_create1(0);
    struct epoll_event ev = {EPOLLIN | EPOLLOUT | EPOLLPRI | EPOLLRDHUP};
    int added = epoll_ctl(e, EPOLL_CTL_ADD, fd, &ev);
    if (added)
        say("%s: poll %x %x %x %x ppoll %d select %d%s%s%s epoll %s", what, seen[0], seen[1], seen[2], seen[3], p, s,
            s > 0 && FD_ISSET(fd, &r) ? " r" : "", s > 0 && FD_ISSET(fd, &w) ? " w" : "", s > 0 && FD_ISSET(fd, &x) ? " x" : "",
            errno_name(errno));
    else {
        ev.events = 0;
        int n = epoll_wait(e, &ev, 1, 0);
        say("%s: poll %x %x %x %x ppoll %d select %d%s%s%s epoll %d %x", what, seen[0], seen[1], seen[2], seen[3], p, s,
            s > 0 && FD_ISSET(fd, &r) ? " r" : "", s > 0 && FD_ISSET(fd, &w) ? " w" : "", s > 0 && FD_ISSET(fd, &x) ? " x" : "",
            n, ev.events);
    }
    close(e);
    rest(12);
}

static void pipes(void)
{
    int p[2];
    pipe2(p, O_NONBLOCK);
    state("empty pipe, reader", p[0]);
    state("empty pipe, writer", p[1]);
    char block[4096] = {0};
    while (write(p[1], block, sizeof block) > 0)
        ;
    state("full pipe, reader", p[0]);
    state("full pipe, writer", p[1]);
    read(p[0], block, 100);
    state("nearly full pipe, writer", p[1]);
    close(p[0]);
    state("writer without reader", p[1]);
    close(p[1]);
    pipe(p);
    write(p[1], "left", 4);
    close(p[1]);
    state("reader without writer, data", p[0]);
    read(p[0], block, 4);
    state("reader without writer, empty", p[0]);
    close(p[0]);
    mkfifo("fifo", 0600);
    int r = open("fifo", O_RDONLY | O_NONBLOCK);
    state("fifo, never a writer", r);
    int w = open("fifo", O_WRONLY);
    state("fifo, a writer", r);
    close(w);
    state("fifo, its writer gone", r);
    close(r);
}

static void sockets(int type)
{
    int sv[2];
    char b[16];
    socketpair(AF_UNIX, type, 0, sv);
    state("fresh socket", sv[0]);
    shutdown(sv[1], SHUT_WR);
    state("peer shut its writing", sv[0]);
    shutdown(sv[0], SHUT_WR);
    state("both shut", sv[0]);
    close(sv[1]);
    state("peer closed", sv[0]);
    close(sv[0]);
    socketpair(AF_UNIX, type, 0, sv);
    write(sv[0], "unread", 6);
    write(sv[1], "left", 4);
    close(sv[1]);
    state("peer closed with data on both sides", sv[0]);
    SHOW(read(sv[0], b, 16));
    state("then", sv[0]);
    close(sv[0]);
}

int main(void)
{
    pipes();
    sockets(SOCK_STREAM);
    sockets(SOCK_SEQPACKET);
    chew(20 * CHEW_MS);
    int s = socket(AF_INET, SOCK_STREAM, 0);
    state("tcp, fresh", s);
    listen(s, 1);
    state("tcp, listening", s);
    close(s);
    s = socket(AF_INET, SOCK_DGRAM, 0);
    state("udp, fresh", s);
    close(s);
    int fd = open("file", O_CREAT | O_RDWR, 0600);
    state("file", fd);
    close(fd);
    fd = open(".", O_RDONLY);
    state("directory", fd);
    close(fd);
    fd = open("/dev/null", O_RDWR);
    state("null", fd);
    close(fd);
    int master, slave;
    openpty(&master, &slave, NULL, NULL, NULL);
    state("terminal", slave);
    state("its other end", master);
    write(master, "typed\n", 6);
    state("terminal with a line", slave);
    close(slave);
    state("nobody at the terminal", master);
    openpty(&s, &slave, NULL, NULL, NULL);
    close(s);
    state("terminal hung up", slave);
    close(slave), close(master);
    struct pollfd f[4] = {{-1, POLLIN, 7}, {slave, POLLIN, 7}, {1, POLLOUT, 7}, {-5, 0, 7}};
    int n = poll(f, 4, 1000);
    say("closed ones: %d: %x %x %x %x", n, f[0].revents, f[1].revents, f[2].revents & POLLNVAL, f[3].revents);

    /* A waiter is woken by a hang-up that comes while it waits. */
    for (int i = 0; i < 4; i++) {
        int p[2];
        socketpair(AF_UNIX, SOCK_STREAM, 0, p);
        pid_t child = fork();
        if (!child) {
            close(p[0]);
            rest(60);
            i % 2 ? shutdown(p[1], SHUT_WR) : 0;
            _exit(0);
        }
        close(p[1]);
        struct pollfd w = {p[0], i < 2 ? POLLRDHUP : POLLIN};
        SHOW(poll(&w, 1, -1));
        if (!(w.revents & w.events))
            say("it woke with %x", w.revents);
        waitpid(child, NULL, 0);
        poll(&w, 1, -1);
        say("in the end %x", w.revents);
        close(p[0]);
    }
    return 0;
}
