/* Locks on files: record locks that split and join, are lost at close and not inherited by fork, OFD locks that
 * are, flock shared by dup and fork, F_SETLKW that waits, a deadlock that is refused, F_GETLK's answers, locks of
 * a child that is killed, leases. About 0.8 s. */
#include "show.h"
#include <sys/file.h>

static int fd, other;

static int set(int f, int how, int type, long start, long len)
{
    struct flock l = {.l_type = type, .l_whence = SEEK_SET, .l_start = start, .l_len = len};
    return fcntl(f, how, &l);
}

/* The locks as a child sees them. */
static void seen(const char *when, long start, long len)
{
    pid_t me = getpid(), child = fork();
    if (!child) {
        struct flock l = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = start, .l_len = len};
        fcntl(fd, F_GETLK, &l);
        if (l.l_type == F_UNLCK)
            say("%s: free", when);
        else
            say("%s: type %d from %ld for %ld by %s", when, l.l_type, (long)l.l_start, (long)l.l_len,
                l.l_pid == me ? "the parent" : l.l_pid == -1 ? "a description" : "a stranger");
        _exit(0);
    }
    waitpid(child, NULL, 0);
}

int main(void)
{
    int p[2], q[2], status;
    char b;
    pipe(p), pipe(q);
    fd = open("locked", O_CREAT | O_RDWR, 0600);
    SHOW(set(fd, F_SETLK, F_WRLCK, 0, 100));
    SHOW(set(fd, F_SETLK, F_UNLCK, 40, 20));
    seen("below", 0, 40), seen("between", 40, 20), seen("above", 50, 100);
    SHOW(set(fd, F_SETLK, F_RDLCK, 30, 40));
    seen("joined", 0, 1000), seen("read", 35, 1);
    rest(90);
    seen("later", 0, 1000);
    SHOW(set(fd, F_SETLK, F_WRLCK, -5, 3));
    SHOW(set(fd, F_SETLK, 77, 0, 3));
    SHOW(set(fd, F_SETLK, F_WRLCK, 200, 0));
    seen("to the end", 1000000, 1);
    other = open("locked", O_RDONLY);
    SHOW(set(other, F_SETLK, F_WRLCK, 500, 1));
    close(other);
    seen("all lost by a close", 0, 0);

    pid_t child = fork();
    if (!child) {
        set(fd, F_SETLK, F_WRLCK, 0, 10);
        write(p[1], "l", 1);
        read(q[0], &b, 1);
        rest(90);
        set(fd, F_SETLK, F_UNLCK, 0, 10);
        set(fd, F_SETLK, F_WRLCK, 20, 10);
        write(p[1], "l", 1);
        int e = set(fd, F_SETLKW, F_WRLCK, 40, 10);
        _exit(e ? errno : 0);
    }
    read(p[0], &b, 1);
    SHOW(set(fd, F_SETLK, F_WRLCK, 5, 1));
    SHOW(set(fd, F_SETLK, F_WRLCK, 40, 10));
    write(q[1], "g", 1);
    SHOW(set(fd, F_SETLKW, F_WRLCK, 5, 1)); /* waits */
    read(p[0], &b, 1);
    rest(120); /* the child waits for 40 now, or soon */
    chew(10 * CHEW_MS);
    SHOW(set(fd, F_SETLK, F_UNLCK, 40, 10));
    waitpid(child, &status, 0);
    say_status("child", status);
    seen("after it", 20, 100);

    /* Locks of the description: shared with a child, kept until the last closes. */
    other = open("locked", O_RDWR);
    SHOW(set(fd, F_OFD_SETLK, F_WRLCK, 100, 10));
    SHOW(set(other, F_OFD_SETLK, F_WRLCK, 105, 10));
    SHOW(set(other, F_SETLK, F_WRLCK, 105, 10));
    seen("description", 100, 10);
    child = fork();
    if (!child) {
        close(other);
        SHOW(set(fd, F_OFD_SETLK, F_RDLCK, 100, 5));
        rest(90);
        _exit(0);
    }
    waitpid(child, NULL, 0);
    seen("changed by the child", 100, 5);
    child = fork();
    if (!child) {
        rest(90);
        set(fd, F_OFD_SETLK, F_UNLCK, 100, 10);
        _exit(0);
    }
    SHOW(set(other, F_OFD_SETLKW, F_WRLCK, 100, 10));
    waitpid(child, NULL, 0);
    close(other);

    int dup_ = dup(fd);
    SHOW(flock(fd, LOCK_EX));
    other = open("locked", O_RDWR);
    SHOW(flock(other, LOCK_SH | LOCK_NB));
    SHOW(flock(dup_, LOCK_SH));
    SHOW(flock(other, LOCK_SH | LOCK_NB));
    SHOW(flock(fd, LOCK_EX | LOCK_NB));
    SHOW(flock(other, LOCK_UN));
    SHOW(flock(fd, LOCK_EX | LOCK_NB));
    child = fork();
    if (!child) {
        rest(105);
        flock(dup_, LOCK_UN); /* the same description */
        _exit(0);
    }
    SHOW(flock(other, LOCK_EX));
    waitpid(child, NULL, 0);
    SHOW(flock(other, 77));
    child = fork();
    if (!child) {
        int own = open("locked", O_RDWR);
        flock(own, LOCK_EX);
        set(own, F_SETLK, F_WRLCK, 0, 0);
        write(p[1], "l", 1);
        for (;;)
            rest(1000);
    }
    SHOW(flock(other, LOCK_UN));
    read(p[0], &b, 1);
    SHOW(flock(other, LOCK_EX | LOCK_NB));
    SHOW(set(other, F_SETLK, F_WRLCK, 0, 1));
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    SHOW(flock(other, LOCK_EX | LOCK_NB));
    SHOW(set(other, F_SETLK, F_WRLCK, 0, 1));

    /* Two that wait for each other. */
    int ready[2], deadlocks = 0;
    pipe(ready);
    set(fd, F_SETLK, F_UNLCK, 0, 0);
    set(fd, F_SETLK, F_WRLCK, 0, 1);
    child = fork();
    if (!child) {
        set(fd, F_SETLK, F_WRLCK, 1, 1);
        write(ready[1], "r", 1);
        int e = set(fd, F_SETLKW, F_WRLCK, 0, 1);
        _exit(e && errno == EDEADLK);
    }
    read(ready[0], &b, 1);
    rest(60);
    if (set(fd, F_SETLKW, F_WRLCK, 1, 1) && errno == EDEADLK)
        deadlocks++;
    set(fd, F_SETLK, F_UNLCK, 0, 0);
    waitpid(child, &status, 0);
    say("deadlocks %d", deadlocks + WEXITSTATUS(status));
    SHOW(fcntl(fd, F_GETLEASE));
    SHOW(fcntl(open("leased", O_CREAT | O_RDONLY, 0600), F_SETLEASE, F_RDLCK));
    return 0;
}
