/* MAP_SHARED | MAP_ANONYMOUS memory that one process maps: contents, holes, parts dropped or protected, several views
 * of one object, futexes in it, and children that come to share it. About 0.9 s. */
#include "show.h"

enum { PAGES = 64, LEN = PAGES * 4096 };

static char *share(size_t len)
{
    return mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
}

int main(void)
{
    char *a = share(LEN), *big = share(64 << 20);
    for (int i = 0; i < PAGES; i += 3)
        memset(a + i * 4096, 'a' + i % 26, 4096);
    big[40 << 20] = 'x';
    rest(60);
    say("hash %lx %c", hash(a, LEN), big[40 << 20]);
    long sum = 0;
    for (int i = 0; i < 40; i++) {
        a[i * 1000] += i;
        chew(5 * CHEW_MS);
        sum += hash(a, LEN) & 0xff;
    }
    say("sum %ld", sum);
    memset(a + 3 * 4096, 0, 4096); /* a page that becomes empty */
    rest(60);
    say("emptied %d hash %lx", a[3 * 4096 + 7], hash(a, LEN));
    SHOW(mprotect(a + 8 * 4096, 4096, PROT_READ));
    SHOW(munmap(a + 20 * 4096, 2 * 4096));
    rest(60);
    say("parts %lx %lx", hash(a, 20 * 4096), hash(a + 22 * 4096, LEN - 22 * 4096));
    SHOW(mprotect(a + 8 * 4096, 4096, PROT_READ | PROT_WRITE));
    a[8 * 4096] = '8';

    char *b = mremap(a, 0, 10 * 4096, MREMAP_MAYMOVE); /* another view */
    b[9 * 4096] = 'B';
    a[5 * 4096] = 'A';
    rest(60);
    chew(20 * CHEW_MS);
    say("views %c%c %c%c", a[9 * 4096], b[9 * 4096], a[5 * 4096], b[5 * 4096]);
    char *c = mremap(b, 10 * 4096, 10 * 4096, MREMAP_MAYMOVE | MREMAP_FIXED, big + (8 << 20));
    HOLDS(c == big + (8 << 20));
    rest(60);
    c[4096] = 'C';
    say("moved %c%c", a[4096], c[9 * 4096]);
    SHOW(madvise(a, 4096, MADV_DONTNEED)); /* shared: nothing is lost */
    say("kept %lx", hash(a, 4096));
    SHOW(madvise(a + 30 * 4096, 4096, MADV_REMOVE));
    rest(60);
    say("removed %d %d", a[30 * 4096], a[33 * 4096]);

    pthread_mutex_t *m = (void *)(a + 40 * 4096);
    pthread_mutexattr_t attr;
    pthread_mutexattr_init(&attr);
    pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
    pthread_mutex_init(m, &attr);
    long *count = (void *)(a + 41 * 4096);
    *count = 0;
    for (int k = 0; k < 2; k++) {
        pid_t child = fork();
        for (int i = 0; i < 200; i++) {
            pthread_mutex_lock(m);
            ++*count;
            pthread_mutex_unlock(m);
            chew(CHEW_MS / 4);
        }
        if (!child)
            _exit(0);
        HOLDS(waitpid(child, NULL, 0) == child);
        say("together %ld", *count);
        rest(80); /* alone again */
        chew(30 * CHEW_MS);
    }
    /* protected while away, and calls that need home: the protection must hold everywhere, nothing be lost */
    char *closed = share(6 * 4096);
    for (int i = 0; i < 6; i++)
        memset(closed + i * 4096, 'p' + i, 4096);
    rest(60);
    SHOW(mprotect(closed, 4096, PROT_READ));
    SHOW(mprotect(closed + 2 * 4096, 2 * 4096, PROT_NONE));
    rest(60);
    chew(20 * CHEW_MS);
    pid_t tester = fork();
    if (!tester)
        closed[2 * 4096] = 'X'; /* SIGSEGV */
    int how = 0;
    HOLDS(waitpid(tester, &how, 0) == tester);
    say("protected %d %c %lx", WTERMSIG(how), closed[1], hash(closed + 4 * 4096, 2 * 4096));
    rest(60);
    SHOW(mprotect(closed, 6 * 4096, PROT_READ | PROT_WRITE));
    say("opened %lx", hash(closed, 6 * 4096));

    char *late = share(8192);
    strcpy(late + 4000, "made in between");
    rest(60);
    say("%s %lx", late + 4000, hash(a, 20 * 4096));
    return 0;
}
