/* Files in memory: private and read-only shared mappings, writes that stay private, the end of the
 * file (SIGBUS), mprotect and SIGSEGV with si_addr and si_code, mremap, MAP_FIXED over a mapping,
 * partial munmap, msync, madvise, mincore; ENOMEM, EINVAL, EACCES. About 0.9 s. */
#include "show.h"

static sigjmp_buf back;
static volatile int code, signo;
static void *volatile where;
static void fault(int s, siginfo_t *i, void *u)
{
    signo = s, code = i->si_code, where = i->si_addr;
    siglongjmp(back, 1);
}

#define TRY(address, expression)                                                                   \
    do {                                                                                           \
        signo = 0;                                                                                 \
        if (!sigsetjmp(back, 1))                                                                   \
            (void)(expression);                                                                    \
        say("%s: signal %d code %d there %d", #expression, signo, signo ? code : 0,                \
            signo && where == (void *)(address));                                                  \
    } while (0)

int main(void)
{
    struct sigaction a = {.sa_sigaction = fault, .sa_flags = SA_SIGINFO};
    sigaction(SIGSEGV, &a, NULL), sigaction(SIGBUS, &a, NULL);
    char block[4096];
    int fd = open("data", O_CREAT | O_RDWR | O_TRUNC, 0600);
    for (int i = 0; i < 300; i++) {
        memset(block, 'A' + i % 26, sizeof block);
        write(fd, block, sizeof block);
    }
    write(fd, "tail", 4);
    size_t size = 300 * 4096 + 4;
    volatile char *priv = mmap(NULL, 310 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    int ro = open("data", O_RDONLY);
    volatile char *shared = mmap(NULL, 100 * 4096, PROT_READ, MAP_SHARED, ro, 50 * 4096);
    HOLDS((void *)priv != MAP_FAILED && (void *)shared != MAP_FAILED);
    SHOW(mmap(NULL, 0, PROT_READ, MAP_PRIVATE, fd, 0));
    SHOW(mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 5));
    SHOW(mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, 99, 0));
    SHOW(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, ro, 0));
    SHOW(mmap(NULL, -4096ul, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    SHOW(mmap(NULL, 4096, PROT_READ, 0, fd, 0));
    rest(60);
    say("private %lx shared %lx", hash((char *)priv, size), hash((char *)shared, 100 * 4096));
    for (int i = 0; i < 300; i += 7)
        priv[i * 4096 + 11] = 'w';
    rest(60);
    say("private %lx", hash((char *)priv, size));
    SHOW(pread(fd, block, 20, 7 * 4096));
    say("the file still has %.4s", block + 8);
    SHOW(pwrite(fd, "changed in the file", 19, 63 * 4096)); /* a page that is private already */
    rest(60);
    say("shared sees %.19s", (char *)shared + 13 * 4096);
    say("tail %s", (char *)priv + 300 * 4096);
    TRY(priv + 301 * 4096, priv[301 * 4096]);
    TRY(priv + 305 * 4096 + 5, priv[305 * 4096 + 5] = 1);
    TRY(shared + 5, *(char *)(shared + 5) = 1);
    SHOW(mprotect((void *)priv, 4096 * 2, PROT_NONE));
    rest(60);
    TRY(priv + 4100, priv[4100]);
    SHOW(mprotect((void *)priv, 4096 * 2, PROT_READ));
    TRY(priv + 4100, priv[4100]);
    TRY(priv + 4100, priv[4100] = 2);
    SHOW(mprotect((void *)priv, 4096 * 2, PROT_READ | PROT_WRITE));
    TRY(priv + 4100, priv[4100] = 2);
    TRY(0, *(volatile char *)0);
    SHOW(mprotect((void *)(priv + 1), 4096, PROT_READ));
    SHOW(mprotect((void *)shared, 4096, PROT_READ | PROT_WRITE));

    char *anon = mmap(NULL, 64 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int i = 0; i < 64; i++)
        memset(anon + i * 4096, i, 4096);
    uint64_t before = hash(anon, 64 * 4096);
    char *grown = mremap(anon, 64 * 4096, 640 * 4096, MREMAP_MAYMOVE);
    HOLDS(grown != MAP_FAILED && hash(grown, 64 * 4096) == before);
    rest(60);
    HOLDS(hash(grown, 64 * 4096) == before && !grown[639 * 4096]);
    SHOW(munmap(grown + 16 * 4096, 16 * 4096));
    TRY(grown + 20 * 4096, *(volatile char *)(grown + 20 * 4096));
    HOLDS(mmap(grown + 8 * 4096, 4 * 4096, PROT_READ, MAP_PRIVATE | MAP_FIXED, fd, 4096) == grown + 8 * 4096);
    say("fixed %c%c%c", grown[8 * 4096], grown[9 * 4096], grown[11 * 4096]);
    SHOW(mmap(grown, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0));
    rest(60);
    say("fixed %c%c%c %d", grown[8 * 4096], grown[9 * 4096], grown[11 * 4096], grown[12 * 4096]);
    SHOW(madvise(grown, 4096, MADV_DONTNEED));
    SHOW(grown[0]);
    SHOW(madvise((void *)priv, 4096, MADV_DONTNEED));
    SHOW(priv[11]);
    SHOW(madvise(grown + 1, 4096, MADV_DONTNEED));
    unsigned char resident[4];
    SHOW(mincore(grown + 40 * 4096, 2 * 4096, resident));
    SHOW(mincore(grown + 20 * 4096, 4096, resident));
    SHOW(msync((void *)shared, 4096, MS_SYNC));
    SHOW(munmap((void *)(shared + 1), 4096));
    SHOW(mremap(grown + 20 * 4096, 4096, 8192, 0));
    SHOW(close(ro));
    SHOW(close(fd));
    SHOW(unlink("data"));
    rest(60);
    say("unlinked: private %lx shared %lx", hash((char *)priv, size), hash((char *)shared, 4096));
    /* Bytes written there are in the file, as with plain MAP_SHARED. */
    int valid = open("valid", O_CREAT | O_RDWR, 0600);
    SHOW(ftruncate(valid, 4096));
    char *both = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED_VALIDATE, valid, 0), seen = 0;
    both[7] = 'v';
    SHOW(pread(valid, &seen, 1, 7));
    SHOW(seen);
    munmap(both, 4096);
    for (int i = 0; i < 200; i++) {
        char *m = mmap(NULL, 16 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        m[5 * 4096] = i;
        mprotect(m + 4096, 4096, PROT_NONE);
        munmap(m + 8 * 4096, 4096);
        chew(CHEW_MS / 2);
        if (m[5 * 4096] != (char)i)
            say("wrong at %d", i);
        munmap(m, 16 * 4096);
    }
    return 0;
}
