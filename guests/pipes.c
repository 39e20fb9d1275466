/* Pipes and fifos: blocking reads and writes between parent and child, SIGPIPE and EPIPE,
 * O_NONBLOCK and EAGAIN, poll, FIONREAD, splice of both halves by a move. Proves that data is
 * neither lost nor repeated when a move hits a blocked read or write. About 1 s. */
#include "show.h"

#define TOTAL (4 << 20)

static void stream(void)
{
    int p[2];
    pipe(p);
    if (!fork()) {
        close(p[0]);
        char block[7001];
        for (int sent = 0, n; sent < TOTAL; sent += n) {
            int want = TOTAL - sent < 7001 ? TOTAL - sent : 7001;
            for (int i = 0; i < want; i++)
                block[i] = (sent + i) * 31 % 251;
            n = write(p[1], block, want);
            if (n <= 0)
                _exit(1);
        }
        _exit(0);
    }
    close(p[1]);
    char block[5003];
    long got = 0, wrong = 0;
    for (int n; (n = read(p[0], block, sizeof block)) > 0; got += n) {
        for (int i = 0; i < n; i++)
            wrong += block[i] != (char)((got + i) * 31 % 251);
        if (got % 97 == 0)
            rest(5);
    }
    int status;
    wait(&status);
    say("got %ld, wrong %ld", got, wrong);
    say_status("writer", status);
    close(p[0]);
}

static void slow_words(void)
{
    int p[2], q[2];
    pipe(p), pipe(q);
    if (!fork()) {
        char b[64];
        close(p[1]), close(q[0]);
        for (int n; (n = read(p[0], b, sizeof b)) > 0;) {
            rest(25);
            for (int i = 0; i < n; i++)
                b[i] ^= 32;
            write(q[1], b, n);
        }
        _exit(7);
    }
    close(p[0]), close(q[1]);
    for (int i = 0; i < 12; i++) {
        char b[64], word[16];
        int n = sprintf(word, "word%d", i);
        write(p[1], word, n);
        n = read(q[0], b, sizeof b);
        say("answer %.*s", n, b);
        chew(5 * CHEW_MS);
    }
    close(p[1]);
    char b[4];
    SHOW(read(q[0], b, 4));
    int status;
    wait(&status);
    say_status("echo", status);
    close(q[0]);
}

static int pipes_seen;
static void on_pipe(int s) { pipes_seen++; }

int main(void)
{
    int p[2];
    char b[70000];
    memset(b, 'b', sizeof b);
    SHOW(pipe((int *)8));
    SHOW(pipe2(p, 0x7fffffff));
    SHOW(pipe2(p, O_NONBLOCK | O_CLOEXEC));
    SHOW(read(p[0], b, 1));
    SHOW(write(p[1], b, sizeof b));
    SHOW(write(p[1], b, sizeof b));
    int n;
    SHOW(ioctl(p[0], FIONREAD, &n));
    say("waiting %d", n);
    struct pollfd f[2] = {{p[0], POLLIN}, {p[1], POLLOUT}};
    SHOW(poll(f, 2, 100));
    say("revents %x %x", f[0].revents, f[1].revents);
    SHOW(read(p[0], b, sizeof b));
    SHOW(poll(f, 2, 100));
    say("revents %x %x", f[0].revents, f[1].revents);
    SHOW(poll(f, 1, 120));
    SHOW(fcntl(p[1], F_GETPIPE_SZ));
    SHOW(fcntl(p[1], F_SETPIPE_SZ, 4096));
    SHOW(write(p[0], b, 1));
    SHOW(lseek(p[0], 0, SEEK_SET));
    signal(SIGPIPE, on_pipe);
    close(p[0]);
    SHOW(write(p[1], b, 1));
    say("SIGPIPE came %d times", pipes_seen);
    SHOW(poll(f + 1, 1, 0));
    say("revents %x", f[1].revents);
    signal(SIGPIPE, SIG_DFL);
    pid_t child = fork();
    if (!child) {
        write(p[1], b, 1);
        _exit(3);
    }
    int status;
    HOLDS(waitpid(child, &status, 0) == child);
    say_status("writer without reader", status);
    close(p[1]);
    stream();
    slow_words();
    SHOW(mkfifo("fifo", 0600));
    if (!fork()) {
        rest(80);
        int fd = open("fifo", O_WRONLY);
        write(fd, "through the fifo", 16);
        _exit(0);
    }
    int fd = open("fifo", O_RDONLY);
    SHOW(read(fd, b, 100));
    SHOW(read(fd, b, 100));
    wait(&status);
    say_status("fifo writer", status);
    return 0;
}
