/* A program that faults all the time and goes on by siglongjmp or by stepping over: wherever it is stopped, a fault's
 * signal is likely to be pending already. Each kind comes as often as natively, with its code. About 0.3 s. */
#include "show.h"
#include <setjmp.h>
#include <ucontext.h>

static sigjmp_buf back;
static volatile int zero, hits, strange;
static int expected;

static void jump(int s, siginfo_t *i, void *u)
{
    hits++;
    strange += i->si_signo != expected;
    siglongjmp(back, 1);
}

/* Steps over ud2. */
static void over(int s, siginfo_t *i, void *u)
{
    hits++;
    strange += i->si_signo != expected || i->si_code != ILL_ILLOPN;
    ((ucontext_t *)u)->uc_mcontext.gregs[REG_RIP] += 2;
}

static void divide(void) { asm volatile("xor %%edx, %%edx\n mov $1, %%eax\n divl %0" ::"m"(zero) : "rax", "rdx", "cc"); }
static void nowhere(void) { *(volatile int *)16 = 1; }
static void privileged(void) { asm volatile("hlt"); }

static void all(const char *what, int sig, void (*fault)(void), int times)
{
    expected = sig;
    hits = strange = 0;
    for (volatile int i = 0; i < times; i++)
        if (!sigsetjmp(back, 1))
            fault();
    say("%s: %d, strange %d", what, hits, strange);
}

int main(void)
{
    struct sigaction a = {.sa_sigaction = jump, .sa_flags = SA_SIGINFO};
    int status;
    sigaction(SIGFPE, &a, NULL);
    sigaction(SIGSEGV, &a, NULL);
    all("division", SIGFPE, divide, 20000);
    all("address", SIGSEGV, nowhere, 20000);
    all("privileged", SIGSEGV, privileged, 20000);
    a.sa_sigaction = over;
    sigaction(SIGILL, &a, NULL);
    expected = SIGILL;
    hits = strange = 0;
    for (int i = 0; i < 40000; i++)
        asm volatile("ud2" ::: "memory");
    say("illegal: %d, strange %d", hits, strange);
    pid_t child = fork();
    if (!child) {
        all("child", SIGFPE, divide, 10000);
        signal(SIGFPE, SIG_DFL);
        divide();
        _exit(1);
    }
    HOLDS(waitpid(child, &status, 0) == child);
    say_status("child without a handler", status);
    return 0;
}
