/* nfstest DIRECTORY [BYTES [ROUNDS]]: the shared file system as the processes of an MPI program see it: speeds, and whether what
 * one process has done is there for the others after a barrier. Of MPI only MPI_Barrier and MPI_Bcast are used between steps. */
#include "common.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BLOCK = 1 << 16, SMALL = 20 };
static char path[4096];
static unsigned char *block;
static long checks, wrong;
static const char *where;

static const char *of(const char *what, int r) {
    if (snprintf(path, sizeof path, "%s/%s-%d", where, what, r) >= (int)sizeof path)
        fail("the name of the directory is too long");
    return path;
}

static void expect(int good, const char *what) {
    checks++;
    if (good)
        return;
    wrong++;
    fprintf(stderr, "rank %d: %s\n", rank, what);
}

static void barrier(void) { MPI_Barrier(MPI_COMM_WORLD); }

static double write_file(const char *name, long bytes, unsigned salt) {
    double at = MPI_Wtime();
    int fd = open(name, O_CREAT | O_TRUNC | O_WRONLY, 0644);
    if (fd < 0)
        fail("%s cannot be written: %s", name, strerror(errno));
    for (long done = 0; done < bytes;) {
        long part = bytes - done < BLOCK ? bytes - done : BLOCK;
        fill(block, part, salt + (unsigned)(done / BLOCK));
        ssize_t n = write(fd, block, (size_t)part);
        if (n != part)
            fail("%s: only %zd bytes were written: %s", name, n, strerror(errno));
        done += part;
    }
    if (fsync(fd) || close(fd))
        fail("%s cannot be stored: %s", name, strerror(errno));
    return MPI_Wtime() - at;
}

static double read_file(const char *name, long bytes, unsigned salt) {
    double at = MPI_Wtime();
    int fd = open(name, O_RDONLY);
    expect(fd >= 0, "a file of another process is missing");
    if (fd < 0)
        return 0;
    long done = 0;
    int same = 1;
    for (;;) {
        ssize_t n = read(fd, block, BLOCK);
        if (n <= 0)
            break;
        for (ssize_t i = 0; i < n && same; i++) {
            long in_block = (done + i) % BLOCK;
            unsigned char want = (unsigned char)(in_block * 31 + (in_block >> 8) + salt + (unsigned)((done + i) / BLOCK));
            same = block[i] == want;
        }
        done += n;
    }
    close(fd);
    expect(done == bytes, "a file of another process has another length");
    expect(same, "a file of another process has other bytes");
    return MPI_Wtime() - at;
}

