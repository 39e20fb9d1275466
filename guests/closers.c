/* Programs that close everything, as daemons do: close_range with CLOEXEC and UNSHARE, a double fork with a new
 * session, standard descriptors on /dev/null, exec with nothing open, descriptors handed on by number, a thread with a
 * table of its own. Proves that no descriptor of the engine is visible. About 0.7 s. */
#include "show.h"

#ifndef CLOSE_RANGE_UNSHARE
#define CLOSE_RANGE_UNSHARE 2
#define CLOSE_RANGE_CLOEXEC 4
#endif

static int close_all(unsigned first, unsigned last, unsigned flags) { return syscall(SYS_close_range, first, last, flags); }

static int open_ones(void)
{
    int n = 0;
    for (int fd = 0; fd < 300; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

static void *own_table(void *arg)
{
    /* Shared until now; what this thread closes stays open for the others. */
    int failed = close_all(3, ~0u, CLOSE_RANGE_UNSHARE);
    rest(80);
    return (void *)(long)(failed ? -1 : open_ones());
}

static void daemonize(void)
{
    int p[2], status;
    pipe(p);
    pid_t child = fork();
    if (!child) {
        setsid();
        if (fork())
            _exit(4);
        char line[128];
        dup2(p[1], 100);
        for (int fd = 0; fd < 100; fd++)
            close(fd);
        open("/dev/null", O_RDWR), dup(0), dup(0);
        rest(105);
        chew(20 * CHEW_MS);
        int n = sprintf(line, "daemon: leader %d open %d", getsid(0) == getpid(), open_ones());
        write(100, line, n);
        _exit(0);
    }
    close(p[1]);
    waitpid(child, &status, 0);
    say_status("first fork", status);
    char b[128] = {0};
    for (int n = 0, r; (r = read(p[0], b + n, sizeof b - 1 - n)) > 0; n += r)
        ;
    say("%s", b);
    close(p[0]);
}

int main(int argc, char **argv)
{
    if (argc > 1) {
        int fd = open("by-the-exec", O_CREAT | O_WRONLY, 0600);
        dprintf(fd, "first descriptor %d, open %d\n", fd, open_ones());
        rest(50);
        return 31;
    }
    int status;
    say("open %d", open_ones());
    for (int i = 50; i < 150; i++)
        dup2(1, i);
    SHOW(close_all(60, 69, 0));
    say("open %d", open_ones());
    SHOW(close_all(70, 99, CLOSE_RANGE_CLOEXEC));
    say("open %d, flag %d", open_ones(), fcntl(75, F_GETFD));
    SHOW(close_all(10, 5, 0));
    SHOW(close_all(5, 10, 0x80));
    SHOW(close_all(200, ~0u, CLOSE_RANGE_CLOEXEC));
    rest(80);
    char *count[] = {"sh", "-c", "n=0; for fd in /proc/self/fd/*; do f=${fd##*/}; [ $f -ge 50 ] && n=$((n+1)); done; exit $n", NULL};
    pid_t child = fork();
    if (!child) {
        execv("/bin/sh", count);
        _exit(99);
    }
    waitpid(child, &status, 0);
    say_status("inherited", status);

    pthread_t t;
    void *result;
    pthread_create(&t, NULL, own_table, NULL);
    pthread_join(t, &result);
    say("the thread has %ld, main %d", (long)result, open_ones());
    SHOW(close_all(3, ~0u, 0));
    say("open %d", open_ones());
    daemonize();

    char self[4096] = {0};
    readlink("/proc/self/exe", self, sizeof self - 1);
    child = fork();
    if (!child) {
        close_all(0, ~0u, 0);
        rest(80);
        execl(self, "closers", "again", NULL);
        _exit(98);
    }
    waitpid(child, &status, 0);
    say_status("exec with nothing open", status);
    child = fork();
    if (!child) {
        close_all(0, ~0u, 0);
        int bad = 0;
        for (int i = 0; i < 12; i++) {
            int p[2];
            bad += pipe(p) || p[0] != 0 || p[1] != 1;
            pid_t inner = fork();
            if (!inner) {
                write(1, "inner", 5);
                _exit(close_all(0, ~0u, 0) ? 1 : 0);
            }
            char b[8];
            bad += read(0, b, 8) != 5;
            bad += waitpid(inner, &status, 0) != inner || status;
            close_all(0, ~0u, 0);
            chew(2 * CHEW_MS);
            rest(6);
        }
        _exit(bad);
    }
    waitpid(child, &status, 0);
    say_status("pipes at zero", status);
    return 0;
}
