/* Moving data without touching it: a chain of processes with splice and tee, vmsplice of pages in a loop,
 * sendfile of a big file into a socket, blocking ends, SPLICE_F_NONBLOCK, errors. Proves that nothing is lost
 * or repeated when a move hits a copy. About 0.9 s. */
#include "show.h"
#include <sys/sendfile.h>

#define TOTAL (3 << 20)

static unsigned char pattern(long i) { return i * 13 % 251; }

/* file -> splice -> pipe -> tee -> two pipes -> two sums */
static void chain(int file)
{
    int a[2], b[2], status;
    pipe(a), pipe(b);
    pid_t giver = fork();
    if (!giver) {
        loff_t at = 0;
        while (at < TOTAL) {
            long n = splice(file, &at, a[1], NULL, 30000, SPLICE_F_MOVE);
            if (n <= 0)
                _exit(1);
            if (at % 7 == 0)
                rest(10);
        }
        _exit(0);
    }
    close(a[1]);
    pid_t summer = fork();
    if (!summer) {
        close(b[1]), close(a[0]);
        static unsigned char block[40000];
        long got = 0, wrong = 0;
        for (long n; (n = read(b[0], block, sizeof block)) > 0; got += n)
            for (long i = 0; i < n; i++)
                wrong += block[i] != pattern(got + i);
        say("the copy: %ld, wrong %ld", got, wrong);
        _exit(0);
    }
    close(b[0]);
    static unsigned char block[65536];
    long got = 0, wrong = 0, rounds = 0;
    for (long n; (n = tee(a[0], b[1], sizeof block, 0)) > 0; rounds++) {
        for (long left = n; left > 0;) {
            long r = read(a[0], block, left);
            if (r <= 0)
                break;
            for (long i = 0; i < r; i++)
                wrong += block[i] != pattern(got + i);
            got += r, left -= r;
        }
        if (rounds % 16 == 0)
            rest(6);
    }
    close(b[1]);
    waitpid(summer, &status, 0);
    say_status("summer", status);
    waitpid(giver, &status, 0);
    say_status("giver", status);
    say("the original: %ld, wrong %ld", got, wrong);
    close(a[0]);
}

static void pages(void)
{
    int p[2], status;
    pipe(p);
    static unsigned char block[16 * 4096] __attribute__((aligned(4096)));
    pid_t child = fork();
    if (!child) {
        close(p[1]);
        static unsigned char got[5000];
        uint64_t h = 0;
        long sum = 0;
        for (long n; (n = read(p[0], got, sizeof got)) > 0; sum += n)
            for (long i = 0; i < n; i++)
                h = h * 31 + got[i];
        say("vmspliced %ld hash %lx", sum, (unsigned long)h);
        _exit(0);
    }
    close(p[0]);
    for (int i = 0; i < 24; i++) {
        struct iovec v[2] = {{block, 4096 * 3}, {block + 4096 * 8, 1000 + i}};
        /* Pages in the pipe are shared with the program until they are read: only fresh ones may be written. */
        int fill[2] = {i, 255 - i};
        unsigned char *fresh = mmap(NULL, 9 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        memset(fresh, fill[0], 3 * 4096), memset(fresh + 8 * 4096, fill[1], 4096);
        v[0].iov_base = fresh, v[1].iov_base = fresh + 8 * 4096;
        for (int k = 0; k < 2;) {
            long n = vmsplice(p[1], v + k, 2 - k, 0);
            if (n <= 0) {
                say("vmsplice %s", errno_name(errno));
                break;
            }
            while (k < 2 && n >= (long)v[k].iov_len)
                n -= v[k++].iov_len;
            if (k < 2)
                v[k].iov_base = (char *)v[k].iov_base + n, v[k].iov_len -= n;
        }
        munmap(fresh, 9 * 4096);
        rest(12);
    }
    close(p[1]);
    waitpid(child, &status, 0);
    say_status("reader", status);
}

static void big(int file)
{
    int sv[2], status;
    socketpair(AF_UNIX, SOCK_STREAM, 0, sv);
    pid_t child = fork();
    if (!child) {
        close(sv[0]);
        static unsigned char block[70000];
        long got = 0, wrong = 0;
        for (long n; (n = recv(sv[1], block, sizeof block, 0)) > 0; got += n) {
            for (long i = 0; i < n; i++)
                wrong += block[i] != pattern(got + i);
            if (got % 11 == 0)
                rest(15);
        }
        say("received %ld, wrong %ld", got, wrong);
        _exit(0);
    }
    close(sv[1]);
    off_t at = 0;
    while (at < TOTAL) {
        long n = sendfile(sv[0], file, &at, TOTAL - at);
        if (n <= 0) {
            say("sendfile %s", errno_name(errno));
            break;
        }
    }
    say("sent up to %ld", (long)at);
    close(sv[0]);
    waitpid(child, &status, 0);
    say_status("receiver", status);
}

int main(void)
{
    int file = open("big", O_CREAT | O_RDWR, 0600), p[2], q[2];
    static unsigned char block[TOTAL];
    for (long i = 0; i < TOTAL; i++)
        block[i] = pattern(i);
    write(file, block, TOTAL);
    chain(file);
    pages();
    big(file);
    pipe(p), pipe(q);
    SHOW(splice(p[0], NULL, q[1], NULL, 100, SPLICE_F_NONBLOCK));
    SHOW(tee(p[0], q[1], 100, SPLICE_F_NONBLOCK));
    SHOW(tee(p[0], p[1], 100, 0));
    loff_t at = 5;
    SHOW(splice(p[0], &at, file, NULL, 100, 0));
    SHOW(splice(file, NULL, p[1], NULL, 10, 0));
    lseek(file, 0, SEEK_SET);
    SHOW(splice(file, NULL, p[1], NULL, 10, 0));
    SHOW(lseek(file, 0, SEEK_CUR));
    SHOW(splice(p[0], NULL, q[1], NULL, 4, 0));
    SHOW(splice(p[0], NULL, q[1], NULL, 100, 0));
    SHOW(read(q[0], block, 100));
    int append = open("append", O_CREAT | O_WRONLY | O_APPEND, 0600);
    write(p[1], "x", 1);
    SHOW(splice(p[0], NULL, append, NULL, 1, 0));
    SHOW(sendfile(append, file, NULL, 10));
    SHOW(sendfile(1, p[0], NULL, 10));
    SHOW(vmsplice(p[0], &(struct iovec){block, 1}, 1, 0x100));
    SHOW(ftruncate(file, 0));
    return 0;
}