/* The longest of all processes, at process 0. */
static double longest(double s) {
    double all;
    MPI_Reduce(&s, &all, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    return all;
}

static void names(void) {
    struct stat st;
    int next = (rank + 1) % np;
    if (mkdir(of("dir", rank), 0755) && errno != EEXIST)
        fail("%s cannot be made: %s", path, strerror(errno));
    barrier();
    expect(!stat(of("dir", next), &st) && S_ISDIR(st.st_mode), "a directory of another process is missing");
    barrier();
    expect(!rmdir(of("dir", next)), "a directory of another process cannot be removed");
    barrier();
    expect(stat(of("dir", rank), &st) && errno == ENOENT, "a removed directory is still there");
    write_file(of("old", rank), 100, 1);
    barrier();
    char old[sizeof path];
    strcpy(old, of("old", next));
    expect(!rename(old, of("new", next)), "a file of another process cannot be renamed");
    barrier();
    expect(stat(of("old", rank), &st) && errno == ENOENT, "a renamed file still has its old name");
    expect(!stat(of("new", rank), &st) && st.st_size == 100, "a renamed file is missing");
    barrier();
    expect(!truncate(of("new", next), 7), "a file of another process cannot be cut");
    barrier();
    expect(!stat(of("new", rank), &st) && st.st_size == 7, "a file that another process has cut has its old length");
    int fd = open(of("new", rank), O_WRONLY | O_APPEND);
    expect(fd >= 0 && write(fd, "12345678", 8) == 8 && !close(fd), "nothing can be added to a file");
    barrier();
    expect(!stat(of("new", next), &st) && st.st_size == 15, "what another process has added is missing");
    barrier();
    expect(!unlink(of("new", rank)), "a file cannot be removed");
}

/* Each process writes its own part of one file; all read the whole. */
static void shared_file(void) {
    enum { PART = 5000 };
    if (rank == 0)
        write_file(of("whole", 0), 0, 0);
    barrier();
    int fd = open(of("whole", 0), O_RDWR);
    if (fd < 0)
        fail("%s cannot be opened: %s", path, strerror(errno));
    unsigned char part[PART];
    fill(part, PART, (unsigned)rank);
    expect(pwrite(fd, part, PART, (off_t)rank * PART) == PART && !fsync(fd), "a part of a shared file cannot be written");
    barrier();
    for (int r = 0; r < np; r++) {
        unsigned char want[PART];
        fill(want, PART, (unsigned)r);
        expect(pread(fd, part, PART, (off_t)r * PART) == PART && !memcmp(part, want, PART), "a part of a shared file is wrong");
    }
    close(fd);
    barrier();
    if (rank == 0)
        unlink(of("whole", 0));
}

/* A counter in a file, raised by all under a lock. */
static void locked(long rounds) {
    if (rank == 0)
        write_file(of("count", 0), 8, 0);
    barrier();
    int fd = open(of("count", 0), O_RDWR);
    long n = 0;
    if (rank == 0 && pwrite(fd, &n, sizeof n, 0) != sizeof n)
        fail("the counter cannot be written");
    barrier();
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET}, free = {.l_type = F_UNLCK, .l_whence = SEEK_SET};
    for (long i = 0; i < rounds; i++) {
        expect(!fcntl(fd, F_SETLKW, &lock), "a lock cannot be had");
        if (pread(fd, &n, sizeof n, 0) != sizeof n)
            n = -1;
        n++;
        expect(pwrite(fd, &n, sizeof n, 0) == sizeof n, "the counter cannot be written");
        fcntl(fd, F_SETLK, &free);
    }
    barrier();
    if (pread(fd, &n, sizeof n, 0) != sizeof n)
        n = -1;
    expect(n == rounds * np, "a counter under a lock has lost something");
    close(fd);
    barrier();
    if (rank == 0)
        unlink(of("count", 0));
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    if (argc < 2)
        fail("name a directory that all processes see");
    where = argv[1];
    long bytes = number(argc, argv, 2, 1, 1L << 40, 4 << 20), rounds = number(argc, argv, 3, 1, 1000000, 20);
    block = memory(BLOCK);
    /* The same directory everywhere: all find a name that no other run has. */
    char key[64] = "";
    if (rank == 0)
        snprintf(key, sizeof key, "nfstest-%ld-%ld", (long)getpid(), (long)time(0));
    MPI_Bcast(key, sizeof key, MPI_CHAR, 0, MPI_COMM_WORLD);
    char own[sizeof path];
    snprintf(own, sizeof own, "%s/%s", where, key);
    if (rank == 0 && mkdir(own, 0755))
        fail("%s cannot be made: %s", own, strerror(errno));
    where = own;
    barrier();
    struct stat st;
    if (stat(own, &st))
        fail("%s is not there: process 0 has made it, so that this is another directory", own);

    double put = longest(write_file(of("file", rank), bytes, (unsigned)rank));
    barrier();
    int other = (rank + 1) % np;
    double theirs = longest(read_file(of("file", other), bytes, (unsigned)other));
    barrier();
    double mine = longest(read_file(of("file", rank), bytes, (unsigned)rank));
    barrier();
    double one = longest(read_file(of("file", 0), bytes, 0));
    barrier();
    names();
    barrier();
    shared_file();
    locked(rounds);
    barrier();
    double at = MPI_Wtime();
    for (int i = 0; i < SMALL; i++)
        write_file(of("small", rank * SMALL + i), 10, 3);
    double made = longest(MPI_Wtime() - at);
    barrier();
    at = MPI_Wtime();
    for (int i = 0; i < SMALL; i++)
        expect(!stat(of("small", other * SMALL + i), &st) && st.st_size == 10, "a small file of another process is wrong");
    double seen = longest(MPI_Wtime() - at);
    barrier();
    at = MPI_Wtime();
    for (int i = 0; i < SMALL; i++)
        expect(!unlink(of("small", rank * SMALL + i)), "a small file cannot be removed");
    double gone = longest(MPI_Wtime() - at);
    unlink(of("file", rank));
    barrier();
    DIR *dir = opendir(own);
    int left = 0;
    for (struct dirent *e; dir && (e = readdir(dir));)
        left += e->d_name[0] != '.';
    if (dir)
        closedir(dir);
    expect(left == 0, "removed files are still listed");
    barrier();
    if (rank == 0 && rmdir(own))
        expect(0, "the directory cannot be removed");
    long both[2] = {checks, wrong}, all[2];
    MPI_Reduce(both, all, 2, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0) {
        double mb = (double)bytes * np / 1e6, files = (double)SMALL * np;
        printf("{\"program\":\"nfstest\",\"np\":%d,\"bytes\":%ld,\"checks\":%ld,\"wrong\":%ld,\"write_mb_s\":%.6f,\"read_other_mb_s\":%.6f,"
               "\"read_own_mb_s\":%.6f,\"read_one_mb_s\":%.6f,\"create_per_s\":%.3f,\"stat_per_s\":%.3f,\"remove_per_s\":%.3f}\n",
               np, bytes, all[0], all[1], mb / put, mb / theirs, mb / mine, mb / one, files / made, files / seen, files / gone);
    }
    MPI_Finalize();
    return 0;
}
