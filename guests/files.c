/* Regular files: open, read, write, lseek, pread, pwrite, readv, writev, truncate, rename, unlink, stat, O_APPEND,
 * O_EXCL, sparse files, a read of 3 MB at once, errors (ENOENT, EBADF, EFAULT, EINVAL, EISDIR, ENOTDIR, EEXIST). Proves
 * that offsets, data and errno are those of home. About 0.7 s. */
#include "show.h"

static char big[3 << 20], copy[3 << 20];

static void errors(void)
{
    char b[16];
    SHOW(open("none", O_RDONLY));
    SHOW(open("", O_RDONLY));
    SHOW(open((char *)8, O_RDONLY));
    SHOW(open("plain/below", O_RDONLY));
    SHOW(open(".", O_WRONLY));
    SHOW(open("plain", O_CREAT | O_EXCL | O_WRONLY, 0600));
    SHOW(read(-1, b, 1));
    SHOW(write(777, b, 1));
    int fd = open("plain", O_RDWR);
    SHOW(read(fd, (void *)8, 10));
    SHOW(write(fd, (void *)8, 10));
    SHOW(lseek(fd, -1, SEEK_SET));
    SHOW(lseek(fd, 0, 99));
    SHOW(pread(fd, b, 4, -1));
    SHOW(ftruncate(fd, -1));
    SHOW(truncate("none", 0));
    SHOW(stat("none", (void *)b));
    SHOW(fstat(fd, (void *)8));
    SHOW(close(fd));
    SHOW(close(fd));
    SHOW(unlink("none"));
    SHOW(unlink("."));
    SHOW(rename("none", "other"));
    SHOW(rmdir("plain"));
    struct iovec v[2] = {{b, 4}, {(void *)8, 4}};
    fd = open("plain", O_RDONLY);
    SHOW(readv(fd, v, 2));
    SHOW(readv(fd, v, -1));
    SHOW(readv(fd, v, 5000));
    SHOW(write(fd, "x", 1));
    close(fd);
}

static void offsets(void)
{
    int fd = open("plain", O_RDWR);
    char b[64] = {0};
    for (int i = 0; i < 30; i++) {
        lseek(fd, i, SEEK_SET);
        rest(5);
        if (read(fd, b, 2) != 2 || lseek(fd, 0, SEEK_CUR) != i + 2)
            say("offset lost at %d", i);
        chew(3 * CHEW_MS);
    }
    SHOW(lseek(fd, 0, SEEK_END));
    SHOW(read(fd, b, 10));
    SHOW(pread(fd, b, 5, 3));
    say("pread '%.5s'", b);
    SHOW(pwrite(fd, "PWRITE", 6, 100));
    SHOW(lseek(fd, 0, SEEK_CUR));
    SHOW(lseek(fd, 10, SEEK_HOLE));
    close(fd);
}

static void append(void)
{
    int a = open("log", O_CREAT | O_WRONLY | O_APPEND, 0640), b = open("log", O_WRONLY | O_APPEND);
    for (int i = 0; i < 20; i++) {
        char line[32];
        int n = sprintf(line, "line %d\n", i);
        write(i % 2 ? a : b, line, n);
        chew(2 * CHEW_MS);
    }
    struct stat st;
    SHOW(fstat(a, &st));
    say("size %ld mode %o links %ld", (long)st.st_size, st.st_mode, (long)st.st_nlink);
    SHOW(close(a));
    SHOW(close(b));
}

static void large(void)
{
    uint64_t x = 1;
    for (size_t i = 0; i < sizeof big; i++)
        big[i] = (x = x * 6364136223846793005ull + 1) >> 56;
    int fd = open("big", O_CREAT | O_RDWR | O_TRUNC, 0644);
    SHOW(write(fd, big, sizeof big));
    SHOW(lseek(fd, 0, SEEK_SET));
    for (int i = 0; i < 4; i++) {
        memset(copy, 0, sizeof copy);
        SHOW(pread(fd, copy, sizeof copy, 0));
        SHOW(memcmp(big, copy, sizeof big));
        rest(20);
    }
    struct iovec v[3] = {{copy, 100000}, {copy + 200000, 1}, {copy + 300000, 2000000}};
    SHOW(readv(fd, v, 3));
    say("gathered %lx", hash(copy, sizeof copy));
    SHOW(lseek(fd, 0, SEEK_SET));
    SHOW(writev(fd, v, 3));
    SHOW(preadv(fd, v, 2, 5));
    SHOW(ftruncate(fd, 1234567));
    SHOW(ftruncate(fd, 2345678));
    SHOW(fsync(fd));
    SHOW(posix_fallocate(fd, 0, 3000000));
    SHOW(read(fd, copy, 0));
    close(fd);
}

int main(void)
{
    int fd = SHOW(open("plain", O_CREAT | O_RDWR, 0644)) < 0 ? -1 : 3;
    SHOW(write(fd, "the quick brown fox jumps over the lazy dog", 43));
    close(fd);
    errors();
    offsets();
    append();
    large();
    SHOW(rename("log", "log.old"));
    SHOW(access("log", F_OK));
    SHOW(access("log.old", W_OK));
    SHOW(unlink("plain"));
    int tmp = open(".", O_TMPFILE | O_RDWR, 0600);
    HOLDS(tmp >= 0 || errno == EOPNOTSUPP);
    fd = open("gone", O_CREAT | O_RDWR, 0600);
    SHOW(unlink("gone"));
    SHOW(write(fd, "still here", 10));
    rest(60);
    char b[32] = {0};
    SHOW(pread(fd, b, 20, 0));
    say("unlinked file holds '%s'", b);
    return 0;
}
