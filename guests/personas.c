/* personality: asking, ADDR_NO_RANDOMIZE and its effect on an exec, UNAME26, what fork and exec inherit,
 * READ_IMPLIES_EXEC, unknown bits, back to none. About 0.6 s. */
#include "show.h"
#include <sys/personality.h>
#include <sys/utsname.h>

#ifndef UNAME26
#define UNAME26 0x0020000
#endif

static char self[4096];
static int global;

static void ask(const char *when) { say("%s: %x", when, personality(0xffffffff)); }

/* Runs itself, which prints its addresses; returns a hash of them. */
static uint64_t places(void)
{
    int p[2], status;
    char b[256] = {0};
    pipe(p);
    pid_t child = fork();
    if (!child) {
        dup2(p[1], 50);
        execl(self, "personas", "places", NULL);
        _exit(1);
    }
    close(p[1]);
    int n = 0;
    for (long r; (r = read(p[0], b + n, sizeof b - n)) > 0; n += r)
        ;
    close(p[0]);
    waitpid(child, &status, 0);
    say_status("places", status);
    return hash(b, n);
}

int main(int argc, char **argv)
{
    if (argc > 1) {
        int local;
        dprintf(50, "%p %p %p %p", (void *)&local, (void *)&global, malloc(10), (void *)main);
        _exit(7);
    }
    readlink("/proc/self/exe", self, sizeof self - 1);
    ask("start");
    rest(90);
    HOLDS(places() != places());
    SHOW(personality(ADDR_NO_RANDOMIZE));
    ask("fixed addresses");
    rest(90);
    HOLDS(places() == places());
    int status;
    pid_t child = fork();
    if (!child) {
        ask("in a fork");
        rest(60);
        personality(UNAME26);
        struct utsname u;
        uname(&u);
        say("old style %d", !strncmp(u.release, "2.6.", 4));
        ask("the child's own");
        _exit(0);
    }
    waitpid(child, &status, 0);
    say_status("child", status);
    ask("mine");
    struct utsname u;
    uname(&u);
    say("new style %d", strncmp(u.release, "2.6.", 4) != 0);
    SHOW(personality(READ_IMPLIES_EXEC));
    rest(90);
    ask("readable is executable");
    unsigned char *code = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memcpy(code, "\xb8\x2a\x00\x00\x00\xc3", 6); /* mov eax, 42; ret */
    rest(60);
    say("called %d", ((int (*)(void))code)());
    SHOW(personality(STICKY_TIMEOUTS | MMAP_PAGE_ZERO));
    ask("others");
    SHOW(personality(0));
    ask("none");
    chew(60 * CHEW_MS);
    rest(90);
    ask("end");
    HOLDS(places() != places());
    return 0;
}
