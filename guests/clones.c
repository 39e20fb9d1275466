/* clone and clone3 below the C library: shared and copied descriptors and working directory, exit signals other
 * than SIGCHLD or none, CLONE_PARENT, tids written and cleared, shared memory until exec, a thread whose caller waits
 * for its end, CLONE_CLEAR_SIGHAND, errors of wrong flags and sizes. About 0.8 s. */
#include "show.h"
#include <linux/futex.h>
#include <linux/sched.h>

#ifndef CLONE_CLEAR_SIGHAND
#define CLONE_CLEAR_SIGHAND 0x100000000ull
#endif

static volatile int usr1;
static void on(int s) { usr1++; }

/* A child that gets a copy of the memory, as fork's. */
static pid_t copy(uint64_t flags, int signal_, int *parent_tid, int *child_tid)
{
    struct clone_args a = {.flags = flags, .exit_signal = signal_, .parent_tid = (uintptr_t)parent_tid,
        .child_tid = (uintptr_t)child_tid};
    return syscall(SYS_clone3, &a, sizeof a);
}

static void wrong(const char *what, uint64_t flags, int signal_)
{
    pid_t child = copy(flags, signal_, NULL, NULL);
    if (!child)
        _exit(0);
    say("%s: %s", what, child < 0 ? errno_name(errno) : "was made");
    if (child > 0)
        waitpid(child, NULL, __WALL);
}

static int beside(void *arg)
{
    int *word = arg;
    rest(65);
    *word += 5;
    close(60);
    chdir("/");
    return *word;
}

static int thread_beside(void *arg)
{
    int *word = arg;
    rest(65);
    *word += 5;
    syscall(SYS_exit, 0);
    return 0;
}

int main(void)
{
    int status;
    signal(SIGUSR1, on);
    wrong("threads without shared handlers", CLONE_THREAD, 0);
    wrong("shared handlers without memory", CLONE_SIGHAND, SIGCHLD);
    wrong("new and shared directory", CLONE_FS | CLONE_NEWNS, SIGCHLD);
    wrong("unknown flag", 1ull << 40, SIGCHLD);
    wrong("bad signal", 0, 99);
    wrong("thread with a signal", CLONE_THREAD | CLONE_SIGHAND | CLONE_VM, SIGCHLD);
    wrong("new pid namespace", CLONE_NEWPID, SIGCHLD);
    SHOW(syscall(SYS_clone3, NULL, 64));
    SHOW(syscall(SYS_clone3, (void *)64, 10));
    SHOW(syscall(SYS_clone3, (void *)8, 64));

    int ptid = -1;
    static volatile int ctid = -1;
    pid_t child = copy(CLONE_PARENT_SETTID | CLONE_CHILD_SETTID, SIGCHLD, &ptid, (int *)&ctid);
    if (!child) {
        rest(80);
        _exit(ctid == getpid() ? 11 : 1);
    }
    HOLDS(ptid == child && ctid == -1);
    waitpid(child, &status, 0);
    say_status("tids", status);

    /* Descriptors and directory are one, memory is not. */
    mkdir("inner", 0700);
    static volatile int word = 1;
    char here[4096], *base;
    child = copy(CLONE_FILES | CLONE_FS, SIGCHLD, NULL, NULL);
    if (!child) {
        word = 2;
        chdir("inner");
        umask(0);
        dup2(1, 60);
        rest(80);
        _exit(12);
    }
    waitpid(child, &status, 0);
    say_status("files and directory", status);
    base = strrchr(getcwd(here, sizeof here), '/');
    say("word %d cwd %s fd 60 %s umask %o", word, base, fcntl(60, F_GETFD) < 0 ? "closed" : "open", umask(022));
    SHOW(chdir(".."));

    child = copy(0, SIGUSR1, NULL, NULL);
    if (!child) {
        rest(80);
        _exit(13);
    }
    SHOW(waitpid(child, &status, 0));
    HOLDS(waitpid(child, &status, __WALL) == child);
    say_status("other signal", status);
    say("SIGUSR1 came %d", usr1);
    child = copy(0, 0, NULL, NULL);
    if (!child) {
        rest(80);
        _exit(14);
    }
    SHOW(wait(&status));
    HOLDS(waitpid(child, &status, __WCLONE) == child);
    say_status("no signal", status);

    /* A grandchild that becomes this process's child. */
    child = fork();
    if (!child) {
        pid_t sibling = copy(CLONE_PARENT, 0, NULL, NULL);
        if (!sibling) {
            rest(95);
            _exit(16);
        }
        _exit(sibling > 0 ? 15 : 1);
    }
    int seen = 0;
    for (int i = 0; i < 2; i++) {
        HOLDS(wait(&status) > 0);
        seen += WEXITSTATUS(status);
    }
    say("both %d", seen);

    child = copy(CLONE_CLEAR_SIGHAND, SIGCHLD, NULL, NULL);
    if (!child) {
        struct sigaction a;
        sigaction(SIGUSR1, NULL, &a);
        rest(65);
        _exit(a.sa_handler == SIG_DFL ? 17 : 1);
    }
    waitpid(child, &status, 0);
    say_status("handlers cleared", status);

    /* Another process in this memory, on a stack of its own. It keeps the parent waiting as vfork does. */
    char *stack = malloc(65536);
    int shared = 10;
    child = clone(beside, stack + 65536, CLONE_VM | CLONE_VFORK | SIGCHLD, &shared);
    HOLDS(child > 0);
    waitpid(child, &status, 0);
    say_status("beside", status);
    base = strrchr(getcwd(here, sizeof here), '/');
    say("shared %d fd 60 %s still elsewhere %d", shared, fcntl(60, F_GETFD) < 0 ? "closed" : "open", strlen(base) > 1);

    /* A thread, for whose end its caller waits as with vfork. */
    int thread = CLONE_VM | CLONE_VFORK | CLONE_THREAD | CLONE_SIGHAND | CLONE_FS | CLONE_FILES;
    HOLDS(clone(thread_beside, stack + 65536, thread, &shared) > 0);
    say("shared %d after the thread", shared);
    for (int i = 0; i < 10; i++) {
        child = copy(i % 2 ? CLONE_FILES : 0, i % 3 ? SIGCHLD : 0, NULL, NULL);
        if (!child) {
            chew(2 * CHEW_MS);
            _exit(i);
        }
        waitpid(child, &status, __WALL);
        if (WEXITSTATUS(status) != i)
            say("child %d: %x", i, status);
        rest(8);
    }
    return 0;
}
