/* Lookups of names that another process makes, renames and removes meanwhile: what is not there, what is no directory,
 * symbolic links and where they lead, relative paths in a directory that was renamed, directories that may not be searched;
 * told by a pipe, by memory, and not told at all. About 2 s. */
#include "show.h"

#define ROUNDS 60

static int to[2], from[2];
static volatile int *flag;

static void tell(int fd) { _exit(write(fd, "x", 1) != 1 ? 98 : 0); }
static void go_on(void)
{
    char x;
    if (read(to[0], &x, 1) != 1)
        _exit(0);
}
static void done(void)
{
    if (write(from[1], "x", 1) != 1)
        tell(from[1]);
}
static void ask(void)
{
    char x;
    if (write(to[1], "x", 1) != 1 || read(from[0], &x, 1) != 1)
        say("the other has ended");
}

/* The errno of each way to look a path up, as one number; they agree. */
static int look(const char *path)
{
    struct stat st;
    int e[4], fd;
    e[0] = access(path, F_OK) ? errno : 0;
    e[1] = stat(path, &st) ? errno : 0;
    e[2] = (fd = open(path, O_RDONLY | O_NONBLOCK)) < 0 ? errno : 0;
    if (fd >= 0)
        close(fd);
    e[3] = fstatat(AT_FDCWD, path, &st, 0) ? errno : 0;
    return e[0] == e[1] && e[1] == e[2] && e[2] == e[3] ? e[0] : -1;
}

static int link_is(const char *path, const char *target)
{
    char got[64];
    ssize_t n = readlink(path, got, sizeof got);
    return n == (ssize_t)strlen(target) && !memcmp(got, target, n);
}

static void other(void)
{
    for (int i = 0; i < ROUNDS; i++) {
        go_on();
        close(open("d/file", O_CREAT | O_WRONLY, 0600));
        done(), go_on();
        unlink("d/file");
        done(), go_on();
        rename("d", "e");
        done(), go_on();
        rename("e", "d");
        done(), go_on();
        symlink(i % 2 ? "d/sub" : "nowhere", "link");
        done(), go_on();
        unlink("link");
        done(), go_on();
        chmod("d", 0);
        done(), go_on();
        chmod("d", 0700);
        done(), go_on();
        chmod("d", 0755);
        done(), go_on();
        rename("d/sub", "d/old"), mkdir("d/sub", 0755), close(open("d/sub/new", O_CREAT | O_WRONLY, 0600));
        done(), go_on();
        unlink("d/sub/new"), rmdir("d/sub"), rename("d/old", "d/sub");
        done();
    }
    for (int i = 0; i < ROUNDS; i++) {
        go_on();
        rest(1);
        close(open("d/untold", O_CREAT | O_WRONLY, 0600));
        done(), go_on();
        unlink("d/untold");
        *flag = i + 1;
    }
    _exit(0);
}

int main(void)
{
    int wrong[12] = {0};
    pipe(to), pipe(from);
    flag = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    mkdir("d", 0755), mkdir("d/sub", 0755);
    close(open("plain", O_CREAT | O_WRONLY, 0600));
    pid_t child = fork();
    if (!child) {
        close(to[1]), close(from[0]);
        other();
    }
    close(to[0]), close(from[1]);
    chdir("d/sub");
    int sub = open(".", O_RDONLY | O_DIRECTORY);
    chdir("../..");
    for (int i = 0; i < ROUNDS; i++) {
        for (int k = 0; k < 3; k++)
            wrong[0] += look("d/file") != ENOENT || look("d/none/deeper") != ENOENT || look("plain/x") != ENOTDIR ||
                look("./d/../d/sub/none") != ENOENT || look("d/sub") != 0;
        ask();
        wrong[1] += look("d/file") != 0 || look("d/other") != ENOENT;
        ask();
        wrong[2] += look("d/file") != ENOENT;
        ask();
        wrong[3] += look("d/sub") != ENOENT || look("e/sub") != 0 || look("e/sub/x") != ENOENT;
        ask();
        wrong[4] += look("d/sub") != 0 || look("e/sub") != ENOENT;
        ask();
        for (int k = 0; k < 3; k++)
            wrong[5] += !link_is("link", i % 2 ? "d/sub" : "nowhere") || look("link") != (i % 2 ? 0 : ENOENT) ||
                look("link/none") != ENOENT || readlink("d/sub", (char[9]){0}, 9) != -1 || errno != EINVAL;
        ask();
        wrong[6] += look("link") != ENOENT || readlink("link", (char[9]){0}, 9) != -1 || errno != ENOENT;
        look("d/none");
        ask();
        wrong[7] += geteuid() && look("d/none") != EACCES;
        ask();
        wrong[8] += look("d/none") != ENOENT;
        ask();
        fchdir(sub);
        wrong[9] += look("new") != ENOENT || look("../sub/new") != ENOENT;
        ask();
        wrong[9] += look("new") != ENOENT || look("../sub/new") != 0 || look("../old/new") != ENOENT;
        ask();
        wrong[9] += look("../old") != ENOENT || look("../sub/new") != ENOENT;
        chdir("../..");
        if (i % 16 == 0)
            chew(3 * CHEW_MS);
    }
    for (int i = 0; i < ROUNDS; i++) {
        char x;
        look("d/untold");
        wrong[10] += write(to[1], "x", 1) != 1;
        double until = now() + 20;
        while (access("d/untold", F_OK) && now() < until)
            ;
        wrong[10] += now() >= until;
        wrong[10] += read(from[0], &x, 1) != 1 || look("d/untold") != 0;
        wrong[10] += write(to[1], "x", 1) != 1;
        while (*flag != i + 1)
            sched_yield();
        wrong[11] += look("d/untold") != ENOENT;
    }
    int status;
    close(to[1]);
    waitpid(child, &status, 0);
    for (int i = 0; i < 12; i++)
        say("%d: %d wrong", i, wrong[i]);
    say_status("child", status);
    return 0;
}
