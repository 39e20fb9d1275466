/* Limits that are reached: RLIMIT_FSIZE with SIGXFSZ taken or deadly, NOFILE, DATA and brk, AS and mmap, STACK and the
 * depth a stack may have, MEMLOCK, CORE, SIGPENDING, what a child inherits and prlimit shows of it, raising above the
 * hard limit. About 0.9 s. */
#include "show.h"

static volatile int excess;
static void on_excess(int s) { excess++; }

static sigjmp_buf back;
static void overflow(int s) { siglongjmp(back, s); }
static __attribute__((noinline)) int deep(int n)
{
    volatile char frame[2048];
    frame[0] = n;
    return n ? deep(n - 1) + frame[0] - (char)n : 0;
}

static void set(int what, rlim_t soft)
{
    struct rlimit r;
    getrlimit(what, &r);
    r.rlim_cur = soft;
    if (setrlimit(what, &r))
        say("setrlimit %s", errno_name(errno));
}

#define CHILD(name, ...)                                                                           \
    do {                                                                                           \
        pid_t child_ = fork();                                                                     \
        int status_;                                                                               \
        if (!child_) {                                                                             \
            __VA_ARGS__;                                                                           \
            _exit(0);                                                                              \
        }                                                                                          \
        waitpid(child_, &status_, 0);                                                              \
        say_status(name, status_);                                                                 \
    } while (0)

static void file_size(void)
{
    char block[3000] = {0};
    int fd = open("sized", O_CREAT | O_RDWR, 0600);
    set(RLIMIT_FSIZE, 10000);
    rest(65);
    signal(SIGXFSZ, on_excess);
    for (int i = 0; i < 4; i++)
        SHOW(write(fd, block, sizeof block));
    SHOW(write(fd, block, 1));
    SHOW(pwrite(fd, block, 10, 9995));
    SHOW(ftruncate(fd, 10001));
    SHOW(ftruncate(fd, 500));
    SHOW(fallocate(fd, 0, 0, 20000));
    say("signals %d", excess);
    signal(SIGXFSZ, SIG_IGN);
    SHOW(pwrite(fd, block, 10, 10000));
    signal(SIGXFSZ, SIG_DFL);
    set(RLIMIT_CORE, 0);
    rest(50);
    pwrite(fd, block, 10, 10000);
}

static void memory(void)
{
    set(RLIMIT_DATA, 48 << 20);
    rest(65);
    char *p = mmap(NULL, 16 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    HOLDS(p != MAP_FAILED);
    p[5 << 20] = 1;
    SHOW(mmap(NULL, 64 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    HOLDS(mmap(NULL, 64 << 20, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED);
    SHOW(sbrk(64 << 20));
    HOLDS(sbrk(1 << 20) != (void *)-1);
    HOLDS(malloc(100 << 20) == NULL && errno == ENOMEM);
    set(RLIMIT_AS, 512 << 20);
    rest(65);
    SHOW(mmap(NULL, 600 << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    SHOW(mremap(p, 16 << 20, 600 << 20, MREMAP_MAYMOVE));
}

static void stack(void)
{
    set(RLIMIT_STACK, 1 << 20);
    rest(65);
    stack_t ss = {.ss_sp = malloc(65536), .ss_size = 65536};
    sigaltstack(&ss, NULL);
    struct sigaction a = {.sa_handler = overflow, .sa_flags = SA_ONSTACK};
    sigaction(SIGSEGV, &a, NULL);
    SHOW(deep(300));
    int caught = sigsetjmp(back, 1);
    if (!caught)
        say("survived %d", deep(900));
    say("caught %d", caught);
    set(RLIMIT_STACK, 4 << 20);
    rest(65);
    SHOW(deep(1500));
}

static void locked(void)
{
    set(RLIMIT_MEMLOCK, 64 << 10);
    char *p = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    rest(50);
    SHOW(mlock(p, 32 << 10));
    SHOW(mlock(p, 1 << 20));
    SHOW(munlock(p, 32 << 10));
}

static void waiting(void)
{
    sigset_t set_;
    sigemptyset(&set_), sigaddset(&set_, SIGRTMIN);
    sigprocmask(SIG_BLOCK, &set_, NULL);
    struct rlimit r;
    SHOW(getrlimit(RLIMIT_SIGPENDING, &r));
    set(RLIMIT_SIGPENDING, 0);
    rest(50);
    SHOW(sigqueue(getpid(), SIGRTMIN, (union sigval){.sival_int = 1}));
}

int main(void)
{
    CHILD("file size", file_size());
    CHILD("memory", memory());
    CHILD("stack", stack());
    CHILD("locked", locked());
    CHILD("waiting", waiting());
    struct rlimit r = {30, 40}, old;
    SHOW(prlimit(0, RLIMIT_NOFILE, &r, &old));
    rest(80);
    SHOW(dup2(1, 29));
    SHOW(dup2(1, 30));
    SHOW(fcntl(1, F_DUPFD, 29));
    int p[2];
    SHOW(open(".", O_RDONLY) < 30);
    while (dup(1) >= 0)
        ;
    SHOW(pipe(p));
    SHOW(socket(AF_UNIX, SOCK_STREAM, 0));
    r.rlim_cur = 41;
    SHOW(setrlimit(RLIMIT_NOFILE, &r));
    r.rlim_max = 41;
    SHOW(setrlimit(RLIMIT_NOFILE, &r));
    r.rlim_cur = 40, r.rlim_max = 40;
    SHOW(setrlimit(RLIMIT_NOFILE, &r));
    SHOW(dup(1));
    pid_t child = fork();
    if (!child)
        for (;;)
            rest(1000);
    SHOW(prlimit(child, RLIMIT_NOFILE, NULL, &old));
    say("the child's %ld %ld", (long)old.rlim_cur, (long)old.rlim_max);
    r = (struct rlimit){11, 12};
    SHOW(prlimit(child, RLIMIT_NOFILE, &r, NULL));
    rest(80);
    SHOW(prlimit(child, RLIMIT_NOFILE, NULL, &old));
    say("the child's %ld %ld", (long)old.rlim_cur, (long)old.rlim_max);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    SHOW(prlimit(child, RLIMIT_NOFILE, NULL, &old));
    SHOW(prlimit(0, 99, NULL, &old));
    SHOW(setrlimit(RLIMIT_NOFILE, (void *)8));
    return 0;
}
