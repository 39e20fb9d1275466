/* prctl(PR_SET_SYSCALL_USER_DISPATCH): while a byte says so, system calls from outside an allowed range of code are not
 * made but raise SIGSYS, and its handler answers them. Caught each time when the byte forbids, made each time when it
 * allows; then every call of the C library is caught and made by the handler, which returns by code of its own in the
 * allowed range. Threads, children and new programs begin without. Switched off at the end. About 1.3 s. */
#include "show.h"
#include <ucontext.h>

#ifndef PR_SET_SYSCALL_USER_DISPATCH
#define PR_SET_SYSCALL_USER_DISPATCH 59
#define PR_SYS_DISPATCH_OFF 0
#define PR_SYS_DISPATCH_ON 1
#endif
#define ALLOW 0
#define BLOCK 1

/* A call made by this program's own code, and a handler's return, rt_sigreturn, as a range to allow. */
asm(".text\n"
    "own_call: mov %rdi, %rax\n mov %rsi, %rdi\n syscall\n"
    "own_call_end: ret\n"
    "own_return: mov $15, %eax\n syscall\n nop\n"
    "own_return_end: nop\n");
long own_call(long number, long first);
extern char own_call_end[], own_return[], own_return_end[];

static volatile unsigned char byte = ALLOW;
static __thread volatile long caught, strange;
static volatile long sleeps;
static char *from;
static long bytes;

/* Answers 1000 and the first argument. */
static void answer(int s, siginfo_t *i, void *u)
{
    greg_t *r = ((ucontext_t *)u)->uc_mcontext.gregs;
    caught++;
    strange += i->si_code != 2 || i->si_call_addr != own_call_end || i->si_syscall != r[REG_RAX];
    r[REG_RAX] = 1000 + r[REG_RDI];
}

/* Makes the call that the library could not. */
static void make(int s, siginfo_t *i, void *u)
{
    greg_t *r = ((ucontext_t *)u)->uc_mcontext.gregs;
    byte = ALLOW;
    caught++;
    sleeps += i->si_syscall == SYS_clock_nanosleep || i->si_syscall == SYS_nanosleep;
    register long r10 asm("r10") = r[REG_R10], r8 asm("r8") = r[REG_R8], r9 asm("r9") = r[REG_R9];
    long result = i->si_syscall;
    asm volatile("syscall"
        : "+a"(result)
        : "D"(r[REG_RDI]), "S"(r[REG_RSI]), "d"(r[REG_RDX]), "r"(r10), "r"(r8), "r"(r9)
        : "rcx", "r11", "memory");
    r[REG_RAX] = result;
    byte = BLOCK;
}

static long set(long how, void *range, long len, volatile void *selector)
{
    return prctl(PR_SET_SYSCALL_USER_DISPATCH, how, range, len, selector);
}

/* The C library's code. */
static void find_library(void)
{
    char line[512];
    unsigned long a, b, in = (unsigned long)getppid;
    FILE *f = fopen("/proc/self/maps", "r");
    while (fgets(line, sizeof line, f))
        if (sscanf(line, "%lx-%lx", &a, &b) == 2 && a <= in && in < b)
            from = (char *)a, bytes = b - a;
    fclose(f);
}

/* Half of the time blocked, half computing; how many calls were caught and how many made. */
static void rounds(const char *who, int times)
{
    long parent = getppid(), answered = 0, made = 0;
    caught = strange = 0;
    for (int k = 0; k < times; k++) {
        long r = own_call(SYS_getppid, k);
        answered += r == 1000 + k;
        made += r == parent;
        k % 2 ? rest(6) : (void)chew(5 * CHEW_MS);
    }
    say("%s: answered %ld and made %ld of %d, caught %ld, strange %ld", who, answered, made, times, caught, strange);
}

static void *thread(void *arg)
{
    static volatile unsigned char own = BLOCK;
    rounds("thread, as born", 6);
    SHOW(set(PR_SYS_DISPATCH_ON, from, bytes, &own));
    rounds("thread, its own byte forbids", 10);
    own = ALLOW;
    rounds("thread, its own byte allows", 6);
    return NULL; /* its end is not switched off before */
}

