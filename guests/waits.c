/* Waiting: SIGCHLD with siginfo, WNOHANG, WUNTRACED, WCONTINUED, waitid with WNOWAIT, wait by
 * group, ECHILD, ignored SIGCHLD, stop and continue, exit by signal. About 1.2 s. */
#include "show.h"

static volatile int chld, last_code, last_status;
static void on_child(int s, siginfo_t *i, void *u)
{
    chld++;
    last_code = i->si_code;
    last_status = i->si_status;
}

static pid_t spin(void)
{
    pid_t child = fork();
    if (!child)
        for (;;)
            chew(CHEW_MS);
    return child;
}

int main(void)
{
    int status;
    SHOW(wait(&status));
    SHOW(waitpid(-1, &status, WNOHANG));
    SHOW(waitpid(1, &status, 0));
    SHOW(waitpid(-1, &status, 0x40000));
    struct sigaction a = {.sa_sigaction = on_child, .sa_flags = SA_SIGINFO};
    sigaction(SIGCHLD, &a, NULL);
    sigset_t set, old;
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    sigprocmask(SIG_BLOCK, &set, &old);
    pid_t child = spin();
    SHOW(waitpid(child, &status, WNOHANG));
    rest(60);
    kill(child, SIGSTOP);
    HOLDS(waitpid(child, &status, WUNTRACED) == child);
    say_status("stopped", status);
    sigsuspend(&old);
    say("SIGCHLD code %d status %d", last_code, last_status);
    SHOW(waitpid(child, &status, WUNTRACED | WNOHANG));
    rest(80);
    kill(child, SIGCONT);
    HOLDS(waitpid(child, &status, WCONTINUED) == child);
    say_status("continued", status);
    sigsuspend(&old);
    say("SIGCHLD code %d status %d", last_code, last_status);
    rest(60);
    kill(child, SIGTERM);
    siginfo_t si = {0};
    SHOW(waitid(P_PID, child, &si, WEXITED | WNOWAIT));
    say("code %d status %d mine %d", si.si_code, si.si_status, si.si_pid == child);
    HOLDS(waitpid(child, &status, 0) == child);
    say_status("ended", status);
    sigsuspend(&old);
    say("SIGCHLD code %d status %d", last_code, last_status);
    SHOW(waitpid(child, &status, 0));
    SHOW(kill(child, 0));

    for (int i = 0; i < 6; i++) {
        child = fork();
        if (!child) {
            chew((10 + 5 * i) * CHEW_MS);
            rest(20);
            _exit(i * 40);
        }
        struct rusage ru;
        HOLDS(wait4(child, &status, 0, &ru) == child);
        say_status("worker", status);
        HOLDS(ru.ru_utime.tv_sec * 1000000 + ru.ru_utime.tv_usec >= 0);
    }
    pid_t group[3];
    for (int i = 0; i < 3; i++) {
        group[i] = fork();
        if (!group[i]) {
            setpgid(0, i ? group[0] : 0);
            rest(40 + 30 * i);
            _exit(i);
        }
        setpgid(group[i], group[0]);
    }
    HOLDS(getpgid(group[2]) == group[0]);
    int members = 0, codes = 0;
    for (int i = 0; i < 3; i++) {
        pid_t got = waitpid(-group[0], &status, 0);
        members += got == group[0] || got == group[1] || got == group[2];
        codes += 1 << WEXITSTATUS(status);
    }
    say("members %d codes %d", members, codes);
    SHOW(waitpid(-group[0], &status, 0));
    sigprocmask(SIG_SETMASK, &old, NULL);
    signal(SIGCHLD, SIG_IGN);
    if (!fork()) {
        rest(60);
        _exit(5);
    }
    SHOW(wait(&status));
    return 0;
}
