/* Reservations far bigger than any memory, as sanitizers, JVMs and V8 make them: 8 TB that may not be
 * touched and 8 TB that may, a few pages written in each, far apart, dropped, and written again; reading
 * where nothing was written; MADV_NOHUGEPAGE, MADV_DONTNEED, mprotect. About 0.8 s. */
#include "show.h"

#define LEN (8ul << 40)
#define STEP (LEN / 64 - 12345 * 4096)

static unsigned char *reserve(int prot)
{
    return mmap(NULL, LEN, prot, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
}

static unsigned long sum(const unsigned char *at)
{
    unsigned long s = 0;
    for (unsigned long i = 0; i < 64; i++)
        s = s * 31 + at[i * STEP + 17];
    return s;
}

int main(void)
{
    unsigned char *heap = reserve(PROT_NONE), *shadow = reserve(PROT_READ | PROT_WRITE);
    HOLDS(heap != MAP_FAILED && shadow != MAP_FAILED);
    SHOW(madvise(shadow, LEN, MADV_NOHUGEPAGE));
    for (unsigned long i = 0; i < 64; i++)
        SHOW(mprotect(heap + i * STEP, 4096, PROT_READ | PROT_WRITE));
    for (int round = 1; round <= 5; round++) {
        for (unsigned long i = 0; i < 64; i += round)
            shadow[i * STEP + 17] = i + round, heap[i * STEP + 17] = i ^ round;
        rest(120);
        say("round %d: %lx %lx", round, sum(shadow), sum(heap));
        SHOW(madvise(shadow + round * STEP, 4096, MADV_DONTNEED));
        rest(30);
        say("dropped: %d %d, never written: %d", shadow[round * STEP + 17], shadow[round * STEP + 16],
            shadow[round * STEP + (1 << 30)]);
    }
    SHOW(munmap(heap, LEN));
    SHOW(munmap(shadow, LEN));
    return 0;
}
