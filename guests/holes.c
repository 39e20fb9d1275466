/* Sparse files and attributes: SEEK_DATA and SEEK_HOLE, fallocate that keeps the size, punches, collapses and
 * zeroes where the file system can, truncate, fsync family, preadv2 and pwritev2 with flags, copy_file_range
 * within one file, extended attributes set, listed, replaced and removed. About 0.7 s. */
#include "show.h"
#include <linux/falloc.h>
#include <linux/fs.h>
#include <sys/xattr.h>

static int fd;

static void content(const char *when)
{
    struct stat st;
    static char all[1 << 20];
    fstat(fd, &st);
    long n = pread(fd, all, sizeof all, 0);
    say("%s: size %ld hash %lx", when, (long)st.st_size, (unsigned long)hash(all, n));
}

static void fill(long at, long n, int c)
{
    static char block[65536];
    memset(block, c, sizeof block);
    if (pwrite(fd, block, n, at) != n)
        say("pwrite %s", errno_name(errno));
}

static int by_name(const void *a, const void *b) { return strcmp(*(char **)a, *(char **)b); }

static void attributes(const char *path)
{
    char b[256], *names[8];
    SHOW(setxattr(path, "user.one", "first value", 11, 0));
    SHOW(setxattr(path, "user.two", "", 0, XATTR_CREATE));
    SHOW(setxattr(path, "user.one", "x", 1, XATTR_CREATE));
    SHOW(setxattr(path, "user.three", "x", 1, XATTR_REPLACE));
    SHOW(setxattr(path, "trusted.x", "x", 1, 0));
    SHOW(setxattr(path, "nonsense", "x", 1, 0));
    SHOW(getxattr(path, "user.one", b, sizeof b));
    SHOW(getxattr(path, "user.one", b, 3));
    SHOW(getxattr(path, "user.one", NULL, 0));
    SHOW(getxattr(path, "user.two", b, sizeof b));
    SHOW(getxattr(path, "user.none", b, sizeof b));
    rest(120);
    SHOW(fsetxattr(fd, "user.one", "another", 7, XATTR_REPLACE));
    memset(b, 0, sizeof b);
    SHOW(fgetxattr(fd, "user.one", b, sizeof b));
    say("%s", b);
    long n = listxattr(path, b, sizeof b);
    int count = 0;
    for (char *at = b; at < b + n && count < 8; at += strlen(at) + 1)
        if (!strncmp(at, "user.", 5))
            names[count++] = at;
    qsort(names, count, sizeof *names, by_name);
    for (int i = 0; i < count; i++)
        say("attribute %s", names[i]);
    HOLDS(listxattr(path, b, 3) == -1 && errno == ERANGE);
    symlink(path, "a-link");
    SHOW(lsetxattr("a-link", "user.x", "y", 1, 0));
    SHOW(removexattr(path, "user.one"));
    SHOW(removexattr(path, "user.one"));
    SHOW(fremovexattr(fd, "user.two"));
}

static void vectors(void)
{
    char a[5] = {0}, b[5] = {0};
    struct iovec v[2] = {{a, 4}, {b, 4}};
    fill(0, 100, 'v');
    SHOW(preadv2(fd, v, 2, 10, 0));
    SHOW(preadv2(fd, v, 2, -1, 0));
    SHOW(lseek(fd, 0, SEEK_CUR));
    SHOW(preadv2(fd, v, 2, 0, RWF_HIPRI) > 0 || errno == EOPNOTSUPP);
    SHOW(preadv2(fd, v, 2, 0, 0x10000));
    v[0] = (struct iovec){"ABCD", 4}, v[1] = (struct iovec){"EF", 2};
    SHOW(pwritev2(fd, v, 2, 3, RWF_DSYNC));
    SHOW(pwritev2(fd, v, 2, 0, RWF_APPEND));
    SHOW(pwritev2(fd, v, 2, 50, RWF_SYNC));
    SHOW(pwritev(fd, v, 1, 60));
    SHOW(preadv(fd, v, -1, 0));
    content("vectors");
}

int main(void)
{
    fd = open("sparse", O_CREAT | O_RDWR, 0600);
    fill(0, 8192, 'a'), fill(200000, 8192, 'b'), fill(500000, 100, 'c');
    SHOW(fdatasync(fd));
    content("three parts");
    SHOW(lseek(fd, 0, SEEK_HOLE) >= 8192);
    SHOW(lseek(fd, 100000, SEEK_DATA) <= 200000);
    SHOW(lseek(fd, 500050, SEEK_DATA));
    SHOW(lseek(fd, 500100, SEEK_DATA));
    SHOW(lseek(fd, 500050, SEEK_HOLE));
    rest(120);
    SHOW(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 1000, 5000));
    content("punched");
    SHOW(fallocate(fd, FALLOC_FL_KEEP_SIZE, 600000, 100000));
    content("kept its size");
    SHOW(fallocate(fd, 0, 600000, 1000));
    content("grew");
    SHOW(fallocate(fd, FALLOC_FL_PUNCH_HOLE, 0, 100));
    SHOW(fallocate(fd, 0, -1, 100));
    SHOW(fallocate(fd, 0, 0, 0));
    long r = fallocate(fd, FALLOC_FL_ZERO_RANGE, 200100, 1000);
    HOLDS(r == 0 || errno == EOPNOTSUPP);
    r = fallocate(fd, FALLOC_FL_COLLAPSE_RANGE, 4096 * 10, 4096 * 5);
    HOLDS(r == 0 || errno == EOPNOTSUPP);
    content("where it can");
    rest(120);
    SHOW(ftruncate(fd, 300000));
    content("shorter");
    SHOW(truncate("sparse", 400000));
    content("longer");
    loff_t from = 0, to = 350000;
    SHOW(copy_file_range(fd, &from, fd, &to, 8000, 0));
    say("offsets %ld %ld", (long)from, (long)to);
    from = 0, to = 100;
    SHOW(copy_file_range(fd, &from, fd, &to, 8000, 0));
    SHOW(copy_file_range(fd, &from, 1, NULL, 10, 0x100));
    content("copied");
    SHOW(fsync(fd));
    SHOW(sync_file_range(fd, 0, 1000, SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER));
    SHOW(syncfs(fd));
    int p[2];
    pipe(p);
    SHOW(fsync(p[0]));
    SHOW(fdatasync(99));
    SHOW(posix_fadvise(fd, 0, 100, 77));
    SHOW(readahead(fd, 0, 100000));
    attributes("sparse");
    vectors();
    for (int i = 0; i < 20; i++) {
        fill(i * 10000, 3000, 'A' + i);
        chew(2 * CHEW_MS);
        if (i % 4 == 0)
            rest(60), fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, i * 10000 + 100, 500);
    }
    content("in the end");
    return 0;
}
