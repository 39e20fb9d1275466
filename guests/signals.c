/* Signals: handlers with siginfo, masks, pending, sigsuspend, nesting, SA_RESTART or not on a
 * blocking read, SA_RESETHAND, sigaltstack, sigwaitinfo, sigtimedwait, queued real-time signals
 * with values and order, raise, abort and faults in children, signals that come as a wait begins. About 1.3 s. */
#include "show.h"

static volatile int count, depth, deepest, code, value, from_parent, on_stack;
static pid_t parent;
static char *stack_low, *stack_high;

static void plain(int s) { count++; }

static void info(int s, siginfo_t *i, void *u)
{
    count++;
    code = i->si_code;
    value = i->si_value.sival_int;
    from_parent = i->si_pid == parent;
    char here;
    on_stack = &here >= stack_low && &here < stack_high;
}

static void nest(int s)
{
    if (++depth > deepest)
        deepest = depth;
    if (s < SIGRTMIN + 4) {
        raise(s + 1);
        chew(3 * CHEW_MS);
    }
    depth--;
}

static void handle(int s, void (*f)(int, siginfo_t *, void *), int flags)
{
    struct sigaction a = {.sa_sigaction = f, .sa_flags = SA_SIGINFO | flags};
    if (sigaction(s, &a, NULL))
        say("sigaction %d: %s", s, errno_name(errno));
}

/* A child signals us while we read: for ever when the read must fail, thrice when it must go on.
 * Signals that come before the read is entered do no harm. */
static void read_under(int flags)
{
    int p[2];
    pipe(p);
    count = 0;
    handle(SIGUSR1, info, flags);
    pid_t me = getpid(), child = fork();
    if (!child) {
        for (int i = 0; i < 3 || !(flags & SA_RESTART); i++) {
            rest(70);
            kill(me, SIGUSR1);
        }
        rest(20);
        write(p[1], "x", 1);
        _exit(0);
    }
    char b;
    errno = 0;
    long n = read(p[0], &b, 1);
    int e = errno;
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigprocmask(SIG_BLOCK, &set, NULL);
    if (n < 0)
        kill(child, SIGKILL);
    int status;
    waitpid(child, &status, 0);
    say("read = %ld %s", n, n < 0 ? errno_name(e) : "");
    HOLDS(count >= 1);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
    close(p[0]), close(p[1]);
}

static void queue(void)
{
    sigset_t set;
    sigemptyset(&set);
    for (int i = 0; i < 3; i++)
        sigaddset(&set, SIGRTMIN + i);
    sigprocmask(SIG_BLOCK, &set, NULL);
    for (int i = 0; i < 9; i++)
        sigqueue(getpid(), SIGRTMIN + 2 - i % 3, (union sigval){.sival_int = 100 + i});
    rest(60);
    siginfo_t si;
    for (int i = 0; i < 9; i++) {
        int s = sigwaitinfo(&set, &si);
        say("rt +%d value %d code %d mine %d", s - SIGRTMIN, si.si_value.sival_int, si.si_code,
            si.si_pid == getpid());
    }
    struct timespec t = {0, 80000000};
    SHOW(sigtimedwait(&set, &si, &t));
    pid_t me = getpid(), child = fork();
    if (!child) {
        for (int i = 0; i < 4; i++) {
            rest(30);
            sigqueue(me, SIGRTMIN + 1, (union sigval){.sival_int = i});
        }
        _exit(0);
    }
    for (int i = 0; i < 4; i++) {
        int s = sigwaitinfo(&set, &si);
        say("waited +%d value %d from child %d", s - SIGRTMIN, si.si_value.sival_int,
            si.si_pid == child);
    }
    waitpid(child, NULL, 0);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
}

/* Signals in pairs: one that is waited for, and one with a handler right before or after it, which ends the wait just
 * when it begins. */
