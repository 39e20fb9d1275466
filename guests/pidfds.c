/* pidfd: pidfd_open, poll until the child ends, waitid with P_PIDFD, pidfd_send_signal with a siginfo, CLONE_PIDFD,
 * pidfd_getfd, a pidfd of itself, of a reaped child, of no process; errors. About 0.8 s. */
#include "show.h"
#include <linux/sched.h>

#ifndef P_PIDFD
#define P_PIDFD 3
#endif

static int open_pid(pid_t pid, unsigned flags) { return syscall(SYS_pidfd_open, pid, flags); }
static int send_pid(int fd, int sig, siginfo_t *si) { return syscall(SYS_pidfd_send_signal, fd, sig, si, 0); }

static volatile int got, value;
static void on(int s, siginfo_t *i, void *u) { got++, value = i->si_value.sival_int; }

static pid_t sleeper(void)
{
    pid_t child = fork();
    if (!child)
        for (;;)
            rest(1000);
    return child;
}

int main(void)
{
    SHOW(open_pid(0, 0));
    SHOW(open_pid(-1, 0));
    SHOW(open_pid(99999999, 0));
    SHOW(open_pid(getpid(), 0x1000000));
    SHOW(send_pid(1, SIGTERM, NULL));
    SHOW(send_pid(99, SIGTERM, NULL));

    int p[2];
    char b[16] = {0};
    alarm(8); /* otherwise a lost stop would block for ever */
    pipe(p);
    pid_t child = fork();
    if (!child) {
        close(p[1]);
        read(p[0], b, 1);
        rest(180);
        _exit(17);
    }
    close(p[0]);
    int fd = open_pid(child, 0);
    SHOW(fcntl(fd, F_GETFD));
    struct pollfd f = {fd, POLLIN};
    SHOW(poll(&f, 1, 50));
    close(p[1]);
    SHOW(poll(&f, 1, -1));
    say("revents %x", f.revents);
    siginfo_t si = {0};
    SHOW(waitid(P_PIDFD, fd, &si, WEXITED | WNOWAIT));
    say("code %d status %d mine %d", si.si_code, si.si_status, si.si_pid == child);
    SHOW(send_pid(fd, 0, NULL));
    SHOW(waitid(P_PIDFD, fd, &si, WEXITED));
    SHOW(waitid(P_PIDFD, fd, &si, WEXITED));
    SHOW(send_pid(fd, SIGTERM, NULL));
    close(fd);

    child = sleeper();
    fd = open_pid(child, 0);
    SHOW(fcntl(fd, F_SETFL, O_NONBLOCK));
    SHOW(waitid(P_PIDFD, fd, &si, WEXITED));
    SHOW(fcntl(fd, F_SETFL, 0));
    rest(120);
    SHOW(send_pid(fd, 0, NULL));
    SHOW(send_pid(fd, 999, NULL));
    SHOW(send_pid(fd, SIGSTOP, NULL));
    si = (siginfo_t){0};
    SHOW(waitid(P_PIDFD, fd, &si, WSTOPPED));
    say("code %d status %d", si.si_code, si.si_status);
    SHOW(send_pid(fd, SIGCONT, NULL));
    SHOW(waitid(P_PIDFD, fd, &si, WCONTINUED));
    say("code %d status %d", si.si_code, si.si_status);
    rest(120);
    SHOW(send_pid(fd, SIGTERM, NULL));
    SHOW(waitid(P_PIDFD, fd, &si, WEXITED));
    say("code %d status %d", si.si_code, si.si_status);
    close(fd);

    struct sigaction a = {.sa_sigaction = on, .sa_flags = SA_SIGINFO};
    sigaction(SIGRTMIN + 1, &a, NULL);
    fd = open_pid(getpid(), 0);
    memset(&si, 0, sizeof si);
    si.si_signo = SIGRTMIN + 1, si.si_code = SI_QUEUE, si.si_pid = getpid(), si.si_value.sival_int = 321;
    for (int i = 0; i < 10; i++) {
        if (send_pid(fd, SIGRTMIN + 1, &si))
            say("send %s", errno_name(errno));
        chew(2 * CHEW_MS);
        rest(8);
    }
    say("got %d value %d", got, value);
    si.si_signo = SIGUSR1;
    SHOW(send_pid(fd, SIGRTMIN + 1, &si));
    close(fd);

    pipe(p);
    child = fork();
    if (!child) {
        dup2(p[1], 200);
        write(p[1], "r", 1);
        for (;;)
            rest(1000);
    }
    read(p[0], b, 1);
    fd = open_pid(child, 0);
    int theirs = syscall(SYS_pidfd_getfd, fd, 200, 0);
    HOLDS(theirs >= 0);
    SHOW(write(theirs, "mine too", 8));
    SHOW(read(p[0], b, 16));
    say("read %s", b);
    SHOW(syscall(SYS_pidfd_getfd, fd, 201, 0));
    SHOW(syscall(SYS_pidfd_getfd, fd, 200, 1));
    kill(child, SIGKILL);
    SHOW(waitid(P_PIDFD, fd, &si, WEXITED));
    SHOW(syscall(SYS_pidfd_getfd, fd, 200, 0));
    close(fd), close(theirs);

    int pidfd = -1;
    struct clone_args args = {.flags = CLONE_PIDFD, .pidfd = (uint64_t)&pidfd, .exit_signal = SIGCHLD};
    child = syscall(SYS_clone3, &args, sizeof args);
    if (!child) {
        rest(120);
        _exit(33);
    }
    HOLDS(child > 0 && pidfd > 2 && fcntl(pidfd, F_GETFD) == FD_CLOEXEC);
    SHOW(waitid(P_PIDFD, pidfd, &si, WEXITED));
    say("status %d mine %d", si.si_status, si.si_pid == child);
    return 0;
}
