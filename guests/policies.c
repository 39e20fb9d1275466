/* NUMA policies: mbind, set_mempolicy, get_mempolicy with MPOL_BIND, MPOL_INTERLEAVE, MPOL_LOCAL and others on node
 * 0: of an area, of a part of one, of an area that moves or is unmapped in part, of each thread by itself; what
 * threads, children and new programs inherit; errors. Policies of before a move are asked for after it. About 0.7 s. */
#include "show.h"
#include <linux/mempolicy.h>

#define PAGES 64
#define LEN (PAGES * 4096)

static unsigned long none[16], first[16] = {1}, far[16] = {0, 1ul << 20};

static long bind_area(char *p, long len, int mode, unsigned long *nodes, unsigned flags)
{
    return syscall(SYS_mbind, p, len, mode, nodes, 1024ul, flags);
}

static long set_own(int mode, unsigned long *nodes) { return syscall(SYS_set_mempolicy, mode, nodes, 1024ul); }

static const char *word(long result, int mode, unsigned long *nodes)
{
    static __thread char text[8][60];
    static __thread int turn;
    static const char *names[] = {"default", "preferred", "bind", "interleave", "local", "preferred many"};
    char *to = text[turn++ % 8];
    int kind = mode & 0xfff;
    if (result)
        sprintf(to, "%s", errno_name(errno));
    else
        sprintf(to, "%s%s mask %lx", kind < 6 ? names[kind] : "?", mode & MPOL_F_STATIC_NODES ? " static" : "", nodes[0]);
    return to;
}

/* The policy of the page, or of the thread itself. */
static const char *of(char *p)
{
    unsigned long nodes[16] = {0};
    int mode = -1;
    long r = syscall(SYS_get_mempolicy, &mode, nodes, 1024ul, p, p ? MPOL_F_ADDR : 0);
    return word(r, mode, nodes);
}

static void show(const char *when, char *p)
{
    say("%s: own %s; pages %s, %s, %s, %s", when, of(NULL), of(p), of(p + LEN / 4), of(p + LEN / 2), of(p + LEN / 4 * 3));
}

static int node(char *p)
{
    int n = -1;
    return syscall(SYS_get_mempolicy, &n, NULL, 0ul, p, MPOL_F_NODE | MPOL_F_ADDR) ? -errno : n;
}

