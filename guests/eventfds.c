/* eventfd: counter and semaphore mode, a reader that blocks until a child or a thread writes, a writer that blocks at
 * the largest value, EAGAIN, EINVAL, poll of both sides, a descriptor inherited by fork. Proves that no count is lost
 * or reported twice. About 0.9 s. */
#include "show.h"
#include <sys/eventfd.h>

static int counter, ready;

static void *giver(void *arg)
{
    uint64_t one = 1;
    for (int i = 0; i < 40; i++) {
        if (write(counter, &one, 8) != 8)
            say("giver: %s", errno_name(errno));
        if (i % 4 == 0)
            rest(8);
    }
    return NULL;
}

static void polled(const char *when, int fd)
{
    struct pollfd f = {fd, POLLIN | POLLOUT};
    int n = poll(&f, 1, 0);
    say("%s: poll %d revents %x", when, n, f.revents);
}

/* A writer must wait until a reader takes from a full counter. */
static void full(void)
{
    int fd = eventfd(0, 0), status;
    uint64_t most = 0xfffffffffffffffeull, n = 0;
    SHOW(write(fd, &most, 8));
    polled("full", fd);
    pid_t child = fork();
    if (!child) {
        uint64_t five = 5;
        _exit(write(fd, &five, 8) == 8 ? 5 : 1);
    }
    rest(190);
    SHOW(waitpid(child, &status, WNOHANG));
    SHOW(read(fd, &n, 8));
    HOLDS(n == most);
    HOLDS(waitpid(child, &status, 0) == child);
    say_status("blocked writer", status);
    SHOW(read(fd, &n, 8));
    say("then %lu", (unsigned long)n);
    close(fd);
}

int main(void)
{
    uint64_t n;
    SHOW(eventfd(0, 0x40));
    int fd = eventfd(7, EFD_NONBLOCK | EFD_CLOEXEC);
    SHOW(fcntl(fd, F_GETFD));
    SHOW(fcntl(fd, F_GETFL) & O_NONBLOCK ? 1 : 0);
    SHOW(read(fd, &n, 7));
    SHOW(read(fd, &n, 8));
    say("value %lu", (unsigned long)n);
    SHOW(read(fd, &n, 8));
    polled("empty", fd);
    n = ~0ull;
    SHOW(write(fd, &n, 8));
    n = 0;
    SHOW(write(fd, &n, 8));
    SHOW(lseek(fd, 0, SEEK_CUR));
    close(fd);

    fd = eventfd(3, EFD_SEMAPHORE | EFD_NONBLOCK);
    for (int i = 0; i < 4; i++) {
        n = 0;
        SHOW(read(fd, &n, 8));
        say("taken %lu", (unsigned long)n);
        rest(30);
    }
    close(fd);

    counter = eventfd(0, EFD_SEMAPHORE);
    pthread_t t;
    pthread_create(&t, NULL, giver, NULL);
    long taken = 0;
    for (int i = 0; i < 40; i++)
        if (read(counter, &n, 8) == 8)
            taken += n;
    pthread_join(t, NULL);
    say("from the thread %ld", taken);

    ready = eventfd(0, 0);
    pid_t children[3];
    for (int i = 0; i < 3; i++)
        if (!(children[i] = fork())) {
            uint64_t mine = 1ull << (8 * i);
            for (int k = 0; k < 20; k++) {
                write(ready, &mine, 8);
                chew(CHEW_MS);
                if (k % 5 == 0)
                    rest(40);
            }
            _exit(i);
        }
    uint64_t sum = 0;
    while (sum != 0x141414 && read(ready, &n, 8) == 8)
        sum += n;
    say("from the children %lx", (unsigned long)sum);
    for (int i = 0; i < 3; i++) {
        int status;
        HOLDS(waitpid(children[i], &status, 0) == children[i]);
        say_status("child", status);
    }
    full();
    chew(60 * CHEW_MS);
    return 0;
}
