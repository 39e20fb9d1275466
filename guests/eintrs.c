/* Which blocking calls end with EINTR and which go on when a handler has run, with SA_RESTART and without: read,
 * accept, connect's wait, recv with a timeout, wait, futex, nanosleep, poll, select, epoll, semop, msgrcv,
 * mq_receive, flock, fcntl locks, sigwait, pause. The signal is sent again until the call has ended; those that
 * go on are ended by what they wait for. About 1.3 s. */
#include "show.h"
#include <linux/futex.h>
#include <mqueue.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/un.h>

static volatile int handled;
static void on(int s) { handled++; }

static int p[2], listener, sv[2], sem, queue, locked;
static struct sockaddr_un address = {AF_UNIX, "eintr.sock"};
static mqd_t mq;
static pid_t waited;

static long do_read(void) { char b; return read(p[0], &b, 1); }
static long do_accept(void) { int c = accept(listener, NULL, NULL); return c >= 0 ? (close(c), 1) : -1; }
static long do_recv(void) { char b; return recv(sv[0], &b, 1, 0); }
static long do_wait(void) { return waitpid(waited, NULL, 0) > 0 ? 1 : -1; }
static long do_poll(void) { struct pollfd f = {p[0], POLLIN}; return poll(&f, 1, -1); }
static long do_select(void)
{
    fd_set r;
    FD_ZERO(&r);
    FD_SET(p[0], &r);
    return select(p[0] + 1, &r, NULL, NULL, NULL);
}
static long do_epoll(void)
{
    struct epoll_event ev = {EPOLLIN};
    int e = epoll_create1(0);
    epoll_ctl(e, EPOLL_CTL_ADD, p[0], &ev);
    long n = epoll_wait(e, &ev, 1, -1);
    int kept = errno;
    close(e);
    errno = kept;
    return n;
}
static long do_sleep(void) { struct timespec t = {3, 0}; return nanosleep(&t, NULL); }
static long do_clock(void) { struct timespec t = {3, 0}; int e = clock_nanosleep(CLOCK_MONOTONIC, 0, &t, NULL); return e ? (errno = e, -1) : 0; }
static long do_futex(void)
{
    static int word;
    struct timespec t = {3, 0};
    return syscall(SYS_futex, &word, FUTEX_WAIT | FUTEX_PRIVATE_FLAG, 0, &t, NULL, 0);
}
static long do_semop(void) { struct sembuf b = {0, -1, 0}; return semop(sem, &b, 1); }
static long do_msgrcv(void) { struct { long type; char t[8]; } m; return msgrcv(queue, &m, 8, 0, 0); }
static long do_mq(void) { char b[16]; return mq_receive(mq, b, 16, NULL); }
static long do_flock(void) { return flock(locked, LOCK_EX); }
static long do_setlkw(void) { struct flock l = {F_WRLCK, SEEK_SET, 0, 10}; return fcntl(locked, F_SETLKW, &l); }
static long do_pause(void) { return pause(); }
static long do_info(void) { sigset_t s; sigemptyset(&s), sigaddset(&s, SIGUSR2); return sigwaitinfo(&s, NULL); }

/* What ends the call when it goes on. */
static void end_pipe(void) { write(p[1], "x", 1); }
static void end_accept(void) { connect(socket(AF_UNIX, SOCK_STREAM, 0), (void *)&address, sizeof address); }
static void end_recv(void) { write(sv[1], "x", 1); }
static void end_wait(void) { kill(waited, SIGKILL); }
static void end_mq(void) { mq_send(mq, "x", 2, 0); }
static void nothing(void) {}

