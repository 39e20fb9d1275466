/* Pages of zeros and duplicate pages, of which a move sends only a reference: written, emptied by hand, filled again,
 * swapped and changed by one byte, in plain memory, in huge pages, in memory that is shared or may not be read, beside
 * copies of a mapped file. Proves that each holds its own bytes after any number of moves, and that mincore sees those
 * that are there. About 0.9 s. */
#include "show.h"

enum { PAGES = 2048, LEN = PAGES * 4096, HUGE = 2 << 20 };

static char *map(int flags)
{
    char *p = mmap(NULL, LEN + HUGE, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS, -1, 0);
    return (char *)(((uintptr_t)p + HUGE - 1) & -(uintptr_t)HUGE);
}

/* Contents of page `i` in round `round`: one of a few kinds, zeros among them; at most one byte is unique. */
static void expected(char *page, int i, int round)
{
    int kind = (i * 7 + round) % 5;
    memset(page, kind, 4096);
    if (kind == 3)
        page[(i + round) % 4096] = i;
    if (kind == 4 && round % 3 == 0)
        memset(page, 0, 4096);
}

static int wrong(char *p, int round)
{
    static char page[4096];
    int n = 0;
    for (int i = 0; i < PAGES; i++) {
        expected(page, i, round);
        n += memcmp(page, p + i * 4096, 4096) != 0;
    }
    return n;
}

static void fill(char *p, int round)
{
    for (int i = 0; i < PAGES; i++)
        expected(p + i * 4096, i, round);
}

static int there(char *p, int pages)
{
    static unsigned char v[PAGES];
    int n = 0;
    HOLDS(mincore(p, pages * 4096, v) == 0);
    for (int i = 0; i < pages; i++)
        n += v[i] & 1;
    return n;
}

int main(void)
{
    char *plain = map(MAP_PRIVATE), *huge = map(MAP_PRIVATE), *both = map(MAP_SHARED);
    madvise(plain, LEN, MADV_NOHUGEPAGE);
    madvise(huge, LEN, MADV_HUGEPAGE);
    int fd = open("/proc/self/exe", O_RDONLY);
    char *text = mmap(NULL, 3 * 4096, PROT_READ, MAP_PRIVATE, fd, 0), *copies = map(MAP_PRIVATE);
    for (int round = 0; round < 12; round++) {
        fill(plain, round), fill(huge, round), fill(both, round);
        for (int i = 0; i < 30; i++)
            memcpy(copies + i * 4096, text + (i + round) % 3 * 4096, 4096);
        mprotect(plain, LEN / 2, round % 2 ? PROT_NONE : PROT_READ);
        rest(25);
        chew(10 * CHEW_MS);
        mprotect(plain, LEN / 2, PROT_READ | PROT_WRITE);
        int copied = 0;
        for (int i = 0; i < 30; i++)
            copied += !memcmp(copies + i * 4096, text + (i + round) % 3 * 4096, 4096);
        say("round %d: %d %d %d wrong, %d copies", round, wrong(plain, round), wrong(huge, round),
            wrong(both, round), copied);
    }
    /* Zeros that were written are present, and stay when they are moved again; pages that were dropped are not. */
    memset(plain, 0, LEN);
    madvise(plain + LEN / 2, LEN / 2, MADV_DONTNEED);
    rest(40);
    chew(20 * CHEW_MS);
    say("%d pages are there", there(plain, PAGES / 2));
    HOLDS(hash(plain, LEN) == hash(map(MAP_PRIVATE), LEN));
    for (int i = 0; i < PAGES; i += 2)
        plain[i * 4096] = 1 + i % 100;
    rest(40);
    int sum = 0;
    for (int i = 0; i < LEN; i++)
        sum += plain[i];
    say("sum %d", sum);
    return 0;
}
