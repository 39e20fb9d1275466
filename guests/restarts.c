/* Blocking calls in a program without any handler: poll, select, epoll_wait, read, accept, recv with SO_RCVTIMEO,
 * preadv2, pwritev2, splice and sendfile on sockets with such limits, futex, sigtimedwait, semop, msgrcv, inotify,
 * io_getevents, nanosleep, wait. It receives no signal, so none of them may ever fail with EINTR, however often it is
 * moved. About 4 s. */
#include "show.h"
#include <linux/aio_abi.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/sendfile.h>
#include <sys/uio.h>
#include <sys/un.h>

#define WAIT_MS 130

/* Runs `act` in a child after a while. */
#define LATER(...)                                                                                 \
    ({                                                                                             \
        pid_t child_ = fork();                                                                     \
        if (!child_) {                                                                             \
            rest(WAIT_MS);                                                                         \
            __VA_ARGS__;                                                                           \
            _exit(0);                                                                              \
        }                                                                                          \
        child_;                                                                                    \
    })
#define REAP(child) HOLDS(waitpid(child, NULL, 0) == child)

static char big[1 << 16];

static void fill(int s)
{
    while (send(s, big, sizeof big, MSG_DONTWAIT) > 0)
        ;
}

static void drain(int s)
{
    while (recv(s, big, sizeof big, MSG_DONTWAIT) > 0)
        ;
}

/* A socket with a time limit: there the kernel returns EINTR, where it would otherwise restart the call. */
static void limited(void)
{
    int s[2], p[2], file = open("sent", O_CREAT | O_RDWR, 0600);
    char b[5] = "bytes";
    socketpair(AF_UNIX, SOCK_STREAM, 0, s);
    pipe(p);
    struct timeval tv = {60, 0};
    setsockopt(s[0], SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof tv);
    setsockopt(s[0], SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof tv);
    struct iovec v = {b, sizeof b};
    HOLDS(write(file, b, sizeof b) == sizeof b);

    pid_t child = LATER(write(s[1], b, sizeof b));
    SHOW(preadv2(s[0], &v, 1, -1, 0));
    REAP(child);
    child = LATER(write(s[1], b, sizeof b));
    SHOW(splice(s[0], NULL, p[1], NULL, sizeof b, 0));
    REAP(child);
    fill(s[0]);
    child = LATER(drain(s[1]));
    SHOW(pwritev2(s[0], &v, 1, -1, 0));
    REAP(child);
    fill(s[0]);
    child = LATER(drain(s[1]));
    off_t from = 0;
    SHOW(sendfile(s[0], file, &from, sizeof b));
    REAP(child);
    fill(s[0]);
    child = LATER(drain(s[1]));
    SHOW(splice(p[0], NULL, s[0], NULL, sizeof b, 0));
    REAP(child);
}

int main(void)
{
    int p[2], sv[2];
    char b[256];
    pipe(p);
    socketpair(AF_UNIX, SOCK_STREAM, 0, sv);
    struct pollfd f = {p[0], POLLIN};
    SHOW(poll(&f, 1, WAIT_MS));
    struct timespec t = {0, WAIT_MS * 1000000};
    SHOW(ppoll(&f, 1, &t, NULL));
    fd_set set;
    FD_ZERO(&set);
    FD_SET(p[0], &set);
    struct timeval tv = {0, WAIT_MS * 1000};
    SHOW(select(p[0] + 1, &set, NULL, NULL, &tv));
    int e = epoll_create1(0);
    struct epoll_event ev = {EPOLLIN, {.fd = p[0]}};
    epoll_ctl(e, EPOLL_CTL_ADD, p[0], &ev);
    SHOW(epoll_wait(e, &ev, 1, WAIT_MS));
    SHOW(epoll_wait(e, &ev, 1, 6 * WAIT_MS)); /* longer than two moves are apart: it must end */
    SHOW(epoll_pwait2(e, &ev, 1, &t, NULL));

    pid_t child = LATER(write(p[1], "later", 5));
    SHOW(epoll_wait(e, &ev, 1, -1));
    SHOW(read(p[0], b, sizeof b));
    REAP(child);
    child = LATER(write(p[1], "again", 5));
    SHOW(read(p[0], b, sizeof b));
    REAP(child);
    child = LATER(write(p[1], "third", 5));
    SHOW(poll(&f, 1, -1));
    REAP(child);
    SHOW(read(p[0], b, sizeof b));

    tv = (struct timeval){0, WAIT_MS * 1000};
    setsockopt(sv[0], SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof tv);
    SHOW(recv(sv[0], b, 1, 0));
    child = LATER(send(sv[0], "wide", 4, 0); rest(80); send(sv[0], "stream", 6, 0));
    SHOW(recv(sv[1], b, 10, MSG_WAITALL));
    REAP(child);

    limited();
    struct sockaddr_un a = {AF_UNIX, "accept.sock"};
    int s = socket(AF_UNIX, SOCK_STREAM, 0);
    bind(s, (void *)&a, sizeof a);
    listen(s, 1);
    child = LATER(int c = socket(AF_UNIX, SOCK_STREAM, 0); connect(c, (void *)&a, sizeof a));
    HOLDS(accept(s, NULL, NULL) >= 0);
    REAP(child);

    int word = 1;
    t = (struct timespec){0, WAIT_MS * 1000000};
    SHOW(syscall(SYS_futex, &word, 0, 1, &t, NULL, 0));
    sigset_t none, usr;
    sigemptyset(&none);
    sigemptyset(&usr);
    sigaddset(&usr, SIGUSR1);
    sigprocmask(SIG_BLOCK, &usr, NULL);
    SHOW(sigtimedwait(&usr, NULL, &t));
    SHOW(nanosleep(&t, NULL));

    int sem = semget(IPC_PRIVATE, 1, 0600);
    struct sembuf op = {0, -1, 0};
    SHOW(semtimedop(sem, &op, 1, &t));
    child = LATER(op.sem_op = 1; semop(sem, &op, 1));
    SHOW(semop(sem, &op, 1));
    REAP(child);
    SHOW(semctl(sem, 0, IPC_RMID));
    int queue = msgget(IPC_PRIVATE, 0600);
    struct { long type; char text[32]; } m = {5, "message"};
    child = LATER(msgsnd(queue, &m, 8, 0));
    SHOW(msgrcv(queue, &m, 32, 5, 0));
    REAP(child);
    SHOW(msgctl(queue, IPC_RMID, NULL));

    int in = inotify_init();
    inotify_add_watch(in, ".", IN_CREATE);
    child = LATER(close(open("made", O_CREAT | O_WRONLY, 0600)));
    SHOW(read(in, b, sizeof b) > 0);
    REAP(child);

    int lock = open("made", O_RDWR), lock2 = open("made", O_RDWR);
    flock(lock, LOCK_EX);
    child = LATER(flock(lock, LOCK_UN));
    SHOW(flock(lock2, LOCK_EX));
    REAP(child);

    aio_context_t ctx = 0;
    SHOW(syscall(SYS_io_setup, 4, &ctx));
    struct io_event got;
    t = (struct timespec){0, WAIT_MS * 1000000};
    SHOW(syscall(SYS_io_getevents, ctx, 1, 1, &got, &t));
    SHOW(syscall(SYS_io_destroy, ctx));
    child = LATER();
    SHOW(wait(NULL) == child);
    return 0;
}
