/* membarrier: each private command is refused until the process has registered for it, then done each time, wherever
 * the process runs: by its first thread, another, a child of fork; a new program has lost the registrations and may
 * register again. MEMBARRIER_CMD_GET_REGISTRATIONS (Linux 6.3) returns the registrations. About 0.8 s. */
#include "show.h"
#include <linux/membarrier.h>

#ifndef MEMBARRIER_CMD_PRIVATE_EXPEDITED_RSEQ
#define MEMBARRIER_CMD_PRIVATE_EXPEDITED_RSEQ (1 << 7)
#define MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_RSEQ (1 << 8)
#endif
#define GET_REGISTRATIONS (1 << 9)
#define FLAG_CPU 1

static const int commands[] = {MEMBARRIER_CMD_PRIVATE_EXPEDITED, MEMBARRIER_CMD_PRIVATE_EXPEDITED_SYNC_CORE,
    MEMBARRIER_CMD_PRIVATE_EXPEDITED_RSEQ, MEMBARRIER_CMD_GLOBAL_EXPEDITED};

static long barrier(int command, int flags, int cpu) { return syscall(SYS_membarrier, command, flags, cpu); }

static const char *answer(long r)
{
    static __thread char text[8][24];
    static __thread int turn;
    char *to = text[turn++ % 8];
    sprintf(to, "%ld%s%s", r, r < 0 ? " " : "", r < 0 ? errno_name(errno) : "");
    return to;
}

static void all(const char *who)
{
    const char *a[4];
    for (int i = 0; i < 4; i++)
        a[i] = answer(barrier(commands[i], 0, 0));
    say("%s: plain %s, core %s, rseq %s, global %s; registered %s", who, a[0], a[1], a[2], a[3],
        answer(barrier(GET_REGISTRATIONS, 0, 0)));
}

/* No call is refused while moves happen during and between calls. */
static void rounds(const char *who, int times)
{
    int refused[5] = {0};
    for (int k = 0; k < times; k++) {
        for (int i = 0; i < 4; i++)
            refused[i] += barrier(commands[i], 0, 0) != 0;
        refused[4] += barrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED_RSEQ, FLAG_CPU, 0) != 0;
        k % 2 ? rest(9) : (void)chew(8 * CHEW_MS);
    }
    say("%s: refused %d %d %d %d %d of %d", who, refused[0], refused[1], refused[2], refused[3], refused[4], times);
}

static void *thread(void *arg)
{
    all("thread");
    SHOW(barrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_RSEQ, 0, 0)); /* for all threads */
    rounds("thread", 12);
    return NULL;
}

int main(int argc, char **argv)
{
    if (argc > 1) {
        all("new program");
        rest(40);
        SHOW(barrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0));
        rest(40);
        all("new program, registered");
        return 6;
    }
    char link[4096] = {0};
    int status;
    readlink("/proc/self/exe", link, sizeof link - 1);
    long known = barrier(MEMBARRIER_CMD_QUERY, 0, 0);
    for (int i = 0; i < 4; i++)
        say("command %d: %s", commands[i], known > 0 && known & commands[i] ? "known" : "unknown");
    all("before");
    SHOW(barrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0));
    all("registered for one");
    rest(50);
    all("registered for one, later");
    SHOW(barrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_SYNC_CORE, 0, 0));
    SHOW(barrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_SYNC_CORE, 0, 0)); /* again: no error */
    chew(30 * CHEW_MS);
    all("registered for two");
    pthread_t t;
    pthread_create(&t, NULL, thread, NULL);
    pthread_join(t, NULL);
    SHOW(barrier(MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0, 0));
    all("registered for all");
    rounds("first thread", 24);
    pid_t child = fork();
    if (!child) {
        all("child");
        rounds("child", 12);
        execl(link, "registrations", "again", NULL);
        _exit(1);
    }
    HOLDS(waitpid(child, &status, 0) == child);
    say_status("child", status);
    child = vfork(); /* the same memory, so the same registrations */
    if (!child) {
        barrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
        _exit(barrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED_SYNC_CORE, 0, 0) ? 1 : 0);
    }
    HOLDS(waitpid(child, &status, 0) == child);
    say_status("child by vfork", status);
    SHOW(barrier(1 << 20, 0, 0));
    SHOW(barrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED, 1, 0));
    SHOW(barrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 2, 0));
    rest(40);
    all("end");
    return 0;
}
