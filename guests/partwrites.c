/* Writes that block until all is written return the whole count, although their process stops or moves in between; with
 * a handler, without blocking, with a time limit they return the part, as natively. About 1.6 s. */
#include "show.h"

#define LEN 300000
static unsigned char data[LEN];

/* The value of byte i. */
static unsigned char at(long i)
{
    return (unsigned char)(i * 7 + (i >> 8) * 13);
}

/* Reads all, slowly, and prints whether it is the written data. */
static void reader(const char *what, int fd, int first_ms)
{
    unsigned char b[16384];
    long all = 0, wrong = 0;
    rest(first_ms);
    for (;;) {
        ssize_t n = read(fd, b, sizeof b);
        if (n <= 0)
            break;
        for (ssize_t i = 0; i < n; i++)
            wrong += b[i] != at(all + i);
        all += n;
        rest(4);
    }
    say("%s: read %ld, %ld wrong", what, all, wrong);
    _exit(0);
}

static pid_t reads(const char *what, int p[2], int first_ms)
{
    pid_t child = fork();
    if (!child) {
        close(p[1]);
        reader(what, p[0], first_ms);
    }
    close(p[0]);
    return child;
}

static void told(const char *what, ssize_t n, int fd, pid_t child)
{
    int e = n < 0 ? errno : 0;
    close(fd);
    waitpid(child, NULL, 0);
    say("%s: told %zd, errno %d", what, n, e);
}

static void pieces(struct iovec v[5])
{
    const long cuts[6] = {0, 1000, 1000, 120000, 120001, LEN};
    for (int i = 0; i < 5; i++)
        v[i] = (struct iovec){data + cuts[i], (size_t)(cuts[i + 1] - cuts[i])};
}

static void whole(void)
{
    int p[2];
    pid_t child;
    struct iovec v[5];
    pieces(v);

    pipe(p);
    child = reads("write", p, 60);
    told("write", write(p[1], data, LEN), p[1], child);

    pipe(p);
    child = reads("writev", p, 60);
    told("writev", writev(p[1], v, 5), p[1], child);

    socketpair(AF_UNIX, SOCK_STREAM, 0, p);
    child = reads("send", p, 60);
    told("send", send(p[1], data, LEN, 0), p[1], child);

    socketpair(AF_UNIX, SOCK_STREAM, 0, p);
    child = reads("sendmsg", p, 60);
    struct msghdr m = {.msg_iov = v, .msg_iovlen = 5};
    told("sendmsg", sendmsg(p[1], &m, 0), p[1], child);
}

/* With descriptors: they come once. */
static void rights(void)
{
    int p[2];
    struct iovec v[5];
    pieces(v);
    socketpair(AF_UNIX, SOCK_STREAM, 0, p);
    pid_t child = fork();
    if (!child) {
        static char b[LEN];
        long all = 0, fds = 0;
        close(p[1]);
        rest(60);
        for (;;) {
            char c[64];
            struct iovec one = {b, 16384};
            struct msghdr m = {.msg_iov = &one, .msg_iovlen = 1, .msg_control = c, .msg_controllen = sizeof c};
            ssize_t n = recvmsg(p[0], &m, 0);
            if (n <= 0)
                break;
            all += n;
            fds += CMSG_FIRSTHDR(&m) != NULL;
            rest(4);
        }
        say("rights: read %ld, %ld descriptors", all, fds);
            _exit(0);
    }
    close(p[0]);
    char c[CMSG_SPACE(sizeof(int))] = {0};
    struct msghdr m = {.msg_iov = v, .msg_iovlen = 5, .msg_control = c, .msg_controllen = sizeof c};
    struct cmsghdr *h = CMSG_FIRSTHDR(&m);
    h->cmsg_level = SOL_SOCKET;
    h->cmsg_type = SCM_RIGHTS;
    h->cmsg_len = CMSG_LEN(sizeof(int));
    *(int *)CMSG_DATA(h) = 1;
    told("rights", sendmsg(p[1], &m, 0), p[1], child);
}

