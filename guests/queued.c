/* Queued signals: real-time signals of many numbers with values in order, from several senders, to a thread by
 * rt_tgsigqueueinfo, a standard signal that is queued once, rt_sigqueueinfo with arbitrary codes, to a process group,
 * taken by handlers and by sigtimedwait, a queue that an exec keeps. About 0.8 s. */
#include "show.h"

static volatile int got[64], values[64], strange;
static pid_t sender;

static void on(int s, siginfo_t *i, void *u)
{
    int n = s - SIGRTMIN;
    if (i->si_value.sival_int != got[n])
        strange++;
    if (i->si_pid != sender || i->si_code != SI_QUEUE || i->si_uid != getuid())
        strange++;
    got[n]++;
}

static void from_senders(void)
{
    struct sigaction a = {.sa_sigaction = on, .sa_flags = SA_SIGINFO | SA_RESTART};
    for (int i = 0; i < 4; i++)
        sigaction(SIGRTMIN + i, &a, NULL);
    int p[2], known[2], status;
    char b;
    pipe(p), pipe(known);
    pid_t me = getpid();
    sender = fork();
    if (!sender) {
        read(known[0], &b, 1);
        for (int i = 0; i < 60; i++) {
            for (int n = 0; n < 4; n++)
                sigqueue(me, SIGRTMIN + n, (union sigval){.sival_int = i});
            if (i % 6 == 0)
                rest(15);
        }
        write(p[1], "d", 1);
        _exit(0);
    }
    write(known[1], "k", 1);
    while (read(p[0], &b, 1) != 1)
        ;
    waitpid(sender, &status, 0);
    rest(35);
    say("got %d %d %d %d, strange %d", got[0], got[1], got[2], got[3], strange);
    close(p[0]), close(p[1]), close(known[0]), close(known[1]);
}

static long queueinfo(int sig, int code, int value, pid_t thread)
{
    siginfo_t si = {.si_signo = sig, .si_code = code};
    si.si_pid = getpid(), si.si_uid = getuid(), si.si_value.sival_int = value;
    return thread ? syscall(SYS_rt_tgsigqueueinfo, getpid(), thread, sig, &si) : syscall(SYS_rt_sigqueueinfo, getpid(), sig, &si);
}

static pthread_barrier_t gate;
static volatile pid_t target;
static void *taker(void *arg)
{
    sigset_t set;
    siginfo_t si;
    target = gettid();
    sigemptyset(&set);
    sigaddset(&set, SIGRTMIN + 5), sigaddset(&set, SIGUSR1);
    pthread_barrier_wait(&gate);
    for (int i = 0; i < 6; i++) {
        int s = sigwaitinfo(&set, &si);
        say("thread took %d code %d value %d", s == SIGUSR1 ? 10 : s - SIGRTMIN, si.si_code, si.si_value.sival_int);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    sigset_t set, old;
    siginfo_t si;
    struct timespec none = {0, 0};
    sigemptyset(&set);
    for (int i = 5; i < 10; i++)
        sigaddset(&set, SIGRTMIN + i);
    sigaddset(&set, SIGUSR1);
    if (argc > 1) { /* after the exec, with what was queued before */
        rest(70);
        for (int s; (s = sigtimedwait(&set, &si, &none)) > 0;)
            say("kept %d code %d value %d", s == SIGUSR1 ? 10 : s - SIGRTMIN, si.si_code, si.si_value.sival_int);
        return 19;
    }
    from_senders();
    sigprocmask(SIG_BLOCK, &set, &old);
    pthread_t t;
    pthread_barrier_init(&gate, NULL, 2);
    pthread_create(&t, NULL, taker, NULL);
    pthread_barrier_wait(&gate);
    for (int i = 0; i < 6; i++) {
        if (queueinfo(i % 3 ? SIGRTMIN + 5 : SIGUSR1, i % 2 ? SI_QUEUE : -70, 50 + i, target))
            say("tgsigqueueinfo %s", errno_name(errno));
        rest(30);
    }
    pthread_join(t, NULL);
    SHOW(queueinfo(SIGRTMIN + 5, SI_QUEUE, 1, 99999999));
    SHOW(queueinfo(99, SI_QUEUE, 1, 0));
    for (int i = 0; i < 3; i++) {
        SHOW(queueinfo(SIGUSR1, -60 - i, i, 0));
        SHOW(queueinfo(SIGRTMIN + 9 - i, -60, i, 0));
        SHOW(queueinfo(SIGRTMIN + 6, SI_QUEUE, 10 + i, gettid()));
    }
    rest(95);
    chew(20 * CHEW_MS);
    for (int s; (s = sigtimedwait(&set, &si, &none)) > 0;)
        say("took %d code %d value %d", s == SIGUSR1 ? 10 : s - SIGRTMIN, si.si_code, si.si_value.sival_int);
    SHOW(sigtimedwait(&set, &si, &none));
    struct timespec wrong = {0, -1}, some = {0, 70000000};
    SHOW(sigtimedwait(&set, &si, &wrong));
    SHOW(sigtimedwait(&set, &si, &some));
    SHOW(sigqueue(1, 0, (union sigval){0}));
    SHOW(sigqueue(99999999, SIGUSR1, (union sigval){0}));

    /* To a group: each member once. */
    int p[2], status;
    char b;
    pipe(p);
    pid_t members[3];
    for (int i = 0; i < 3; i++)
        if (!(members[i] = fork())) {
            setpgid(0, i ? members[0] : 0);
            write(p[1], "r", 1);
            int s = sigwaitinfo(&set, &si);
            _exit(s == SIGUSR1 && si.si_code == SI_USER && si.si_pid == getppid() ? 60 + i : 1);
        } else
            setpgid(members[i], members[0]);
    for (int i = 0; i < 3; i++)
        read(p[0], &b, 1);
    rest(70);
    SHOW(kill(-members[0], SIGUSR1));
    for (int i = 0; i < 3; i++) {
        waitpid(members[i], &status, 0);
        say_status("member", status);
    }
    char self[4096] = {0};
    readlink("/proc/self/exe", self, sizeof self - 1);
    pid_t child = fork();
    if (!child) {
        for (int i = 0; i < 4; i++)
            sigqueue(getpid(), SIGRTMIN + 8 - i % 2, (union sigval){.sival_int = 200 + i});
        queueinfo(SIGRTMIN + 9, SI_QUEUE, 300, gettid());
        kill(getpid(), SIGUSR1);
        rest(60);
        execl(self, "queued", "again", NULL);
        _exit(1);
    }
    waitpid(child, &status, 0);
    say_status("after exec", status);
    return 0;
}
