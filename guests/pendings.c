/* kill, sigpending, sigprocmask: signals with the numbers of faults, SIGPIPE and an ordinary one wait while they are
 * blocked, are queued once however often they are sent, and run their handler once. About 1.2 s. */
#include "show.h"

static volatile int ran;

static void handler(int sig)
{
    (void)sig;
    ran++;
}

int main(void)
{
    static const int signals[] = {SIGILL, SIGTRAP, SIGBUS, SIGFPE, SIGSEGV, SIGPIPE, SIGXFSZ, SIGUSR1};
    int away[8] = {0}, never[8] = {0}, twice[8] = {0};
    for (int i = 0; i < 8; i++)
        signal(signals[i], handler);
    for (int round = 0; round < 40; round++)
        for (int i = 0; i < 8; i++) {
            sigset_t one, waiting;
            sigemptyset(&one);
            sigaddset(&one, signals[i]);
            ran = 0;
            sigprocmask(SIG_BLOCK, &one, NULL);
            kill(getpid(), signals[i]);
            chew(CHEW_MS);
            kill(getpid(), signals[i]);
            if (round % 8 == 7)
                rest(5);
            chew(CHEW_MS);
            sigpending(&waiting);
            away[i] += !sigismember(&waiting, signals[i]);
            sigprocmask(SIG_UNBLOCK, &one, NULL);
            never[i] += ran == 0;
            twice[i] += ran > 1;
        }
    for (int i = 0; i < 8; i++)
        say("signal %d: did not wait %d, never ran %d, ran again %d", signals[i], away[i], never[i], twice[i]);
    return 0;
}
