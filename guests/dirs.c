/* Directories, links and permissions: mkdir, rmdir, getdents, symlink, readlink, link, chmod,
 * umask, chdir, openat and friends, rename across directories, utimensat, errors (EACCES, ELOOP,
 * ENOTEMPTY, EEXIST, ENAMETOOLONG). Proves paths are those of home. About 0.6 s. */
#include "show.h"
#include <dirent.h>
#include <sys/sysmacros.h>

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void listing(const char *path)
{
    char *names[600];
    int n = 0;
    DIR *d = opendir(path);
    if (!d) {
        say("opendir %s: %s", path, errno_name(errno));
        return;
    }
    for (struct dirent *e; (e = readdir(d));) {
        names[n++] = strdup(e->d_name);
        if (n % 50 == 0)
            rest(15);
    }
    closedir(d);
    qsort(names, n, sizeof *names, by_name);
    uint64_t h = 0;
    for (int i = 0; i < n; i++)
        h = h * 31 + hash(names[i], strlen(names[i]));
    say("%s has %d names, hash %lx", path, n, h);
}

int main(void)
{
    char b[4096], name[300];
    struct stat st;
    SHOW(mkdir("d", 0755));
    SHOW(mkdir("d", 0755));
    SHOW(mkdir("none/d", 0755));
    int d = open("d", O_RDONLY | O_DIRECTORY);
    for (int i = 0; i < 300; i++) {
        sprintf(name, "entry-%03d", i);
        int fd = openat(d, name, O_CREAT | O_WRONLY, 0600 + i % 8);
        if (fd < 0)
            say("openat %s: %s", name, errno_name(errno));
        close(fd);
    }
    listing("d");
    for (int i = 0; i < 300; i += 2) {
        sprintf(name, "entry-%03d", i);
        if (unlinkat(d, name, 0))
            say("unlinkat %s: %s", name, errno_name(errno));
    }
    chew(30 * CHEW_MS);
    listing("d");
    SHOW(rmdir("d"));
    SHOW(symlink("d/entry-001", "link"));
    SHOW(symlink("loop", "loop"));
    SHOW(symlink("nowhere", "dangling"));
    memset(b, 0, sizeof b);
    SHOW(readlink("link", b, sizeof b));
    say("link is '%s'", b);
    SHOW(readlink("link", b, 3));
    SHOW(readlink("d", b, 10));
    SHOW(open("loop", O_RDONLY));
    SHOW(open("dangling", O_RDONLY));
    SHOW(open("link", O_RDONLY | O_NOFOLLOW));
    SHOW(lstat("link", &st));
    say("lstat mode %o size %ld", st.st_mode, (long)st.st_size);
    SHOW(link("d/entry-001", "hard"));
    SHOW(stat("hard", &st));
    say("hard: links %ld mode %o", (long)st.st_nlink, st.st_mode);
    SHOW(link("d", "dirlink"));
    rest(60);
    SHOW(chmod("hard", 0400));
    SHOW(open("hard", O_WRONLY));
    SHOW(chmod("hard", 0000));
    SHOW(open("hard", O_RDONLY));
    SHOW(chmod("/etc/passwd", 0666));
    SHOW(chown("hard", 0, 0));
    SHOW(mkdir("closed", 0300));
    SHOW(open("closed", O_RDONLY | O_DIRECTORY));
    SHOW(umask(077));
    SHOW(mkdir("masked", 0777));
    SHOW(umask(022));
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = 0;
    SHOW(mkdir(name, 0755));
    SHOW(rename("hard", "d/moved"));
    SHOW(rename("masked", "d"));
    SHOW(renameat2(AT_FDCWD, "link", AT_FDCWD, "dangling", RENAME_NOREPLACE));
    SHOW(renameat2(AT_FDCWD, "link", AT_FDCWD, "dangling", RENAME_EXCHANGE));
    chew(60 * CHEW_MS);
    SHOW(fchdir(d));
    listing(".");
    SHOW(access("entry-001", F_OK));
    SHOW(faccessat(AT_FDCWD, "entry-003", W_OK, 0));
    SHOW(fchmodat(d, "entry-003", 0751, 0));
    SHOW(fstatat(d, "entry-003", &st, 0));
    say("mode %o", st.st_mode);
    SHOW(chdir(".."));
    struct timespec times[2] = {{1000000000, 5}, {1000000001, 6}};
    SHOW(utimensat(AT_FDCWD, "d/entry-003", times, 0));
    SHOW(stat("d/entry-003", &st));
    say("times %ld.%ld %ld.%ld", (long)st.st_atim.tv_sec, st.st_atim.tv_nsec,
        (long)st.st_mtim.tv_sec, st.st_mtim.tv_nsec);
    SHOW(mkfifo("fifo", 0640));
    SHOW(mknod("device", S_IFCHR | 0600, makedev(1, 3)));
    SHOW(open("fifo", O_WRONLY | O_NONBLOCK));
    HOLDS(realpath("d/../d/entry-003", b) && strstr(b, "/d/entry-003"));
    for (int i = 0; i < 20; i++) {
        struct statx sx;
        if (statx(d, "entry-005", 0, STATX_BASIC_STATS, &sx) || sx.stx_size)
            say("statx %s", errno_name(errno));
        rest(10);
        chew(4 * CHEW_MS);
    }
    SHOW(chroot("."));
    return 0;
}
