/* /proc/self: exe, cwd, root and fd links, maps with heap and stack, status, comm, cmdline, environ, limits, task,
 * fdinfo, stat fields, auxv. Proves that a program sees the same of itself as at home. About 0.7 s. */
#include "slurp.h"
#include <dirent.h>

static long field(const char *name)
{
    take("/proc/self/status");
    char *p = strstr(text, name);
    return p ? atol(p + strlen(name)) : -1;
}

static int count(const char *path)
{
    DIR *d = opendir(path);
    int n = 0;
    if (!d)
        return -1;
    while (readdir(d))
        n++;
    closedir(d);
    return n - 2;
}

/* Permissions of the mapping that holds an address. */
static void mapped(const char *what, void *address)
{
    take("/proc/self/maps");
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
        unsigned long low, high;
        char rights[8], name[512] = "";
        sscanf(line, "%lx-%lx %7s %*s %*s %*s %511[^\n]", &low, &high, rights, name);
        if ((unsigned long)address >= low && (unsigned long)address < high) {
            char *base = strrchr(name, '/');
            say("%s: %s %s", what, rights, base ? base + 1 : name);
            return;
        }
    }
    say("%s: not mapped", what);
}

static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
static void *sleeper(void *arg)
{
    pthread_mutex_lock(&gate);
    pthread_mutex_unlock(&gate);
    return NULL;
}

static int global = 5;

int main(int argc, char **argv)
{
    char link[4096], cwd[4096];
    int local;
    void *heap = malloc(10);
    int n = readlink("/proc/self/exe", link, sizeof link);
    HOLDS(n > 9 && !memcmp(link + n - 9, "/procself", 9));
    getcwd(cwd, sizeof cwd);
    int fd = open("some-file", O_CREAT | O_RDWR | O_APPEND, 0600);
    write(fd, "0123456789", 10);
    for (int round = 0; round < 3; round++) {
        memset(link, 0, sizeof link);
        readlink("/proc/self/cwd", link, sizeof link);
        HOLDS(!strcmp(link, cwd));
        char path[64];
        sprintf(path, "/proc/self/fd/%d", fd);
        memset(link, 0, sizeof link);
        readlink(path, link, sizeof link);
        HOLDS(!strcmp(strrchr(link, '/'), "/some-file"));
        take("/proc/self/comm");
        say("comm %s", text);
        HOLDS(field("\nPid:") == getpid());
        HOLDS(field("\nPPid:") == getppid());
        say("threads %ld uid %ld fds %d tasks %d", field("\nThreads:"), field("\nUid:"),
            count("/proc/self/fd"), count("/proc/self/task"));
        mapped("code", (void *)main);
        mapped("data", &global);
        mapped("stack", &local);
        mapped("heap", heap);
        take("/proc/self/maps");
        HOLDS(strstr(text, "[vdso]") && strstr(text, "[stack]") && strstr(text, "[heap]"));
        rest(70);
        chew(40 * CHEW_MS);
    }
    n = take("/proc/self/cmdline");
    say("cmdline ends in 0: %d, same %d", n > 0 && !text[n - 1], !strcmp(text, argv[0]));
    take("/proc/self/environ");
    HOLDS(!!memmem(text, sizeof text, "LC_ALL=C", 8));
    take("/proc/self/limits");
    HOLDS(!!strstr(text, "Max open files"));
    int pid;
    char name[64], state;
    take("/proc/self/stat");
    sscanf(text, "%d (%63[^)]) %c", &pid, name, &state);
    say("stat: mine %d name %s state %c", pid == getpid(), name, state);
    char path[64];
    sprintf(path, "/proc/self/fdinfo/%d", fd);
    take(path);
    long pos = -1, flags = -1;
    sscanf(text, "pos: %ld flags: %lo", &pos, &flags);
    say("fdinfo pos %ld flags %lo", pos, flags);
    sprintf(path, "/proc/%d/comm", getpid());
    take(path);
    say("by pid: %s", text);
    pthread_t t[3];
    pthread_mutex_lock(&gate);
    for (int i = 0; i < 3; i++)
        pthread_create(&t[i], NULL, sleeper, NULL);
    say("threads %ld tasks %d", field("\nThreads:"), count("/proc/self/task"));
    rest(70);
    say("threads %ld", field("\nThreads:"));
    pthread_mutex_unlock(&gate);
    for (int i = 0; i < 3; i++)
        pthread_join(t[i], NULL);
    prctl(PR_SET_NAME, "new name");
    take("/proc/self/comm");
    say("comm %s", text);
    int comm = open("/proc/self/comm", O_WRONLY);
    SHOW(write(comm, "written", 7));
    char now_name[20] = {0};
    prctl(PR_GET_NAME, now_name);
    say("name %s", now_name);
    int mem = open("/proc/self/mem", O_RDWR);
    int value = 0;
    SHOW(pread(mem, &value, sizeof value, (long)&global));
    say("mem %d", value);
    value = 6;
    SHOW(pwrite(mem, &value, sizeof value, (long)&global));
    rest(60);
    say("global %d", global);
    SHOW(take("/proc/self/none"));
    return 0;
}
