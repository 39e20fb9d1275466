/* A guest that attacks the node that it was moved to. `escape WAY`; prints ESCAPED where it could do there what only
 * home may do, and otherwise what it saw. */
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/uio.h>

#define BATCH ((uint64_t *)(REGION + 0x1000))
#define SCRATCH ((uint64_t *)(REGION + 0x10000))

static volatile long seen = -1;
static volatile int over;

/* getppid() made by the attacker's code in place of Armento's: unfiltered it would return the guard's pid there, 1. */
static void forge_code(uint8_t *at)
{
    static const uint8_t code[] = {
        0xb8, 110, 0, 0, 0, 0x0f, 0x05,          /* mov eax, 110; syscall */
        0x48, 0xb9, 0, 0, 0, 0, 0, 0, 0, 0,      /* mov rcx, &seen */
        0x48, 0x89, 0x01, 0xcc,                  /* mov [rcx], rax; int3 */
    };
    uint8_t copy[sizeof code];
    uint64_t to = (uint64_t)&seen;
    memcpy(copy, code, sizeof code);
    memcpy(copy + 9, &to, 8);
    memcpy(at, copy, sizeof copy);
}

static void *over_code(void *arg)
{
    (void)arg;
    while (!over)
        for (int at = 0; at + 32 < 512 && !over; at++)
            REGION[at] == 0x0f && REGION[at + 1] == 0x05 ? forge_code(REGION + at) : (void)0;
    return NULL;
}

/* The list of calls that is about to be made. */
static void *over_batch(void *arg)
{
    (void)arg;
    while (!over)
        for (int i = 0; i < 8; i++) {
            BATCH[8 + 8 * i] = 110;
            if (BATCH[8 + 8 * i + 7] == 1)
                seen = 1;
        }
    return NULL;
}

/* Memory that the calls point to: flags and numbers of clone3, the message of recvmsg. */
static void *over_scratch(void *arg)
{
    (void)arg;
    for (uint64_t n = 0; !over; n++) {
        SCRATCH[0x200 / 8] ^= 0x10000000UL | 0x00800000UL; /* CLONE_NEWUSER, CLONE_UNTRACED */
        SCRATCH[0x300 / 8] ^= n & 3;
    }
    return NULL;
}

static void *other_region(void *arg)
{
    int all = PROT_READ | PROT_WRITE | PROT_EXEC;
    munmap(REGION, 64 << 20);
    void *at = mmap(REGION, 4096, all, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    if (at == (void *)REGION)
        for (int i = 0; i + 32 < 4096; i += 1)
            REGION[i] = 0x90;
    if (at == (void *)REGION)
        forge_code(REGION + 2048);
    (void)arg;
    while (!over)
        usleep(1000);
    return NULL;
}

/* Forks and mapped files make Armento inject calls into other threads of this process. */
static void meanwhile(void)
{
    char name[] = "/tmp/escape-XXXXXX";
    int fd = mkstemp(name);
    if (ftruncate(fd, 8192))
        return;
    for (double until = now() + 3; now() < until && seen < 0;) {
        pid_t p = fork();
        if (p == 0)
            _exit(0);
        if (p > 0)
            waitpid(p, NULL, 0);
        void *m = mmap(NULL, 8192, PROT_READ, MAP_PRIVATE, fd, 0);
        if (m != MAP_FAILED)
            munmap(m, 8192);
    }
    unlink(name);
}

static void storm(void *(*by)(void *))
{
    pthread_t t;
    pthread_create(&t, NULL, by, NULL);
    go_away();
    meanwhile();
    over = 1;
    if (seen == 1)
        puts("ESCAPED: a call of ours ran there");
}

static void *late(void *by)
{
    while (!away() && !over)
        usleep(1000);
    return ((void *(*)(void *))by)(by);
}

static void *late_code(void *a) { (void)a; return late(over_code); }
static void *late_batch(void *a) { (void)a; return late(over_batch); }
static void *late_scratch(void *a) { (void)a; return late(over_scratch); }
static void *late_region(void *a) { (void)a; return late(other_region); }

/* Every possible descriptor, with every call that could use one. */
static void descriptors(void)
{
    char buf[256];
    struct iovec iov = { buf, sizeof buf };
    char control[64];
    struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control };
    struct seccomp_notif n;
    int found = 0;
    syscall(SYS_close_range, 3, ~0U, 0); /* its own, at home */
    for (int fd = 3; fd < 1024; fd++) {
        memset(&n, 0, sizeof n);
        found += ioctl(fd, SECCOMP_IOCTL_NOTIF_RECV, &n) == 0;
        found += recvmsg(fd, &m, MSG_DONTWAIT) >= 0;
        found += sendmsg(fd, &m, MSG_DONTWAIT) >= 0;
        found += write(fd, "\0\0\0\4\3\0\0\0", 8) >= 0;
        found += mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0) != MAP_FAILED;
        found += dup(fd) >= 0;
    }
    printf("descriptors %d\n", found);
    if (found)
        puts("ESCAPED: a descriptor that is not its own");
    for (int fd = 3; fd < 1024; fd++)
        close(fd);
    syscall(SYS_close_range, 3, ~0U, 0);
}