static void child(const char *what, volatile unsigned char *selector, int value)
{
    int status;
    pid_t pid = fork();
    if (!pid) {
        rounds(what, 4);
        say("%s: prctl %ld", what, set(PR_SYS_DISPATCH_ON, from, bytes, selector));
        if (value >= 0)
            *selector = value;
        rest(30);
        own_call(SYS_getppid, 0);
        _exit(0);
    }
    HOLDS(waitpid(pid, &status, 0) == pid);
    say_status(what, status);
}

int main(int argc, char **argv)
{
    if (argc > 1) {
        rounds("new program", 6);
        return 4;
    }
    char link[4096] = {0};
    int status;
    readlink("/proc/self/exe", link, sizeof link - 1);
    struct sigaction a = {.sa_sigaction = answer, .sa_flags = SA_SIGINFO};
    sigaction(SIGSYS, &a, NULL);
    find_library();
    byte = BLOCK;
    rounds("nothing set", 4);
    SHOW(set(PR_SYS_DISPATCH_OFF, from, bytes, NULL));
    SHOW(set(PR_SYS_DISPATCH_ON, from, -1, &byte));
    SHOW(set(99, NULL, 0, NULL));
    byte = ALLOW;
    SHOW(set(PR_SYS_DISPATCH_ON, from, bytes, &byte));
    rounds("the byte allows", 14);
    byte = BLOCK;
    rounds("the byte forbids", 40);
    byte = ALLOW;
    rounds("the byte allows again", 10);
    byte = BLOCK;
    pthread_t t;
    pthread_create(&t, NULL, thread, NULL);
    pthread_join(t, NULL);
    rounds("beside a thread", 6);
    child("a child whose byte forbids", &byte, BLOCK);
    child("a child whose byte is wrong", &byte, 7);
    child("a child whose byte cannot be read", (void *)8, -1);
    SHOW(set(PR_SYS_DISPATCH_ON, from, bytes, NULL));
    byte = ALLOW; /* the byte is not read now: all are forbidden */
    rounds("without a byte", 10);
    pid_t pid = fork();
    if (!pid) {
        SHOW(set(PR_SYS_DISPATCH_ON, from, bytes, NULL));
        rounds("before a new program", 2);
        execl(link, "dispatches", "again", NULL);
        _exit(1);
    }
    HOLDS(waitpid(pid, &status, 0) == pid);
    say_status("child", status);
    SHOW(set(PR_SYS_DISPATCH_OFF, NULL, 0, NULL));
    byte = BLOCK;
    rounds("switched off", 6);

    /* The C library's calls, made by a handler. */
    struct { void *handler; unsigned long flags; void *restorer; unsigned long mask; } raw =
        {make, SA_SIGINFO | 0x04000000, own_return, 0};
    byte = ALLOW;
    SHOW(syscall(SYS_rt_sigaction, SIGSYS, &raw, NULL, 8ul));
    SHOW(set(PR_SYS_DISPATCH_ON, own_return, own_return_end - own_return, &byte));
    caught = 0;
    int ends[2], wrong = 0;
    byte = BLOCK;
    pipe(ends);
    for (int k = 0; k < 30; k++) {
        char c = k, d = -1;
        wrong += write(ends[1], &c, 1) != 1 || read(ends[0], &d, 1) != 1 || c != d;
        k % 2 ? rest(6) : (void)chew(5 * CHEW_MS);
    }
    int fd = open("/nowhere/at/all", O_RDONLY);
    wrong += fd != -1 || errno != ENOENT;
    byte = ALLOW;
    long n = caught;
    getppid();
    say("by a handler: caught %ld, sleeps %ld, wrong %d, afterwards %ld", n, sleeps, wrong, caught - n);
    SHOW(set(PR_SYS_DISPATCH_OFF, NULL, 0, NULL));
    byte = BLOCK;
    caught = 0;
    for (int k = 0; k < 6; k++)
        rest(6);
    say("end: caught %ld", caught);
    return 0;
}
