/* Names and directories: renameat2 with its flags, linkat with AT_EMPTY_PATH, unlinkat, statx masks, utimensat with
 * UTIME_OMIT, faccessat2, fchmodat, readlinkat, mkdirat, chdir into a directory that is then removed, getcwd of it,
 * fchdir, chroot refused, a directory of 2,000 names read by getdents64 while half of them go. About 0.8 s. */
#include "show.h"
#include <dirent.h>

static void exists(const char *when, const char *names)
{
    char line[64] = {0}, name[2] = {0};
    for (int i = 0; names[i]; i++) {
        name[0] = names[i];
        struct stat st;
        line[i] = lstat(name, &st) ? '-' : S_ISDIR(st.st_mode) ? 'd' : S_ISLNK(st.st_mode) ? 'l' : 'f';
    }
    say("%s: %s", when, line);
}

static void file(const char *name)
{
    int fd = open(name, O_CREAT | O_WRONLY, 0644);
    write(fd, name, strlen(name));
    close(fd);
}

static void big_directory(void)
{
    char name[64];
    mkdir("many", 0700);
    int dir = open("many", O_RDONLY | O_DIRECTORY);
    for (int i = 0; i < 2000; i++) {
        sprintf(name, "a-rather-long-name-%04d", i);
        close(openat(dir, name, O_CREAT | O_WRONLY, 0600));
        if (i % 400 == 0)
            rest(10);
    }
    static char seen[2000], b[8192];
    long calls = 0, twice = 0, odd = 0;
    for (long n; (n = syscall(SYS_getdents64, dir, b, sizeof b)) > 0; calls++) {
        for (long at = 0; at < n;) {
            struct { uint64_t ino; int64_t off; uint16_t len; uint8_t type; char name[]; } *e = (void *)(b + at);
            int i = -1;
            if (sscanf(e->name, "a-rather-long-name-%d", &i) == 1 && i >= 0 && i < 2000)
                twice += seen[i]++;
            at += e->len;
        }
        if (calls == 2) /* entries that were read may be removed, and no other is missing */
            for (int i = 0; i < 2000; i++)
                if (seen[i] && i % 2) {
                    sprintf(name, "a-rather-long-name-%04d", i);
                    odd += unlinkat(dir, name, 0) != 0;
                }
        if (calls % 4 == 0)
            rest(8);
    }
    int missed = 0;
    for (int i = 0; i < 2000; i++)
        missed += !seen[i];
    say("missed %d twice %ld odd %ld, several calls %d", missed, twice, odd, calls > 3);
    SHOW(lseek(dir, 0, SEEK_SET));
    SHOW(syscall(SYS_getdents64, dir, b, 10));
    SHOW(syscall(SYS_getdents64, dir, (void *)8, 1000));
    DIR *d = opendir("many");
    int left = 0;
    long place = 0;
    char there[300] = "";
    for (struct dirent *e; (e = readdir(d)); left++) {
        if (left == 100)
            place = telldir(d);
        if (left == 101)
            strcpy(there, e->d_name);
        int i;
        if (sscanf(e->d_name, "a-rather-long-name-%d", &i) == 1)
            unlinkat(dirfd(d), "none", 0);
    }
    seekdir(d, place);
    struct dirent *e = readdir(d);
    HOLDS(e && (!strcmp(e->d_name, there) || left < 102));
    closedir(d);
    for (int i = 0; i < 2000; i++) {
        sprintf(name, "a-rather-long-name-%04d", i);
        unlinkat(dir, name, 0);
    }
    SHOW(unlinkat(AT_FDCWD, "many", 0));
    SHOW(unlinkat(AT_FDCWD, "many", AT_REMOVEDIR));
    close(dir);
}

