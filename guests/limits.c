/* Limits and prctl: getrlimit, setrlimit, prlimit, RLIMIT_NOFILE, RLIMIT_FSIZE with SIGXFSZ,
 * RLIMIT_AS with ENOMEM, RLIMIT_CPU with SIGXCPU in a child, PR_SET_NAME, PDEATHSIG, dumpable,
 * no_new_privs, sysinfo and sysconf that do not change. About 0.9 s. */
#include "show.h"
#include <sys/sysinfo.h>

static volatile int came;
static void on(int s) { came = s; }

int main(void)
{
    struct rlimit r, old;
    SHOW(getrlimit(RLIMIT_NOFILE, &r));
    say("nofile %ld %ld", (long)r.rlim_cur, (long)r.rlim_max);
    old = r;
    r.rlim_cur = 20;
    SHOW(setrlimit(RLIMIT_NOFILE, &r));
    rest(60);
    int n = 0;
    while (dup(0) >= 0)
        n++;
    say("dup'd until %s, up to 20: %d", errno_name(errno), n <= 20);
    SHOW(setrlimit(RLIMIT_NOFILE, &old));
    SHOW(syscall(SYS_close_range, 3, 100, 0));
    r.rlim_cur = 100, r.rlim_max = 50;
    SHOW(setrlimit(RLIMIT_NOFILE, &r));
    r.rlim_max = RLIM_INFINITY, r.rlim_cur = 10;
    SHOW(setrlimit(RLIMIT_NOFILE, &r));
    SHOW(getrlimit(99, &r));
    SHOW(getrlimit(RLIMIT_STACK, &r));
    say("stack %ld", (long)r.rlim_cur);
    SHOW(prlimit(getpid(), RLIMIT_CORE, NULL, &r));
    say("core %ld", (long)r.rlim_cur);
    SHOW(prlimit(1, RLIMIT_CORE, NULL, &r));

    signal(SIGXFSZ, on);
    r = (struct rlimit){5000, 5000};
    pid_t child = fork();
    if (!child) {
        SHOW(setrlimit(RLIMIT_FSIZE, &r));
        int fd = open("small", O_CREAT | O_WRONLY, 0600);
        char b[8000] = {0};
        rest(60);
        SHOW(write(fd, b, 8000));
        SHOW(write(fd, b, 10));
        say("signal %d", came);
        _exit(0);
    }
    int status;
    waitpid(child, &status, 0);
    say_status("file size", status);
    child = fork();
    if (!child) {
        r = (struct rlimit){256 << 20, 256 << 20};
        SHOW(setrlimit(RLIMIT_AS, &r));
        rest(60);
        SHOW(mmap(NULL, 512 << 20, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
        HOLDS(mmap(NULL, 4 << 20, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED);
        _exit(0);
    }
    waitpid(child, &status, 0);
    say_status("address space", status);
    child = fork();
    if (!child) {
        r = (struct rlimit){1, 5};
        signal(SIGXCPU, SIG_DFL);
        setrlimit(RLIMIT_CPU, &r);
        for (;;)
            chew(CHEW_MS);
    }
    waitpid(child, &status, 0);
    say_status("cpu time", status);

    char name[17] = {0};
    SHOW(prctl(PR_SET_NAME, "a name that is too long"));
    SHOW(prctl(PR_GET_NAME, name));
    say("name %s", name);
    SHOW(prctl(PR_SET_PDEATHSIG, SIGHUP));
    rest(60);
    int sig = 0;
    SHOW(prctl(PR_GET_PDEATHSIG, &sig));
    say("pdeathsig %d", sig);
    SHOW(prctl(PR_SET_PDEATHSIG, 999));
    SHOW(prctl(PR_GET_DUMPABLE));
    SHOW(prctl(PR_GET_KEEPCAPS));
    SHOW(prctl(PR_SET_TIMERSLACK, 70000));
    SHOW(prctl(PR_GET_TIMERSLACK));
    SHOW(prctl(12345, 0, 0, 0, 0));
    SHOW(prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0));
    SHOW(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
    rest(60);
    SHOW(prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0));
    int p[2];
    pipe(p);
    child = fork();
    if (!child) {
        pid_t middle = getpid();
        if (!fork()) {
            signal(SIGHUP, SIG_DFL);
            prctl(PR_SET_PDEATHSIG, SIGHUP);
            write(p[1], "x", 1);
            for (;;)
                rest(1000);
        }
        char b;
        read(p[0], &b, 1);
        rest(30);
        _exit(0);
    }
    waitpid(child, &status, 0);
    close(p[1]);
    char b;
    SHOW(read(p[0], &b, 1));
    struct sysinfo si, again;
    SHOW(sysinfo(&si));
    long pages = sysconf(_SC_PHYS_PAGES), cores = sysconf(_SC_NPROCESSORS_CONF);
    for (int i = 0; i < 10; i++) {
        chew(5 * CHEW_MS);
        rest(8);
    }
    sysinfo(&again);
    HOLDS(si.totalram == again.totalram);
    HOLDS(pages == sysconf(_SC_PHYS_PAGES) && cores == sysconf(_SC_NPROCESSORS_CONF));
    SHOW(sysconf(_SC_PAGESIZE));
    SHOW(sysconf(_SC_CLK_TCK));
    return 0;
}
