/* Handlers within handlers: SA_NODEFER and without, sa_mask, SA_RESETHAND, alternate stacks that overflow into
 * a guard page, SS_AUTODISARM, an overflow of a thread's own stack caught on its own alternate stack, a handler
 * that changes the mask it returns to, and one that repairs a fault by mprotect. About 0.8 s. */
#include "show.h"
#include <ucontext.h>

#ifndef SS_AUTODISARM
#define SS_AUTODISARM (1u << 31)
#endif

static volatile int depth, deepest, calls;
static char order[256];

static void nested(int s)
{
    calls++;
    if (++depth > deepest)
        deepest = depth;
    strcat(order, s == SIGUSR1 ? "<" : "(");
    if (calls < 4)
        raise(s);
    rest(10);
    strcat(order, s == SIGUSR1 ? ">" : ")");
    depth--;
}

static void nest(const char *what, int flags, int also)
{
    struct sigaction a = {.sa_handler = nested, .sa_flags = flags};
    if (also)
        sigaddset(&a.sa_mask, also);
    calls = depth = deepest = 0, order[0] = 0;
    sigaction(SIGUSR1, &a, NULL);
    raise(SIGUSR1);
    say("%s: calls %d deepest %d order %s", what, calls, deepest, order);
}

static void both(int s)
{
    strcat(order, s == SIGUSR1 ? "<" : "(");
    if (s == SIGUSR1)
        raise(SIGUSR2), chew(5 * CHEW_MS), rest(20);
    strcat(order, s == SIGUSR1 ? ">" : ")");
}

static void masked(int mask)
{
    struct sigaction a = {.sa_handler = both};
    sigaction(SIGUSR2, &a, NULL);
    if (mask)
        sigaddset(&a.sa_mask, SIGUSR2);
    sigaction(SIGUSR1, &a, NULL);
    order[0] = 0;
    raise(SIGUSR1);
    say("SIGUSR2 %s: %s", mask ? "in sa_mask" : "free", order);
}

static sigjmp_buf back;
static __thread char *low, *high;
static volatile int on_stack, armed;
static void *volatile where;
static void overflown(int s, siginfo_t *i, void *u)
{
    char here;
    stack_t ss;
    on_stack = &here >= low && &here < high;
    sigaltstack(NULL, &ss);
    armed = ss.ss_flags;
    where = i->si_addr;
    siglongjmp(back, s);
}

static __attribute__((noinline)) int endless(int n)
{
    volatile char frame[1024];
    frame[0] = n;
    return endless(n + 1) + frame[0];
}

static void alternate(int flags)
{
    low = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), high = low + 65536;
    stack_t ss = {.ss_sp = low, .ss_size = 65536, .ss_flags = flags}, was;
    if (sigaltstack(&ss, NULL))
        say("sigaltstack %s", errno_name(errno));
    struct sigaction a = {.sa_sigaction = overflown, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    sigaction(SIGSEGV, &a, NULL);
    rest(40);
    int caught = sigsetjmp(back, 1);
    if (!caught)
        endless(0);
    sigaltstack(NULL, &was);
    say("overflow caught %d on the other stack %d flags there %x, after %x", caught, on_stack, armed, was.ss_flags);
}

static void *thread(void *arg)
{
    alternate(0);
    rest(30);
    alternate(SS_AUTODISARM);
    return NULL;
}

/* The alternate stack itself has too little room. */
static void both_full(void)
{
    char *area = mmap(NULL, 4 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mprotect(area, 2 * 4096, PROT_NONE);
    stack_t ss = {.ss_sp = area, .ss_size = 4 * 4096};
    sigaltstack(&ss, NULL);
    struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    struct sigaction a = {.sa_handler = (void (*)(int))endless, .sa_flags = SA_ONSTACK};
    sigaction(SIGSEGV, &a, NULL);
    rest(30);
    endless(0);
}

static char *page;
static volatile int repaired;
static void repair(int s, siginfo_t *i, void *u)
{
    repaired++;
    mprotect((void *)((uintptr_t)i->si_addr & ~4095ul), 4096, PROT_READ | PROT_WRITE);
}

static void remask(int s, siginfo_t *i, void *u)
{
    ucontext_t *c = u;
    sigaddset(&c->uc_sigmask, SIGHUP);
    sigdelset(&c->uc_sigmask, SIGINT);
}

int main(void)
{
    nest("deferred", 0, 0);
    nest("SA_NODEFER", SA_NODEFER, 0);
    nest("SA_NODEFER and itself in the mask", SA_NODEFER, SIGUSR1);
    masked(0);
    masked(1);
    struct sigaction a = {.sa_handler = nested, .sa_flags = SA_RESETHAND}, now_;
    calls = 9, order[0] = 0;
    sigaction(SIGUSR1, &a, NULL);
    rest(30);
    raise(SIGUSR1);
    sigaction(SIGUSR1, NULL, &now_);
    HOLDS(now_.sa_handler == SIG_DFL && order[0] == '<');

    SHOW(sigaltstack(&(stack_t){.ss_sp = order, .ss_size = 100}, NULL));
    SHOW(sigaltstack(&(stack_t){.ss_sp = order, .ss_size = 65536, .ss_flags = 77}, NULL));
    alternate(0);
    alternate(SS_AUTODISARM);
    SHOW(sigaltstack(&(stack_t){.ss_flags = SS_DISABLE}, NULL));
    pthread_t t;
    pthread_create(&t, NULL, thread, NULL);
    pthread_join(t, NULL);
    pid_t child = fork();
    int status;
    if (!child)
        both_full();
    waitpid(child, &status, 0);
    say_status("no room at all", status);

    a = (struct sigaction){.sa_sigaction = repair, .sa_flags = SA_SIGINFO};
    sigaction(SIGSEGV, &a, NULL);
    page = mmap(NULL, 64 * 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int i = 0; i < 64; i++) {
        page[i * 4096] = i;
        if (i % 12 == 0)
            rest(12);
    }
    say("repaired %d sum %lx", repaired, (unsigned long)hash(page, 64 * 4096));
    sigset_t set;
    sigemptyset(&set), sigaddset(&set, SIGINT);
    sigprocmask(SIG_BLOCK, &set, NULL);
    a.sa_sigaction = remask;
    sigaction(SIGUSR2, &a, NULL);
    raise(SIGUSR2);
    rest(50);
    sigprocmask(SIG_BLOCK, NULL, &set);
    say("SIGHUP blocked %d SIGINT %d", sigismember(&set, SIGHUP), sigismember(&set, SIGINT));
    return 0;
}
