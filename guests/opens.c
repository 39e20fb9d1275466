/* open in all its ways: O_TMPFILE that gets a name, O_PATH and the calls it does not permit, O_EXCL races between
 * processes, O_APPEND by three writers, O_NOFOLLOW, O_DIRECTORY, O_TRUNC, openat2 with RESOLVE_*, O_CLOEXEC over exec,
 * umask, opening by a removed directory. About 0.7 s. */
#include "show.h"
#include <linux/openat2.h>

static int resolve(int dir, const char *path, uint64_t flags, uint64_t how)
{
    struct open_how h = {.flags = flags, .mode = flags & O_CREAT ? 0600 : 0, .resolve = how};
    return syscall(SYS_openat2, dir, path, &h, sizeof h);
}

/* Prints whether it opened; the number does not matter. */
#define OPENS(call)                                                                                \
    ({                                                                                             \
        errno = 0;                                                                                 \
        int fd_ = (call);                                                                          \
        say("%s: %s", #call, fd_ < 0 ? errno_name(errno) : "opened");                              \
        if (fd_ >= 0)                                                                              \
            close(fd_);                                                                            \
    })

static void races(void)
{
    pid_t children[3];
    int won = 0;
    for (int i = 0; i < 3; i++)
        if (!(children[i] = fork())) {
            char name[32];
            int mine = 0;
            int log = open("log", O_CREAT | O_WRONLY | O_APPEND, 0600);
            for (int n = 0; n < 30; n++) {
                sprintf(name, "race-%d", n);
                int fd = open(name, O_CREAT | O_EXCL | O_WRONLY, 0600);
                mine += fd >= 0;
                close(fd);
                char line[33];
                memset(line, 'a' + i, 32), line[31] = '\n';
                write(log, line, 32);
                if (n % 10 == 0)
                    rest(35);
            }
            _exit(mine);
        }
    for (int i = 0; i < 3; i++) {
        int status;
        waitpid(children[i], &status, 0);
        won += WEXITSTATUS(status);
    }
    int log = open("log", O_RDONLY), whole = 0, seen[3] = {0};
    char line[32];
    while (read(log, line, 32) == 32) {
        int same = line[31] == '\n';
        for (int i = 1; i < 31; i++)
            same &= line[i] == line[0];
        whole += same, seen[line[0] - 'a']++;
    }
    say("won %d, lines %d %d %d, whole %d", won, seen[0], seen[1], seen[2], whole);
    for (int n = 0; n < 30; n++) {
        char name[32];
        sprintf(name, "race-%d", n);
        unlink(name);
    }
    truncate("log", 0); /* the order of their lines is random */
    close(log);
}

int main(int argc, char **argv)
{
    if (argc > 1) {
        say("after exec: 60 %s, 61 %s", fcntl(60, F_GETFD) < 0 ? "closed" : "open", fcntl(61, F_GETFD) < 0 ? "closed" : "open");
        return 9;
    }
    struct stat st;
    char path[64], b[64] = {0};
    int tmp = open(".", O_TMPFILE | O_RDWR, 0640);
    HOLDS(tmp >= 0);
    write(tmp, "nameless until now", 18);
    SHOW(fstat(tmp, &st));
    say("links %ld", (long)st.st_nlink);
    rest(110);
    sprintf(path, "/proc/self/fd/%d", tmp);
    SHOW(linkat(AT_FDCWD, path, AT_FDCWD, "named", AT_SYMLINK_FOLLOW));
    int fd = open("named", O_RDONLY);
    SHOW(read(fd, b, 64));
    say("%s", b);
    close(fd), close(tmp);
    tmp = open(".", O_TMPFILE | O_RDWR | O_EXCL, 0600);
    sprintf(path, "/proc/self/fd/%d", tmp);
    SHOW(linkat(AT_FDCWD, path, AT_FDCWD, "never", AT_SYMLINK_FOLLOW));
    close(tmp);

    fd = open("named", O_PATH);
    SHOW(read(fd, b, 1));
    SHOW(fchmod(fd, 0600));
    SHOW(fstat(fd, &st));
    SHOW(fcntl(fd, F_GETFL) == O_PATH);
    SHOW(lseek(fd, 0, SEEK_SET));
    SHOW((long)mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0));
    sprintf(path, "/proc/self/fd/%d", fd);
    int again = open(path, O_RDONLY);
    SHOW(read(again, b, 5));
    close(fd), close(again);
    symlink("named", "link"), symlink("/etc", "etc"), symlink("..", "up");
    mkdir("dir", 0700);
    OPENS(open("link", O_RDONLY));
    OPENS(open("link", O_RDONLY | O_NOFOLLOW));
    fd = open("link", O_PATH | O_NOFOLLOW);
    memset(b, 0, sizeof b);
    SHOW(readlinkat(fd, "", b, sizeof b));
    say("%s", b);
    close(fd);
    OPENS(open("named", O_RDONLY | O_DIRECTORY));
    OPENS(open("dir", O_RDWR));
    OPENS(open("dir", O_CREAT | O_RDONLY, 0600));
    OPENS(open("new/", O_CREAT | O_RDWR, 0600));
    OPENS(open("named", O_RDONLY | O_TRUNC));
    SHOW(stat("named", &st));
    say("size %ld", (long)st.st_size);
    rest(110);

    int dir = open("dir", O_RDONLY | O_DIRECTORY);
    OPENS(resolve(AT_FDCWD, "named", O_RDONLY, 0));
    OPENS(resolve(AT_FDCWD, "etc/hostname", O_PATH, RESOLVE_NO_SYMLINKS));
    OPENS(resolve(AT_FDCWD, "etc/passwd", O_RDONLY, RESOLVE_BENEATH));
    OPENS(resolve(dir, "../named", O_RDONLY, RESOLVE_BENEATH));
    OPENS(resolve(dir, "../named", O_RDONLY, RESOLVE_IN_ROOT));
    OPENS(resolve(dir, "made", O_CREAT | O_WRONLY, RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS));
    OPENS(resolve(AT_FDCWD, "/proc/self/exe", O_RDONLY, RESOLVE_NO_MAGICLINKS));
    OPENS(resolve(AT_FDCWD, "/proc/self/status", O_RDONLY, RESOLVE_NO_XDEV));
    OPENS(resolve(AT_FDCWD, "named", O_RDONLY, 0x1000));
    OPENS(syscall(SYS_openat2, AT_FDCWD, "named", b, 4));
    umask(077);
    fd = open("masked", O_CREAT | O_WRONLY, 0666);
    fstat(fd, &st);
    say("mode %o", st.st_mode & 07777);
    close(fd);
    umask(022);
    races();
    unlink("dir/made");
    rmdir("dir");
    OPENS(openat(dir, "x", O_CREAT | O_RDWR, 0600));
    OPENS(openat(dir, "..", O_RDONLY));
    OPENS(openat(99, "x", O_RDONLY));
    OPENS(openat(99, "/", O_RDONLY));
    char self[4096] = {0};
    readlink("/proc/self/exe", self, sizeof self - 1);
    pid_t child = fork();
    if (!child) {
        dup3(open("named", O_RDONLY), 60, O_CLOEXEC);
        dup2(60, 61);
        rest(90);
        execl(self, "opens", "again", NULL);
        _exit(1);
    }
    int status;
    waitpid(child, &status, 0);
    say_status("exec", status);
    chew(40 * CHEW_MS);
    rest(145);
    return 0;
}
