/* Settings that a parent makes for a running child: prlimit of address space, data, descriptors, file size and CPU
 * time, setpriority. The child is notified of each by a byte in a pipe, and tests it. About 1.5 s. */
#include "show.h"

static int commands[2], answers[2];

/* The parent writes, the child answers. */
static void ask(char what)
{
    char b;
    rest(25);
    write(commands[1], &what, 1);
    read(answers[0], &b, 1);
}

static void give(pid_t pid, int resource, rlim_t soft, rlim_t hard)
{
    struct rlimit r = {soft, hard};
    SHOW(prlimit(pid, resource, &r, NULL));
}

static void try_memory(void)
{
    size_t len = 512 << 20;
    void *p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    say("512 MB: %s", p == MAP_FAILED ? errno_name(errno) : "there");
    if (p != MAP_FAILED)
        munmap(p, len);
}

static void show(const char *name, int resource)
{
    struct rlimit r;
    SHOW(getrlimit(resource, &r));
    say("%s %ld %ld", name, (long)r.rlim_cur, (long)r.rlim_max);
}

static void serve(void)
{
    char what;
    while (read(commands[0], &what, 1) == 1) {
        int fd, n = 0;
        char b[3000] = {0};
        switch (what) {
        case 'm':
            show("address space", RLIMIT_AS);
            show("data", RLIMIT_DATA);
            try_memory();
            break;
        case 'n':
            SHOW(getpriority(PRIO_PROCESS, 0));
            break;
        case 'd':
            while (dup(0) >= 0)
                n++;
            say("dup'd until %s, up to 12: %d", errno_name(errno), n <= 12);
            SHOW(syscall(SYS_close_range, 7, 100, 0));
            break;
        case 'f':
            fd = open("small", O_CREAT | O_WRONLY | O_TRUNC, 0600);
            SHOW(write(fd, b, sizeof b));
            SHOW(write(fd, b, sizeof b));
            close(fd);
            break;
        case 'c':
            for (;;)
                chew(CHEW_MS);
        }
        write(answers[1], "", 1);
    }
    _exit(0);
}

int main(void)
{
    signal(SIGXFSZ, SIG_IGN);
    pipe(commands), pipe(answers);
    pid_t child = fork();
    if (!child) {
        close(commands[1]), close(answers[0]);
        serve();
    }
    close(commands[0]), close(answers[1]);
    const rlim_t any = RLIM_INFINITY;
    ask('m');
    give(child, RLIMIT_AS, 256 << 20, any), ask('m');
    give(child, RLIMIT_AS, any, any), ask('m');
    give(child, RLIMIT_DATA, 128 << 20, any), ask('m');
    give(child, RLIMIT_DATA, any, any), ask('m');
    ask('n');
    SHOW(setpriority(PRIO_PROCESS, child, 7));
    ask('n');
    give(child, RLIMIT_NOFILE, 14, 1024), ask('d');
    give(child, RLIMIT_FSIZE, 4000, any), ask('f');
    give(child, RLIMIT_CPU, 1, 2);
    rest(25);
    write(commands[1], "c", 1);
    int status;
    SHOW(waitpid(child, &status, 0) == child);
    say_status("child", status);
    return 0;
}