static char *fresh(void)
{
    return mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

static pthread_barrier_t gate;
static char *area;

static void *other(void *arg)
{
    say("thread, as born: own %s", of(NULL));
    SHOW(set_own(MPOL_BIND, first));
    rest(40);
    say("thread: own %s", of(NULL));
    pthread_barrier_wait(&gate);
    for (int i = 0; i < 10; i++) {
        i % 2 ? rest(10) : (void)chew(8 * CHEW_MS);
        if (strcmp(of(NULL), "bind mask 1"))
            say("thread, round %d: own %s", i, of(NULL));
    }
    pthread_barrier_wait(&gate);
    pthread_barrier_wait(&gate);
    show("thread, at its end", area);
    return NULL;
}

int main(int argc, char **argv)
{
    if (argc > 1) {
        rest(30);
        say("new program: own %s; new memory %s", of(NULL), of(fresh()));
        return 3;
    }
    char link[4096] = {0};
    int status;
    readlink("/proc/self/exe", link, sizeof link - 1);
    char *p = area = fresh();
    show("nothing set", p);
    memset(p, 1, LEN / 2);
    SHOW(bind_area(p, LEN, MPOL_BIND, first, 0));
    show("bound", p);
    rest(50);
    show("bound, later", p);
    SHOW(bind_area(p + LEN / 4, LEN / 4, MPOL_INTERLEAVE, first, 0));
    SHOW(bind_area(p + LEN / 2, LEN / 4, MPOL_LOCAL, NULL, 0));
    chew(30 * CHEW_MS);
    show("in parts", p);
    memset(p, 2, LEN);
    SHOW(node(p));
    SHOW(node(p + LEN / 4));
    SHOW(bind_area(p, LEN / 4, MPOL_BIND | MPOL_F_STATIC_NODES, first, MPOL_MF_MOVE));
    SHOW(bind_area(p + LEN / 4 * 3, LEN / 4, MPOL_PREFERRED, first, MPOL_MF_STRICT));
    rest(50);
    show("in other parts", p);
    say("hash %lx", hash(p, LEN));

    SHOW(set_own(MPOL_INTERLEAVE, first));
    rest(40);
    char *q = fresh();
    show("own set", p);
    say("new memory: %s", of(q));
    pthread_t t;
    pthread_barrier_init(&gate, NULL, 2);
    pthread_create(&t, NULL, other, NULL);
    pthread_barrier_wait(&gate);
    for (int i = 0; i < 10; i++) {
        i % 2 ? (void)chew(8 * CHEW_MS) : rest(10);
        if (strcmp(of(NULL), "interleave mask 1"))
            say("round %d: own %s", i, of(NULL));
    }
    pthread_barrier_wait(&gate);
    show("beside a thread", p);
    SHOW(bind_area(p + LEN / 2, LEN / 4, MPOL_PREFERRED, NULL, 0));
    pthread_barrier_wait(&gate);
    pthread_join(t, NULL);

    pid_t child = fork();
    if (!child) {
        show("child", p);
        rest(40);
        SHOW(bind_area(p, LEN, MPOL_INTERLEAVE, first, 0));
        SHOW(set_own(MPOL_BIND, first));
        chew(20 * CHEW_MS);
        show("child, its own", p);
        execl(link, "policies", "again", NULL);
        _exit(1);
    }
    HOLDS(waitpid(child, &status, 0) == child);
    say_status("child", status);
    show("parent", p);

    char *to = mmap(NULL, 2 * LEN, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    q = mremap(p + LEN / 4, LEN / 4, LEN / 4, MREMAP_MAYMOVE | MREMAP_FIXED, to + LEN);
    HOLDS(q == to + LEN);
    rest(40);
    say("moved: %s; hash %lx", of(q), hash(q, LEN / 4));
    SHOW(munmap(p + 8 * 4096, 4096));
    SHOW(bind_area(p, LEN / 4, MPOL_BIND, first, 0)); /* over a hole */
    SHOW(mprotect(p, 4096, PROT_READ));
    rest(40);
    say("cut: %s, %s, %s, %s", of(p), of(p + 4096), of(p + 8 * 4096), of(p + 9 * 4096));
    SHOW(bind_area(p, 4096, MPOL_DEFAULT, NULL, 0));
    SHOW(bind_area(p + LEN / 2, 4096, 4, first, 0)); /* local, yet with a node */
    SHOW(bind_area(p, 4096, MPOL_BIND, none, 0));
    SHOW(bind_area(p, 4096, MPOL_BIND, far, 0));
    SHOW(bind_area(p, 4096, MPOL_DEFAULT, first, 0));
    SHOW(bind_area(p + 1, 4096, MPOL_BIND, first, 0));
    SHOW(bind_area(p, 4096, 99, first, 0));
    SHOW(bind_area(p, 4096, MPOL_BIND, first, 1 << 20));
    SHOW(set_own(MPOL_BIND, none));
    SHOW(set_own(MPOL_INTERLEAVE, far));
    SHOW(set_own(99, first));
    SHOW(syscall(SYS_get_mempolicy, NULL, NULL, 0ul, p, 0));
    SHOW(syscall(SYS_get_mempolicy, NULL, NULL, 0ul, NULL, MPOL_F_ADDR));
    rest(40);
    say("cut, later: %s, %s, %s", of(NULL), of(p), of(p + 4096));
    SHOW(set_own(MPOL_LOCAL, NULL));
    rest(40);
    say("own %s", of(NULL));
    SHOW(set_own(MPOL_DEFAULT, NULL));
    chew(20 * CHEW_MS);
    say("own %s; new memory %s", of(NULL), of(fresh()));
    return 0;
}
