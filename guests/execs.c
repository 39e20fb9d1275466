/* A chain of exec: itself five times with other arguments and environment, close-on-exec, ignored
 * signals and masks that survive, handlers that do not; ENOENT, EACCES, ENOEXEC, E2BIG, scripts
 * with #!, exec from a thread, fexecve. Same pid to the end. About 0.8 s. */
#include "show.h"

static char self[4096];

static void attempt(const char *what, const char *path)
{
    char *argv[] = {(char *)path, "x", NULL}, *env[] = {"A=b", NULL};
    errno = 0;
    execve(path, argv, env);
    say("%s: %s", what, errno_name(errno));
}

static void make(const char *name, const char *text, int mode)
{
    int fd = open(name, O_CREAT | O_WRONLY | O_TRUNC, 0600);
    write(fd, text, strlen(text));
    fchmod(fd, mode);
    close(fd);
}

static void in_child(const char *what, const char *path)
{
    pid_t child = fork();
    if (!child) {
        attempt(what, path);
        _exit(50);
    }
    int status;
    waitpid(child, &status, 0);
    say_status(what, status);
}

static void errors(void)
{
    attempt("none", "./none");
    attempt("directory", "/etc");
    make("plain", "no program", 0644);
    attempt("not executable", "./plain");
    chmod("plain", 0755);
    attempt("no format", "./plain");
    attempt("through a file", "./plain/x");
    make("lost", "#!/none/such/interpreter\n", 0755);
    attempt("lost interpreter", "./lost");
    attempt("bad pointer", (char *)8);
    make("script", "#!/bin/sh -e\necho script got $# $1 $A\nexit 8\n", 0755);
    in_child("script", "./script");
    make("nested", "#!./script arg\n", 0755);
    in_child("nested", "./nested");
    static char huge[200000];
    memset(huge, 'h', sizeof huge - 1);
    char *argv[] = {self, huge, NULL}, *env[] = {NULL};
    SHOW(execve(self, argv, env));
}

static void *exec_here(void *arg)
{
    execv(arg, (char *[]){arg, "thread", NULL});
    return NULL;
}
static void *idle(void *arg)
{
    for (;;)
        rest(1000);
}
static void handler(int s) {}

int main(int argc, char **argv)
{
    char *stage = argc > 1 ? argv[1] : "0";
    if (argc > 2)
        strcpy(self, argv[2]);
    else
        readlink("/proc/self/exe", self, sizeof self - 1);
    if (!strcmp(stage, "thread")) {
        say("exec from a thread: leader %d", gettid() == getpid());
        _exit(11);
    }
    if (!strcmp(stage, "fd")) {
        say("fexecve");
        _exit(12);
    }
    int n = atoi(stage);
    if (n == 0) {
        errors();
        char pid[32];
        sprintf(pid, "%d", getpid());
        setenv("FIRST_PID", pid, 1);
        signal(SIGUSR1, SIG_IGN);
        signal(SIGUSR2, handler);
        sigset_t set;
        sigemptyset(&set), sigaddset(&set, SIGHUP);
        sigprocmask(SIG_BLOCK, &set, NULL);
        dup2(open("kept", O_CREAT | O_RDWR, 0600), 40);
        dup3(40, 41, O_CLOEXEC);
        umask(027);
        chdir("/");
        prctl(PR_SET_NAME, "will-change");
    }
    char old[64] = "", cwd[64], name[20] = {0};
    struct sigaction a1, a2;
    sigset_t mask;
    sigaction(SIGUSR1, NULL, &a1), sigaction(SIGUSR2, NULL, &a2);
    sigprocmask(SIG_BLOCK, NULL, &mask);
    mode_t um = umask(0);
    umask(um);
    prctl(PR_GET_NAME, name);
    say("stage %d argc %d stage variable %s", n, argc, getenv("STAGE") ? getenv("STAGE") : "none");
    say("ignored %d handler %d blocked %d umask %o cwd %s name %s", a1.sa_handler == SIG_IGN,
        n == 0 || a2.sa_handler == SIG_DFL, sigismember(&mask, SIGHUP), um,
        getcwd(cwd, sizeof cwd), name);
    say("fd 40 %s, fd 41 %s", fcntl(40, F_GETFD) < 0 ? "closed" : "open",
        fcntl(41, F_GETFD) < 0 ? "closed" : "open");
    HOLDS(atoi(getenv("FIRST_PID")) == getpid());
    write(40, stage, 1);
    chew(20 * CHEW_MS);
    rest(60);
    if (n < 5) {
        char next[8], var[32];
        sprintf(next, "%d", n + 1);
        sprintf(var, "value-%d", n);
        setenv("STAGE", var, 1);
        char *list[] = {"renamed", next, self, "more", NULL, "arguments", NULL};
        execv(self, list);
        say("exec failed %s", errno_name(errno));
        return 1;
    }
    pid_t child = fork();
    if (!child) {
        pthread_t t;
        pthread_create(&t, NULL, idle, NULL);
        pthread_create(&t, NULL, exec_here, self);
        idle(NULL);
    }
    int status;
    waitpid(child, &status, 0);
    say_status("exec in a thread", status);
    child = fork();
    if (!child) {
        int fd = open(self, O_RDONLY | O_CLOEXEC);
        fexecve(fd, (char *[]){"fd", "fd", NULL}, environ);
        _exit(1);
    }
    waitpid(child, &status, 0);
    say_status("fexecve", status);
    execl("/bin/sh", "sh", "-c", "echo last; exit 42", NULL);
}
