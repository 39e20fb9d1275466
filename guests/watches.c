/* inotify: events of a directory and of single files in their order, cookies of a rename, masks set anew and added to,
 * IN_ONESHOT, IN_IGNORED after removal, a watched directory that is removed, a read that is too small, FIONREAD, a
 * blocking read that a child wakes. About 0.8 s. */
#include "show.h"
#include <sys/inotify.h>

static int in;

/* Prints `events` events; watches are shown by their letter. */
static void events(const char *when, int wanted)
{
    char b[8192] __attribute__((aligned(8)));
    uint32_t cookie = 0;
    say("%s", when);
    while (wanted > 0) {
        int n = read(in, b, sizeof b);
        if (n <= 0) {
            say("read %s", errno_name(errno));
            return;
        }
        for (int at = 0; at < n; wanted--) {
            struct inotify_event *e = (void *)(b + at);
            say("  watch %d mask %x %s%s", e->wd, e->mask, e->len ? e->name : "-",
                !e->cookie ? "" : e->cookie == cookie ? " same cookie" : " cookie");
            cookie = e->cookie;
            at += sizeof *e + e->len;
        }
    }
    say("  %d too many", -wanted);
}

static void touch(const char *path)
{
    int fd = open(path, O_CREAT | O_WRONLY, 0600);
    write(fd, "x", 1);
    close(fd);
}

int main(void)
{
    int n = 0;
    SHOW(inotify_init1(0x40));
    in = inotify_init1(IN_CLOEXEC);
    mkdir("d", 0700), mkdir("other", 0700);
    touch("file");
    SHOW(inotify_add_watch(in, "d", IN_ALL_EVENTS & ~(IN_ACCESS | IN_OPEN)));
    SHOW(inotify_add_watch(in, "file", IN_MODIFY | IN_ATTRIB | IN_DELETE_SELF));
    SHOW(inotify_add_watch(in, "d", 0));
    SHOW(inotify_add_watch(in, "none", IN_MODIFY));
    SHOW(inotify_add_watch(in, "file", IN_MODIFY | IN_ONLYDIR));
    SHOW(inotify_add_watch(1, "file", IN_MODIFY));
    touch("d/one");
    SHOW(ioctl(in, FIONREAD, &n));
    say("waiting %d", n);
    char small[10];
    SHOW(read(in, small, sizeof small));
    events("created", 3);
    rename("d/one", "d/two");
    rename("d/two", "other/three");
    rest(110);
    rename("other/three", "d/four");
    events("renamed", 4);
    mkdir("d/sub", 0700);
    rmdir("d/sub");
    chmod("d/four", 0400);
    unlink("d/four");
    events("removed", 4);
    rest(110);
    touch("file");
    chmod("file", 0640);
    truncate("file", 0);
    events("the file", 3);

    SHOW(inotify_add_watch(in, "d", IN_CREATE | IN_ONESHOT));
    touch("d/once");
    touch("d/twice");
    events("one shot", 2);
    SHOW(inotify_rm_watch(in, 1));
    SHOW(inotify_add_watch(in, "d", IN_CREATE));
    SHOW(inotify_add_watch(in, "d", IN_DELETE | IN_MASK_ADD));
    SHOW(inotify_add_watch(in, "d", IN_DELETE | IN_MASK_CREATE));
    pid_t child = fork();
    if (!child) {
        char name[32];
        for (int i = 0; i < 8; i++) {
            sprintf(name, "d/child-%d", i);
            rest(70);
            touch(name);
            if (i % 2)
                unlink(name);
        }
        _exit(0);
    }
    events("a child", 12);
    waitpid(child, NULL, 0);
    chew(20 * CHEW_MS);
    fcntl(in, F_SETFL, O_NONBLOCK);
    char b[100];
    SHOW(read(in, b, sizeof b));
    int held = open("file", O_RDONLY);
    unlink("file");
    events("unlinked, but open", 1);
    close(held);
    events("gone", 2);
    for (int i = 0; i < 8; i++) {
        char name[32];
        sprintf(name, "d/child-%d", i);
        unlink(name);
    }
    unlink("d/once"), unlink("d/twice");
    events("emptied", 6);
    SHOW(rmdir("d"));
    events("directory gone", 1);
    SHOW(inotify_rm_watch(in, 3));
    return 0;
}
