/* signalfd: several signals in one read, order and values of real-time signals, a mask set anew, signals of
 * threads and children, poll, a blocking read, EINVAL, EAGAIN; a handler again once it is closed.
 * About 0.8 s. */
#include "show.h"
#include <sys/signalfd.h>

static volatile int handled;
static void on(int s) { handled = s; }

static void show(const struct signalfd_siginfo *si, pid_t child)
{
    say("signal %s%d code %d value %d from %s", si->ssi_signo >= (unsigned)SIGRTMIN ? "rt +" : "",
        si->ssi_signo >= (unsigned)SIGRTMIN ? (int)si->ssi_signo - SIGRTMIN : (int)si->ssi_signo,
        si->ssi_code, si->ssi_int, (pid_t)si->ssi_pid == child ? "the child" : (pid_t)si->ssi_pid == getpid() ? "me" : "a stranger");
}

static void *waiter(void *arg)
{
    struct signalfd_siginfo si;
    long n = read(*(int *)arg, &si, sizeof si);
    return (void *)(n == sizeof si ? (long)si.ssi_signo : -1);
}

int main(void)
{
    sigset_t set, old;
    struct signalfd_siginfo si[8];
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1), sigaddset(&set, SIGCHLD);
    for (int i = 0; i < 3; i++)
        sigaddset(&set, SIGRTMIN + i);
    sigprocmask(SIG_BLOCK, &set, &old);
    SHOW(signalfd(-1, &set, 0x40));
    SHOW(signalfd(99, &set, 0));
    SHOW(signalfd(1, &set, 0));
    int fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
    SHOW(fcntl(fd, F_GETFD));
    SHOW(read(fd, si, sizeof si));
    SHOW(read(fd, si, 10));
    for (int i = 0; i < 6; i++)
        sigqueue(getpid(), SIGRTMIN + 2 - i % 3, (union sigval){.sival_int = 40 + i});
    kill(getpid(), SIGUSR1);
    kill(getpid(), SIGUSR1);
    rest(110);
    long n = SHOW(read(fd, si, sizeof si));
    for (int i = 0; i < n / (long)sizeof *si; i++)
        show(&si[i], 0);
    SHOW(read(fd, si, sizeof si));

    fcntl(fd, F_SETFL, 0);
    for (int i = 0; i < 5; i++) {
        int p[2];
        pipe(p);
        pid_t me = getpid(), child = fork();
        if (!child) {
            char c;
            rest(55);
            sigqueue(me, SIGRTMIN + i % 3, (union sigval){.sival_int = i});
            close(p[1]);
            read(p[0], &c, 1); /* the parent has read that one */
            _exit(i);
        }
        close(p[0]);
        for (int left = 2; left--;) {
            SHOW(read(fd, si, sizeof *si));
            if (left)
                close(p[1]);
            if (si->ssi_signo == SIGCHLD)
                say("child exited %d, code %d, mine %d", si->ssi_status, si->ssi_code, (pid_t)si->ssi_pid == child);
            else
                show(si, child);
        }
        int status;
        waitpid(child, &status, 0);
        say_status("child", status);
    }
    pthread_t t;
    void *result;
    pthread_create(&t, NULL, waiter, &fd);
    rest(85);
    kill(getpid(), SIGUSR1);
    pthread_join(t, &result);
    say("the thread read %ld", (long)result);

    sigemptyset(&set);
    sigaddset(&set, SIGRTMIN);
    SHOW(signalfd(fd, &set, 0) == fd);
    kill(getpid(), SIGUSR1);
    struct pollfd f = {fd, POLLIN};
    SHOW(poll(&f, 1, 60));
    sigqueue(getpid(), SIGRTMIN, (union sigval){.sival_int = 1});
    SHOW(poll(&f, 1, -1));
    SHOW(read(fd, si, sizeof si));
    show(si, 0);
    close(fd);
    signal(SIGUSR1, on);
    SHOW(sigprocmask(SIG_SETMASK, &old, NULL));
    say("handled %d", handled);
    /* Nothing keeps it from here on. */
    chew(60 * CHEW_MS);
    rest(110);
    raise(SIGUSR1);
    say("handled %d", handled);
    return 0;
}
