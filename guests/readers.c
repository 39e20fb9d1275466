/* Files that are read while another process writes, truncates, replaces and changes them: what was told by a pipe is seen by
 * the next read, fstat and lseek; offsets that dup, fork and exec share; reads behind the end, at offsets, into memory
 * that is not there; flags, locks and leases of a description that is being read. About 2 s. */
#include "show.h"
#include <sys/file.h>

#define ROUNDS 80
#define BYTES 3000

static int to[2], from[2];

static void ask(char what)
{
    char x;
    if (write(to[1], &what, 1) != 1 || read(from[0], &x, 1) != 1)
        say("the other has ended");
}

static void put(const char *path, char c, int flags)
{
    char text[BYTES];
    memset(text, c, sizeof text);
    int fd = open(path, O_WRONLY | flags, 0600);
    if (fd < 0 || write(fd, text, sizeof text) != sizeof text)
        say("put %s", errno_name(errno));
    close(fd);
}

static void other(void)
{
    char what;
    while (read(to[0], &what, 1) == 1) {
        switch (what) {
        case 't':
            if (truncate("f", 100))
                say("truncate %s", errno_name(errno));
            break;
        case 'm':
            chmod("f", 0640);
            break;
        case 'r':
            put("g", 'r', O_CREAT | O_TRUNC), rename("g", "f");
            break;
        default:
            put("f", what, what < 'a' ? O_TRUNC : 0);
        }
        if (write(from[1], "x", 1) != 1)
            break;
    }
    _exit(0);
}

static int all(const char *p, long n, char c)
{
    for (long i = 0; i < n; i++)
        if (p[i] != c)
            return 0;
    return n > 0;
}

/* Changes between two reads are seen. */
static void told(void)
{
    int wrong[8] = {0};
    char got[BYTES];
    struct stat st;
    for (int i = 0; i < ROUNDS; i++) {
        char c = 'a' + i % 12, d = 'A' + i % 12;
        put("f", 'z', O_CREAT | O_TRUNC), chmod("f", 0600);
        int fd = open("f", O_RDONLY);
        wrong[0] += fstat(fd, &st) || st.st_size != BYTES || (st.st_mode & 0777) != 0600;
        wrong[0] += read(fd, got, 1000) != 1000 || !all(got, 1000, 'z');
        ask(c);
        wrong[1] += read(fd, got, 1000) != 1000 || !all(got, 1000, c);
        ask('m');
        wrong[2] += fstat(fd, &st) || (st.st_mode & 0777) != 0640;
        ask('t');
        wrong[3] += fstat(fd, &st) || st.st_size != 100 || read(fd, got, 1000) != 0 || lseek(fd, 0, SEEK_CUR) != 2000;
        ask(d);
        wrong[4] += lseek(fd, -1000, SEEK_END) != BYTES - 1000 || read(fd, got, BYTES) != 1000 || !all(got, 1000, d);
        wrong[4] += pread(fd, got, 10, 5) != 10 || !all(got, 10, d) || pread(fd, got, 10, BYTES) != 0;
        close(fd);
        fd = open("f", O_RDONLY);
        wrong[5] += lseek(fd, 500, SEEK_SET) != 500;
        ask('r');
        wrong[5] += read(fd, got, BYTES) != BYTES - 500 || !all(got, BYTES - 500, d); /* the one that was replaced */
        wrong[5] += fstat(fd, &st) || st.st_nlink != 0;
        int new = open("f", O_RDONLY);
        wrong[6] += read(new, got, BYTES) != BYTES || !all(got, BYTES, 'r') || read(new, got, 1) != 0;
        close(new), close(fd);
        if (i % 16 == 0)
            chew(3 * CHEW_MS);
    }
    for (int i = 0; i < 7; i++)
        say("%d: %d wrong", i, wrong[i]);
}

static void shared_offsets(void)
{
    char got[BYTES];
    int wrong = 0, status;
    for (int i = 0; i < 20; i++) {
        put("h", 'h', O_CREAT | O_TRUNC);
        int fd = open("h", O_RDONLY);
        wrong += read(fd, got, 100) != 100;
        int two = dup(fd);
        wrong += lseek(two, 0, SEEK_CUR) != 100 || read(two, got, 50) != 50 || lseek(fd, 0, SEEK_CUR) != 150;
        close(two);
        wrong += lseek(fd, 10, SEEK_CUR) != 160;
        pid_t child = fork();
        if (!child) {
            if (i % 2)
                _exit(read(fd, got, 40) != 40);
            dup2(fd, 0);
            execlp("head", "head", "-c", "0", (char *)NULL);
            _exit(1);
        }
        waitpid(child, &status, 0);
        wrong += status || lseek(fd, 0, SEEK_CUR) != (i % 2 ? 200 : 160);
        wrong += read(fd, got, BYTES) != BYTES - (i % 2 ? 200 : 160);
        close(fd);
    }
    say("shared offsets: %d wrong", wrong);
}

static void edges(void)
{
    char got[64];
    char *edge = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(edge + 4096, 4096);
    put("e", 'e', O_CREAT | O_TRUNC);
    int fd = open("e", O_RDONLY | O_CLOEXEC);
    SHOW(fcntl(fd, F_GETFD));
    SHOW(fcntl(fd, F_GETFL) & (O_ACCMODE | O_APPEND | O_NONBLOCK));
    SHOW(fcntl(fd, F_GETLEASE));
    SHOW(fcntl(fd, F_GETOWN));
    SHOW(fcntl(fd, F_GETSIG));
    SHOW(isatty(fd));
    SHOW(read(fd, edge + 4090, 100));
    SHOW(lseek(fd, 0, SEEK_CUR));
    SHOW(read(fd, edge + 4096, 100));
    SHOW(pread(fd, edge + 4096, 100, 0));
    SHOW(read(fd, got, 0));
    SHOW(lseek(fd, -1, SEEK_SET));
    SHOW(lseek(fd, 10000, SEEK_SET));
    SHOW(read(fd, got, sizeof got));
    SHOW(lseek(fd, 0, 77));
    SHOW(lseek(fd, 0, SEEK_DATA));
    SHOW(write(fd, "x", 1));
    SHOW(flock(fd, LOCK_SH | LOCK_NB));
    int own = open("e", O_RDONLY);
    read(own, got, 1);
    SHOW(fcntl(own, F_SETLEASE, F_RDLCK));
    SHOW(fcntl(own, F_GETLEASE));
    SHOW(open("e", O_WRONLY | O_NONBLOCK) == -1 && errno == EWOULDBLOCK);
    SHOW(fcntl(own, F_SETLEASE, F_UNLCK));
    close(own), close(fd);
    munmap(edge, 4096);
}

int main(void)
{
    signal(SIGIO, SIG_IGN);
    pipe(to), pipe(from);
    pid_t child = fork();
    if (!child) {
        close(to[1]), close(from[0]);
        other();
    }
    close(to[0]), close(from[1]);
    told();
    shared_offsets();
    rest(20);
    edges();
    int status;
    close(to[1]);
    waitpid(child, &status, 0);
    say_status("child", status);
    return 0;
}
