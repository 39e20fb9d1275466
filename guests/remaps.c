/* Moving and cutting memory: mremap that grows, shrinks, moves to a place, keeps the old one (DONTUNMAP),
 * over other mappings; mprotect that splits and joins; stacks that grow down by MAP_GROWSDOWN; brk up and down
 * between other mappings; MAP_FIXED over parts. About 0.8 s. */
#include "show.h"

#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP 4
#endif

static sigjmp_buf back;
static void fault(int s) { siglongjmp(back, s); }

static int readable(volatile char *at)
{
    if (sigsetjmp(back, 1))
        return 0;
    (void)*at;
    return 1;
}
static int writable(volatile char *at)
{
    if (sigsetjmp(back, 1))
        return 0;
    *at = *at;
    return 1;
}

static void rights(const char *when, char *p, int pages)
{
    char line[65] = {0};
    for (int i = 0; i < pages; i++)
        line[i] = !readable(p + i * 4096) ? '-' : writable(p + i * 4096) ? 'w' : 'r';
    say("%s: %s", when, line);
}

static char *area(int pages, int fill)
{
    char *p = mmap(NULL, pages * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int i = 0; i < pages; i++)
        memset(p + i * 4096, fill + i, 4096);
    return p;
}

int main(void)
{
    signal(SIGSEGV, fault);
    char *room = mmap(NULL, 256 * 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *p = area(16, 1);
    uint64_t h = hash(p, 16 * 4096);
    SHOW(mremap(p, 16 * 4096, 16 * 4096, MREMAP_MAYMOVE | MREMAP_FIXED, room + 32 * 4096) == room + 32 * 4096);
    p = room + 32 * 4096;
    rest(75);
    HOLDS(hash(p, 16 * 4096) == h);
    rights("moved into the room", room + 30 * 4096, 20);
    SHOW(mremap(p, 16 * 4096, 20 * 4096, 0));
    munmap(p + 16 * 4096, 8 * 4096);
    SHOW(mremap(p, 16 * 4096, 20 * 4096, 0) == p);
    rights("grown in place", room + 30 * 4096, 28);
    SHOW(mremap(p, 20 * 4096, 10 * 4096, 0) == p);
    rest(75);
    HOLDS(hash(p, 10 * 4096) == hash(p, 10 * 4096) && p[9 * 4096] == 10);
    rights("shrunk", room + 30 * 4096, 28);
    char *kept = mremap(p, 10 * 4096, 10 * 4096, MREMAP_MAYMOVE | MREMAP_DONTUNMAP | MREMAP_FIXED, room + 100 * 4096);
    SHOW(kept == room + 100 * 4096);
    rest(75);
    say("there %d %d, here %d %d", kept[0], kept[9 * 4096], p[0], p[9 * 4096]);
    p[5] = 77;
    rest(75);
    say("here %d there %d", p[5], kept[5]);
    SHOW(mremap(p, 10 * 4096, 5 * 4096, MREMAP_MAYMOVE | MREMAP_DONTUNMAP));
    SHOW(mremap(p + 1, 4096, 4096, 0));
    SHOW(mremap(p, 4096, 0, MREMAP_MAYMOVE));
    SHOW(mremap(p, 4096, 8192, MREMAP_FIXED, room));
    SHOW(mremap(p, 4 * 4096, 4 * 4096, MREMAP_MAYMOVE | MREMAP_FIXED, p + 4096));
    SHOW(mremap(room + 53 * 4096, 4096, 8192, MREMAP_MAYMOVE));

    /* Split by rights, join again, split by a mapping over the middle. */
    char *q = area(24, 40);
    h = hash(q, 24 * 4096);
    for (int i = 0; i < 24; i += 3)
        mprotect(q + i * 4096, 4096, i % 2 ? PROT_NONE : PROT_READ);
    rest(90);
    rights("split", q, 24);
    SHOW(mprotect(q, 24 * 4096, PROT_READ | PROT_WRITE));
    rest(75);
    rights("joined", q, 24);
    HOLDS(hash(q, 24 * 4096) == h);
    SHOW(mmap(q + 8 * 4096, 4 * 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == q + 8 * 4096);
    munmap(q + 16 * 4096, 2 * 4096);
    rest(75);
    rights("patched", q, 24);
    SHOW(mprotect(q + 14 * 4096, 4 * 4096, PROT_READ));
    rights("up to the hole", q, 24);
    SHOW(mprotect(q, 4096, 0x100));
    SHOW(mprotect(q + 16 * 4096, 4096, PROT_READ));
    say("q %lx", (unsigned long)hash(q, 8 * 4096));

    /* A stack that the program mapped, growing down. */
    signal(SIGSEGV, SIG_DFL);
    char *low = mmap(NULL, 1024 * 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(low, 1024 * 4096);
    char *down = mmap(low + 1000 * 4096, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_GROWSDOWN | MAP_FIXED, -1, 0);
    for (int i = 0; i < 60; i++) {
        down[-i * 4096] = i + 1;
        if (i % 15 == 0)
            rest(30);
    }
    int wrong = 0;
    for (int i = 0; i < 60; i++)
        wrong += down[-i * 4096] != i + 1;
    say("grown down, wrong %d", wrong);
    /* Calls make it grow as well, and the stack of the program. */
    int zero = open("/dev/zero", O_RDONLY);
    char *deep = (char *)__builtin_frame_address(0) - (600 << 10);
    SHOW(read(zero, down - 70 * 4096, 5000));
    SHOW(write(1, down - 80 * 4096, 1));
    SHOW(read(zero, down - 2000 * 4096, 10));
    SHOW(read(zero, deep, 5000));
    rest(30);
    say("below %d %d", down[-75 * 4096], deep[100]);
    close(zero);
    munmap(down - 80 * 4096, 81 * 4096);

    char *start = sbrk(0);
    for (int i = 0; i < 30; i++) {
        char *at = sbrk(3 * 4096 + 100);
        memset(at, i, 3 * 4096 + 100);
        if (i % 3 == 2 && sbrk(-(4096 + 50)) == (void *)-1)
            say("sbrk %s", errno_name(errno));
        if (i % 10 == 0)
            rest(30);
    }
    char *end = sbrk(0);
    say("brk moved %ld, %lx", (long)(end - start), (unsigned long)hash(start, end - start));
    SHOW(brk(start));
    SHOW(sbrk(4096) == start);
    say("fresh %d %d", start[0], start[4095]);
    for (int i = 0; i < 25; i++) {
        char *m = area(4, i), *n = mremap(m, 4 * 4096, 40 * 4096, MREMAP_MAYMOVE);
        chew(CHEW_MS);
        if (n == MAP_FAILED || n[0] != (char)i || n[3 * 4096] != (char)(i + 3) || n[39 * 4096])
            say("round %d", i);
        if (i % 5 == 0)
            rest(15);
        munmap(n, 40 * 4096);
    }
    return 0;
}
