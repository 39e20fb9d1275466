/* /proc of a child: status and stat while it runs, sleeps, is stopped and is a zombie, its cmdline before and
 * after exec, its descriptors, cwd, maps and environment, its threads, and nothing after it was reaped. Proves
 * that a parent sees its child wherever either is. About 0.8 s. */
#include "slurp.h"
#include <dirent.h>

static pid_t child;

static char *of_child(const char *name)
{
    char path[64];
    sprintf(path, "/proc/%d/%s", child, name);
    if (!access(path, F_OK))
        return slurp(path);
    say("%s: %s", name, errno_name(errno));
    text[0] = 0;
    return text;
}

static char *line(const char *name)
{
    static char values[4][256];
    static int next;
    char *value = values[next++ % 4];
    char *at = strstr(of_child("status"), name);
    value[0] = 0;
    if (at)
        sscanf(at + strlen(name), " %255[^\n]", value);
    return value;
}

static char state(void) { return *line("\nState:"); }

/* Waits until the child is in the state, which it reaches by itself. */
static void until(char wanted)
{
    for (int i = 0; i < 100 && state() != wanted; i++)
        rest(5);
    say("state %c", state());
}

static char *link_of(const char *name)
{
    static char links[4][4096];
    static int next;
    char path[64], *to = links[next++ % 4];
    sprintf(path, "/proc/%d/%s", child, name);
    memset(to, 0, sizeof links[0]);
    if (readlink(path, to, sizeof links[0] - 1) < 0)
        return (char *)errno_name(errno);
    return strrchr(to, '/') ?: to;
}

static void *idle(void *arg)
{
    for (;;)
        rest(1000);
}

/* No other process would continue a stopped child. */
static void give_up(int sig)
{
    kill(child, SIGKILL);
    _exit(sig);
}

int main(int argc, char **argv)
{
    if (argc > 1) { /* the child after its exec */
        char b;
        setvbuf(stdout, NULL, _IONBF, 0);
        write(91, "x", 1);
        read(90, &b, 1);
        return 23;
    }
    int to[2], from[2], status;
    char b, self[4096] = {0};
    readlink("/proc/self/exe", self, sizeof self - 1);
    mkdir("its-place", 0700);
    pipe(to), pipe(from);
    child = fork();
    if (!child) {
        pthread_t t;
        chdir("its-place");
        dup2(open("its-file", O_CREAT | O_RDWR, 0600), 70);
        prctl(PR_SET_NAME, "the child");
        signal(SIGUSR2, SIG_IGN);
        pthread_create(&t, NULL, idle, NULL);
        write(from[1], "1", 1);
        read(to[0], &b, 1);
        write(from[1], "2", 1);
        while (fcntl(to[0], F_GETFD) >= 0 && poll(&(struct pollfd){to[0], POLLIN}, 1, 0) == 0)
            chew(CHEW_MS);
        read(to[0], &b, 1);
        dup2(to[0], 90), dup2(from[1], 91);
        execle(self, "changed", "of the child", "two words", NULL, (char *[]){"ITS=environment", NULL});
        _exit(1);
    }
    signal(SIGALRM, give_up);
    alarm(8); /* a lost stop would wait for ever */
    read(from[0], &b, 1);
    until('S');
    HOLDS(atoi(line("\nPPid:")) == getpid());
    HOLDS(atoi(line("\nPid:")) == child);
    say("name %s threads %s ignored %s", line("Name:"), line("\nThreads:"), line("\nSigIgn:"));
    say("cwd %s file %s exe %s", link_of("cwd"), link_of("fd/70"), link_of("exe"));
    HOLDS(strstr(of_child("maps"), "[stack]") && strstr(text, self));
    HOLDS(strstr(of_child("environ"), "LC_ALL=C") || memmem(text, sizeof text, "LC_ALL=C", 8));
    rest(225);
    say("cwd %s file %s exe %s", link_of("cwd"), link_of("fd/70"), link_of("exe"));
    write(to[1], "g", 1);
    read(from[0], &b, 1);
    until('R');
    char *stat_ = strrchr(of_child("stat"), ')');
    HOLDS(stat_ && atoi(stat_ + 4) == getpid());
    rest(150);
    kill(child, SIGSTOP);
    waitpid(child, &status, WUNTRACED);
    say_status("child", status);
    until('T');
    rest(150);
    say("state %c", state());
    kill(child, SIGCONT);
    waitpid(child, &status, WCONTINUED);
    until('R');
    write(to[1], "e", 1);
    read(from[0], &b, 1);
    until('S');
    say("cmdline %s", of_child("cmdline"));
    say("argument %s", text + strlen(text) + 1);
    say("environ %s", of_child("environ"));
    say("name %s threads %s", line("Name:"), line("\nThreads:"));
    rest(150);
    write(to[1], "x", 1);
    until('Z');
    say("cmdline '%s'", of_child("cmdline"));
    say("cwd %s", link_of("cwd"));
    SHOW(kill(child, 0));
    waitpid(child, &status, 0);
    say_status("child", status);
    of_child("status");
    SHOW(kill(child, 0));
    return 0;
}
