/* SIGTRAP that is ignored stays ignored, whatever the engine's ptrace does; ignored by a child, a thread's process and
 * through an exec; other signals have their default action all the same. About 1.4 s. */
#include "show.h"

static void work(const char *who)
{
    for (int i = 0; i < 10; i++) {
        kill(getpid(), SIGTRAP);
        getppid();
        int fd = open("/etc/passwd", O_RDONLY);
        char b;
        read(fd, &b, 1);
        close(fd);
        rest(25);
    }
    struct sigaction a;
    sigaction(SIGTRAP, NULL, &a);
    say("%s: %s, flags %x", who, a.sa_handler == SIG_IGN ? "ignored" : "not ignored", a.sa_flags & ~0x4000000);
}

static void *thread(void *arg)
{
    work("thread");
    return NULL;
}

int main(int argc, char **argv)
{
    if (argc > 1) {
        work("exec");
        return 0;
    }
    struct sigaction a = {.sa_handler = SIG_IGN, .sa_flags = SA_RESTART};
    sigaction(SIGTRAP, &a, NULL);
    work("first");
    pid_t child = fork();
    if (!child) {
        work("child");
        execl("/proc/self/exe", argv[0], "again", NULL);
        _exit(1);
    }
    int status = 0;
    pthread_t t;
    waitpid(child, &status, 0);
    say("child %x", status);
    pthread_create(&t, NULL, thread, NULL);
    pthread_join(t, NULL);
    for (int i = 0; i < 2; i++) {
        child = fork();
        if (!child)
            for (;;)
                pause();
        rest(60);
        if (i) {
            kill(child, SIGSTOP);
            SHOW(waitpid(child, &status, WUNTRACED) == child && WIFSTOPPED(status));
            kill(child, SIGCONT);
            kill(child, SIGTRAP);
            rest(60);
        }
        kill(child, SIGTERM);
        waitpid(child, &status, 0);
        say("child %x", status);
    }
    signal(SIGTRAP, SIG_DFL);
    raise(SIGTRAP);
    say("not reached");
    return 0;
}
