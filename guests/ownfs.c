/* A server of a file system (fuse(4)) and programs that are executed from it, in one family. Each program maps its
 * file, so that looking at it asks the server; the server is stopped, or moves, like the others. Needs the right to
 * mount; prints that it has none. About 2 s. */
#include "show.h"
#include <linux/fuse.h>
#include <sys/mount.h>
#include <sys/stat.h>

enum { ROOT = 1, PROGRAM = 2, MOST = 1 << 17 };

static char *bytes;
static size_t size;

static void attr(struct fuse_attr *a, uint64_t ino)
{
    *a = (struct fuse_attr){.ino = ino, .nlink = 1, .blksize = 4096};
    a->mode = ino == ROOT ? S_IFDIR | 0755 : S_IFREG | 0755;
    a->size = ino == ROOT ? 0 : size;
}

static void reply(int fd, uint64_t unique, int error, const void *data, size_t len)
{
    struct fuse_out_header head = {.len = sizeof head + len, .error = -error, .unique = unique};
    struct iovec part[] = {{&head, sizeof head}, {(void *)data, len}};
    writev(fd, part, 2);
}

/* Attributes and names are requested again each time: they are valid for no time. */
static void serve(int fd)
{
    static union {
        struct fuse_in_header head;
        char all[MOST + 4096];
    } in;
    for (;;) {
        ssize_t got = read(fd, &in, sizeof in);
        if (got < 0 && (errno == EINTR || errno == ENOENT))
            continue;
        if (got < (ssize_t)sizeof in.head)
            return;
        void *arg = &in.head + 1;
        uint64_t u = in.head.unique, node = in.head.nodeid;
        switch (in.head.opcode) {
        case FUSE_INIT: {
            struct fuse_init_out o = {.major = 7, .minor = 31, .max_readahead = MOST, .max_write = MOST};
            reply(fd, u, 0, &o, sizeof o);
            break;
        }
        case FUSE_LOOKUP: {
            struct fuse_entry_out o = {.nodeid = PROGRAM};
            attr(&o.attr, PROGRAM);
            int known = !strcmp(arg, "program");
            reply(fd, u, known ? 0 : ENOENT, &o, known ? sizeof o : 0);
            break;
        }
        case FUSE_GETATTR: {
            struct fuse_attr_out o = {0};
            attr(&o.attr, node);
            reply(fd, u, 0, &o, sizeof o);
            break;
        }
        case FUSE_OPEN: {
            struct fuse_open_out o = {0};
            reply(fd, u, 0, &o, sizeof o);
            break;
        }
        case FUSE_READ: {
            struct fuse_read_in *r = arg;
            size_t at = r->offset < size ? r->offset : size;
            size_t len = r->size < size - at ? r->size : size - at;
            reply(fd, u, 0, bytes + at, len);
            break;
        }
        case FUSE_FORGET:
        case FUSE_BATCH_FORGET:
        case FUSE_INTERRUPT:
            break;
        case FUSE_FLUSH:
        case FUSE_RELEASE:
        case FUSE_ACCESS:
            reply(fd, u, 0, NULL, 0);
            break;
        default:
            reply(fd, u, ENOSYS, NULL, 0);
        }
    }
}

static void load(const char *path)
{
    struct stat st;
    int fd = open(path, O_RDONLY);
    fstat(fd, &st);
    size = st.st_size;
    bytes = malloc(size);
    for (size_t at = 0; at < size;)
        at += pread(fd, bytes + at, size - at, at);
    close(fd);
}

int main(int argc, char **argv)
{
    int status;
    if (argc > 1) {
        rest(10);
        printf("program %s: %d\n", argv[1], (int)(chew(10 * CHEW_MS) != 1));
        return atoi(argv[1]);
    }
    load("/proc/self/exe");
    mkdir("m", 0755);
    int fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);
    char options[100];
    sprintf(options, "fd=%d,rootmode=40000,user_id=%d,group_id=%d", fd, getuid(), getgid());
    if (fd < 0 || mount("ownfs", "m", "fuse", MS_NOSUID | MS_NODEV, options) < 0) {
        say("no right to mount");
        return 0;
    }
    pid_t server = fork();
    if (!server) {
        serve(fd);
        _exit(0);
    }
    close(fd);
    for (int i = 0; i < 30; i++) {
        char number[10];
        sprintf(number, "%d", i);
        pid_t child = fork();
        if (!child) {
            execl("m/program", "program", number, NULL);
            _exit(99);
        }
        HOLDS(waitpid(child, &status, 0) == child);
        say_status("it", status);
    }
    pid_t all[4];
    for (int i = 0; i < 4; i++)
        if (!(all[i] = fork())) {
            dup2(open("/dev/null", O_WRONLY), 1);
            execl("m/program", "program", "7", NULL);
            _exit(99);
        }
    for (int i = 0; i < 4; i++) {
        HOLDS(waitpid(all[i], &status, 0) == all[i]);
        say_status("one of four", status);
    }
    SHOW(umount2("m", 0));
    HOLDS(waitpid(server, &status, 0) == server);
    say_status("server", status);
    SHOW(rmdir("m"));
    return 0;
}
