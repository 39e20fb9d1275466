/* madvise(MADV_GUARD_INSTALL, MADV_GUARD_REMOVE): guard pages in anonymous memory and in a private mapping of a file.
 * An access to one faults, and a call on one fails with EFAULT, round after round; they stay through MADV_DONTNEED,
 * mprotect, mremap and a fork, and go by removal, which leaves zero pages or the file's. A kernel before 6.13 has none
 * and returns EINVAL; one before 6.15 has none in files. About 1 s. */
#include "show.h"

#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL 102
#define MADV_GUARD_REMOVE 103
#endif
#define PAGES 32

static sigjmp_buf back;
static volatile int code;
static char *volatile where;

static void hit(int s, siginfo_t *i, void *u)
{
    code = i->si_code;
    where = i->si_addr;
    siglongjmp(back, 1);
}

static char *page(char *p, int i) { return p + i * 4096; }

/* One letter a page: G faults where it was touched, # has what was written, . is zero, f has the file's. */
static void touch(const char *when, char *p, int pages)
{
    static char line[2 * PAGES + 1];
    static volatile int i, strange; /* keep their values through the jumps */
    memset(line, 0, sizeof line);
    for (strange = i = 0; i < pages; i++) {
        if (sigsetjmp(back, 1)) {
            line[i] = 'G';
            strange += where != page(p, i) + 5 || code != SEGV_MAPERR;
        } else {
            char c = *(volatile char *)(page(p, i) + 5);
            line[i] = c == 'w' ? '#' : c == 0 ? '.' : c == 'f' ? 'f' : '?';
        }
    }
    say("%s: %s, faults elsewhere %d", when, line, strange);
}

/* The same by calls: E where write(2) fails with EFAULT. */
static void pass(const char *when, char *p, int pages)
{
    char line[2 * PAGES + 1] = {0}, c;
    int ends[2];
    pipe(ends);
    for (int i = 0; i < pages; i++)
        if (write(ends[1], page(p, i) + 5, 1) == 1)
            line[i] = read(ends[0], &c, 1) == 1 && c == 'w' ? '#' : c == 0 ? '.' : c == 'f' ? 'f' : '?';
        else
            line[i] = errno == EFAULT ? 'E' : '!';
    say("%s: %s", when, line);
    close(ends[0]);
    close(ends[1]);
}

/* Writes to each; one letter as before, # where it could. */
static void put(const char *when, char *p, int pages)
{
    static char line[2 * PAGES + 1];
    static volatile int i;
    memset(line, 0, sizeof line);
    for (i = 0; i < pages; i++)
        if (sigsetjmp(back, 1))
            line[i] = 'G';
        else {
            *(volatile char *)(page(p, i) + 5) = 'w';
            line[i] = '#';
        }
    say("%s: %s", when, line);
}

static void fill(char *p, int pages, int skip)
{
    for (int i = 0; i < pages; i++)
        if (!skip || i % skip)
            memset(page(p, i), 'w', 4096);
}

