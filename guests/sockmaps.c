/* Sockets of TCP can be mapped (tcp_mmap), other descriptors cannot: each call has its native result, and mappings
 * around them stay. About 1 s. */
#include "show.h"
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>

static int listener(struct sockaddr_in *a)
{
    socklen_t n = sizeof *a;
    int l = socket(AF_INET, SOCK_STREAM, 0);
    *a = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    bind(l, (struct sockaddr *)a, sizeof *a);
    listen(l, 1);
    getsockname(l, (struct sockaddr *)a, &n);
    return l;
}

/* The result of mmap; a new mapping is readable, and is unmapped. */
static int maps(int fd, int prot, int flags)
{
    unsigned char there;
    void *p = mmap(NULL, 4096, prot, flags, fd, 0);
    if (p == MAP_FAILED)
        return errno;
    int lost = mincore(p, 4096, &there);
    rest(1);
    return (munmap(p, 4096) || lost) ? -1 : 0;
}

int main(void)
{
    struct sockaddr_in a;
    char *kept[40];
    int pipes[2], pair[2], wrong = 0, others = 0, results[8];
    for (int i = 0; i < 40; i++) {
        int l = listener(&a), c = socket(AF_INET, SOCK_STREAM, 0);
        connect(c, (struct sockaddr *)&a, sizeof a);
        int s = accept(l, NULL, NULL);
        pipe(pipes);
        socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
        int fds[] = {s, c, l, pipes[0], pair[0], eventfd(0, 0), open("/", O_RDONLY), epoll_create1(0)};
        for (int k = 0; k < 8; k++) {
            int r = maps(fds[k], PROT_READ, k % 2 ? MAP_PRIVATE : MAP_SHARED);
            if (i == 0)
                results[k] = r;
            others += r != results[k];
        }
        others += maps(s, PROT_READ | PROT_WRITE, MAP_SHARED) != EPERM;
        kept[i] = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        memset(kept[i], 'a' + i % 26, 8192);
        for (int k = 0; k <= i; k++)
            wrong += kept[k][0] != 'a' + k % 26 || kept[k][8191] != 'a' + k % 26;
        for (int k = 0; k < 8; k++)
            close(fds[k]);
        close(pipes[1]), close(pair[1]);
        rest(5);
    }
    for (int k = 0; k < 8; k++)
        say("kind %d: %s", k, results[k] < 0 ? "lost" : results[k] ? strerror(results[k]) : "mapped");
    say("other results %d, wrong bytes %d", others, wrong);
    return 0;
}
