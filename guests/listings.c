/* Directories listed piece by piece while the offset is shared by fork and dup, moved by lseek and rewinddir, and while another
 * process makes and removes entries; long directories; errors of getdents, read and lseek on them. About 1.5 s. */
#include "show.h"
#include <dirent.h>
#include <sys/syscall.h>

#define ROUNDS 12

struct entry {
    uint64_t ino;
    int64_t off;
    uint16_t len;
    uint8_t type;
    char name[];
};

static char seen[5000];
static uint64_t last_off;

static long getdents(int fd, void *buf, unsigned room)
{
    return syscall(SYS_getdents64, fd, buf, room);
}

/* Lists at most so many pieces; the number of entries but . and .., or -1. */
static int piece(int fd, unsigned room, int pieces)
{
    static char buf[65536] __attribute__((aligned(8)));
    int found = 0;
    while (pieces-- > 0) {
        long n = getdents(fd, buf, room);
        if (n < 0)
            return -1;
        if (n == 0)
            break;
        for (long at = 0; at < n;) {
            struct entry *e = (void *)(buf + at);
            at += e->len;
            last_off = e->off;
            if (e->name[0] == '.')
                continue;
            int i = atoi(e->name + 1);
            if (i < 0 || i >= (int)sizeof seen || seen[i]++)
                say("entry %s twice, or unknown", e->name);
            if (e->type != DT_REG && e->type != DT_UNKNOWN)
                say("entry %s has type %d", e->name, e->type);
            found++;
        }
    }
    return found;
}

static int whole(int fd)
{
    memset(seen, 0, sizeof seen);
    return piece(fd, 1000, 10000);
}

static void make(const char *dir, int from, int to, const char *tail)
{
    char name[300];
    for (int i = from; i < to; i++) {
        sprintf(name, "%s/f%04d%s", dir, i, tail);
        close(open(name, O_CREAT | O_WRONLY, 0644));
    }
}

static int opened(void)
{
    struct stat st;
    /* Looked into before, it is known. */
    stat("d/none", &st);
    memset(seen, 0, sizeof seen);
    return open("d", O_RDONLY | O_DIRECTORY | O_NONBLOCK | O_CLOEXEC);
}

/* The other process makes an entry and removes one. */
static void next_turn(int to, int from)
{
    char x;
    if (write(to, "x", 1) != 1 || read(from, &x, 1) != 1)
        say("the other has ended");
}

int main(void)
{
    struct stat a, b;
    int to[2], from[2], status;
    char x;
    mkdir("d", 0755);
    mkdir("long", 0755);
    make("d", 0, 200, "");
    make("long", 0, 3000, "-a-name-that-is-long-enough-to-fill-more-than-what-comes-with-an-open");
    /* Its time of access becomes later than its change. */
    rest(30);
    int fd = opened();
    say("first: %d", whole(fd));
    close(fd);

    int bad = 0;
    for (int r = 0; r < ROUNDS; r++) {
        fd = opened();
        bad += fstat(fd, &a) || stat("d", &b) || a.st_ino != b.st_ino || a.st_mtime != b.st_mtime || a.st_size != b.st_size;
        bad += piece(fd, 500, 3) < 1;
        int before = 0;
        for (int i = 0; i < 200; i++)
            before += seen[i];
        bad += (uint64_t)lseek(fd, 0, SEEK_CUR) != last_off;
        /* The child goes on where we are, and we behind it. */
        pid_t child = fork();
        if (child == 0) {
            int n = piece(fd, 500, 2);
            _exit(n < 0 ? 255 : n);
        }
        waitpid(child, &status, 0);
        int of_child = WEXITSTATUS(status);
        int rest_of_it = piece(fd, 500, 10000);
        bad += before + of_child + rest_of_it != 200;
        close(fd);

        fd = opened();
        int n = piece(fd, 700, 2);
        int twin = dup(fd);
        n += piece(twin, 700, 3);
        n += piece(fd, 700, 10000);
        bad += n != 200 || piece(twin, 700, 1) != 0;
        bad += lseek(twin, 0, SEEK_SET) != 0 || whole(fd) != 200;
        close(fd);
        close(twin);

        fd = opened();
        bad += piece(fd, 700, 2) < 1;
        uint64_t here = last_off;
        int after = piece(fd, 700, 10000);
        bad += lseek(fd, here, SEEK_SET) < 0;
        memset(seen, 0, sizeof seen);
        bad += piece(fd, 700, 10000) != after;
        close(fd);
        if (r % 4 == 0)
            rest(5);
    }
    say("rounds that went wrong: %d", bad);

    /* Another process changes it: told by a pipe, before the first piece, and after all. */
    if (pipe(to) || pipe(from))
        return 1;
    pid_t other = fork();
    if (other == 0) {
        close(to[1]);
        for (int i = 200; read(to[0], &x, 1) == 1; i++) {
            char name[40];
            make("d", i, i + 1, "");
            sprintf(name, "d/f%04d", i - 200);
            unlink(name);
            if (write(from[1], "x", 1) != 1)
                break;
        }
        _exit(0);
    }
    close(to[0]);
    bad = 0;
    for (int turn = 0; turn < 2 * ROUNDS; turn += 2) {
        fd = opened();
        fstat(fd, &a);
        next_turn(to[1], from[0]);
        bad += whole(fd) != 200 || !seen[200 + turn] || seen[turn];
        bad += fstat(fd, &b) || b.st_ino != a.st_ino;
        next_turn(to[1], from[0]);
        bad += lseek(fd, 0, SEEK_SET) != 0 || whole(fd) != 200 || !seen[201 + turn] || seen[turn + 1];
        close(fd);
    }
    close(to[1]);
    waitpid(other, &status, 0);
    say("changes that were not seen: %d", bad);

    for (int i = 0; i < 3; i++) {
        stat("long/none", &a);
        fd = open("long", O_RDONLY | O_DIRECTORY);
        say("long: %d", whole(fd));
        SHOW(getdents(fd, seen, 100));
        close(fd);
    }
    fd = opened();
    SHOW(read(fd, seen, 100));
    SHOW(pread(fd, seen, 100, 0));
    SHOW(write(fd, "x", 1));
    SHOW(getdents(fd, seen, 10));
    SHOW(getdents(fd, (void *)8, 1000));
    SHOW(lseek(fd, -1, SEEK_SET));
    SHOW(fsync(fd));
    SHOW(isatty(fd));
    SHOW(fcntl(fd, F_GETFL) & O_ACCMODE);
    say("still %d", whole(fd));
    SHOW(close(fd));
    SHOW(getdents(fd, seen, 1000));
    fd = open("d", O_PATH);
    SHOW(getdents(fd, seen, 1000));
    close(fd);
    mkdir("empty", 0755);
    stat("empty/none", &a);
    fd = open("empty", O_RDONLY);
    say("empty: %d", whole(fd));
    rmdir("empty");
    SHOW(getdents(fd, seen, 1000));
    close(fd);
    return 0;
}
