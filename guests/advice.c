/* madvise and friends: DONTNEED and FREE, WIPEONFORK and DONTFORK in children, POPULATE, COLD and PAGEOUT,
 * MERGEABLE and HUGEPAGE refusals or not, mincore after each, mlock, mlockall with limits, MADV_REMOVE of private
 * memory, wrong ranges. About 0.7 s. */
#include "show.h"

#define PAGES 32
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_READ 22
#define MADV_POPULATE_WRITE 23
#endif

static char *fresh(int pages)
{
    char *p = mmap(NULL, pages * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int i = 0; i < pages; i++)
        memset(p + i * 4096, i + 1, 4096);
    return p;
}

static void bytes(const char *when, char *p)
{
    char line[PAGES + 1] = {0};
    for (int i = 0; i < PAGES; i++)
        line[i] = p[i * 4096 + 99] == 0 ? '.' : p[i * 4096 + 99] == i + 1 ? '#' : '?';
    say("%s: %s", when, line);
}

static void present(const char *when, char *p)
{
    unsigned char v[PAGES];
    char line[PAGES + 1] = {0};
    if (mincore(p, PAGES * 4096, v)) {
        say("%s: %s", when, errno_name(errno));
        return;
    }
    for (int i = 0; i < PAGES; i++)
        line[i] = v[i] & 1 ? '#' : '.';
    say("%s: %s", when, line);
}

int main(void)
{
    char *p = fresh(PAGES);
    SHOW(madvise(p, PAGES * 4096, MADV_NOHUGEPAGE));
    SHOW(madvise(p + 4 * 4096, 4 * 4096, MADV_DONTNEED));
    rest(90);
    present("not needed", p);
    bytes("not needed", p);
    memset(p, 1, 4096);
    for (int i = 0; i < PAGES; i++)
        memset(p + i * 4096, i + 1, 4096);
    SHOW(madvise(p + 8 * 4096, 4 * 4096, MADV_FREE));
    for (int i = 8; i < 12; i++)
        memset(p + i * 4096, i + 1, 4096); /* written again: must stay */
    rest(90);
    bytes("freed and written", p);
    SHOW(madvise(p, 4 * 4096, MADV_WIPEONFORK));
    SHOW(madvise(p + 16 * 4096, 4 * 4096, MADV_DONTFORK));
    rest(90);
    int status;
    pid_t child = fork();
    if (!child) {
        unsigned char v[4];
        SHOW(mincore(p + 16 * 4096, 4 * 4096, v));
        for (int i = 0; i < 4; i++) {
            char *hole = p + (16 + i) * 4096;
            HOLDS(mmap(hole, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) == hole);
        }
        bytes("wiped in the child", p);
        rest(60);
        _exit(0);
    }
    waitpid(child, &status, 0);
    say_status("child", status);
    bytes("mine", p);
    SHOW(madvise(p, 4 * 4096, MADV_KEEPONFORK));
    SHOW(madvise(p + 16 * 4096, 4 * 4096, MADV_DOFORK));
    child = fork();
    if (!child) {
        rest(60);
        bytes("kept in the child", p);
        _exit(0);
    }
    waitpid(child, &status, 0);
    say_status("child", status);

    char *q = mmap(NULL, PAGES * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    madvise(q, PAGES * 4096, MADV_NOHUGEPAGE);
    present("untouched", q);
    SHOW(madvise(q + 2 * 4096, 6 * 4096, MADV_POPULATE_WRITE));
    SHOW(madvise(q + 20 * 4096, 2 * 4096, MADV_POPULATE_READ));
    present("populated", q);
    SHOW(mprotect(q + 30 * 4096, 4096, PROT_READ));
    SHOW(madvise(q + 30 * 4096, 4096, MADV_POPULATE_WRITE));
    rest(90);
    bytes("populated", q);
    SHOW(madvise(p, PAGES * 4096, MADV_COLD));
    SHOW(madvise(p, PAGES * 4096, MADV_PAGEOUT));
    rest(60);
    bytes("cold", p);
    SHOW(madvise(p, PAGES * 4096, MADV_SEQUENTIAL));
    SHOW(madvise(p, PAGES * 4096, MADV_RANDOM));
    SHOW(madvise(p, PAGES * 4096, MADV_WILLNEED));
    SHOW(madvise(p, PAGES * 4096, MADV_DONTDUMP));
    SHOW(madvise(p, PAGES * 4096, MADV_DODUMP));
    SHOW(madvise(p, 4096, MADV_REMOVE));
    SHOW(madvise(p + 5, 4096, MADV_DONTNEED));
    SHOW(madvise(p, 4096, 9999));
    SHOW(madvise(p, 0, MADV_DONTNEED));
    SHOW(madvise(p, -4096ul, MADV_DONTNEED));
    munmap(q + 10 * 4096, 4096);
    SHOW(madvise(q, PAGES * 4096, MADV_DONTNEED));
    bytes("with a hole before", memcpy(malloc(PAGES * 4096), p, PAGES * 4096));

    struct rlimit r = {1 << 20, 1 << 20};
    setrlimit(RLIMIT_MEMLOCK, &r);
    SHOW(mlock(p, PAGES * 4096));
    SHOW(madvise(p, 4096, MADV_DONTNEED));
    rest(90);
    bytes("locked", p);
    SHOW(munlock(p, PAGES * 4096));
    SHOW(madvise(p, 4096, MADV_DONTNEED));
    SHOW(mlock(q, PAGES * 4096));
    SHOW(mlock2(p, 8 * 4096, MLOCK_ONFAULT));
    SHOW(mlock2(p, 8 * 4096, 77));
    SHOW(mlockall(0));
    SHOW(mlockall(MCL_FUTURE));
    SHOW(mmap(NULL, 4 << 20, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    SHOW(munlockall());
    for (int round = 0; round < 20; round++) {
        char *m = fresh(8);
        madvise(m + 4096 * (round % 4), 2 * 4096, MADV_DONTNEED);
        rest(8);
        for (int i = 0; i < 8; i++)
            if (m[i * 4096] != (i == round % 4 || i == round % 4 + 1 ? 0 : i + 1))
                say("round %d page %d: %d", round, i, m[i * 4096]);
        munmap(m, 8 * 4096);
        chew(CHEW_MS);
    }
    return 0;
}
