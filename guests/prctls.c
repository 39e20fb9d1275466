/* prctl: name, parent-death signal, keep-capabilities, securebits, subreaper, timer slack, no_new_privs, machine-check
 * policy, what a fork inherits and what an exec resets, errors. Proves that options set away are in effect at home, and
 * the other way round. About 0.7 s. */
#include "show.h"
#include <linux/securebits.h>

static void state(const char *when)
{
    char name[17] = {0};
    int death = -1, reaper = -1;
    prctl(PR_GET_NAME, name);
    prctl(PR_GET_PDEATHSIG, &death);
    prctl(PR_GET_CHILD_SUBREAPER, &reaper);
    say("%s: name %s death %d reaper %d slack %d nnp %d keepcaps %d bits %d dumpable %d timing %d thp %d", when, name, death, reaper,
        prctl(PR_GET_TIMERSLACK), prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0), prctl(PR_GET_KEEPCAPS), prctl(PR_GET_SECUREBITS),
        prctl(PR_GET_DUMPABLE), prctl(PR_GET_TIMING), prctl(PR_GET_THP_DISABLE, 0, 0, 0, 0));
}

static void *named(void *arg)
{
    char name[17] = {0};
    prctl(PR_SET_NAME, "a thread");
    prctl(PR_SET_TIMERSLACK, 123000);
    rest(60);
    prctl(PR_GET_NAME, name);
    say("thread %s slack %d", name, prctl(PR_GET_TIMERSLACK));
    return NULL;
}

int main(int argc, char **argv)
{
    if (argc > 1) {
        state("after exec");
        return 4;
    }
    int status;
    char link[4096] = {0};
    readlink("/proc/self/exe", link, sizeof link - 1);
    state("start");
    SHOW(prctl(PR_SET_NAME, "sixteen or more letters"));
    SHOW(prctl(PR_SET_NAME, (char *)8));
    SHOW(prctl(PR_SET_PDEATHSIG, SIGUSR1));
    SHOW(prctl(PR_SET_PDEATHSIG, -1));
    SHOW(prctl(PR_GET_PDEATHSIG, (int *)8));
    SHOW(prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0));
    SHOW(prctl(PR_SET_KEEPCAPS, 2, 0, 0, 0));
    SHOW(prctl(PR_SET_SECUREBITS, SECBIT_NOROOT));
    SHOW(prctl(PR_SET_CHILD_SUBREAPER, 1));
    SHOW(prctl(PR_SET_TIMERSLACK, 77000));
    SHOW(prctl(PR_SET_TIMING, 1));
    SHOW(prctl(PR_CAPBSET_READ, 0) >= 0);
    SHOW(prctl(PR_CAPBSET_READ, 999));
    SHOW(prctl(PR_CAPBSET_DROP, 0));
    SHOW(prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_IS_SET, 5, 0, 0));
    SHOW(prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, 5, 0, 0));
    SHOW(prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0));
    SHOW(prctl(PR_SET_DUMPABLE, 2));
    SHOW(prctl(PR_GET_SECCOMP));
    SHOW(prctl(PR_SET_NO_NEW_PRIVS, 0, 0, 0, 0));
    SHOW(prctl(PR_SET_NO_NEW_PRIVS, 1, 1, 0, 0));
    SHOW(prctl(PR_GET_NO_NEW_PRIVS, 1, 0, 0, 0));
    SHOW(prctl(9999, 0, 0, 0, 0));
    state("set");
    rest(80);
    chew(30 * CHEW_MS);
    state("later");
    pthread_t t;
    pthread_create(&t, NULL, named, NULL);
    pthread_join(t, NULL);
    state("after the thread");
    pid_t child = fork();
    if (!child) {
        state("in a fork");
        rest(50);
        execl(link, "prctls", "again", NULL);
        _exit(1);
    }
    waitpid(child, &status, 0);
    say_status("child", status);

    /* An orphan comes to the subreaper. */
    pid_t reaper = getpid();
    int p[2];
    pipe(p);
    child = fork();
    if (!child) {
        pid_t grandchild = fork();
        if (!grandchild) {
            char c;
            close(p[1]);
            read(p[0], &c, 1); /* until its parent is gone */
            rest(60);
            _exit(getppid() == reaper ? 9 : 1);
        }
        _exit(5);
    }
    waitpid(child, &status, 0);
    say_status("middle", status);
    close(p[1]);
    HOLDS(wait(&status) > 0);
    say_status("orphan", status);
    SHOW(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
    SHOW(prctl(PR_SET_CHILD_SUBREAPER, 0));
    SHOW(prctl(PR_SET_PDEATHSIG, 0));
    rest(60);
    state("end");
    for (int i = 0; i < 15; i++) {
        char name[20], got[17] = {0};
        sprintf(name, "round-%d", i);
        prctl(PR_SET_NAME, name);
        chew(3 * CHEW_MS);
        rest(8);
        prctl(PR_GET_NAME, got);
        if (strcmp(name, got))
            say("the name is %s", got);
    }
    return 0;
}
