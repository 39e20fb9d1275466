/* open, pwrite, utimensat, mmap, munmap, fcntl(F_SETLEASE): a file is changed in place and gets its old times back, as
 * `cp -p`, `touch -r` and rsync do it: each new private mapping shows its present contents. When all is unmapped and
 * closed, a write lease is granted, since no process has the file open. About 1 s. */
#include "show.h"

#define SIZE (3 * 65536)

static void change(const char *path, char value)
{
    static char bytes[SIZE];
    struct timespec old[2] = {{1000000000, 0}, {1000000000, 0}};
    int fd = open(path, O_RDWR | O_CREAT, 0600);
    memset(bytes, value, SIZE);
    if (pwrite(fd, bytes, SIZE, 0) != SIZE)
        say("cannot write");
    futimens(fd, old);
    close(fd);
}

/* Whether a new mapping shows `value` everywhere. */
static int shows(const char *path, char value)
{
    int fd = open(path, O_RDONLY), right = 1;
    volatile char *at = mmap(NULL, SIZE, PROT_READ, MAP_PRIVATE, fd, 0);
    close(fd);
    for (int i = 0; i < SIZE; i += 4096)
        right &= at[i] == value;
    munmap((void *)at, SIZE);
    return right;
}

int main(void)
{
    int wrong = 0, refused = 0;
    for (int i = 0; i < 24; i++) {
        change("stale", 'a' + i);
        chew(4 * CHEW_MS);
        wrong += !shows("stale", 'a' + i);
        rest(10);
        wrong += !shows("stale", 'a' + i);
    }
    for (int i = 0; i < 4; i++) {
        int fd = open("stale", O_RDWR);
        refused += fcntl(fd, F_SETLEASE, F_WRLCK) != 0;
        fcntl(fd, F_SETLEASE, F_UNLCK);
        close(fd);
        rest(20);
    }
    struct stat st;
    stat("stale", &st);
    say("mappings that show old bytes: %d; leases refused: %d; time of modification %ld", wrong, refused, (long)st.st_mtime);
    unlink("stale");
    return 0;
}
