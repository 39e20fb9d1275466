/* Signals that calls block by a mask of their own (ppoll, pselect, epoll_pwait): none ends one, alone or with others
 * that are unblocked. About 0.8 s. */
#include "show.h"
#include <sys/epoll.h>
#include <sys/select.h>

static volatile int kept, let;
static void on_kept(int s) { kept++; }
static void on_let(int s) { let++; }

static int tube[2], ep;
static sigset_t none_of_kept;

static int by_ppoll(void)
{
    struct pollfd p = {tube[0], POLLIN, 0};
    struct timespec t = {5, 0};
    return ppoll(&p, 1, &t, &none_of_kept);
}
static int by_pselect(void)
{
    fd_set r;
    FD_ZERO(&r);
    FD_SET(tube[0], &r);
    return pselect(tube[0] + 1, &r, NULL, NULL, NULL, &none_of_kept);
}
static int by_epoll(void)
{
    struct epoll_event e;
    return epoll_pwait(ep, &e, 1, -1, &none_of_kept);
}

/* Some signals come, then a byte. */
static void kept_out(const char *name, int (*wait_in)(void))
{
    char b;
    pid_t me = getpid(), child = fork();
    if (!child) {
        for (int i = 0; i < 3; i++) {
            rest(40);
            kill(me, SIGUSR1);
        }
        rest(40);
        write(tube[1], "x", 1);
        _exit(0);
    }
    kept = 0;
    int r = wait_in();
    say("%s: %d %s, kept out %s", name, r, r < 0 ? errno_name(errno) : "", kept ? "and had" : "and lost");
    read(tube[0], &b, 1);
    while (waitpid(child, NULL, 0) < 0)
        ;
}

/* A blocked signal, then an unblocked one: the second ends it. */
static void let_in(const char *name, int (*wait_in)(void))
{
    pid_t me = getpid(), child = fork();
    if (!child) {
        rest(40);
        kill(me, SIGUSR1);
        rest(40);
        kill(me, SIGUSR2);
        _exit(0);
    }
    kept = let = 0;
    int r = wait_in();
    say("%s: %d %s, let in %d", name, r, r < 0 ? errno_name(errno) : "", let);
    while (waitpid(child, NULL, 0) < 0)
        ;
    say("kept out %d", kept);
}

int main(void)
{
    struct sigaction a = {.sa_handler = on_kept}, b = {.sa_handler = on_let};
    sigset_t all;
    pipe(tube);
    ep = epoll_create1(0);
    struct epoll_event e = {.events = EPOLLIN};
    epoll_ctl(ep, EPOLL_CTL_ADD, tube[0], &e);
    sigemptyset(&none_of_kept), sigaddset(&none_of_kept, SIGUSR1);
    sigaction(SIGUSR1, &a, NULL), sigaction(SIGUSR2, &b, NULL);
    kept_out("ppoll", by_ppoll);
    kept_out("pselect", by_pselect);
    kept_out("epoll_pwait", by_epoll);
    sigemptyset(&all), sigaddset(&all, SIGUSR2);
    sigprocmask(SIG_BLOCK, &all, NULL);
    let_in("ppoll", by_ppoll);
    let_in("pselect", by_pselect);
    let_in("epoll_pwait", by_epoll);
    return 0;
}
