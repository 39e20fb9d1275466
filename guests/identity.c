/* Identity: getpid, getppid, gettid, process group, session, user and group ids, uname, getcwd, umask, hostname. Proves
 * that a moved process keeps its identity of home; nothing may change while it runs. About 0.8 s. */
#include "show.h"
#include <sys/utsname.h>

static pid_t pid, ppid, tid, pgid, sid;
static struct utsname first;
static char cwd[4096];

static int same(void)
{
    struct utsname u;
    char here[4096];
    if (getpid() != pid || syscall(SYS_getpid) != pid || getppid() != ppid || gettid() != tid)
        return 0;
    if (getpgrp() != pgid || getpgid(0) != pgid || getpgid(pid) != pgid || getsid(0) != sid)
        return 0;
    if (uname(&u) || memcmp(&u, &first, sizeof u))
        return 0;
    return getcwd(here, sizeof here) && !strcmp(here, cwd);
}

int main(void)
{
    pid = getpid(), ppid = getppid(), tid = gettid(), pgid = getpgrp(), sid = getsid(0);
    uname(&first);
    getcwd(cwd, sizeof cwd);
    HOLDS(pid == tid);
    HOLDS(pid == pgid);
    HOLDS(sid == pid);
    HOLDS(ppid > 0);
    say("uname %s %s %s %s", first.sysname, first.nodename, first.release, first.machine);
    char host[256];
    SHOW(gethostname(host, sizeof host));
    HOLDS(!strcmp(host, first.nodename));
    SHOW(getcwd(cwd, 3));
    getcwd(cwd, sizeof cwd);
    say("uid %d %d gid %d %d", getuid(), geteuid(), getgid(), getegid());
    uid_t r, e, s;
    SHOW(getresuid(&r, &e, &s));
    say("resuid %d %d %d", r, e, s);
    gid_t groups[64];
    SHOW(getgroups(64, groups));
    SHOW(setuid(getuid()));
    SHOW(setuid(12345));
    SHOW(setgid(12345));
    HOLDS(setsid() < 0 && errno == EPERM);
    SHOW(getpgid(99999999));
    SHOW(getsid(-1));
    SHOW(umask(027));
    SHOW(umask(022));
    int changed = 0;
    for (int i = 0; i < 40; i++) {
        chew(10 * CHEW_MS);
        for (int j = 0; j < 20; j++)
            changed += !same();
        rest(8);
    }
    say("changed %d times", changed);
    SHOW(mkdir("inner", 0755));
    SHOW(chdir("inner"));
    rest(60);
    char here[4096];
    HOLDS(getcwd(here, sizeof here) && !strcmp(here + strlen(cwd), "/inner"));
    SHOW(chdir(".."));
    SHOW(fchdir(7));
    SHOW(sched_getscheduler(0));
    SHOW(getpriority(PRIO_PROCESS, 0));
    SHOW(nice(3));
    rest(60);
    SHOW(getpriority(PRIO_PROCESS, 0));
    SHOW(setpriority(PRIO_PROCESS, 0, -5));
    return 0;
}
