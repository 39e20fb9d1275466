/* Links and lists in /proc/self: fd and fdinfo of files, pipes, sockets, eventfds and deleted files, opening a
 * file again through its link, exe, cwd and root, cmdline and environ and their limits, comm of threads, task,
 * limits, mountinfo, cgroup, loginuid. About 0.7 s. */
#include "slurp.h"
#include <dirent.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

/* Prints a link without numbers of inodes. */
static void link_of(const char *what, int fd)
{
    char path[64], to[4096] = {0};
    sprintf(path, "/proc/self/fd/%d", fd);
    if (readlink(path, to, sizeof to - 1) < 0)
        say("%s: %s", what, errno_name(errno));
    else {
        char *cut = strstr(to, ":["), *base = strrchr(to, '/');
        if (cut)
            *cut = 0;
        say("%s: %s", what, base ? base : to);
    }
}

static void info_of(const char *what, int fd, const char *field)
{
    char path[64];
    sprintf(path, "/proc/self/fdinfo/%d", fd);
    take(path);
    char *at = strstr(text, field), value[64] = "absent";
    if (at)
        sscanf(at + strlen(field), " %63[^\n]", value);
    say("%s: %s %s", what, field, value);
}

static int entries(const char *path)
{
    DIR *d = opendir(path);
    int n = 0;
    for (struct dirent *e; d && (e = readdir(d));)
        n += e->d_name[0] != '.';
    if (d)
        closedir(d);
    return n;
}

static pthread_barrier_t gate;
static void *named(void *arg)
{
    char comm[32];
    sprintf(comm, "named-%ld", (long)arg);
    int fd = open("/proc/thread-self/comm", O_WRONLY);
    write(fd, comm, strlen(comm));
    close(fd);
    pthread_barrier_wait(&gate);
    pthread_barrier_wait(&gate);
    return (void *)(long)gettid();
}

int main(int argc, char **argv)
{
    int p[2], sv[2], file = open("a-file", O_CREAT | O_RDWR | O_APPEND, 0600), gone = open("gone", O_CREAT | O_RDWR, 0600);
    pipe2(p, O_NONBLOCK);
    socketpair(AF_UNIX, SOCK_STREAM, 0, sv);
    int event = eventfd(77, 0), poll_ = epoll_create1(0), null = open("/dev/null", O_WRONLY);
    struct epoll_event ev = {EPOLLIN | EPOLLET};
    epoll_ctl(poll_, EPOLL_CTL_ADD, p[0], &ev);
    unlink("gone");
    write(file, "0123456789", 10);
    lseek(file, 4, SEEK_SET);
    int open_now = entries("/proc/self/fd");
    for (int round = 0; round < 3; round++) {
        link_of("file", file), link_of("deleted", gone), link_of("pipe", p[0]), link_of("socket", sv[1]);
        link_of("eventfd", event), link_of("epoll", poll_), link_of("null", null), link_of("closed", 99);
        info_of("file", file, "pos:"), info_of("file", file, "flags:"), info_of("pipe", p[1], "flags:");
        info_of("eventfd", event, "eventfd-count:");
        HOLDS(entries("/proc/self/fd") == open_now && entries("/proc/self/fdinfo") == open_now);
        rest(120);
        chew(15 * CHEW_MS);
    }
    rename("a-file", "renamed");
    link_of("renamed", file);
    char path[64];
    sprintf(path, "/proc/self/fd/%d", gone);
    write(gone, "reachable", 9);
    int again = open(path, O_RDONLY);
    char b[32] = {0};
    SHOW(read(again, b, 32));
    say("again %s", b);
    sprintf(path, "/dev/fd/%d", p[1]);
    again = open(path, O_WRONLY);
    SHOW(write(again, "through the pipe", 16));
    SHOW(read(p[0], b, 32));
    struct stat st;
    sprintf(path, "/proc/self/fd/%d", sv[0]);
    SHOW(stat(path, &st));
    say("a socket %d", S_ISSOCK(st.st_mode));
    SHOW(open(path, O_RDWR));
    SHOW(lstat(path, &st));
    say("mode %o", st.st_mode);

    char cwd[4096], to[4096] = {0};
    mkdir("below", 0700), chdir("below");
    getcwd(cwd, sizeof cwd);
    readlink("/proc/self/cwd", to, sizeof to - 1);
    HOLDS(!strcmp(cwd, to));
    rmdir("../below");
    rest(100);
    memset(to, 0, sizeof to);
    readlink("/proc/self/cwd", to, sizeof to - 1);
    say("%s", strrchr(to, '/'));
    chdir("..");
    memset(to, 0, sizeof to);
    SHOW(readlink("/proc/self/root", to, sizeof to - 1));
    say("%s", to);
    int n = take("/proc/self/cmdline");
    HOLDS(n == (int)strlen(argv[0]) + 1 && !strcmp(text, argv[0]));
    n = take("/proc/self/environ");
    setenv("ADDED", "later", 1);
    HOLDS(n > 0 && take("/proc/self/environ") == n);
    memcpy(argv[0], "/short\0", 7); /* seen by ps */
    rest(100);
    take("/proc/self/cmdline");
    say("%.30s", text);
    pthread_t t[3];
    pthread_barrier_init(&gate, NULL, 4);
    for (long i = 0; i < 3; i++)
        pthread_create(&t[i], NULL, named, (void *)i);
    pthread_barrier_wait(&gate);
    rest(100);
    int letters = 0, tasks = 0;
    DIR *d = opendir("/proc/self/task");
    for (struct dirent *e; (e = readdir(d));)
        if (e->d_name[0] != '.') {
            sprintf(path, "/proc/self/task/%.20s/comm", e->d_name);
            tasks++;
            take(path);
            if (!strncmp(text, "named-", 6))
                letters += 1 << (text[6] - '0');
        }
    closedir(d);
    say("tasks %d names %x", tasks, letters);
    pthread_barrier_wait(&gate);
    for (int i = 0; i < 3; i++)
        pthread_join(t[i], NULL);
    HOLDS(take("/proc/self/mountinfo") > 0);
    HOLDS(take("/proc/self/cgroup") > 0);
    take("/proc/self/limits");
    char *at = strstr(text, "Max open files");
    struct rlimit r;
    getrlimit(RLIMIT_NOFILE, &r);
    HOLDS(at && strtoul(at + 14, NULL, 10) == r.rlim_cur);
    take("/proc/self/oom_score_adj");
    say("oom %s", strtok(text, "\n"));
    return 0;
}
