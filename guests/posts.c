/* Writes and closes that may be answered before they are made: what a process has written is there for all that it
 * tells, by memory that they share, by a pipe, by a signal, by its end; offsets that processes share; appends of several
 * writers; a number that is closed and given to another file; writes that fail for their buffer, their limit, their
 * descriptor; locks that end with a close; a program that is run right after it was written. About 2 s. */
#include "show.h"
#include <sys/file.h>

#define ROUNDS 400
#define CHUNK 512

struct shared {
    volatile int flag[2];
    volatile long bad;
};
static struct shared *both;

static void await(volatile int *flag, int value)
{
    while (*flag < value)
        sched_yield();
}

/* The writer raises a flag in memory; the reader then finds the bytes. */
struct passing {
    int fd;
    const char *path;
};

static void *passes(void *arg)
{
    struct passing *p = arg;
    char chunk[CHUNK];
    for (int i = 1; i <= ROUNDS; i++) {
        memset(chunk, 'a' + i % 26, sizeof chunk);
        if (write(p->fd, chunk, sizeof chunk) != sizeof chunk)
            both->bad++;
        both->flag[0] = i;
        await(&both->flag[1], i);
    }
    return NULL;
}

static void looks(struct passing *p)
{
    struct stat st;
    char got[CHUNK];
    int fd = open(p->path, O_RDONLY);
    for (int i = 1; i <= ROUNDS; i++) {
        await(&both->flag[0], i);
        off_t at = (off_t)(i - 1) * CHUNK;
        if (i % 3 == 0)
            both->bad += stat(p->path, &st) || st.st_size != at + CHUNK;
        else if (i % 3 == 1)
            both->bad += pread(fd, got, sizeof got, at) != CHUNK || got[CHUNK - 1] != 'a' + i % 26;
        else
            both->bad += lseek(fd, 0, SEEK_END) != at + CHUNK;
        both->flag[1] = i;
    }
    close(fd);
}

static void told_by_memory(void)
{
    pthread_t thread;
    struct passing p = {open("passed", O_CREAT | O_WRONLY | O_TRUNC, 0600), "passed"};
    pthread_create(&thread, NULL, passes, &p);
    looks(&p);
    pthread_join(thread, NULL);
    close(p.fd);
    say("told by memory: %ld wrong", both->bad);
}

static void told_by_a_process(void)
{
    struct passing p = {open("child", O_CREAT | O_WRONLY | O_TRUNC, 0600), "child"};
    both->flag[0] = both->flag[1] = 0;
    int status;
    pid_t child = fork();
    if (!child) {
        passes(&p);
        _exit(0);
    }
    looks(&p);
    waitpid(child, &status, 0);
    close(p.fd);
    say("told by a child's memory: %ld wrong", both->bad);
}

/* A pipe, the child's end, a signal. */
static void told_otherwise(void)
{
    int ends[2], status, wrong = 0;
    char byte = 0, path[32];
    struct stat st;
    pipe(ends);
    for (int i = 0; i < 40; i++) {
        snprintf(path, sizeof path, "other%d", i);
        pid_t child = fork();
        if (!child) {
            int fd = open(path, O_CREAT | O_WRONLY, 0600);
            for (int k = 0; k < 20; k++)
                write(fd, path, sizeof path);
            if (i % 2 && (close(fd) || write(ends[1], "x", 1) != 1))
                _exit(1);
            _exit(i % 4 == 0 ? 0 : kill(getpid(), SIGKILL));
        }
        if (i % 2)
            wrong += read(ends[0], &byte, 1) != 1 || stat(path, &st) || st.st_size != 20 * sizeof path;
        waitpid(child, &status, 0);
        wrong += stat(path, &st) || st.st_size != 20 * sizeof path;
        wrong += unlink(path) != 0;
    }
    close(ends[0]), close(ends[1]);
    say("told by a pipe and by the end: %d wrong", wrong);
}

/* Children append to one file, each record whole; and write with one offset. */
static void several_writers(const char *path, int flags)
{
    int fd = open(path, O_CREAT | O_RDWR | flags, 0600), wrong = 0;
    char record[64], got[64];
    long count[4] = {0};
    for (int c = 0; c < 4; c++) {
        if (fork())
            continue;
        int own = flags & O_APPEND ? open(path, O_WRONLY | O_APPEND) : fd;
        memset(record, 'A' + c, sizeof record);
        for (int i = 0; i < 100; i++)
            if (write(own, record, sizeof record) != sizeof record)
                _exit(1);
        _exit(0);
    }
    for (int c = 0, status; c < 4; c++)
        wrong += wait(&status) < 0 || status;
    for (long at = 0; pread(fd, got, sizeof got, at) == sizeof got; at += sizeof got) {
        for (size_t k = 1; k < sizeof got; k++)
            wrong += got[k] != got[0];
        if (got[0] >= 'A' && got[0] < 'E')
            count[got[0] - 'A']++;
    }
    say("%s: %d wrong, %ld %ld %ld %ld, offset %ld", path, wrong, count[0], count[1], count[2], count[3],
        flags & O_APPEND ? 0 : (long)lseek(fd, 0, SEEK_CUR));
    close(fd);
    unlink(path); /* the order of the records is random */
}

