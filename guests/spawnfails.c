/* posix_spawn and vfork when things go wrong: no such program, no permission, no format, failing file actions, a
 * directory that is not there, closed descriptors, attributes (group, mask, default signals, session) and a vfork with
 * a child that fails to exec and reports it through shared memory. About 0.6 s. */
#include "show.h"
#include <spawn.h>

extern char **environ;

static void try(const char *what, const char *path, posix_spawn_file_actions_t *fa, posix_spawnattr_t *at, char **argv)
{
    pid_t child = -1;
    int error = posix_spawn(&child, path, fa, at, argv, environ), status;
    if (error) {
        say("%s: %s", what, errno_name(error));
        HOLDS(waitpid(-1, &status, WNOHANG) == -1 && errno == ECHILD);
    } else {
        waitpid(child, &status, 0);
        say_status(what, status);
    }
    rest(20);
}

static void make(const char *name, const char *text, int mode)
{
    int fd = open(name, O_CREAT | O_WRONLY | O_TRUNC, 0600);
    write(fd, text, strlen(text));
    fchmod(fd, mode);
    close(fd);
}

int main(void)
{
    char *sh[] = {"sh", "-c", "exit 3", NULL}, *none[] = {"none", NULL};
    make("noexec", "#!/bin/sh\nexit 1\n", 0600);
    make("noformat", "just words\n", 0700);
    make("lost", "#!/no/such/interpreter\n", 0700);
    mkdir("dir", 0700), mkdir("closed", 0000);
    try("good", "/bin/sh", NULL, NULL, sh);
    try("missing", "./missing", NULL, NULL, none);
    try("directory", "./dir", NULL, NULL, none);
    try("not executable", "./noexec", NULL, NULL, none);
    try("no format", "./noformat", NULL, NULL, none);
    try("lost interpreter", "./lost", NULL, NULL, none);
    try("closed directory", "./closed/x", NULL, NULL, none);
    try("not a directory", "./noexec/x", NULL, NULL, none);
    pid_t child;
    SHOW(posix_spawnp(&child, "no-such-program-anywhere", NULL, NULL, none, environ));

    posix_spawn_file_actions_t fa;
    posix_spawn_file_actions_init(&fa);
    posix_spawn_file_actions_addopen(&fa, 5, "./not-there", O_RDONLY, 0);
    try("open fails", "/bin/sh", &fa, NULL, sh);
    posix_spawn_file_actions_destroy(&fa);
    posix_spawn_file_actions_init(&fa);
    posix_spawn_file_actions_adddup2(&fa, 77, 78);
    try("dup2 fails", "/bin/sh", &fa, NULL, sh);
    posix_spawn_file_actions_destroy(&fa);
    posix_spawn_file_actions_init(&fa);
    posix_spawn_file_actions_addclose(&fa, 77);
    posix_spawn_file_actions_addchdir_np(&fa, "dir");
    posix_spawn_file_actions_addopen(&fa, 9, "made", O_CREAT | O_WRONLY, 0640);
    char *echo[] = {"sh", "-c", "echo spawned >&9; pwd | grep -c '/dir$'", NULL};
    try("good actions", "/bin/sh", &fa, NULL, echo);
    struct stat st;
    SHOW(stat("dir/made", &st));
    say("size %ld", (long)st.st_size);
    posix_spawn_file_actions_addchdir_np(&fa, "not-there");
    try("chdir fails", "/bin/sh", &fa, NULL, sh);
    posix_spawn_file_actions_destroy(&fa);
    SHOW(posix_spawn_file_actions_init(&fa));
    SHOW(posix_spawn_file_actions_addclose(&fa, -1));
    SHOW(posix_spawn_file_actions_addclosefrom_np(&fa, 3));
    dup2(1, 33);
    char *open_33[] = {"sh", "-c", "(echo x >&33) 2>/dev/null || exit 9; exit 1", NULL};
    try("closed from three", "/bin/sh", &fa, NULL, open_33);

    posix_spawnattr_t at;
    posix_spawnattr_init(&at);
    posix_spawnattr_setflags(&at, POSIX_SPAWN_SETPGROUP);
    posix_spawnattr_setpgroup(&at, 1);
    try("foreign group", "/bin/sh", NULL, &at, sh);
    posix_spawnattr_setpgroup(&at, 0);
    try("own group", "/bin/sh", NULL, &at, sh);
    sigset_t set;
    sigemptyset(&set), sigaddset(&set, SIGTERM);
    posix_spawnattr_setflags(&at, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSID);
    posix_spawnattr_setsigmask(&at, &set);
    char *kill_self[] = {"sh", "-c", "kill -TERM $$; exit 5", NULL};
    try("blocked", "/bin/sh", NULL, &at, kill_self);
    signal(SIGTERM, SIG_IGN);
    posix_spawnattr_setflags(&at, 0);
    try("ignored", "/bin/sh", NULL, &at, kill_self);
    posix_spawnattr_setflags(&at, POSIX_SPAWN_SETSIGDEF);
    posix_spawnattr_setsigdefault(&at, &set);
    try("default", "/bin/sh", NULL, &at, kill_self);

    for (int i = 0; i < 12; i++) {
        volatile int error = 0;
        char *args[] = {"x", NULL};
        child = vfork();
        if (!child) {
            execv(i % 2 ? "./missing" : "./noexec", args);
            error = errno;
            _exit(100 + i);
        }
        int status;
        if (waitpid(child, &status, 0) != child || WEXITSTATUS(status) != 100 + i || error != (i % 2 ? ENOENT : EACCES))
            say("vfork %d: %x %s", i, status, errno_name(error));
        chew(2 * CHEW_MS);
        rest(6);
    }
    chmod("closed", 0700);
    return 0;
}
