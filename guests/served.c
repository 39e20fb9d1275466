/* userfaultfd (UFFD_USER_MODE_ONLY) served by another process: pages that a process touches are supplied by its parent,
 * which got the descriptor over a socket, and then the parent's by its child, which inherited it. Contents are right
 * over a second, also of pages dropped and touched again, and served pages stay when the server has closed the
 * descriptor; pages touched only then are zero. Prints the errno and ends where it is refused. About 1.2 s. */
#include "show.h"
#include <linux/userfaultfd.h>

#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1
#endif
#define PAGES 24
#define PAGE 4096ul

/* The same address in both processes. */
static char *const area = (char *)0x300000000000;

static void fill(uint64_t *to, long page, long round)
{
    for (long i = 0; i < PAGE / 8; i++)
        to[i] = 1000000 * round + 1000 * page + i;
}

static int right(long page, long round)
{
    uint64_t want[PAGE / 8];
    fill(want, page, round);
    return memcmp(area + page * PAGE, want, PAGE) == 0;
}

/* Makes and registers; -1 where it is refused. */
static int open_area(void)
{
    int u = syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY);
    say("userfaultfd: %s", u < 0 ? errno_name(errno) : "open");
    if (u < 0)
        return -1;
    struct uffdio_api api = {.api = UFFD_API};
    struct uffdio_register r = {.range = {(uintptr_t)area, PAGES * PAGE}, .mode = UFFDIO_REGISTER_MODE_MISSING};
    HOLDS(mmap(area, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == area);
    SHOW(ioctl(u, UFFDIO_API, &api));
    SHOW(ioctl(u, UFFDIO_REGISTER, &r));
    return u;
}

/* Serves until a byte comes; the byte is the number of the next round, 0 for the end. */
static void serve(int u, int control)
{
    static char bytes[PAGE] __attribute__((aligned(4096)));
    long round = 1;
    for (;;) {
        struct pollfd p[2] = {{u, POLLIN}, {control, POLLIN}};
        poll(p, 2, -1);
        if (p[0].revents & POLLIN) {
            struct uffd_msg m;
            if (read(u, &m, sizeof m) != sizeof m)
                continue;
            uintptr_t at = m.arg.pagefault.address & ~(PAGE - 1);
            fill((uint64_t *)bytes, (at - (uintptr_t)area) / PAGE, round);
            struct uffdio_copy copy = {.dst = at, .src = (uintptr_t)bytes, .len = PAGE};
            if (ioctl(u, UFFDIO_COPY, &copy) && errno != EEXIST && errno != EAGAIN)
                say("UFFDIO_COPY: %s", errno_name(errno));
        } else if (p[1].revents) {
            char c = 0;
            read(control, &c, 1);
            write(control, &c, 1);
            if (!c)
                return;
            round = c;
        }
    }
}

/* Notifies the server, and waits for its answer. */
static void tell(int control, char c)
{
    write(control, &c, 1);
    read(control, &c, 1);
}

static void use(const char *who, int control)
{
    int good = 0, again = 0, ends[2];
    pipe(ends);
    /* The kernel's own access to a missing page: only accesses from user mode are served. */
    SHOW(write(ends[1], area + 3 * PAGE, 1));
    for (int i = 0; i < 16; i++) {
        good += right(i, 1);
        i % 2 ? rest(20) : (void)chew(20 * CHEW_MS);
    }
    say("%s: served %d", who, good);
    SHOW(write(ends[1], area + 3 * PAGE, 1));
    tell(control, 2);
    SHOW(madvise(area + 4 * PAGE, 4 * PAGE, MADV_DONTNEED));
    for (int i = 0; i < 16; i++) {
        again += right(i, i / 4 == 1 ? 2 : 1);
        rest(5);
    }
    area[5 * PAGE] ^= 1;
    good = right(5, 2);
    area[5 * PAGE] ^= 1;
    say("%s: served again and kept %d, changed %d", who, again, !good);
    tell(control, 0);
}

/* After the end of the server. */
static void look(const char *who)
{
    int kept = 0, empty = 0;
    for (int i = 0; i < PAGES; i++) {
        kept += i < 16 && right(i, i / 4 == 1 ? 2 : 1);
        empty += i >= 16 && area[i * PAGE + 8] == 0;
        i % 2 ? rest(5) : (void)chew(5 * CHEW_MS);
    }
    say("%s: kept %d, zero %d", who, kept, empty);
}

int main(void)
{
    int s[2], status, u = -1;
    char c[CMSG_SPACE(sizeof(int))] = {0}, x = 0;
    struct iovec v = {&x, 1};
    struct msghdr h = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = c, .msg_controllen = sizeof c};
    socketpair(AF_UNIX, SOCK_STREAM, 0, s);
    pid_t child = fork();
    if (!child) {
        close(s[0]);
        u = open_area();
        if (u < 0)
            _exit(1);
        struct cmsghdr *k = CMSG_FIRSTHDR(&h);
        k->cmsg_level = SOL_SOCKET;
        k->cmsg_type = SCM_RIGHTS;
        k->cmsg_len = CMSG_LEN(sizeof u);
        memcpy(CMSG_DATA(k), &u, sizeof u);
        SHOW(sendmsg(s[1], &h, 0));
        close(u);
        use("child", s[1]);
        read(s[1], &x, 1); /* until the server has closed it */
        look("child");
        _exit(0);
    }
    close(s[1]);
    if (recvmsg(s[0], &h, 0) != 1) {
        waitpid(child, &status, 0);
        say_status("refused: child", status);
        return 0;
    }
    memcpy(&u, CMSG_DATA(CMSG_FIRSTHDR(&h)), sizeof u);
    serve(u, s[0]);
    close(u);
    close(s[0]);
    HOLDS(waitpid(child, &status, 0) == child);
    say_status("child", status);

    socketpair(AF_UNIX, SOCK_STREAM, 0, s);
    u = open_area();
    child = fork();
    if (!child) {
        close(s[0]);
        serve(u, s[1]);
        _exit(0);
    }
    close(s[1]);
    close(u);
    use("parent", s[0]);
    HOLDS(waitpid(child, &status, 0) == child);
    say_status("server", status);
    look("parent");
    return 0;
}
