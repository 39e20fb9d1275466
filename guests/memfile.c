/* /proc/self/mem and pagemap: reading and writing its own memory through the file, read-only and unmapped places,
 * across a border, of another thread's stack, of a child that permits it; which pages are there, before and after
 * writing and MADV_DONTNEED. About 0.7 s. */
#include "show.h"

static char global[3 * 4096] __attribute__((aligned(4096)));
static const char constant[] = "not for writing";

/* Whether the page is present (in memory or swapped). Addresses of frames are not for ordinary users. */
static int there(int pagemap, void *address)
{
    uint64_t entry = 0;
    if (pread(pagemap, &entry, 8, (unsigned long)address / 4096 * 8) != 8)
        return -1;
    return (entry >> 62) != 0;
}

static void look(int pagemap, const char *when, char *base, int pages)
{
    char line[65] = {0};
    for (int i = 0; i < pages; i++)
        line[i] = there(pagemap, base + i * 4096) ? '#' : '.';
    say("%s: %s", when, line);
}

static char *stack_of_thread;
static pthread_barrier_t gate;
static void *owner(void *arg)
{
    char mine[64] = "on the stack of a thread";
    stack_of_thread = mine;
    pthread_barrier_wait(&gate);
    pthread_barrier_wait(&gate);
    say("thread: %s", mine);
    return NULL;
}

int main(void)
{
    int mem = open("/proc/self/mem", O_RDWR);
    char b[64] = {0};
    strcpy(global, "a global");
    SHOW(pread(mem, b, 9, (off_t)(uintptr_t)global));
    say("%s", b);
    SHOW(pwrite(mem, "WRITTEN", 7, (off_t)(uintptr_t)global + 2));
    say("%s", global);
    SHOW(lseek(mem, (off_t)(uintptr_t)global, SEEK_SET) == (off_t)(uintptr_t)global);
    SHOW(read(mem, b, 4));
    SHOW(pread(mem, b, 10, 8));
    SHOW(pread(mem, b, sizeof constant, (off_t)(uintptr_t)constant));
    say("%s", b);
    SHOW(pwrite(mem, "forced", 6, (off_t)(uintptr_t)constant));
    say("%s", *(const char *volatile *)&(const char *){constant});
    close(mem);
    rest(90);
    say("%s %s", global, *(const char *volatile *)&(const char *){constant});

    char *area = mmap(NULL, 24 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    madvise(area, 24 * 4096, MADV_NOHUGEPAGE);
    munmap(area + 20 * 4096, 4 * 4096);
    mem = open("/proc/self/mem", O_RDWR);
    memset(area + 19 * 4096, 'e', 4096);
    SHOW(pread(mem, b, 64, (off_t)(uintptr_t)area + 20 * 4096 - 30));
    SHOW(pwrite(mem, b, 64, (off_t)(uintptr_t)area + 20 * 4096 - 30));
    mprotect(area, 4096, PROT_NONE);
    SHOW(pread(mem, b, 5, (off_t)(uintptr_t)area));
    mprotect(area, 4096, PROT_READ | PROT_WRITE);
    pthread_t t;
    pthread_barrier_init(&gate, NULL, 2);
    pthread_create(&t, NULL, owner, NULL);
    pthread_barrier_wait(&gate);
    SHOW(pwrite(mem, "ON THE STACK", 12, (off_t)(uintptr_t)stack_of_thread));
    close(mem);
    rest(90);
    pthread_barrier_wait(&gate);
    pthread_join(t, NULL);

    for (int round = 0; round < 3; round++) {
        for (int i = round; i < 20; i += 5)
            area[i * 4096] = round + 1;
        int pagemap = open("/proc/self/pagemap", O_RDONLY);
        look(pagemap, "written", area, 20);
        madvise(area + (3 + round) * 4096, 4096 * 2, MADV_DONTNEED);
        look(pagemap, "dropped", area, 20);
        SHOW(there(pagemap, area + 21 * 4096));
        SHOW(pread(pagemap, b, 7, 0));
        close(pagemap);
        rest(105);
        pagemap = open("/proc/self/pagemap", O_RDONLY);
        look(pagemap, "later", area, 20);
        close(pagemap);
        chew(15 * CHEW_MS);
    }
    int p[2];
    pipe(p);
    pid_t child = fork();
    if (!child) {
        strcpy(global, "the child's");
        write(p[1], "r", 1);
        for (;;)
            rest(1000);
    }
    read(p[0], b, 1);
    rest(90);
    char path[64];
    sprintf(path, "/proc/%d/mem", child);
    mem = open(path, O_RDWR);
    memset(b, 0, sizeof b);
    SHOW(pread(mem, b, 12, (off_t)(uintptr_t)global));
    say("%s, mine is %s", b, global);
    SHOW(pwrite(mem, "changed", 8, (off_t)(uintptr_t)global));
    rest(90);
    SHOW(pread(mem, b, 12, (off_t)(uintptr_t)global));
    say("%s", b);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    SHOW(pread(mem, b, 12, (off_t)(uintptr_t)global));
    return 0;
}
