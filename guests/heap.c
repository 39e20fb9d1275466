/* Heap and stack growth: brk up and down, malloc and free of many sizes with checksums, big
 * mappings, recursion to 6 MB of stack, overflow caught on another stack. Proves that memory
 * keeps its contents and its limits. About 1 s. */
#include "show.h"

static int deep(int n, unsigned *sum)
{
    volatile char frame[1024];
    memset((char *)frame, n, sizeof frame);
    if (n % 1000 == 0)
        rest(8);
    int below = n ? deep(n - 1, sum) : 0;
    for (int i = 0; i < (int)sizeof frame; i += 64)
        *sum += (unsigned char)frame[i];
    return below + (frame[7] == (char)n);
}

static sigjmp_buf back;
static void overflow(int s) { siglongjmp(back, s); }
static int endless(int n)
{
    volatile char frame[4096];
    frame[0] = n;
    return endless(n + 1) + frame[0];
}

int main(void)
{
    char *low = sbrk(0);
    for (int i = 1; i <= 16; i++) {
        char *b = sbrk(1 << 18);
        memset(b, i, 1 << 18);
        if (i % 4 == 0)
            rest(15);
    }
    HOLDS((char *)sbrk(0) - low == 16 << 18);
    say("brk %lx", hash(low, 16 << 18));
    HOLDS(sbrk(-(8 << 18)) != (void *)-1);
    rest(60);
    say("brk %lx", hash(low, 8 << 18));
    HOLDS(brk(low) == 0);
    HOLDS(sbrk(1 << 18) == low);
    say("fresh %lx", hash(low, 1 << 18));
    SHOW(brk((void *)-4096));

    static unsigned char *blocks[500];
    static unsigned sizes[500];
    unsigned long seed = 12345;
    for (int round = 0; round < 6000; round++) {
        seed = seed * 6364136223846793005ul + 1;
        int i = (seed >> 33) % 500;
        if (blocks[i]) {
            for (unsigned j = 0; j < sizes[i]; j += 512)
                if (blocks[i][j] != (unsigned char)(i + j)) {
                    say("block %d is wrong at %u", i, j);
                    return 1;
                }
            free(blocks[i]);
            blocks[i] = NULL;
        } else {
            sizes[i] = (seed >> 20) % (round % 50 ? 20000 : 600000) + 1;
            blocks[i] = malloc(sizes[i]);
            for (unsigned j = 0; j < sizes[i]; j++)
                blocks[i][j] = i + j;
        }
        if (round % 300 == 0)
            rest(6);
    }
    uint64_t h = 0;
    for (int i = 0; i < 500; i++)
        if (blocks[i])
            h += hash(blocks[i], sizes[i]) * (i + 1);
    say("blocks %lx", h);

    unsigned sum = 0;
    say("deep %d", deep(6000, &sum));
    say("sum %u", sum);
    stack_t ss = {.ss_sp = malloc(65536), .ss_size = 65536};
    sigaltstack(&ss, NULL);
    struct sigaction a = {.sa_handler = overflow, .sa_flags = SA_ONSTACK};
    sigaction(SIGSEGV, &a, NULL);
    struct rlimit r = {256 << 10, 64 << 20};
    int caught = sigsetjmp(back, 1);
    if (!caught)
        endless(0);
    say("overflow caught: %d", caught);
    rest(60);
    sum = 0;
    say("deep again %d", deep(3000, &sum));
    return 0;
}
