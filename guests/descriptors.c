/* Descriptors: dup, dup2, dup3, fcntl flags, close-on-exec, record locks and flock between parent
 * and child, owner and lease errors, close_range, then closing every descriptor and working on.
 * Proves that no hidden descriptor shows or can be lost. About 0.8 s. */
#include "show.h"
#include <dirent.h>
#include <sys/file.h>

static int open_ones(void)
{
    int n = 0;
    for (int fd = 0; fd < 1024; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

int main(void)
{
    say("open at the start: %d", open_ones());
    int fd = open("lock", O_CREAT | O_RDWR, 0600);
    SHOW(dup(fd));
    SHOW(dup2(fd, 100));
    SHOW(dup2(fd, fd));
    SHOW(dup3(fd, fd, 0));
    SHOW(dup2(99, 98));
    SHOW(dup2(fd, 100000));
    SHOW(fcntl(fd, F_DUPFD, 200));
    SHOW(fcntl(fd, F_DUPFD_CLOEXEC, 200));
    SHOW(fcntl(201, F_GETFD));
    SHOW(fcntl(fd, F_GETFL));
    SHOW(fcntl(fd, F_SETFL, O_APPEND | O_NONBLOCK));
    SHOW(fcntl(100, F_GETFL));
    SHOW(fcntl(fd, 9999));
    SHOW(fcntl(fd, F_GETOWN));
    SHOW(fcntl(555, F_GETFL));
    SHOW(write(fd, "abc", 3));
    SHOW(lseek(100, 0, SEEK_CUR));
    struct flock l = {F_WRLCK, SEEK_SET, 0, 10};
    SHOW(fcntl(fd, F_SETLK, &l));
    int p[2];
    pipe(p);
    pid_t child = fork();
    if (!child) {
        struct flock c = {F_WRLCK, SEEK_SET, 5, 10};
        SHOW(fcntl(fd, F_SETLK, &c));
        SHOW(fcntl(fd, F_GETLK, &c));
        say("held by the parent %d type %d start %ld len %ld", c.l_pid == getppid(), c.l_type,
            (long)c.l_start, (long)c.l_len);
        int other = open("lock", O_RDWR);
        SHOW(flock(other, LOCK_EX));
        write(p[1], "r", 1);
        c = (struct flock){F_WRLCK, SEEK_SET, 0, 10};
        SHOW(fcntl(fd, F_SETLKW, &c));
        _exit(0);
    }
    char b[16];
    read(p[0], b, 1);
    int other = open("lock", O_RDWR);
    SHOW(flock(other, LOCK_EX | LOCK_NB));
    rest(120);
    l.l_type = F_UNLCK;
    int unlocked = fcntl(fd, F_SETLK, &l), status; /* the child prints now */
    waitpid(child, &status, 0);
    say_status("locker", status);
    say("unlocked %d", unlocked);
    SHOW(flock(other, LOCK_EX | LOCK_NB));
    for (int i = 0; i < 60; i++) {
        int a = dup(fd), c = dup2(fd, 300 + i);
        if (a < 0 || c != 300 + i || close(a) || close(c))
            say("lost at %d", i);
        chew(5 * CHEW_MS);
    }
    close(other), close(p[0]), close(p[1]);
    say("open now: %d", open_ones());
    SHOW(syscall(SYS_close_range, 150, 400, 0));
    SHOW(syscall(SYS_close_range, 100, 100, 4));
    SHOW(fcntl(100, F_GETFD));
    SHOW(syscall(SYS_close_range, 9, 8, 0));
    say("open now: %d", open_ones());
    pid_t before = getpid();
    /* From here on no descriptor is open: nothing can be printed. */
    int bad = syscall(SYS_close_range, 0, ~0u, 0) != 0;
    for (int i = 0; i < 40; i++) {
        chew(8 * CHEW_MS);
        struct timespec t = {0, 6000000};
        nanosleep(&t, NULL);
        bad += getpid() != before || fcntl(i, F_GETFD) >= 0;
    }
    int first = open("after", O_CREAT | O_RDWR, 0644);
    int second = open("after", O_RDONLY);
    char line[64];
    int n = sprintf(line, "descriptors %d and %d, bad %d\n", first, second, bad);
    write(first, line, n);
    child = fork();
    if (!child)
        _exit(open_ones());
    waitpid(child, &status, 0);
    n = sprintf(line, "open in a child: %d\n", WEXITSTATUS(status));
    write(first, line, n);
    return 77;
}