static char *anonymous(int pages)
{
    return mmap(NULL, pages * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

int main(void)
{
    struct sigaction a = {.sa_sigaction = hit, .sa_flags = SA_SIGINFO};
    sigaction(SIGSEGV, &a, NULL);
    int status;
    char *p = anonymous(PAGES);
    fill(p, PAGES, 0);
    SHOW(madvise(page(p, 8), 4 * 4096, MADV_GUARD_INSTALL));
    SHOW(madvise(page(p, 20), 4096, MADV_GUARD_INSTALL));
    SHOW(madvise(page(p, 8), 4 * 4096, MADV_GUARD_INSTALL)); /* again: no error */
    SHOW(madvise(page(p, 8) + 1, 4096, MADV_GUARD_INSTALL));
    touch("installed", p, PAGES);
    for (int i = 0; i < 4; i++) {
        chew(20 * CHEW_MS);
        rest(40);
        touch("a while later", p, PAGES);
        pass("by calls", p, PAGES);
    }
    SHOW(madvise(p, PAGES * 4096, MADV_DONTNEED));
    rest(40);
    touch("not needed", p, PAGES);
    SHOW(madvise(page(p, 4), 8 * 4096, MADV_POPULATE_WRITE));
    SHOW(mprotect(page(p, 6), 4 * 4096, PROT_READ));
    rest(40);
    touch("read only", p, PAGES);
    SHOW(mprotect(page(p, 6), 4 * 4096, PROT_READ | PROT_WRITE));
    chew(20 * CHEW_MS);
    touch("writable again", p, PAGES);

    pid_t child = fork();
    if (!child) {
        touch("in the child", p, PAGES);
        rest(60);
        chew(20 * CHEW_MS);
        touch("in the child later", p, PAGES);
        SHOW(madvise(page(p, 20), 4096, MADV_GUARD_REMOVE));
        rest(30);
        touch("removed by the child", p, PAGES);
        _exit(0);
    }
    HOLDS(waitpid(child, &status, 0) == child);
    say_status("child", status);
    child = fork();
    if (!child) {
        signal(SIGSEGV, SIG_DFL);
        rest(30);
        *(volatile char *)page(p, 8);
        _exit(0);
    }
    HOLDS(waitpid(child, &status, 0) == child);
    say_status("a child without a handler", status);
    touch("in the parent", p, PAGES);
    put("written by the parent", p, PAGES);
    SHOW(madvise(page(p, 10), 2 * 4096, MADV_WIPEONFORK));
    child = fork();
    if (!child) {
        rest(30);
        touch("wiped in a child", p, PAGES);
        _exit(0);
    }
    HOLDS(waitpid(child, &status, 0) == child);
    say_status("child", status);
    SHOW(munmap(p, PAGES * 4096));

    p = anonymous(PAGES);
    fill(p, PAGES, 0);
    SHOW(madvise(page(p, 8), 4 * 4096, MADV_GUARD_INSTALL));
    SHOW(madvise(page(p, 31), 4096, MADV_GUARD_INSTALL));
    rest(30);
    char *to = anonymous(2 * PAGES);
    char *q = mremap(p, PAGES * 4096, 2 * PAGES * 4096, MREMAP_MAYMOVE | MREMAP_FIXED, to);
    HOLDS(q == to);
    touch("moved and longer", q, 2 * PAGES);
    rest(40);
    chew(20 * CHEW_MS);
    touch("moved and longer, later", q, 2 * PAGES);
    SHOW(madvise(page(q, 9), 2 * 4096, MADV_GUARD_REMOVE));
    rest(30);
    touch("two removed", q, PAGES);
    SHOW(madvise(q, PAGES * 4096, MADV_GUARD_REMOVE));
    touch("all removed", q, PAGES);
    fill(q, PAGES, 3);
    rest(30);
    touch("written", q, PAGES);
    SHOW(munmap(q, 2 * PAGES * 4096));

    int fd = open("guarded", O_RDWR | O_CREAT | O_TRUNC, 0600);
    char bytes[4096];
    memset(bytes, 'f', sizeof bytes);
    for (int i = 0; i < 16; i++)
        write(fd, bytes, sizeof bytes);
    char *f = mmap(NULL, 16 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    close(fd);
    memset(page(f, 2), 'w', 4096);
    memset(page(f, 6), 'w', 4096);
    SHOW(madvise(page(f, 5), 3 * 4096, MADV_GUARD_INSTALL));
    touch("of a file", f, 16);
    for (int i = 0; i < 3; i++) {
        rest(40);
        chew(20 * CHEW_MS);
        touch("of a file later", f, 16);
        pass("by calls", f, 16);
    }
    SHOW(madvise(f, 16 * 4096, MADV_DONTNEED));
    rest(30);
    touch("of a file, not needed", f, 16);
    SHOW(madvise(page(f, 5), 3 * 4096, MADV_GUARD_REMOVE));
    rest(30);
    touch("of a file, removed", f, 16);
    SHOW(unlink("guarded"));
    return 0;
}
