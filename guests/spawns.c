/* vfork and exec, posix_spawn with file actions, attributes and errors, system, popen. Proves that
 * children that share memory with a moved parent until exec behave. About 0.8 s. */
#include "show.h"
#include <spawn.h>

extern char **environ;

static void spawn(const char *what, posix_spawn_file_actions_t *fa, posix_spawnattr_t *at, char **argv)
{
    pid_t child;
    int rc = posix_spawnp(&child, argv[0], fa, at, argv, environ);
    int status, same = 0;
    if (!rc)
        same = waitpid(child, &status, 0) == child;
    /* Printed late: the child prints at its own time. */
    say("%s: %s", what, rc ? errno_name(rc) : same ? "started and ended" : "lost");
    if (!rc)
        say_status(what, status);
}

int main(void)
{
    volatile int touched = 0;
    for (int i = 0; i < 4; i++) {
        pid_t child = vfork();
        if (!child) {
            touched++;
            execl("/bin/sh", "sh", "-c", i % 2 ? "exit 3" : "sleep 0.05; exit 4", NULL);
            _exit(127);
        }
        int status;
        waitpid(child, &status, 0);
        say_status("vfork", status);
    }
    pid_t child = vfork();
    if (!child) {
        execl("/none/such", "x", NULL);
        touched += errno == ENOENT ? 10 : 100;
        _exit(9);
    }
    int status;
    waitpid(child, &status, 0);
    say_status("vfork without exec", status);
    say("touched %d", touched);

    spawn("true", NULL, NULL, (char *[]){"true", NULL});
    spawn("none", NULL, NULL, (char *[]){"no-such-program", NULL});
    spawn("dir", NULL, NULL, (char *[]){"/etc", NULL});
    spawn("file", NULL, NULL, (char *[]){"/etc/passwd", NULL});
    posix_spawn_file_actions_t fa;
    posix_spawn_file_actions_init(&fa);
    posix_spawn_file_actions_addopen(&fa, 1, "out", O_CREAT | O_WRONLY | O_TRUNC, 0640);
    posix_spawn_file_actions_adddup2(&fa, 1, 2);
    posix_spawn_file_actions_addclose(&fa, 0);
    posix_spawn_file_actions_addchdir_np(&fa, "/");
    spawn("actions", &fa, NULL,
        (char *[]){"sh", "-c", "pwd; echo err >&2; cat; exit 6", NULL});
    posix_spawn_file_actions_destroy(&fa);
    posix_spawn_file_actions_init(&fa);
    posix_spawn_file_actions_addopen(&fa, 5, "/none/such", O_RDONLY, 0);
    spawn("bad open", &fa, NULL, (char *[]){"true", NULL});
    posix_spawn_file_actions_destroy(&fa);
    posix_spawnattr_t at;
    posix_spawnattr_init(&at);
    sigset_t def, mask;
    sigemptyset(&def), sigaddset(&def, SIGUSR1);
    sigemptyset(&mask), sigaddset(&mask, SIGUSR2);
    signal(SIGUSR1, SIG_IGN);
    posix_spawnattr_setsigdefault(&at, &def);
    posix_spawnattr_setsigmask(&at, &mask);
    posix_spawnattr_setflags(&at,
        POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP);
    spawn("attributes", NULL, &at,
        (char *[]){"sh", "-c", "grep -E 'Sig(Blk|Ign)' /proc/self/status; kill -USR1 $$; echo not reached", NULL});

    say("system %x", system("echo from system; exit 5"));
    say("system %x", system("kill -9 $$"));
    FILE *f = popen("for i in 1 2 3 4 5; do echo line $i; sleep 0.02; done; exit 2", "r");
    char line[100];
    while (fgets(line, sizeof line, f))
        say("popen %.6s", line);
    say("pclose %x", pclose(f));
    f = popen("tr a-z A-Z; sleep 0.05", "w");
    fprintf(f, "to the child\n");
    say("pclose %x", pclose(f));
    for (int i = 0; i < 10; i++) {
        chew(5 * CHEW_MS);
        spawn("again", NULL, NULL, (char *[]){"sh", "-c", "exit 1", NULL});
    }
    return 0;
}
