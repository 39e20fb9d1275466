/* A guest that uses up processes, descriptors and mapped files, sends signals to every process, and has the kernel
 * write and jump into Armento's code. `harm WAY`; it must print what it prints at home, except for `away`. */
#include <dirent.h>
#include <linux/sched.h>
#include <stddef.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>

static volatile long seen = -1;

static void until_file(const char *path)
{
    while (access(path, F_OK))
        usleep(20000);
}

/* Every process forks for so many seconds, and tries again when refused. */
static void forks(double seconds)
{
    double until = now() + seconds;
    pid_t first = fork();
    if (first == 0) {
        setpgid(0, 0);
        while (now() < until)
            if (fork() < 0)
                usleep(1000);
        /* In case no process is left to kill them. */
        sleep(20);
        _exit(0);
    }
    setpgid(first, first);
    while (now() < until)
        usleep(10000);
    /* It may kill all of them. */
    while (kill(-first, SIGKILL) == 0)
        while (waitpid(-first, NULL, WNOHANG) > 0)
            ;
    printf("none left %d\n", errno == ESRCH || errno == EPERM);
}

/* Until each kind is refused. */
static void opens(const char *until)
{
    int n[4] = { 0 }, said[4] = { 0 }, p[2];
    while (open("/dev/null", O_RDWR) >= 0)
        n[0]++;
    said[0] = errno;
    for (int fd = 100; fd < 200; fd++)
        close(fd);
    while (dup(0) >= 0)
        n[1]++;
    said[1] = errno;
    for (int fd = 100; fd < 200; fd++)
        close(fd);
    while (socket(AF_UNIX, SOCK_STREAM, 0) >= 0)
        n[2]++;
    said[2] = errno;
    for (int fd = 100; fd < 200; fd++)
        close(fd);
    while (pipe(p) == 0)
        n[3]++;
    said[3] = errno;
    for (int i = 0; i < 4; i++)
        printf("%d: %d times, then %d\n", i, n[i], said[i]);
    if (until)
        until_file(until);
}

/* Maps so many files at once, and closes their descriptors. Their first bytes are their numbers. */
static void maps(int most)
{
    char name[64];
    long sum = 0;
    int n = 0, *all[20000];
    mkdir("/tmp/harm-maps", 0700);
    for (; n < most; n++) {
        snprintf(name, sizeof name, "/tmp/harm-maps/%d", n);
        int fd = open(name, O_RDWR | O_CREAT | O_TRUNC, 0600);
        if (fd < 0 || write(fd, &n, sizeof n) != sizeof n)
            break;
        all[n] = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0);
        close(fd);
        if (all[n] == MAP_FAILED)
            break;
        sum += *all[n];
    }
    printf("%d files, sum %ld\n", n, sum);
    for (int i = 0; i < n; i++) {
        sum -= *all[i];
        snprintf(name, sizeof name, "/tmp/harm-maps/%d", i);
        unlink(name);
    }
    rmdir("/tmp/harm-maps");
    printf("left %ld\n", sum);
}

/* kill(-1), and then every pid. */
static void kills(int one_by_one)
{
    pid_t child = fork();
    if (child == 0)
        for (;;)
            pause();
    printf("all %d\n", one_by_one ? 0 : kill(-1, SIGKILL));
    for (int pid = 1; one_by_one && pid < 32768; pid++)
        if (pid != getpid())
            kill(pid, SIGKILL);
    printf("child ended %d\n", waitpid(child, NULL, 0) == child);
}

/* Pids that a process may not choose, and flags for which it lacks the right. */
static void clones(unsigned from)
{
    static const struct {
        uint64_t flags;
        long tid;
        uint64_t stack, size;
    } all[] = {
        { 0, 1, 0, 0 }, { 0, 2, 0, 0 }, { 0, 31000, 0, 0 },
        { CLONE_NEWPID, 1, 0, 0 }, { CLONE_NEWUSER, 0, 0, 0 }, { CLONE_NEWNET, 0, 0, 0 },
        { CLONE_VM, 0, ~0UL, 16 }, { CLONE_VM, 0, 8, ~0UL }, { CLONE_VM | CLONE_VFORK, 0, 16, 0 },
        { CLONE_VM | CLONE_SIGHAND | CLONE_THREAD, 0, 0, 8 },
        { CLONE_VM | CLONE_SIGHAND | CLONE_THREAD, 0, ~0UL - 7, 8 },
        { CLONE_SIGHAND, 0, 0, 0 }, { CLONE_THREAD, 0, 0, 0 }, { CLONE_FS | CLONE_NEWNS, 0, 0, 0 },
        { CLONE_INTO_CGROUP, 0, 0, 0 }, { CLONE_PIDFD | CLONE_DETACHED, 0, 0, 0 }, { 1UL << 40, 0, 0, 0 },
    };
    unsigned n = sizeof all / sizeof *all;
    /* One a run: a call that the host does not serve moves its caller home. */
    for (unsigned i = from; i < n && i == from; i++) {
        pid_t tid = all[i].tid;
        struct clone_args a = {
            .flags = all[i].flags, .exit_signal = all[i].flags & (CLONE_THREAD | CLONE_DETACHED) ? 0 : SIGCHLD,
            .stack = all[i].stack, .stack_size = all[i].size,
            .set_tid = tid ? (uint64_t)&tid : 0, .set_tid_size = tid != 0, .cgroup = 3,
        };
        long r = syscall(SYS_clone3, &a, sizeof a);
        if (r == 0)
            _exit(0);
        printf("%u: %s %d\n", i, r > 0 ? "made" : "refused", r > 0 ? 0 : errno);
        if (r > 0)
            waitpid(r, NULL, 0);
    }
    /* Small stacks, as clone(2) has them: the child cannot run, and ends. */
    for (uint64_t stack = 8; from == n && stack < 32; stack += 8) {
        long r = syscall(SYS_clone, SIGCHLD, stack, NULL, NULL, NULL);
        if (r == 0)
            _exit(0);
        if (r > 0)
            waitpid(r, NULL, 0);
        printf("stack: %s\n", r > 0 ? "made" : "refused");
    }
}