int main(void)
{
    file("a"), file("b"), mkdir("d", 0755), mkdir("e", 0755);
    exists("start", "abcde");
    SHOW(renameat2(AT_FDCWD, "a", AT_FDCWD, "b", RENAME_NOREPLACE));
    SHOW(renameat2(AT_FDCWD, "a", AT_FDCWD, "d", RENAME_EXCHANGE));
    exists("exchanged", "abcde");
    SHOW(renameat2(AT_FDCWD, "a", AT_FDCWD, "d", RENAME_EXCHANGE | RENAME_NOREPLACE));
    SHOW(renameat2(AT_FDCWD, "a", AT_FDCWD, "none", RENAME_EXCHANGE));
    SHOW(rename("a", "a/below"));
    SHOW(rename("a", "b"));
    SHOW(rename("b", "a"));
    SHOW(rename("d", "b"));
    rest(60);
    exists("renamed", "abcde");
    file("a/inner");
    SHOW(rename("e", "a"));
    SHOW(rename("a", "e"));
    exists("over an empty one", "abcde");
    int dir = open("e", O_RDONLY | O_DIRECTORY), fd = open("b", O_RDWR);
    SHOW(linkat(dir, "inner", AT_FDCWD, "c", 0));
    SHOW(linkat(fd, "", AT_FDCWD, "g", AT_EMPTY_PATH) == 0 || errno == ENOENT);
    SHOW(linkat(AT_FDCWD, "e", AT_FDCWD, "h", 0));
    SHOW(symlinkat("c", dir, "sym"));
    char b[64] = {0};
    SHOW(readlinkat(dir, "sym", b, 63));
    SHOW(linkat(dir, "sym", AT_FDCWD, "s", 0));
    exists("linked", "abcdes");
    SHOW(mkdirat(dir, "sub", 0711));
    SHOW(mkdirat(dir, "sub", 0711));
    SHOW(mkdirat(99, "sub", 0711));
    SHOW(unlinkat(dir, "sub", 0));
    SHOW(unlinkat(dir, ".", AT_REMOVEDIR));
    SHOW(unlinkat(dir, "sub", AT_REMOVEDIR));

    struct statx sx;
    SHOW(statx(dir, "inner", AT_SYMLINK_NOFOLLOW, STATX_SIZE | STATX_NLINK | STATX_MODE, &sx));
    say("size %ld links %u mode %o", (long)sx.stx_size, sx.stx_nlink, sx.stx_mode);
    SHOW(statx(fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS, &sx));
    say("size %ld uid %d", (long)sx.stx_size, sx.stx_uid == getuid());
    SHOW(statx(fd, "", 0, STATX_BASIC_STATS, &sx));
    SHOW(statx(dir, "inner", 0x8000000, 0, &sx));
    struct timespec t[2] = {{1500000000, 123456789}, {0, UTIME_OMIT}};
    struct stat st;
    SHOW(utimensat(dir, "inner", t, 0));
    t[0].tv_nsec = UTIME_OMIT, t[1] = (struct timespec){1600000000, 987654321};
    SHOW(futimens(fd, t));
    rest(60);
    SHOW(fstatat(dir, "inner", &st, 0));
    say("accessed %ld.%09ld", (long)st.st_atim.tv_sec, st.st_atim.tv_nsec);
    SHOW(fstat(fd, &st));
    say("modified %ld.%09ld", (long)st.st_mtim.tv_sec, st.st_mtim.tv_nsec);
    t[0].tv_nsec = 1000000000;
    SHOW(utimensat(dir, "inner", t, 0));
    SHOW(fchmodat(dir, "inner", 0401, 0));
    SHOW(faccessat(dir, "inner", R_OK, AT_EACCESS));
    SHOW(faccessat(dir, "inner", W_OK, 0));
    SHOW(faccessat(dir, "sym", X_OK, 0));
    SHOW(fchownat(dir, "inner", getuid(), -1, 0));
    SHOW(fchownat(dir, "inner", 0, -1, 0));

    char cwd[4096];
    mkdir("here", 0700);
    SHOW(chdir("here"));
    SHOW(rmdir("../here"));
    SHOW(getcwd(cwd, sizeof cwd) == NULL);
    rest(60);
    SHOW(open("x", O_CREAT | O_WRONLY, 0600));
    SHOW(chdir(".."));
    SHOW(fchdir(dir));
    HOLDS(getcwd(cwd, sizeof cwd) && !strcmp(strrchr(cwd, '/'), "/e"));
    SHOW(chdir("inner"));
    SHOW(fchdir(fd));
    SHOW(chroot("."));
    SHOW(chdir(".."));
    chmod("e", 0000);
    SHOW(chdir("e"));
    SHOW(access("e/inner", F_OK));
    SHOW(faccessat(dir, "inner", F_OK, 0));
    chmod("e", 0700);
    close(dir);
    big_directory();
    return 0;
}
