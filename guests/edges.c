/* epoll by edges: EPOLLET until EAGAIN, EPOLLONESHOT armed again by threads, EPOLLEXCLUSIVE waiters in children, nested
 * and shared sets, descriptors closed and duplicated while watched, EPOLLRDHUP, maxevents in turn, masks of
 * epoll_pwait. Proves that no edge is lost or reported twice. About 0.8 s. */
#include "show.h"
#include <sys/epoll.h>
#include <sys/eventfd.h>

static int set, shots[2];
static volatile int served, overlap, active;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void add(int e, int fd, uint32_t events, uint64_t data)
{
    struct epoll_event ev = {events, {.u64 = data}};
    if (epoll_ctl(e, EPOLL_CTL_ADD, fd, &ev))
        say("add %lu: %s", (unsigned long)data, errno_name(errno));
}

/* Each reads the pending event and arms it again; never two at once. */
static void *server(void *arg)
{
    struct epoll_event ev;
    for (;;) {
        if (epoll_wait(set, &ev, 1, -1) != 1)
            continue;
        if (ev.data.u64 == 99)
            return NULL;
        if (__sync_add_and_fetch(&active, 1) > 1)
            overlap++;
        char b[3];
        long n = read(shots[0], b, sizeof b);
        chew(CHEW_MS);
        __sync_sub_and_fetch(&active, 1);
        pthread_mutex_lock(&lock);
        served += n > 0 ? n : 0;
        pthread_mutex_unlock(&lock);
        ev = (struct epoll_event){EPOLLIN | EPOLLONESHOT, {.u64 = 1}};
        epoll_ctl(set, EPOLL_CTL_MOD, shots[0], &ev);
    }
}

static void by_edges(void)
{
    int e = epoll_create1(0), p[2], edges = 0, got = 0, status;
    struct epoll_event ev;
    pipe2(p, O_NONBLOCK);
    add(e, p[0], EPOLLIN | EPOLLET, 5);
    pid_t child = fork();
    if (!child) {
        char b[100] = {0};
        close(p[0]);
        for (int i = 0; i < 20; i++) {
            write(p[1], b, 10 + i);
            if (i % 3 == 0)
                rest(15);
        }
        _exit(0);
    }
    close(p[1]);
    for (int ended = 0; !ended;) {
        if (epoll_wait(e, &ev, 1, -1) != 1 || ev.data.u64 != 5)
            continue;
        edges++;
        char b[7];
        long n;
        while ((n = read(p[0], b, sizeof b)) > 0)
            got += n;
        ended = n == 0;
    }
    waitpid(child, &status, 0);
    say("by edges: got %d, at least one %d, at most one a write and the end %d", got, edges >= 1, edges <= 21);
    close(e), close(p[0]);
}

static void exclusive(void)
{
    int event = eventfd(0, EFD_SEMAPHORE | EFD_NONBLOCK), sum = 0;
    pid_t children[3];
    for (int i = 0; i < 3; i++)
        if (!(children[i] = fork())) {
            int e = epoll_create1(0), mine = 0;
            struct epoll_event ev;
            add(e, event, EPOLLIN | EPOLLEXCLUSIVE, 1);
            for (;;) {
                uint64_t n;
                epoll_wait(e, &ev, 1, -1);
                if (read(event, &n, 8) != 8)
                    continue;
                mine++;
                rest(5);
                if (mine == 4) /* each takes four of the twelve */
                    _exit(mine);
            }
        }
    for (int i = 0; i < 12; i++) {
        uint64_t one = 1;
        write(event, &one, 8);
        rest(10);
    }
    for (int i = 0; i < 3; i++) {
        int status;
        waitpid(children[i], &status, 0);
        sum += WEXITSTATUS(status);
    }
    say("exclusive: %d", sum);
    close(event);
}

static volatile int came;
static void on(int s) { came++; }

int main(void)
{
    struct epoll_event ev[8];
    by_edges();
    pipe2(shots, O_NONBLOCK);
    int stop = eventfd(0, 0);
    set = epoll_create1(0);
    add(set, shots[0], EPOLLIN | EPOLLONESHOT, 1);
    add(set, stop, EPOLLIN, 99);
    pthread_t t[3];
    for (int i = 0; i < 3; i++)
        pthread_create(&t[i], NULL, server, NULL);
    for (int i = 0; i < 15; i++) {
        write(shots[1], "abcdef", 6);
        if (i % 3 == 0)
            rest(20);
    }
    while (served < 90)
        rest(5);
    uint64_t one = 1;
    write(stop, &one, 8);
    for (int i = 0; i < 3; i++)
        pthread_join(t[i], NULL);
    say("one shot: served %d overlapping %d", served, overlap);
    exclusive();

    int e = epoll_create1(0), p[2], sv[2];
    pipe(p);
    add(e, p[0], EPOLLIN, 7);
    int copy = dup(p[0]);
    close(p[0]); /* the description lives on */
    write(p[1], "x", 1);
    SHOW(epoll_wait(e, ev, 8, -1));
    say("data %lu", (unsigned long)ev[0].data.u64);
    SHOW(epoll_ctl(e, EPOLL_CTL_DEL, p[0], NULL));
    close(copy);
    SHOW(epoll_wait(e, ev, 8, 50));
    socketpair(AF_UNIX, SOCK_STREAM, 0, sv);
    add(e, sv[0], EPOLLIN | EPOLLRDHUP | EPOLLET, 8);
    shutdown(sv[1], SHUT_WR);
    rest(60);
    SHOW(epoll_wait(e, ev, 8, -1));
    say("events %x", ev[0].events);
    SHOW(epoll_wait(e, ev, 8, 50));
    add(e, sv[0], EPOLLIN | EPOLLEXCLUSIVE | EPOLLONESHOT, 1);
    int all[6], told = 0;
    for (int i = 0; i < 6; i++) {
        all[i] = eventfd(1, 0);
        add(e, all[i], EPOLLIN, 20 + i);
    }
    for (int i = 0; i < 3; i++) { /* two at a time, by turns */
        int n = epoll_wait(e, ev, 2, -1);
        for (int k = 0; k < n; k++)
            told |= 1 << (ev[k].data.u64 - 20);
        rest(30);
    }
    say("told %x", told);
    int outer = epoll_create1(0);
    add(outer, e, EPOLLIN | EPOLLET, 30);
    SHOW(epoll_wait(outer, ev, 8, -1));
    SHOW(epoll_wait(outer, ev, 8, 40));
    struct epoll_event loop = {EPOLLIN, {.u64 = 31}};
    SHOW(epoll_ctl(e, EPOLL_CTL_ADD, outer, &loop));
    sigset_t usr, none;
    sigemptyset(&none), sigemptyset(&usr), sigaddset(&usr, SIGUSR1);
    sigprocmask(SIG_BLOCK, &usr, NULL);
    signal(SIGUSR1, on);
    kill(getpid(), SIGUSR1);
    int empty = epoll_create1(0);
    SHOW(epoll_pwait(empty, ev, 8, 60, NULL));
    say("came %d", came);
    SHOW(epoll_pwait(empty, ev, 8, -1, &none));
    say("came %d", came);
    SHOW(epoll_wait(empty, ev, -1, 0));
    SHOW(epoll_wait(p[1], ev, 1, 0));
    return 0;
}