/* Forks and mapped files make Armento inject calls into other threads of this process. */
static void meanwhile(int times)
{
    for (; times > 0 && seen < 0; times--) {
        pid_t p = fork();
        if (p == 0)
            _exit(0);
        if (p > 0)
            waitpid(p, NULL, 0);
        int fd = open("/proc/self/exe", O_RDONLY);
        void *m = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0);
        if (m != MAP_FAILED)
            munmap(m, 4096);
        close(fd);
    }
}

/* Registers restartable sequences over Armento's code: a thread that is interrupted in it continues here. KERNEL: rseq(2). */
extern const ptrdiff_t __rseq_offset;
struct cs {
    uint32_t version, flags;
    uint64_t start, len, abort;
} __attribute__((aligned(32)));
static struct cs cs;
static volatile uint64_t *cs_at;
static volatile int over;

__attribute__((naked, used)) static void aborted(void)
{
    /* The signature, then getppid() in place of Armento's call, with the result 1 there. */
    __asm__ volatile(".long 0x53053053\n"
                     ".globl abort_here\nabort_here:\n"
                     "mov $110, %%eax\nsyscall\n"
                     "mov %%rax, seen(%%rip)\nint3\njmp abort_here\n" ::);
}
extern char abort_here[];

static void *over_cs(void *arg)
{
    (void)arg;
    while (!over)
        *cs_at = (uint64_t)&cs;
    return NULL;
}

static void sequences(uint64_t start, uint64_t len)
{
    pthread_t t;
    cs = (struct cs){ 0, 0, start, len, (uint64_t)abort_here };
    cs_at = (uint64_t *)((char *)__builtin_thread_pointer() + __rseq_offset + 8);
    pthread_create(&t, NULL, over_cs, NULL);
    meanwhile(50);
    over = 1;
    pthread_join(t, NULL);
    *cs_at = 0;
    if (seen == 1)
        puts("ESCAPED: a call of ours ran there");
}

/* Writes by the kernel: at every return (rseq), at the end of a thread (robust list, set_tid_address). */
static void *writes(void *at)
{
    static struct { uint64_t next, off, pending; } list[2];
    syscall(SYS_rseq, (char *)__builtin_thread_pointer() + __rseq_offset, 32, 1, 0x53053053);
    syscall(SYS_rseq, at, 32, 0, 0x53053053);
    syscall(SYS_set_tid_address, at);
    list[0].next = (uint64_t)at;
    list[0].pending = (uint64_t)at + 64;
    syscall(SYS_set_robust_list, &list[0], 24);
    sched_yield();
    return NULL;
}

static void *last(void *arg)
{
    (void)arg;
    /* The first thread ends meanwhile. */
    usleep(50000);
    meanwhile(5);
    puts("end");
    fflush(stdout);
    _exit(0);
}

int main(int argc, char **argv)
{
    const char *way = argc > 1 ? argv[1] : "", *what = argc > 2 ? argv[2] : NULL;
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (!getenv("NATIVE"))
        go_away();
    if (!strcmp(way, "forks"))
        forks(atof(what));
    else if (!strcmp(way, "opens"))
        opens(what);
    else if (!strcmp(way, "maps"))
        maps(atoi(what));
    else if (!strcmp(way, "kills"))
        kills(!strcmp(what, "each"));
    else if (!strcmp(way, "clones"))
        clones(what ? atoi(what) : 0);
    else if (!strcmp(way, "sequences"))
        sequences((uint64_t)REGION, 64 << 20);
    else if (!strcmp(way, "writes")) {
        uint64_t at = (uint64_t)REGION + strtoul(what, NULL, 0);
        for (int i = 0; i < 10; i++) {
            pthread_t t;
            /* The thread cannot be joined: its TID address has been changed. */
            pthread_create(&t, NULL, writes, (void *)at);
            meanwhile(3);
        }
        /* The first thread itself, which is then moved home with the change, and ends. */
        pthread_t t;
        writes((void *)at);
        syscall(SYS_unshare, CLONE_NEWUSER);
        pthread_create(&t, NULL, last, NULL);
        pthread_exit(NULL);
    }
    puts("end");
    fflush(stdout);
    _exit(0);
}