/* A number that means one file after the other, and pipes between. */
static void reused_numbers(void)
{
    int wrong = 0, ends[2];
    char path[32], got[32];
    for (int i = 0; i < 60; i++) {
        snprintf(path, sizeof path, "reused%d", i % 4);
        int fd = open(path, O_CREAT | O_WRONLY | O_TRUNC, 0600);
        for (int k = 0; k < 4; k++)
            wrong += write(fd, path, 8) != 8;
        if (i % 3 == 0) {
            pipe(ends);
            wrong += dup2(ends[1], fd) != fd;
            wrong += write(fd, "piped", 5) != 5 || read(ends[0], got, sizeof got) != 5;
            close(ends[0]), close(ends[1]);
        }
        wrong += close(fd) != 0;
        wrong += write(fd, "x", 1) != -1 || errno != EBADF;
        wrong += close(fd) != -1 || errno != EBADF;
        int other = open(path, O_RDONLY);
        wrong += other != fd || read(other, got, sizeof got) != 32 || memcmp(got + 24, path, 7);
        wrong += write(other, "x", 1) != -1 || errno != EBADF;
        close(other);
    }
    say("reused numbers: %d wrong", wrong);
}

static void on_xfsz(int sig) { both->bad += sig != SIGXFSZ; }

static void failures(void)
{
    int fd = open("fails", O_CREAT | O_RDWR | O_TRUNC, 0600);
    char *edge = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(edge + 4096, 4096);
    for (int i = 0; i < 4; i++)
        write(fd, "fine", 4);
    char *volatile nowhere = NULL;
    volatile int less = -1;
    SHOW(write(fd, nowhere, 4));
    SHOW(write(fd, edge + 4090, 6));
    SHOW(write(fd, edge + 4090, 100) > 0);
    SHOW(write(fd, edge, 0));
    SHOW(pwrite(fd, "x", 1, -1));
    SHOW(pwrite(fd, "x", 1, 100000));
    SHOW(lseek(fd, 0, SEEK_END));
    struct iovec v[3] = {{"one", 3}, {edge, 4096}, {"three", 5}};
    SHOW(writev(fd, v, 3));
    v[1].iov_base = edge + 4096;
    SHOW(writev(fd, v, 3));
    SHOW(writev(fd, v, less));
    SHOW(lseek(fd, 0, SEEK_CUR));
    struct rlimit limit = {200000, RLIM_INFINITY}, none = {RLIM_INFINITY, RLIM_INFINITY};
    signal(SIGXFSZ, on_xfsz);
    SHOW(setrlimit(RLIMIT_FSIZE, &limit));
    SHOW(pwrite(fd, "abcdef", 6, 199997));
    SHOW(pwrite(fd, "abcdef", 6, 200000));
    SHOW(setrlimit(RLIMIT_FSIZE, &none));
    SHOW(pwrite(fd, "abcdef", 6, 200000));
    int sync = open("fails", O_WRONLY | O_SYNC);
    for (int i = 0; i < 4; i++)
        write(sync, "synchronous", 11);
    char got[4];
    pread(fd, got, 4, 0);
    say("%.4s %d", got, close(sync));
    SHOW(fcntl(fd, F_SETFL, O_APPEND));
    for (int i = 0; i < 3; i++)
        write(fd, "tail", 4);
    SHOW(lseek(fd, 0, SEEK_CUR));
    SHOW(ftruncate(fd, 10));
    SHOW(write(fd, "end", 3));
    SHOW(lseek(fd, 0, SEEK_CUR));
    SHOW(fsync(fd));
    SHOW(close(fd));
    munmap(edge, 4096);
}

/* A lock ends with the close of its description; a program can be run when nobody writes it any more. */
static void after_the_close(void)
{
    volatile int wrong = 0, busy = 0;
    int status;
    for (int i = 0; i < 20; i++) {
        int fd = open("locked", O_CREAT | O_RDWR, 0600);
        flock(fd, LOCK_EX);
        for (int k = 0; k < 3; k++)
            write(fd, "held", 4);
        close(fd);
        int other = open("locked", O_RDWR);
        wrong += flock(other, LOCK_EX | LOCK_NB) != 0;
        close(other);
    }
    for (int i = 0; i < 8; i++) {
        int fd = open("script", O_CREAT | O_WRONLY | O_TRUNC, 0700);
        char text[64];
        int n = snprintf(text, sizeof text, "#!/bin/sh\nexit %d\n", i);
        for (int k = 0; k < n; k++)
            write(fd, text + k, 1);
        close(fd);
        pid_t child = vfork();
        if (!child) {
            execl("./script", "script", (char *)NULL);
            _exit(errno == ETXTBSY ? 100 : 101);
        }
        waitpid(child, &status, 0);
        busy += WEXITSTATUS(status) == 100;
        wrong += WEXITSTATUS(status) != i;
    }
    say("after the close: %d wrong, %d busy", wrong, busy);
}

int main(void)
{
    both = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    told_by_memory();
    chew(20 * CHEW_MS);
    told_by_a_process();
    told_otherwise();
    several_writers("appended", O_APPEND);
    several_writers("one offset", 0);
    rest(30);
    reused_numbers();
    failures();
    after_the_close();
    say("%ld wrong", both->bad);
    return 0;
}
