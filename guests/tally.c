/* Calls that must be made once each: append, read-modify-write, O_EXCL, mkdir, eventfd, lseek, pipe, datagrams,
 * sigqueue, fork. Each keeps its own count and prints when one was made twice, or was lost. The fault campaign moves it
 * about while it injects faults; a child that was killed ends it as if killed itself. With a second argument it sends no
 * signals and has no children. Half a second. */
#include "show.h"
#include <sys/eventfd.h>

static volatile sig_atomic_t heard, wrong_value;
static int round_now;

static void on_signal(int sig, siginfo_t *info, void *context)
{
    (void)sig, (void)context;
    heard++;
    if (info->si_value.sival_int != round_now)
        wrong_value = info->si_value.sival_int + 1;
}

static void must(int holds, const char *what)
{
    if (!holds)
        say("WRONG in round %d: %s: %s", round_now, what, strerror(errno));
}

/* Its reader or its child has ended: the fault may have affected this process, too. */
static void lost(void)
{
    _exit(128 + SIGKILL);
}

static void append(const char *file, const char *word, int n)
{
    char line[64];
    int len = snprintf(line, sizeof line, "%s %d\n", word, n);
    int fd = open(file, O_WRONLY | O_CREAT | O_APPEND, 0644);
    must(fd >= 0 && write(fd, line, len) == len, file);
    close(fd);
}

/* Takes numbers from a pipe: in order, each once, to the last one. */
static void reader(int from)
{
    int want = 0, n;
    ssize_t got;
    while ((got = read(from, &n, sizeof n)) == sizeof n && n >= 0)
        append("reader", n == want++ ? "got" : "WRONG", n);
    if (got == sizeof n)
        append("reader", "end", want);
    else if (got != 0)
        append("reader", "WRONG end", want);
    _exit(0);
}

static void counter(int fd)
{
    int n = -1;
    must(pread(fd, &n, sizeof n, 0) == sizeof n && n == round_now, "counter read");
    n++;
    must(pwrite(fd, &n, sizeof n, 0) == sizeof n, "counter written");
    must(lseek(fd, 1, SEEK_CUR) == round_now + 1, "lseek");
}

static void datagram(const int pair[2])
{
    int n = -1;
    must(send(pair[0], &round_now, sizeof n, 0) == sizeof n, "send");
    must(recv(pair[1], &n, sizeof n, 0) == sizeof n && n == round_now, "recv");
    must(recv(pair[1], &n, sizeof n, MSG_DONTWAIT) < 0 && errno == EAGAIN, "a second datagram");
}

static void folder(void)
{
    char name[32];
    snprintf(name, sizeof name, "made-%d", round_now % 7);
    must(mkdir(name, 0755) == 0, "mkdir");
    must(rmdir(name) == 0, "rmdir");
    int fd = open(name, O_WRONLY | O_CREAT | O_EXCL, 0644);
    must(fd >= 0, "O_EXCL");
    close(fd);
    must(unlink(name) == 0, "unlink");
}

static void child(void)
{
    int status = 0;
    pid_t pid = fork();
    if (pid == 0) {
        append("children", "child of", round_now);
        _exit(round_now % 100);
    }
    must(pid > 0, "fork");
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
        lost();
    must(WIFEXITED(status) && WEXITSTATUS(status) == round_now % 100, "waitpid");
}

static unsigned mix(unsigned x)
{
    static unsigned memory[1 << 16];
    for (int i = 0; i < 1 << 20; i++) {
        x = x * 1664525 + 1013904223;
        memory[x >> 16] += x;
    }
    return memory[x >> 16];
}

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 60, calm = argc > 2, to[2], pair[2], zero = 0, status = 0, back = -1;
    unsigned x = 1;
    uint64_t one = 1, sum = 0;
    signal(SIGPIPE, SIG_IGN);
    struct sigaction act = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_RESTART};
    sigaction(SIGRTMIN, &act, NULL);
    must(pipe(to) == 0 && socketpair(AF_UNIX, SOCK_DGRAM, 0, pair) == 0, "pipes");
    int count = open("counter", O_RDWR | O_CREAT | O_TRUNC, 0644), events = eventfd(0, 0);
    must(write(count, &zero, sizeof zero) == sizeof zero && lseek(count, 0, SEEK_SET) == 0, "counter");
    pid_t other = calm ? -1 : fork();
    if (other == 0) {
        close(to[1]);
        reader(to[0]);
    }
    if (!calm)
        close(to[0]);
    for (round_now = 0; round_now < rounds; round_now++) {
        x = mix(x);
        append("log", "line", round_now);
        counter(count);
        if (write(to[1], &round_now, sizeof round_now) != sizeof round_now)
            lost();
        datagram(pair);
        folder();
        must(write(events, &one, sizeof one) == sizeof one, "eventfd");
        if (calm) {
            must(read(to[0], &back, sizeof back) == sizeof back && back == round_now, "pipe");
            append("reader", "got", back);
        } else {
            must(sigqueue(getpid(), SIGRTMIN, (union sigval){.sival_int = round_now}) == 0, "sigqueue");
            must(heard == round_now + 1 && !wrong_value, "signals heard");
            if (round_now % 8 == 0)
                child();
        }
        say("round %d %u", round_now, x);
    }
    must(read(events, &sum, sizeof sum) == sizeof sum && sum == (uint64_t)rounds, "sum of the eventfd");
    round_now = -1;
    if (write(to[1], &round_now, sizeof round_now) != sizeof round_now)
        lost();
    close(to[1]);
    while (!calm && waitpid(other, &status, 0) < 0 && errno == EINTR)
        ;
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
        lost();
    must(status == 0, "the reader");
    say("end");
    return 0;
}