static void pairs(void)
{
    enum { PAIRS = 120 };
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGRTMIN + 1);
    sigprocmask(SIG_BLOCK, &set, NULL);
    handle(SIGUSR1, info, SA_RESTART);
    pid_t me = getpid(), child = fork();
    if (!child) {
        for (int i = 0; i < PAIRS; i++) {
            if (i % 2)
                kill(me, SIGUSR1);
            sigqueue(me, SIGRTMIN + 1, (union sigval){.sival_int = i});
            kill(me, i % 4 ? SIGCHLD : SIGUSR1);
        }
        _exit(0);
    }
    int strange = 0, disordered = 0;
    for (int i = 0; i < PAIRS; i++) {
        siginfo_t si;
        while (sigwaitinfo(&set, &si) < 0 && errno == EINTR)
            ;
        strange += si.si_pid != child || si.si_code != SI_QUEUE;
        disordered += si.si_value.sival_int != i;
    }
    say("pairs: %d of a stranger, %d out of order", strange, disordered);
    waitpid(child, NULL, 0);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
}

static void children(void)
{
    for (int how = 0; how < 6; how++) {
        pid_t child = fork();
        if (!child) {
            rest(20);
            switch (how) {
            case 0: abort();
            case 1: *(volatile int *)8 = 1; break;
            case 2: raise(SIGKILL); break;
            case 3: kill(getpid(), SIGTERM); break;
            case 4: __builtin_trap();
            case 5: signal(SIGINT, SIG_IGN), raise(SIGINT);
            }
            _exit(40 + how);
        }
        int status;
        HOLDS(waitpid(child, &status, 0) == child);
        say_status("child", status);
    }
}

int main(void)
{
    parent = getpid();
    SHOW(signal(SIGKILL, plain) == SIG_ERR);
    SHOW(sigaction(99, NULL, NULL));
    SHOW(kill(getpid(), 99));
    SHOW(kill(99999999, 0));
    SHOW(kill(getpid(), 0));
    SHOW(kill(1, 0));
    handle(SIGUSR1, info, 0);
    SHOW(raise(SIGUSR1));
    say("count %d code %d self %d", count, code, from_parent);
    sigset_t set, old, pending;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    SHOW(sigprocmask(SIG_BLOCK, &set, &old));
    SHOW(sigismember(&old, SIGUSR1));
    for (int i = 0; i < 3; i++)
        kill(getpid(), SIGUSR1);
    rest(60);
    sigpending(&pending);
    say("pending %d count %d", sigismember(&pending, SIGUSR1), count);
    SHOW(sigsuspend(&old));
    say("count %d code %d", count, code);
    sigprocmask(SIG_SETMASK, &old, NULL);
    signal(SIGALRM, plain);
    for (int i = 0; i < 5; i++) {
        struct itimerval t = {{0, 0}, {0, 30000}};
        sigset_t alarms, before_it;
        sigemptyset(&alarms);
        sigaddset(&alarms, SIGALRM);
        sigprocmask(SIG_BLOCK, &alarms, &before_it);
        setitimer(ITIMER_REAL, &t, NULL);
        int before = count;
        sigsuspend(&before_it);
        sigprocmask(SIG_SETMASK, &before_it, NULL);
        if (count != before + 1)
            say("alarm %d seen %d times", i, count - before);
    }
    for (int i = 0; i <= 4; i++)
        signal(SIGRTMIN + i, nest);
    raise(SIGRTMIN);
    say("deepest %d depth %d", deepest, depth);
    stack_low = malloc(65536), stack_high = stack_low + 65536;
    stack_t ss = {.ss_sp = stack_low, .ss_size = 65536}, was;
    SHOW(sigaltstack(&ss, NULL));
    handle(SIGUSR2, info, SA_ONSTACK | SA_RESETHAND);
    rest(60);
    SHOW(sigqueue(getpid(), SIGUSR2, (union sigval){.sival_int = 4711}));
    say("value %d code %d on stack %d", value, code, on_stack);
    SHOW(sigaltstack(NULL, &was));
    HOLDS(was.ss_sp == stack_low && was.ss_flags == 0);
    struct sigaction now_is;
    sigaction(SIGUSR2, NULL, &now_is);
    HOLDS(now_is.sa_handler == SIG_DFL);
    read_under(0);
    read_under(SA_RESTART);
    queue();
    pairs();
    children();
    return 0;
}
