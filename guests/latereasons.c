/* Children that acquire, after 0 to 45 ms, a reason to stay at home: a seccomp filter, a time namespace for their
 * children, a limit of CPU time, a timer of CPU time. Each has 32 MiB, so that a move is often under way when it does
 * so; the new state must be present at every check afterwards. About 5 s. */
#include "show.h"
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>

#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x80
#endif
#define BYTES (32 << 20)
#define ROUNDS 10
#define AHEAD 100000
#define REFUSED 77

static void works(void) { rest(4), (void)chew(2 * CHEW_MS); }

/* getppid() and gettid() fail from now on: one is made at home, the other where the program runs. */
static int filtered(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getppid, 1, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_gettid, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | REFUSED),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof code / sizeof *code, code};
    int wrong = prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
    for (int k = 0; k < 12; k++) {
        wrong += syscall(SYS_getppid) != -1 || errno != REFUSED;
        wrong += syscall(SYS_gettid) != -1 || errno != REFUSED;
        works();
    }
    return wrong;
}

/* A filter of one thread, beside a thread without a filter. */
static void *in_thread(void *wrong) { return *(int *)wrong = filtered(), NULL; }

static int filtered_thread(void)
{
    pthread_t thread;
    int wrong = 0;
    if (pthread_create(&thread, NULL, in_thread, &wrong) || pthread_join(thread, NULL))
        return 1;
    return wrong;
}

/* Programs that it starts have clocks of their own. Where that is refused nothing is checked. */
static int other_clocks(void)
{
    struct timespec before, after;
    char offset[] = "monotonic 100000 0";
    if (unshare(CLONE_NEWUSER | CLONE_NEWTIME))
        return 0;
    int fd = open("/proc/self/timens_offsets", O_WRONLY), status = 0;
    int wrong = write(fd, offset, strlen(offset)) != (ssize_t)strlen(offset);
    clock_gettime(CLOCK_MONOTONIC, &before);
    for (int k = 0; k < 4; k++) {
        pid_t child = fork();
        if (!child) {
            clock_gettime(CLOCK_MONOTONIC, &after);
            _exit(after.tv_sec - before.tv_sec < AHEAD - 1);
        }
        wrong += waitpid(child, &status, 0) != child || status;
        works();
    }
    return wrong;
}

/* Of CPU time: 40 ms of it are used, then a signal comes. */
static volatile int signals;
static void counts(int signal) { signals += signal == SIGXCPU; }

static int timer_of_cpu_time(void)
{
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGXCPU};
    struct itimerspec in_40_ms = {.it_value.tv_nsec = 40000000};
    timer_t timer;
    signal(SIGXCPU, counts);
    int wrong = timer_create(CLOCK_PROCESS_CPUTIME_ID, &event, &timer) || timer_settime(timer, 0, &in_40_ms, NULL);
    wrong += signals;
    for (int k = 0; k < 2000 && !signals; k++)
        (void)chew(CHEW_MS);
    return wrong + (signals != 1);
}

static int limit_of_cpu_time(void)
{
    struct rlimit limit = {1, 3};
    signal(SIGXCPU, counts);
    int wrong = setrlimit(RLIMIT_CPU, &limit);
    for (int k = 0; k < 8000 && !signals; k++)
        (void)chew(CHEW_MS);
    return wrong + (signals < 1);
}

static void each(const char *what, int (*gives)(void), int rounds)
{
    int failed = 0;
    for (int k = 0; k < rounds; k++) {
        pid_t child = fork();
        if (!child) {
            char *memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            memset(memory, 1 + k, BYTES);
            for (struct timespec end = soon(CLOCK_MONOTONIC, k * 45 / rounds); now() < end.tv_sec + end.tv_nsec / 1e9;)
                (void)chew(CHEW_MS / 4);
            int wrong = gives();
            for (int i = 0; i < BYTES; i += 4096)
                wrong += memory[i] != 1 + k;
            _exit(wrong ? 1 : 0);
        }
        int status = 0;
        failed += waitpid(child, &status, 0) != child || status;
    }
    say("%s: %d of %d failed", what, failed, rounds);
}

int main(void)
{
    each("seccomp filter", filtered, ROUNDS);
    each("seccomp filter of a thread", filtered_thread, ROUNDS);
    each("time namespace", other_clocks, ROUNDS);
    each("timer of CPU time", timer_of_cpu_time, ROUNDS);
    each("limit of CPU time", limit_of_cpu_time, 2);
    return 0;
}
