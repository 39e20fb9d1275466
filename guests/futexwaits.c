/* FUTEX_WAIT with a timeout, which is relative and in memory: it ends at its time, not before, however often the
 * process moves meanwhile; it is woken, refused, and interrupted by handlers as natively; neither the timeout nor the
 * register that points to it is changed. In one thread, between threads, between processes. About 1.5 s. */
#include "show.h"
#include <linux/futex.h>

static int word;
static volatile int over;

/* The call, and whether its fourth register is as before. */
static long wait_for(int *at, int op, int value, struct timespec *limit, int *kept)
{
    register long r10 asm("r10") = (long)limit;
    register long r8 asm("r8") = 0;
    register long r9 asm("r9") = 0;
    long ret;
    asm volatile("syscall"
                 : "=a"(ret), "+r"(r10)
                 : "0"(SYS_futex), "D"(at), "S"(op), "d"(value), "r"(r8), "r"(r9)
                 : "rcx", "r11", "memory");
    *kept = r10 == (long)limit;
    return ret;
}

static void times_out(const char *who, int ms, int rounds, int op)
{
    int late = 0, early = 0, changed = 0, other = 0;
    for (int i = 0; i < rounds; i++) {
        struct timespec t = {0, ms * 1000000l};
        int kept;
        double from = now();
        long ret = wait_for(&word, op, 0, &t, &kept);
        double took = now() - from;
        other += ret != -ETIMEDOUT;
        early += took < ms / 1e3;
        /* On a loaded machine any wait may be late, but not by so much. */
        late += took > 20;
        changed += !kept || t.tv_sec || t.tv_nsec != ms * 1000000l;
    }
    say("%s: %d early, %d late, %d changed, %d otherwise", who, early, late, changed, other);
}

static void *waker(void *at)
{
    rest(120);
    __atomic_store_n((int *)at, 1, __ATOMIC_SEQ_CST);
    while (!over) {
        syscall(SYS_futex, at, FUTEX_WAKE_PRIVATE, 1);
        rest(5);
    }
    return NULL;
}

static void *other_thread(void *arg)
{
    times_out("thread", 70, 4, FUTEX_WAIT_PRIVATE);
    return NULL;
}

static void caught(int number) {}

static void *signaller(void *main_thread)
{
    rest(100);
    while (!over) {
        pthread_kill(*(pthread_t *)main_thread, SIGUSR1);
        rest(20);
    }
    return NULL;
}

int main(void)
{
    pthread_t t, self = pthread_self();
    struct timespec long_time = {60, 0}, bad = {0, 1000000000l}, none = {0, 0};
    int kept, status, slot = 0;
    times_out("alone", 90, 6, FUTEX_WAIT_PRIVATE);
    times_out("shared", 40, 3, FUTEX_WAIT);
    SHOW(wait_for(&word, FUTEX_WAIT_PRIVATE, 5, &long_time, &kept) == -EAGAIN);
    SHOW(wait_for(&word, FUTEX_WAIT_PRIVATE, 0, &bad, &kept) == -EINVAL);
    SHOW(wait_for(&word, FUTEX_WAIT_PRIVATE, 0, &none, &kept) == -ETIMEDOUT);

    pthread_create(&t, NULL, waker, &slot);
    long ret = 0;
    while (!__atomic_load_n(&slot, __ATOMIC_SEQ_CST) && !ret)
        ret = wait_for(&slot, FUTEX_WAIT_PRIVATE, 0, &long_time, &kept);
    over = 1;
    pthread_join(t, NULL);
    say("woken: %s, kept %d", ret == 0 || ret == -EAGAIN ? "yes" : errno_name(-ret), kept);

    pthread_create(&t, NULL, other_thread, NULL);
    times_out("beside a thread", 60, 4, FUTEX_WAIT_PRIVATE);
    pthread_join(t, NULL);

    struct sigaction action = {.sa_handler = caught, .sa_flags = SA_RESTART};
    sigaction(SIGUSR1, &action, NULL);
    over = 0;
    pthread_create(&t, NULL, signaller, &self);
    ret = wait_for(&word, FUTEX_WAIT_PRIVATE, 0, &long_time, &kept);
    over = 1;
    pthread_join(t, NULL);
    say("by a handler: %s, kept %d", errno_name(-ret), kept);

    int *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t child = fork();
    if (!child) {
        times_out("child", 50, 4, FUTEX_WAIT);
        ret = 0;
        while (!__atomic_load_n(page, __ATOMIC_SEQ_CST) && !ret)
            ret = wait_for(page, FUTEX_WAIT, 0, &long_time, &kept);
        _exit(ret == 0 || ret == -EAGAIN ? 7 : 1);
    }
    rest(260);
    __atomic_store_n(page, 1, __ATOMIC_SEQ_CST);
    while (!waitpid(child, &status, WNOHANG)) {
        syscall(SYS_futex, page, FUTEX_WAKE, 1);
        rest(5);
    }
    say_status("child", status);
    return 0;
}