static void tried(const char *name, int flags, int goes_on, long (*call)(void), void (*end)(void))
{
    struct sigaction a = {.sa_handler = on, .sa_flags = flags};
    sigaction(SIGUSR1, &a, NULL);
    handled = 0;
    pid_t me = getpid(), child = fork();
    if (!child) {
        signal(SIGTERM, SIG_DFL);
        for (int i = 0; i < 2 || !goes_on; i++) {
            rest(15);
            kill(me, SIGUSR1);
        }
        rest(15);
        end();
        _exit(0);
    }
    errno = 0;
    long r = call();
    int e = errno;
    sigset_t set;
    sigemptyset(&set), sigaddset(&set, SIGUSR1);
    sigprocmask(SIG_BLOCK, &set, NULL);
    if (!goes_on)
        kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
    say("%s%s: %ld %s, handled %d", name, flags ? " SA_RESTART" : "", r, r < 0 ? errno_name(e) : "", handled > 0);
}

int main(void)
{
    char name[64], b[64];
    pipe(p);
    socketpair(AF_UNIX, SOCK_STREAM, 0, sv);
    listener = socket(AF_UNIX, SOCK_STREAM, 0);
    bind(listener, (void *)&address, sizeof address);
    listen(listener, 4);
    sem = semget(IPC_PRIVATE, 1, 0600), queue = msgget(IPC_PRIVATE, 0600);
    sprintf(name, "/armento-eintr-%d", getpid());
    struct mq_attr attr = {.mq_maxmsg = 4, .mq_msgsize = 16};
    mq = mq_open(name, O_CREAT | O_RDWR, 0600, &attr);
    mq_unlink(name);
    int holder = open("lock", O_CREAT | O_RDWR, 0600);
    locked = open("lock", O_RDWR);
    flock(holder, LOCK_EX);
    waited = fork();
    if (!waited) {
        struct flock l = {F_WRLCK, SEEK_SET, 0, 10};
        fcntl(locked, F_SETLK, &l);
        write(sv[1], "r", 1);
        for (;;)
            rest(1000);
    }
    read(sv[0], b, 1);

    tried("read", 0, 0, do_read, nothing);
    tried("accept", 0, 0, do_accept, nothing);
    tried("recv", 0, 0, do_recv, nothing);
    tried("wait", 0, 0, do_wait, nothing);
    tried("futex", 0, 0, do_futex, nothing);
    tried("semop", 0, 0, do_semop, nothing);
    tried("msgrcv", 0, 0, do_msgrcv, nothing);
    tried("mq_receive", 0, 0, do_mq, nothing);
    tried("flock", 0, 0, do_flock, nothing);
    tried("F_SETLKW", 0, 0, do_setlkw, nothing);
    tried("poll", SA_RESTART, 0, do_poll, nothing);
    tried("select", SA_RESTART, 0, do_select, nothing);
    tried("epoll_wait", SA_RESTART, 0, do_epoll, nothing);
    tried("nanosleep", SA_RESTART, 0, do_sleep, nothing);
    tried("clock_nanosleep", SA_RESTART, 0, do_clock, nothing);
    tried("pause", SA_RESTART, 0, do_pause, nothing);
    tried("sigwaitinfo", SA_RESTART, 0, do_info, nothing);
    tried("semop", SA_RESTART, 0, do_semop, nothing);
    tried("msgrcv", SA_RESTART, 0, do_msgrcv, nothing);
    struct timeval tv = {20, 0};
    setsockopt(sv[0], SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof tv);
    tried("recv with a timeout", SA_RESTART, 0, do_recv, nothing);
    tv.tv_sec = 0;
    setsockopt(sv[0], SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof tv);

    tried("read", SA_RESTART, 1, do_read, end_pipe);
    tried("accept", SA_RESTART, 1, do_accept, end_accept);
    tried("recv", SA_RESTART, 1, do_recv, end_recv);
    tried("mq_receive", SA_RESTART, 1, do_mq, end_mq);
    tried("wait", SA_RESTART, 1, do_wait, end_wait);
    semctl(sem, 0, IPC_RMID);
    msgctl(queue, IPC_RMID, NULL);
    return 0;
}
