/* Memory of a just-in-time compiler: one memfd at two addresses, written at one and executed at the other, its descriptor
 * closed, as BEAM and .NET do. Code is changed, read back, protected and punched out; a child changes it for its parent.
 * Then a memfd that is only written, and one with a descriptor left open: both stay at home. About 1 s. */
#include "show.h"

enum { SIZE = 1 << 20 };

typedef int function(void);

static char *written, *executed;

/* mov $value, %eax; ret */
static void compile(int at, int value)
{
    unsigned char code[6] = {0xb8, value, value >> 8, value >> 16, value >> 24, 0xc3};
    memcpy(written + at, code, sizeof code);
}

static int call(int at)
{
    return ((function *)(executed + at))();
}

static char *view(int fd, int prot)
{
    char *p = mmap(NULL, SIZE, prot, MAP_SHARED, fd, 0);
    return p == MAP_FAILED ? NULL : p;
}

int main(void)
{
    int fd = memfd_create("vmem", MFD_CLOEXEC);
    ftruncate(fd, SIZE);
    written = view(fd, PROT_READ | PROT_WRITE);
    executed = view(fd, PROT_READ | PROT_EXEC);
    close(fd);

    long sum = 0;
    for (int i = 0; i < 60; i++) {
        int at = i * 4096 % SIZE + i;
        compile(at, i * 1000003);
        chew(300000);
        sum += call(at) == i * 1000003;
        rest(8);
    }
    say("compiled and called: %ld", sum);
    int same = 0;
    for (int i = 0; i < 60; i++)
        same += call(i * 4096 % SIZE + i) == i * 1000003;
    say("called again: %d, equal views %d", same, !memcmp(written, executed, SIZE));

    SHOW(mprotect(executed, 4096, PROT_NONE));
    SHOW(mprotect(written + 4096, 4096, PROT_READ));
    rest(60);
    SHOW(mprotect(executed, 4096, PROT_READ | PROT_EXEC));
    SHOW(mprotect(written + 4096, 4096, PROT_READ | PROT_WRITE));
    SHOW(madvise(written + 8192, 4096, MADV_REMOVE));
    say("punched: %d %d", executed[8194], written[8194]);
    say("others: %d", call(0) == 0 && call(4097) == 1000003);

    pid_t child = fork();
    if (!child) {
        compile(3 * 4096, 77);
        chew(3000000);
        rest(40);
        _exit(call(3 * 4096));
    }
    int status;
    waitpid(child, &status, 0);
    say_status("child", status);
    say("of the child: %d", call(3 * 4096));

    int plain = memfd_create("plain", MFD_CLOEXEC);
    ftruncate(plain, SIZE);
    char *p = view(plain, PROT_READ | PROT_WRITE);
    close(plain);
    for (int i = 0; i < 20; i++) {
        p[i * 4096] = i;
        rest(8);
    }
    int found = 0;
    for (int i = 0; i < 20; i++)
        found += p[i * 4096] == i;
    say("plain: %d", found);
    munmap(p, SIZE);

    int open = memfd_create("open", MFD_CLOEXEC);
    ftruncate(open, SIZE);
    char *q = view(open, PROT_READ | PROT_WRITE);
    char *x = view(open, PROT_READ | PROT_EXEC);
    char byte = 9;
    for (int i = 0; i < 20; i++) {
        q[i] = i;
        chew(300000);
        SHOW(pread(open, &byte, 1, i));
        SHOW(pwrite(open, &byte, 1, 4096 + i));
    }
    say("open: %d %d %d", byte, q[4096 + 19], x[4096 + 19]);
    return 0;
}
