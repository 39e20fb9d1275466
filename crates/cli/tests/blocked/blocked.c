/* See blocked.h. */
#include "blocked.h"

int p[2], q[2], fd;
pid_t caller;
long limit = 1000;
int part;
char buf[1 << 19];

static int times, knock[2], over[2], other_speaks;
static struct row *row;
extern struct row *__start_rows[], *__stop_rows[];

void say(const char *format, ...)
{
    char line[512];
    int kept = errno;
    va_list args;
    va_start(args, format);
    line[0] = '~';
    int n = other_speaks;
    n += vsnprintf(line + n, sizeof line - 2, format, args);
    va_end(args);
    line[n++] = '\n';
    for (int at = 0; at < n;) {
        ssize_t w = write(1, line + at, n - at);
        if (w < 0 && errno != EINTR)
            _exit(99);
        at += w > 0 ? w : 0;
    }
    errno = kept;
}

double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}

static double at_time(int i)
{
    double t = 0;
    pread(times, &t, sizeof t, i * sizeof t);
    return t;
}
double marked(void) { return at_time(0); }
double later(void) { return at_time(1); }

static void note(int i)
{
    double t = now();
    pwrite(times, &t, sizeof t, i * sizeof t);
}

void fill(int to)
{
    int flags = fcntl(to, F_GETFL);
    fcntl(to, F_SETFL, flags | O_NONBLOCK);
    for (int size = 4096; size; size /= 2)
        while (write(to, buf, size) > 0)
            ;
    fcntl(to, F_SETFL, flags);
}

void drain(int from, long bytes)
{
    static unsigned char got[65536];
    uint64_t sum = 0;
    long n = 0;
    while (n < bytes) {
        long most = bytes - n < (long)sizeof got ? bytes - n : (long)sizeof got;
        ssize_t r = read(from, got, most);
        if (r <= 0)
            break;
        for (ssize_t i = 0; i < r; i++)
            sum = sum * 31 + got[i];
        n += r;
    }
    say("  drained %ld, sum %lx", n, (long)sum);
}

void give(int to, const char *text) { write(to, text, strlen(text)); }

sigset_t *set(int sig)
{
    static sigset_t s;
    sigemptyset(&s), sigaddset(&s, sig);
    return &s;
}
void block(int sig) { sigprocmask(SIG_BLOCK, set(sig), NULL); }

long queued(int in)
{
    int n = -1;
    return ioctl(in, FIONREAD, &n) ? -1 : n;
}

void sockets(int type) { socketpair(AF_UNIX, type, 0, p); }

struct timespec *spec(long s, long ns)
{
    static struct timespec t[4];
    static int i;
    struct timespec *one = &t[i++ % 4];
    *one = (struct timespec){s, ns};
    return one;
}

struct timespec *in_limit(clockid_t id, int absolute)
{
    struct timespec t = {0};
    if (absolute)
        clock_gettime(id, &t);
    return spec(t.tv_sec + limit, t.tv_nsec);
}

static void on(int s) { say("# handled"); }

/* Runs in a thread of the calling process, when the other process writes to the pipe `knock`. */
static void *wakes(void *unused)
{
    char c;
    while (read(knock[0], &c, 1) == 1)
        row->wake(), part++;
    return unused;
}

/* The other process: reads line by line how to end the wait. */
static void attend(void)
{
    char line[32];
    int n = 0;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    other_speaks = 1;
    while (read(0, line + n, 1) == 1) {
        if (line[n] != '\n') {
            n = (n + 1) % 31;
            continue;
        }
        line[n] = 0, n = 0;
        if (!strcmp(line, "mark"))
            note(0);
        else if (!strcmp(line, "late"))
            note(1);
        else if (!strcmp(line, "signal"))
            note(1), kill(caller, SIGUSR1);
        else if (!strcmp(line, "wake") && row->flags & THREAD)
            write(knock[1], "w", 1);
        else if (!strcmp(line, "wake"))
            row->wake(), part++;
        else if (!strcmp(line, "end"))
            _exit(write(over[1], "e", 1) != 1);
        say("# done");
    }
    _exit(0);
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        for (struct row **r = __start_rows; r < __stop_rows; r++)
            say("%s %ld %d", (*r)->name, (*r)->nr, (*r)->flags);
        return 0;
    }
    for (struct row **r = __start_rows; r < __stop_rows; r++)
        if (!strcmp((*r)->name, argv[1]))
            row = *r;
    if (!strcmp(argv[2], "expire"))
        limit = 6;
    char dir[64], line[1];
    snprintf(dir, sizeof dir, "/tmp/blocked-XXXXXX");
    if (!row || !mkdtemp(dir) || chdir(dir))
        return 98;
    caller = getpid();
    times = memfd_create("times", 0);
    for (unsigned i = 0; i < sizeof buf; i++)
        buf[i] = i * 7 + i / 251;
    struct sigaction a = {.sa_handler = on, .sa_flags = strcmp(argv[2], "restart") ? 0 : SA_RESTART};
    sigaction(SIGUSR1, &a, NULL);
    pipe(knock), pipe(over);
    row->setup();
    pid_t other = fork();
    if (!other)
        attend();
    pthread_t thread;
    if (row->flags & THREAD) {
        block(SIGUSR1);
        pthread_create(&thread, NULL, wakes, NULL);
        sigprocmask(SIG_UNBLOCK, set(SIGUSR1), NULL);
    }
    say("# %d", caller);
    double began = now();
    errno = 0;
    long r = row->call();
    int e = errno;
    double took = now() - began;
    say("# returned");
    read(over[0], line, 1);
    waitpid(other, NULL, 0);
    say("%s: %ld %s", row->name, r, r == -1 ? strerrorname_np(e) : "");
    if (!strcmp(argv[2], "expire")) {
        HOLDS(took >= limit);
        /* The limit did not restart at the last move. */
        HOLDS(took < limit + (later() - marked()) / 2);
    }
    /* The call read or wrote its data once: the other process reads the rest. */
    if (p[0] != p[1])
        say("  left %ld", queued(p[0]));
    return 0;
}
