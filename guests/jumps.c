/* setjmp and longjmp from handlers: out of a CPU loop, out of a blocking read, out of nested
 * handlers, with and without the saved mask; swapcontext coroutines. About 0.8 s. */
#include "show.h"
#include <ucontext.h>

static sigjmp_buf back;
static volatile int jumps;
static void jump(int s)
{
    jumps++;
    siglongjmp(back, s);
}

static ucontext_t ctx[3], home;
static int order[64], steps;
static void coroutine(int me)
{
    for (int i = 0; i < 10; i++) {
        order[steps++] = me;
        chew(2 * CHEW_MS);
        swapcontext(&ctx[me], &ctx[(me + 1) % 3]);
    }
}

static int masked(int s)
{
    sigset_t m;
    sigprocmask(SIG_BLOCK, NULL, &m);
    return sigismember(&m, s);
}

int main(void)
{
    signal(SIGALRM, jump);
    struct itimerval t = {{0, 0}, {0, 40000}};
    for (int i = 0; i < 6; i++)
        if (!sigsetjmp(back, 1)) {
            setitimer(ITIMER_REAL, &t, NULL);
            for (;;)
                chew(CHEW_MS / 10);
        }
    say("jumps out of a loop %d, masked %d", jumps, masked(SIGALRM));
    int p[2];
    pipe(p);
    for (int i = 0; i < 6; i++)
        if (!sigsetjmp(back, 1)) {
            char b;
            setitimer(ITIMER_REAL, &t, NULL);
            read(p[0], &b, 1);
            say("never here");
        }
    say("jumps %d", jumps);
    int s = sigsetjmp(back, 0);
    if (!s) {
        setitimer(ITIMER_REAL, &t, NULL);
        for (;;)
            rest(1000);
    }
    say("signal %d, still masked %d", s, masked(SIGALRM));
    sigset_t set;
    sigemptyset(&set), sigaddset(&set, SIGALRM);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
    signal(SIGFPE, jump), signal(SIGILL, jump), signal(SIGTRAP, jump);
    volatile int zero = 0, five = 5;
    if (!(s = sigsetjmp(back, 1)))
        zero = five / zero;
    say("signal %d", s);
    if (!(s = sigsetjmp(back, 1)))
        __builtin_trap();
    say("signal %d", s);
    if (!(s = sigsetjmp(back, 1)))
        asm volatile("int3");
    say("signal %d", s);
    if (!(s = sigsetjmp(back, 1)))
        raise(SIGTRAP);
    say("signal %d", s);
    for (int i = 0; i < 3; i++) {
        getcontext(&ctx[i]);
        ctx[i].uc_stack.ss_sp = malloc(65536), ctx[i].uc_stack.ss_size = 65536;
        ctx[i].uc_link = &home;
        makecontext(&ctx[i], (void (*)(void))coroutine, 1, i);
    }
    swapcontext(&home, &ctx[0]);
    int right = 1;
    for (int i = 0; i < steps; i++)
        right &= order[i] == i % 3;
    say("coroutines: %d steps, right %d", steps, right);
    return 0;
}
