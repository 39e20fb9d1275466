/* mremap that moves a range away: the old range is empty at once. A read of it faults, mincore fails with ENOMEM, write
 * with EFAULT, again after a sleep, while moves hit before, during and after it; the moved range has its bytes, of
 * memory that was touched and of memory that was not. Also MREMAP_DONTUNMAP, where the old range stays and is empty.
 * About 1.5 s. */
#include "show.h"

#define PAGE 4096
#define BIG (64 * PAGE)

static sigjmp_buf back;

static void caught(int number) { siglongjmp(back, number); }

/* The signal that a read of it ends with, or 0. */
static int faults(volatile char *at)
{
    int number = sigsetjmp(back, 1);
    if (!number)
        (void)*at;
    return number;
}

/* How many of the pages are visible in some way. */
static int seen(char *at, size_t bytes, int pipe_in)
{
    int found = 0;
    unsigned char in[BIG / PAGE];
    for (char *p = at; p < at + bytes; p += PAGE) {
        found += !faults(p);
        found += mincore(p, PAGE, in) != -1 || errno != ENOMEM;
        found += write(pipe_in, p, 1) != -1 || errno != EFAULT;
    }
    return found;
}

int main(void)
{
    int ends[2], wrong = 0, lost = 0;
    struct sigaction action = {.sa_handler = caught};
    sigaction(SIGSEGV, &action, NULL);
    SHOW(pipe2(ends, O_NONBLOCK));
    for (int i = 0; i < 60; i++) {
        size_t bytes = i % 3 ? BIG : 3 * PAGE;
        /* Addresses that are free, so that the range moves. */
        char *to = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        char *from = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        for (size_t k = 0; k < bytes; k += (1 + i % 2) * PAGE)
            from[k] = i + k / PAGE;
        chew(3 * CHEW_MS);
        if (mremap(from, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, to) != to)
            say("round %d: %s", i, errno_name(errno));
        wrong += seen(from, bytes, ends[1]);
        i % 2 ? rest(12) : (void)chew(9 * CHEW_MS);
        wrong += seen(from, bytes, ends[1]);
        for (size_t k = 0; k < bytes; k += PAGE)
            lost += to[k] != (k / PAGE % (1 + i % 2) ? 0 : (char)(i + k / PAGE));
        munmap(to, bytes);
    }
    say("pages of old ranges that could be seen: %d; pages lost: %d", wrong, lost);
    char *from = mmap(NULL, BIG, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(from, 7, BIG);
    char *to = mremap(from, BIG, BIG, MREMAP_MAYMOVE | MREMAP_DONTUNMAP, NULL);
    SHOW(to != MAP_FAILED);
    for (int i = 0; i < 5; i++) {
        int kept = 0, empty = 0;
        for (int k = 0; k < BIG; k += PAGE) {
            kept += to[k] == 7;
            empty += from[k] == 0;
        }
        say("kept %d empty %d", kept, empty);
        rest(15);
    }
    return 0;
}
