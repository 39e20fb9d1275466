/* Stopping and continuing children: SIGSTOP, SIGTSTP caught and not, SIGTTIN ignored, SIGCONT with a handler, stops of
 * a whole group, of a child with threads, of one that is blocked in a read, signals that are pending until it
 * continues, SIGKILL while stopped, SA_NOCLDSTOP, P_PGID. About 0.9 s. */
#include "show.h"

static volatile int conts, stops, chld;
static void on_cont(int s) { conts++; }
static void on_tstp(int s) { stops++; }
static void on_chld(int s) { chld++; }

static int to[2], from[2];

static void wait_for(const char *what, pid_t child, int options)
{
    int status = 0;
    pid_t got = waitpid(child, &status, options);
    if (got != child)
        say("%s: %d %s", what, got == 0 ? 0 : -1, got < 0 ? errno_name(errno) : "");
    else
        say_status(what, status);
}

static void *spin(void *arg)
{
    for (;;)
        chew(CHEW_MS);
}

static void tell(void) { write(from[1], "t", 1); }
static void heard(void)
{
    char b;
    while (read(from[0], &b, 1) != 1)
        ;
}

int main(void)
{
    char b;
    pipe(to), pipe(from);
    alarm(8); /* a lost stop would wait for ever */
    struct sigaction a = {.sa_handler = on_chld, .sa_flags = SA_RESTART | SA_NOCLDSTOP};
    sigaction(SIGCHLD, &a, NULL);
    /* A child with handlers, blocked in a read that is restarted. */
    pid_t child = fork();
    if (!child) {
        setpgid(0, 0); /* not orphaned: its parent is in another group of the session */
        struct sigaction c = {.sa_handler = on_cont, .sa_flags = SA_RESTART};
        sigaction(SIGCONT, &c, NULL);
        c.sa_handler = on_tstp;
        sigaction(SIGTSTP, &c, NULL);
        tell();
        long n = read(to[0], &b, 1);
        while (conts < 1 || stops < 1)
            rest(5);
        while (read(to[0], &b, 1) != 1) /* the parent has written */
            ;
        say("the read said %ld, continued %d, asked to stop %d", n, conts > 0, stops > 0);
        signal(SIGTSTP, SIG_DFL);
        tell();
        for (;;)
            pause();
    }
    heard();
    kill(child, SIGTSTP); /* caught */
    rest(60);
    wait_for("caught SIGTSTP", child, WUNTRACED | WNOHANG);
    kill(child, SIGSTOP);
    wait_for("SIGSTOP", child, WUNTRACED);
    write(to[1], "x", 1);
    rest(60);
    wait_for("still", child, WUNTRACED | WNOHANG);
    kill(child, SIGCONT);
    wait_for("SIGCONT", child, WCONTINUED);
    write(to[1], "x", 1);
    heard();
    kill(child, SIGTSTP); /* no handler catches it now */
    wait_for("stopped again", child, WUNTRACED);
    kill(child, SIGTERM); /* waits */
    rest(60);
    wait_for("it waits", child, WNOHANG);
    kill(child, SIGCONT);
    wait_for("and ends it", child, 0);
    say("SIGCHLD came %d", chld > 0);
    int before = chld;

    /* Threads stop together. */
    child = fork();
    if (!child) {
        pthread_t t;
        for (int i = 0; i < 3; i++)
            pthread_create(&t, NULL, spin, NULL);
        tell();
        spin(NULL);
    }
    heard();
    rest(60);
    for (int i = 0; i < 3; i++) {
        kill(child, SIGSTOP);
        wait_for("threads stop", child, WUNTRACED);
        rest(40);
        kill(child, SIGCONT);
        wait_for("threads go on", child, WCONTINUED);
        rest(30);
    }
    kill(child, SIGSTOP);
    siginfo_t si = {0};
    SHOW(waitid(P_PID, child, &si, WSTOPPED | WNOWAIT));
    SHOW(waitid(P_PID, child, &si, WSTOPPED));
    say("code %d status %d", si.si_code, si.si_status);
    say("no SIGCHLD for stops: %d", chld == before);
    kill(child, SIGKILL);
    wait_for("killed while stopped", child, 0);

    /* A group. */
    pid_t members[3];
    for (int i = 0; i < 3; i++) {
        if (!(members[i] = fork())) {
            setpgid(0, i ? members[0] : 0);
            signal(SIGTTIN, SIG_IGN);
            tell();
            i == 1 ? spin(NULL) : 0;
            for (;;)
                rest(1000);
        }
        setpgid(members[i], members[0]);
        heard();
    }
    kill(-members[0], SIGTTIN);
    rest(40);
    SHOW(waitpid(-members[0], NULL, WUNTRACED | WNOHANG));
    kill(-members[0], SIGSTOP);
    int mask = 0, status;
    for (int i = 0; i < 3; i++) {
        pid_t got = waitpid(-members[0], &status, WUNTRACED);
        for (int k = 0; k < 3; k++)
            mask |= (got == members[k] && WIFSTOPPED(status)) << k;
    }
    say("stopped %x", mask);
    rest(60);
    kill(-members[0], SIGCONT);
    for (int i = 0; i < 3; i++) {
        SHOW(waitid(P_PGID, members[0], &si, WCONTINUED));
        say("code %d", si.si_code);
    }
    kill(-members[0], SIGTERM);
    for (int i = 0; i < 3; i++)
        wait_for("member", members[i], 0);
    SHOW(waitpid(-members[0], NULL, 0));
    /* One that stops itself. */
    child = fork();
    if (!child) {
        for (int i = 0; i < 4; i++)
            raise(SIGSTOP);
        _exit(44);
    }
    for (int i = 0; i < 4; i++) {
        wait_for("stopped itself", child, WUNTRACED);
        rest(20);
        kill(child, SIGCONT);
    }
    wait_for("ended", child, 0);
    return 0;
}
