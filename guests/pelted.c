/* A handler without SA_RESTART runs every 1.5 ms: calls that do not wait never fail for it, one that does fails with
 * EINTR, a shared futex among them. About 1.2 s. */
#include "show.h"
#include <linux/futex.h>

static volatile long came;
static void on(int s) { came++; }

static void every(long us)
{
    struct itimerval t = {{0, us}, {0, us}};
    setitimer(ITIMER_REAL, &t, NULL);
}

int main(void)
{
    struct sigaction a = {.sa_handler = on};
    long bad[6] = {0};
    struct timespec now, end;
    sigaction(SIGALRM, &a, NULL);
    every(1500);
    clock_gettime(CLOCK_MONOTONIC, &end);
    for (end.tv_sec++; clock_gettime(CLOCK_MONOTONIC, &now), now.tv_sec < end.tv_sec || now.tv_nsec < end.tv_nsec;) {
        char b;
        bad[0] += (long)syscall(SYS_getppid) < 0;
        int fd = open("/etc/passwd", O_RDONLY);
        bad[1] += fd < 0;
        bad[2] += read(fd, &b, 1) != 1;
        void *p = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0);
        bad[3] += p == MAP_FAILED;
        munmap(p, 4096);
        bad[4] += close(fd) != 0;
        bad[5] += getpgid(0) < 0;
    }
    for (int i = 0; i < 6; i++)
        SHOW(bad[i]);
    HOLDS(came > 10);
    int *word = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    every(60000);
    SHOW(syscall(SYS_futex, word, FUTEX_WAIT, 0, NULL, NULL, 0));
    struct timespec t = {5, 0};
    SHOW(nanosleep(&t, NULL));
    return 0;
}
