/* A time namespace of the program's own: unshare(CLONE_NEWUSER | CLONE_NEWTIME) and an offset of 100,000 s. The child
 * has CLOCK_MONOTONIC and CLOCK_BOOTTIME so much ahead at each reading, by the vDSO and by system call; so do a thread
 * of its own, its child and a new program; absolute sleeps and timers end by them; the parent's clocks stay. Prints the
 * errno and ends where it is refused. About 1 s. */
#include "show.h"
#include <sys/timerfd.h>

#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x80
#endif
#define AHEAD 100000

static const clockid_t ids[] = {CLOCK_MONOTONIC, CLOCK_MONOTONIC_RAW, CLOCK_MONOTONIC_COARSE, CLOCK_BOOTTIME};
#define N 4
static double base[N]; /* as the parent saw them at its start */

static double read_clock(clockid_t id, int by_call)
{
    struct timespec t;
    if (by_call ? syscall(SYS_clock_gettime, id, &t) : clock_gettime(id, &t))
        return -1;
    return t.tv_sec + t.tv_nsec / 1e9;
}

/* Ahead of what the parent saw by as much, and by what the run may have lasted since. */
static int ahead(double t, double from, double by) { return t - from >= by && t - from < by + 3600; }

static void rounds(const char *who, int times, double by)
{
    int wrong[2] = {0}, back = 0;
    double last = 0;
    for (int k = 0; k < times; k++) {
        for (int c = 0; c < 2 * N; c++)
            wrong[c % 2] += !ahead(read_clock(ids[c / 2], c % 2), base[c / 2], by);
        for (int i = 0; i < 6; i++) {
            double t = read_clock(CLOCK_MONOTONIC, i % 2);
            back += t < last;
            last = t;
        }
        k % 2 ? rest(8) : (void)chew(7 * CHEW_MS);
    }
    say("%s: wrong by vDSO %d, by call %d, went back %d", who, wrong[0], wrong[1], back);
}

static void *thread(void *arg)
{
    rounds("thread", 10, AHEAD);
    return NULL;
}

static void waits(void)
{
    struct timespec t = soon(CLOCK_MONOTONIC, 50);
    double end = t.tv_sec + t.tv_nsec / 1e9;
    SHOW(clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL));
    HOLDS(now() >= end - 1e-6);
    HOLDS(now() < end + 3600);
    int fd = timerfd_create(CLOCK_BOOTTIME, 0);
    struct itimerspec its = {.it_value = soon(CLOCK_BOOTTIME, 50)};
    uint64_t n = 0;
    end = its.it_value.tv_sec + its.it_value.tv_nsec / 1e9;
    SHOW(timerfd_settime(fd, TFD_TIMER_ABSTIME, &its, NULL));
    SHOW(read(fd, &n, sizeof n));
    HOLDS(read_clock(CLOCK_BOOTTIME, 0) >= end - 1e-6);
    close(fd);
    double up = 0;
    FILE *f = fopen("/proc/uptime", "r");
    HOLDS(fscanf(f, "%lf", &up) == 1);
    fclose(f);
    HOLDS(ahead(up, base[3], AHEAD - 1));
}

static void remember(char *text) { sprintf(text, "%a %a %a %a", base[0], base[1], base[2], base[3]); }

int main(int argc, char **argv)
{
    char link[4096] = {0}, text[200], own[64] = {0}, next[64] = {0};
    int status;
    if (argc > 1) {
        sscanf(argv[1], "%la %la %la %la", &base[0], &base[1], &base[2], &base[3]);
        rounds("new program", 14, AHEAD);
        return 5;
    }
    readlink("/proc/self/exe", link, sizeof link - 1);
    for (int i = 0; i < N; i++)
        base[i] = read_clock(ids[i], 1);
    if (SHOW(unshare(CLONE_NEWUSER | CLONE_NEWTIME)))
        return 0;
    int fd = open("/proc/self/timens_offsets", O_WRONLY);
    char offsets[100];
    sprintf(offsets, "monotonic %d 0\nboottime %d 0\n", AHEAD, AHEAD);
    HOLDS(write(fd, offsets, strlen(offsets)) == strlen(offsets));
    close(fd);
    readlink("/proc/self/ns/time", own, sizeof own - 1);
    readlink("/proc/self/ns/time_for_children", next, sizeof next - 1);
    HOLDS(strcmp(own, next));
    rounds("parent", 10, 0);
    pid_t child = fork();
    if (!child) {
        rounds("child", 40, AHEAD);
        waits();
        pthread_t t;
        pthread_create(&t, NULL, thread, NULL);
        pthread_join(t, NULL);
        child = fork();
        if (!child) {
            rounds("grandchild", 14, AHEAD);
            remember(text);
            execl(link, "timespaces", text, NULL);
            _exit(1);
        }
        HOLDS(waitpid(child, &status, 0) == child);
        say_status("grandchild", status);
        _exit(0);
    }
    HOLDS(waitpid(child, &status, 0) == child);
    say_status("child", status);
    rounds("parent", 10, 0);
    return 0;
}