/* More than is forwarded at once. */
static void large(void)
{
    const size_t len = 9 << 20;
    int p[2];
    char *b = calloc(1, len);
    struct iovec v[2] = {{b, 100}, {b + 100, len - 100}};
    pipe(p);
    pid_t child = fork();
    if (!child) {
        static char c[65536];
        long all = 0;
        close(p[1]);
        for (ssize_t n; (n = read(p[0], c, sizeof c)) > 0;)
            all += n;
        say("large: read %ld", all);
        _exit(0);
    }
    close(p[0]);
    say("large: told %zd", write(p[1], b, len));
    told("large, in pieces", writev(p[1], v, 2), p[1], child);
    free(b);
}

static volatile int seen;
static void handler(int sig)
{
    (void)sig;
    seen++;
}

static void timer(int ms)
{
    struct itimerval t = {.it_value.tv_usec = ms * 1000};
    setitimer(ITIMER_REAL, &t, NULL);
}

/* A handler during the call, whatever its flags, ends it with the part that was written. */
static void handled(const char *what, int flags)
{
    int p[2];
    struct sigaction a = {.sa_handler = handler, .sa_flags = flags};
    sigaction(SIGALRM, &a, NULL);
    pipe(p);
    seen = 0;
    timer(120);
    ssize_t n = write(p[1], data, LEN);
    say("%s: told %zd, handler ran %d", what, n, seen);
    close(p[0]);
    close(p[1]);
}

/* Signals without effect do not end it. */
static void ignored(void)
{
    int p[2];
    pipe(p);
    pid_t child = reads("ignored", p, 150);
    pid_t pest = fork();
    if (!pest) {
        for (int i = 0; i < 8; i++) {
            rest(20);
            kill(getppid(), i & 1 ? SIGWINCH : SIGURG);
        }
        _exit(0);
    }
    ssize_t n = write(p[1], data, LEN);
    waitpid(pest, NULL, 0);
    told("ignored", n, p[1], child);
}

static void parts(void)
{
    int p[2];
    pipe(p);
    fcntl(p[1], F_SETFL, O_NONBLOCK);
    say("no block: told %zd", write(p[1], data, LEN));
    close(p[0]);
    close(p[1]);
    socketpair(AF_UNIX, SOCK_STREAM, 0, p);
    struct timeval t = {0, 100000};
    setsockopt(p[1], SOL_SOCKET, SO_SNDTIMEO, &t, sizeof t);
    ssize_t n = send(p[1], data, LEN, 0);
    say("limit: told %s", n > 0 && n < LEN ? "a part" : "no part");
    close(p[0]);
    close(p[1]);
}

/* Two threads write at once, each a pipe of its own. */
static void *writes(void *arg)
{
    int *p = arg;
    return (void *)write(p[1], data, LEN);
}

static void threads(void)
{
    int p[2][2];
    pid_t child[2];
    pthread_t t[2];
    for (int i = 0; i < 2; i++) {
        pipe(p[i]);
            child[i] = fork();
        if (!child[i]) {
            close(p[i][1]);
            if (i)
                close(p[0][1]);
            unsigned char b[16384];
            rest(50);
            while (read(p[i][0], b, sizeof b) > 0)
                rest(4);
            _exit(0);
        }
        close(p[i][0]);
    }
    for (int i = 0; i < 2; i++)
        pthread_create(&t[i], NULL, writes, p[i]);
    for (int i = 0; i < 2; i++) {
        void *n;
        pthread_join(t[i], &n);
        say("thread %d: told %ld", i, (long)n);
        close(p[i][1]);
        waitpid(child[i], NULL, 0);
    }
}

int main(void)
{
    for (long i = 0; i < LEN; i++)
        data[i] = at(i);
    whole();
    rights();
    large();
    handled("handler", 0);
    handled("handler, SA_RESTART", SA_RESTART);
    ignored();
    parts();
    threads();
    return 0;
}
