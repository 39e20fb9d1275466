/* What stat, lstat, fstatat and statx say of files and directories that another process writes, cuts off, links, renames,
 * chmods, reads and replaces meanwhile: told by a pipe, by memory, and not told at all. An open for writing that does not
 * wait finds no lease. About 2 s. */
#include "show.h"
#include <sys/stat.h>
#include <sys/time.h>

#define ROUNDS 40
#define BESIDE 40

static int to[2], from[2];
static volatile int *flag;

static void go_on(void)
{
    char x;
    if (read(to[0], &x, 1) != 1)
        _exit(0);
}
static void done(void)
{
    if (write(from[1], "x", 1) != 1)
        _exit(98);
}
static void ask(void)
{
    char x;
    if (write(to[1], "x", 1) != 1 || read(from[0], &x, 1) != 1)
        say("the other has ended");
}

static int same(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_mode == b->st_mode && a->st_nlink == b->st_nlink &&
        a->st_uid == b->st_uid && a->st_gid == b->st_gid && a->st_size == b->st_size && a->st_blocks == b->st_blocks &&
        a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec &&
        a->st_ctim.tv_nsec == b->st_ctim.tv_nsec && a->st_blksize == b->st_blksize && a->st_rdev == b->st_rdev;
}

/* The ways to ask agree, also with what an open file says. */
static int look(const char *path, struct stat *st)
{
    struct stat l, at, f;
    struct statx x;
    int fd = open(path, O_RDONLY | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &f) || stat(path, st) || lstat(path, &l) || fstatat(AT_FDCWD, path, &at, 0))
        return -1;
    close(fd);
    if (statx(AT_FDCWD, path, 0, STATX_BASIC_STATS | STATX_BTIME, &x) || x.stx_size != (unsigned long)st->st_size ||
        x.stx_mode != st->st_mode || x.stx_nlink != st->st_nlink || x.stx_ino != st->st_ino ||
        x.stx_mtime.tv_nsec != st->st_mtim.tv_nsec || x.stx_blocks != (unsigned long)st->st_blocks)
        return -1;
    return same(st, &l) && same(st, &at) && same(st, &f) ? 0 : -1;
}

static void fill(const char *path, int flags, long n)
{
    static char bytes[8192];
    int fd = open(path, O_WRONLY | flags, 0644);
    if (write(fd, bytes, n) != n)
        _exit(97);
    close(fd);
}

static void other(void)
{
    struct timeval then[2] = {{1000, 0}, {2000, 0}};
    char name[32], buf[16];
    for (int i = 0; i < ROUNDS; i++) {
        go_on();
        fill("d/file", O_APPEND, 5);
        done(), go_on();
        truncate("d/file", 3);
        done(), go_on();
        chmod("d/file", 0600);
        done(), go_on();
        link("d/file", "d/other");
        done(), go_on();
        unlink("d/file");
        rename("d/other", "d/file");
        done(), go_on();
        utimes("d/file", then);
        done(), go_on();
        int fd = open("d/file", O_RDONLY);
        if (read(fd, buf, 3) != 3)
            _exit(97);
        close(fd);
        done(), go_on();
        fill("d/new", O_CREAT | O_TRUNC, 7);
        rename("d/new", "d/file");
        done(), go_on();
        mkdir("d/sub", 0755);
        done(), go_on();
        chmod("d", 0711);
        done(), go_on();
        rmdir("d/sub"), chmod("d", 0755);
        fd = open("d/file", O_RDWR);
        char *at = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        at[0]++;
        munmap(at, 4096), close(fd);
        done(), go_on();
        snprintf(name, sizeof name, "d/beside%d", i);
        fill(name, O_APPEND, i + 1);
        fill("d/file", O_TRUNC, 10);
        done();
    }
    for (int i = 0; i < ROUNDS; i++) {
        go_on();
        rest(1);
        truncate("d/file", i);
        *flag = i + 1;
    }
    _exit(0);
}

int main(void)
{
    int wrong[14] = {0};
    struct stat st, dir, before;
    pipe(to), pipe(from);
    flag = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    mkdir("d", 0755);
    fill("d/file", O_CREAT, 10);
    for (int i = 0; i < BESIDE; i++) {
        char name[32];
        snprintf(name, sizeof name, "d/beside%d", i);
        fill(name, O_CREAT, 100);
    }
    pid_t child = fork();
    if (!child) {
        close(to[1]), close(from[0]);
        other();
    }
    close(to[0]), close(from[1]);
    for (int i = 0; i < ROUNDS; i++) {
        char name[32];
        long ino = 0;
        for (int k = 0; k < 3; k++)
            wrong[0] += look("d/file", &st) || st.st_size != 10 || stat("d", &dir) || dir.st_nlink != 2;
        for (int k = i; k < BESIDE; k++) {
            snprintf(name, sizeof name, "d/beside%d", k);
            wrong[1] += lstat(name, &st) || st.st_size != 100 || st.st_nlink != 1;
        }
        ask();
        wrong[2] += look("d/file", &st) || st.st_size != 15;
        ask();
        wrong[3] += look("d/file", &st) || st.st_size != 3;
        ask();
        wrong[4] += look("d/file", &st) || (st.st_mode & 0777) != 0600;
        ask();
        wrong[5] += look("d/file", &st) || st.st_nlink != 2 || look("d/other", &dir) || !same(&st, &dir);
        ino = st.st_ino;
        ask();
        wrong[6] += look("d/file", &st) || st.st_nlink != 1 || st.st_ino != (unsigned long)ino;
        ask();
        wrong[7] += look("d/file", &st) || st.st_atime != 1000 || st.st_mtime != 2000;
        ask();
        wrong[8] += stat("d/file", &st) || st.st_atime == 1000;
        ask();
        wrong[9] += look("d/file", &st) || st.st_size != 7 || st.st_ino == (unsigned long)ino || (st.st_mode & 0777) != 0644;
        stat("d", &before);
        ask();
        wrong[10] += stat("d", &dir) || dir.st_nlink != before.st_nlink + 1;
        ask();
        wrong[11] += stat("d", &dir) || (dir.st_mode & 0777) != 0711;
        look("d/file", &before);
        ask();
        wrong[12] += look("d/file", &st) || stat("d", &dir) || dir.st_nlink != 2;
        ask();
        wrong[2] += look("d/file", &st) || st.st_size != 10;
        snprintf(name, sizeof name, "d/beside%d", i);
        wrong[2] += lstat(name, &st) || st.st_size != 101 + i;
        /* Another process' lease would fail it. */
        for (int k = 0; k < 2; k++) {
            int fd;
            stat("d/file", &st);
            fd = open("d/file", O_WRONLY | O_NONBLOCK);
            wrong[13] += fd < 0;
            close(fd);
        }
        if (i % 8 == 0)
            chew(3 * CHEW_MS);
    }
    for (int i = 0; i < ROUNDS; i++) {
        char x = 0;
        write(to[1], &x, 1);
        while (*flag != i + 1)
            stat("d/file", &st);
        wrong[3] += stat("d/file", &st) || st.st_size != i;
    }
    close(to[1]);
    waitpid(child, NULL, 0);
    for (int k = 0; k < 14; k++)
        say("%d: wrong %d", k, wrong[k]);
    return 0;
}