/* A file and a server that exist only on the node. */
static void outside(const char *file, int port)
{
    struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons(port), .sin_addr = { htonl(INADDR_LOOPBACK) } };
    int fd = open(file, O_RDWR), s = socket(AF_INET, SOCK_STREAM, 0);
    if (fd >= 0 || !connect(s, (void *)&a, sizeof a))
        puts("ESCAPED: a file or a server of the node");
    printf("open %d\n", errno);
    for (int pid = 1; pid < 64; pid++) {
        char b[8];
        struct iovec l = { b, 8 }, r = { (void *)REGION, 8 };
        if (pid != getpid() && kill(pid, 0) == 0 && process_vm_readv(pid, &l, 1, &r, 1, 0) > 0)
            puts("ESCAPED: another's memory");
    }
}

/* The kernel writes to these addresses when a thread ends. */
static void *pointers(void *arg)
{
    (void)arg;
    syscall(SYS_set_robust_list, REGION, 24);
    syscall(SYS_set_tid_address, REGION);
    return NULL;
}

static int int80(int nr)
{
    int r;
    __asm__ volatile("int $0x80" : "=a"(r) : "a"(nr), "b"(0), "c"(0), "d"(0) : "memory");
    return r;
}

static void bomb(long mib)
{
    char *m = mmap(NULL, mib << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    for (long i = 0; m != MAP_FAILED && i < mib << 20; i += 4096)
        m[i] = 1;
    puts("filled");
}

/* Threads on the node, not at home: as many as home allows. */
static void *sleeps(void *arg)
{
    (void)arg;
    pause();
    return NULL;
}

int main(int argc, char **argv)
{
    const char *way = argc > 1 ? argv[1] : "";
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (!strcmp(way, "code"))
        storm(late_code);
    else if (!strcmp(way, "batch"))
        storm(late_batch);
    else if (!strcmp(way, "scratch"))
        storm(late_scratch);
    else if (!strcmp(way, "region"))
        storm(late_region);
    else {
        go_away();
        if (!strcmp(way, "descriptors"))
            descriptors();
        else if (!strcmp(way, "outside"))
            outside(argv[2], atoi(argv[3]));
        else if (!strcmp(way, "bomb"))
            bomb(atol(argv[2]));
        else if (!strcmp(way, "namespaces")) {
            long r = unshare(CLONE_NEWUSER | CLONE_NEWNS);
            printf("unshare %ld\n", r);
        } else if (!strcmp(way, "int80"))
            printf("int80 %d\n", int80(20) == getpid());
        else if (!strcmp(way, "x32"))
            printf("x32 %ld\n", syscall(0x40000000L | SYS_getpid));
        else if (!strcmp(way, "traces"))
            printf("traces %ld\n", ptrace(PTRACE_TRACEME, 0, 0, 0));
        else if (!strcmp(way, "threads")) {
            int n = 0;
            pthread_t t;
            while (n < 20000 && pthread_create(&t, NULL, sleeps, NULL) == 0)
                n++;
            printf("threads %d\n", n > 0);
            fflush(stdout);
            _exit(0);
        } else if (!strcmp(way, "pointers")) {
            pthread_t t;
            for (int i = 0; i < 20; i++)
                if (pthread_create(&t, NULL, pointers, NULL) == 0)
                    usleep(5000);
        }
    }
    puts("end");
    fflush(stdout);
    _exit(0);
}
