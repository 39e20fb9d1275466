/* select, pselect, poll and ppoll with masks: timeouts, several descriptors, a mask that lets a
 * signal in only while waiting, EBADF, EINVAL, POLLNVAL. About 0.9 s. */
#include "show.h"

static volatile int came;
static void on(int s) { came++; }

int main(void)
{
    int p[3][2];
    for (int i = 0; i < 3; i++)
        pipe(p[i]);
    fd_set r, w;
    struct timeval tv = {0, 80000};
    struct timespec t = {0, 80000000};
    FD_ZERO(&r); FD_SET(p[0][0], &r);
    SHOW(select(p[0][0] + 1, &r, NULL, NULL, &tv));
    say("left %ld.%06ld", (long)tv.tv_sec, (long)tv.tv_usec);
    SHOW(FD_ISSET(p[0][0], &r));
    FD_SET(900, &r);
    SHOW(select(901, &r, NULL, NULL, &tv));
    SHOW(select(-1, NULL, NULL, NULL, &tv));
    tv.tv_sec = -1;
    SHOW(select(0, NULL, NULL, NULL, &tv));
    pid_t child = fork();
    if (!child) {
        for (int i = 0; i < 3; i++) {
            rest(60);
            write(p[2 - i][1], "x", 1);
        }
        _exit(0);
    }
    for (int i = 0; i < 3; i++) {
        FD_ZERO(&r); FD_ZERO(&w);
        int top = 0;
        for (int j = 0; j < 3; j++)
            if (j <= 2 - i)
                FD_SET(p[j][0], &r), top = p[j][0] > top ? p[j][0] : top;
        SHOW(select(top + 1, &r, NULL, NULL, NULL) >= 1);
        HOLDS(FD_ISSET(p[2 - i][0], &r));
        char b;
        SHOW(read(p[2 - i][0], &b, 1));
    }
    waitpid(child, NULL, 0);

    signal(SIGUSR1, on);
    sigset_t blocked, open;
    sigemptyset(&blocked), sigemptyset(&open);
    sigaddset(&blocked, SIGUSR1);
    sigprocmask(SIG_BLOCK, &blocked, NULL);
    pid_t me = getpid();
    child = fork();
    if (!child) {
        rest(90);
        kill(me, SIGUSR1);
        _exit(0);
    }
    FD_ZERO(&r); FD_SET(p[0][0], &r);
    SHOW(pselect(p[0][0] + 1, &r, NULL, NULL, NULL, &open));
    say("came %d", came);
    waitpid(child, NULL, 0);
    kill(me, SIGUSR1);
    struct pollfd f[3] = {{p[0][0], POLLIN}, {p[1][1], POLLOUT}, {-5, POLLIN}};
    SHOW(poll(f, 1, 60));
    say("came %d", came);
    SHOW(ppoll(f, 1, &t, &open));
    say("came %d", came);
    SHOW(poll(f, 3, -1));
    say("revents %x %x %x", f[0].revents, f[1].revents, f[2].revents);
    f[2].fd = 500;
    SHOW(poll(f, 3, 0));
    say("revents %x %x %x", f[0].revents, f[1].revents, f[2].revents);
    SHOW(poll((void *)8, 1, 0));
    SHOW(poll(f, 5000000, 0));
    child = fork();
    if (!child) {
        rest(80);
        close(p[0][1]);
        _exit(0);
    }
    close(p[0][1]);
    SHOW(poll(f, 1, -1));
    say("revents %x", f[0].revents);
    waitpid(child, NULL, 0);
    for (int i = 0; i < 15; i++) {
        t = (struct timespec){0, 10000000};
        f[1].fd = -1;
        f[0].fd = p[1][0];
        int n = ppoll(f, 1, &t, NULL);
        if (n)
            say("ppoll %d %s", n, errno_name(errno));
        chew(4 * CHEW_MS);
    }
    sigprocmask(SIG_SETMASK, &open, NULL);
    return 0;
}
