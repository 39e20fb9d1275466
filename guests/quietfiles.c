/* inotify reports only the program's own accesses: it watches its executable, the C library it has loaded and a file
 * that it maps privately, then rests, computes and forks, and no event comes. It runs from copies in this directory,
 * for others open the real ones. Last it opens each itself, and those events come. About 1 s. */
#include "show.h"
#include <sys/inotify.h>

#define WATCHED 3
static const char *name[WATCHED] = {"own-program", "libc.so.6", "own-data"};
static int id[WATCHED];

static int copy(const char *from, const char *to)
{
    static char buf[1 << 16];
    int in = open(from, O_RDONLY), out = open(to, O_WRONLY | O_CREAT | O_TRUNC, 0700);
    long n, bad = in < 0 || out < 0;
    while (!bad && (n = read(in, buf, sizeof buf)) > 0)
        bad = write(out, buf, n) != n;
    close(in);
    close(out);
    return bad ? -1 : 0;
}

/* The path of the file mapped at `at`. */
static int mapped(void *at, char *path)
{
    char line[5000];
    unsigned long a, b;
    int found = -1;
    FILE *f = fopen("/proc/self/maps", "r");
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "%lx-%lx %*s %*s %*s %*s %4095s", &a, &b, path) == 3 && a <= (unsigned long)at &&
            (unsigned long)at < b) {
            found = 0;
            break;
        }
    fclose(f);
    return found;
}

static const char *base(const char *path) { return strrchr(path, '/') ? strrchr(path, '/') + 1 : path; }

/* Prints the events so far. */
static void drain(int fd, const char *when)
{
    char buf[8192] __attribute__((aligned(8))), line[900] = {0};
    long n;
    while ((n = read(fd, buf, sizeof buf)) > 0)
        for (long at = 0; at < n;) {
            struct inotify_event *e = (void *)(buf + at);
            const char *who = "?";
            for (int i = 0; i < WATCHED; i++)
                if (id[i] == e->wd)
                    who = name[i];
            if (strlen(line) < 800)
                sprintf(line + strlen(line), " %s:%x", who, e->mask);
            at += sizeof *e + e->len;
        }
    say("%s:%s then %ld %s", when, *line ? line : " nothing", n, errno_name(errno));
}

static int first(char *link)
{
    char path[4096];
    int fd = open(name[2], O_RDWR | O_CREAT | O_TRUNC, 0600);
    for (int i = 0; i < 4096; i++)
        write(fd, "private\n", 8);
    close(fd);
    if (mapped(getppid, path) || copy(path, name[1]) || copy(link, name[0])) {
        say("cannot copy");
        return 1;
    }
    setenv("LD_LIBRARY_PATH", ".", 1);
    execl(name[0], name[0], "again", NULL);
    say("cannot start the copy");
    return 1;
}

int main(int argc, char **argv)
{
    char program[4096] = {0}, library[4096] = {0};
    int status;
    readlink("/proc/self/exe", program, sizeof program - 1);
    if (argc == 1)
        return first(program);
    if (mapped(getppid, library)) {
        say("no library");
        return 1;
    }
    say("runs %s with %s", base(program), base(library));
    int fd = open(name[2], O_RDONLY);
    char *p = mmap(NULL, 8 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    close(fd);
    /* Mapped to the end: its last close would be an event. */
    int in = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    const char *paths[WATCHED] = {program, library, name[2]};
    for (int i = 0; i < WATCHED; i++) {
        id[i] = inotify_add_watch(in, paths[i], IN_ALL_EVENTS);
        HOLDS(id[i] > 0);
    }
    drain(in, "at once");
    for (int k = 0; k < 4; k++) {
        rest(60);
        chew(60 * CHEW_MS);
        p[k * 4096] = 'P'; /* a page of its own */
        say("%c%c", p[k * 4096], p[(k + 4) * 4096]);
        drain(in, "later");
    }
    pid_t child = fork();
    if (!child) {
        for (int k = 0; k < 8; k++)
            k % 2 ? rest(15) : (void)chew(15 * CHEW_MS);
        _exit(p[0] == 'P' && p[7 * 4096] == 'p' ? 7 : 1);
    }
    HOLDS(waitpid(child, &status, 0) == child);
    say_status("child", status);
    drain(in, "with a child");
    for (int i = 0; i < WATCHED; i++) {
        char c;
        fd = open(paths[i], O_RDONLY);
        read(fd, &c, 1);
        close(fd);
    }
    drain(in, "its own");
    rest(40);
    drain(in, "end");
    close(in);
    for (int i = 0; i < WATCHED; i++)
        SHOW(unlink(name[i]));
    return 0;
}
