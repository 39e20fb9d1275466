/* mmap(MAP_HUGETLB): pages of the machine's pool of huge pages (vm.nr_hugepages). Where there are none it prints the
 * errno and goes on with ordinary pages, as programs do. Written data stays while it sleeps and computes, in a child
 * too, which only reads: its writes could find the pool empty. A part of a huge page is not taken. About 0.7 s. */
#include "show.h"

#define HUGE (2ul << 20)
#define LEN (2 * HUGE)

static char *map(int flags)
{
    return mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
}

/* Page size at `p` in KiB, from smaps. */
static long page_kb(char *p)
{
    char line[512];
    long kb = -1;
    int in = 0;
    unsigned long a, b;
    FILE *f = fopen("/proc/self/smaps", "r");
    while (kb < 0 && fgets(line, sizeof line, f)) {
        if (sscanf(line, "%lx-%lx ", &a, &b) == 2)
            in = a <= (unsigned long)p && (unsigned long)p < b;
        if (in)
            sscanf(line, "KernelPageSize: %ld kB", &kb);
    }
    fclose(f);
    return kb;
}

static long wrong(char *p, int seed)
{
    long n = 0;
    for (unsigned long i = 0; i < LEN; i += 4096)
        n += *(long *)(p + i) != (long)(i + seed);
    return n;
}

static void write_all(char *p, int seed)
{
    for (unsigned long i = 0; i < LEN; i += 4096)
        *(long *)(p + i) = i + seed;
}

int main(void)
{
    int status, huge = 1;
    char *p = map(MAP_HUGETLB);
    say("huge pages: %s", p == MAP_FAILED ? errno_name(errno) : "mapped");
    if (p == MAP_FAILED) {
        huge = 0;
        p = map(0);
    }
    rest(40);
    say("untouched: page of %ld kB", page_kb(p));
    for (int seed = 0; seed < 6; seed++) {
        long bad = 0;
        write_all(p, seed);
        for (int k = 0; k < 5; k++) {
            k % 2 ? rest(12) : (void)chew(10 * CHEW_MS);
            bad += wrong(p, seed);
        }
        say("round %d: wrong %ld", seed, bad);
    }
    pid_t child = fork();
    if (!child) {
        long bad = wrong(p, 5);
        rest(50);
        chew(30 * CHEW_MS);
        bad += wrong(p, 5);
        say("child: wrong %ld, page of %ld kB", bad, page_kb(p));
        _exit(0);
    }
    HOLDS(waitpid(child, &status, 0) == child);
    say_status("child", status);
    if (huge) {
        SHOW(munmap(p + 4096, 4096));
        SHOW(mprotect(p + 4096, 4096, PROT_READ));
        SHOW(madvise(p + 4096, 4096, MADV_DONTNEED));
        SHOW(mprotect(p + HUGE, HUGE, PROT_READ));
        rest(40);
        SHOW(mprotect(p + HUGE, HUGE, PROT_READ | PROT_WRITE));
    }
    SHOW(madvise(p, HUGE, MADV_DONTNEED));
    rest(40);
    say("given up: %ld and %s", *(long *)(p + 4096), *(long *)(p + HUGE) == HUGE + 5 ? "kept" : "LOST");
    SHOW(munmap(p, LEN));
    return 0;
}
