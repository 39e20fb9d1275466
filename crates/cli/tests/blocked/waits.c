/* Rows that do not wait for bytes (see rows.c). */
#include "blocked.h"


/* Readiness. */
static struct pollfd f;
static struct pollfd *pipe_in(void) { f = (struct pollfd){p[0], POLLIN}; return &f; }
static long and_ready(long r) { return r > 0 ? r * 100 + f.revents : r; }
ROW(poll, SYS_poll, 0, pipe(p), and_ready(CALL(poll, pipe_in(), 1, -1)), give(p[1], "x"))
ROW(poll_limit, SYS_poll, TIMED, pipe(p), and_ready(CALL(poll, pipe_in(), 1, (int)limit * 1000)), give(p[1], "x"))
/* The kernel stores the remaining time: natively at least the time that had not passed at the end of the call. */
static struct timespec *left_s;
static long and_left(long r, double began, long s, long ns)
{
    int kept = errno;
    double is = s + ns / 1e9, gone = now() - began;
    HOLDS(is >= limit - gone - 0.01 || is == 0);
    if (later() > 0 && is > 0)
        HOLDS(is <= limit - (later() - marked()) / 2);
    errno = kept;
    return r;
}
static double began;
#define TIMED_CALL(time, call)                                                                     \
    ({                                                                                             \
        began = now(), left_s = time;                                                              \
        long r_ = call;                                                                            \
        and_left(r_, began, left_s->tv_sec, left_s->tv_nsec);                                      \
    })
ROW(ppoll, SYS_ppoll, TIMED, pipe(p), TIMED_CALL(in_limit(0, 0), and_ready(CALL(ppoll, pipe_in(), 1, left_s, NULL, 8))), give(p[1], "x"))
ROW(ppoll_mask, SYS_ppoll, SIGNALS, (pipe(p), block(SIGUSR1)), and_ready(CALL(ppoll, pipe_in(), 1, NULL, set(SIGUSR2), 8)), kill(caller, SIGUSR1))
static fd_set ready;
static fd_set *in_set(void) { FD_ZERO(&ready); FD_SET(p[0], &ready); return &ready; }
static long and_set(long r) { return r < 0 ? -1 : r * 10 + (r > 0 && FD_ISSET(p[0], &ready)); }
static struct timeval tv;
static struct timeval *left_tv(void) { tv = (struct timeval){limit, 0}; began = now(); return &tv; }
static long select_left(long r) { return and_left(and_set(r), began, tv.tv_sec, tv.tv_usec * 1000); }
ROW(select, SYS_select, TIMED, pipe(p), select_left(CALL(select, p[0] + 1, in_set(), NULL, NULL, left_tv())), give(p[1], "x"))
ROW(pselect, SYS_pselect6, TIMED, pipe(p), TIMED_CALL(in_limit(0, 0), CALL(pselect6, p[0] + 1, in_set(), NULL, NULL, left_s, NULL)), give(p[1], "x"))
static struct epoll_event ev;
static void epoll_in(void)
{
    struct epoll_event e = {EPOLLIN | EPOLLONESHOT, .data.u64 = 0x1234567890};
    pipe(p), fd = epoll_create1(0), epoll_ctl(fd, EPOLL_CTL_ADD, p[0], &e);
}
static long and_event(long r) { return r > 0 ? r * 10000000 + (long)ev.data.u64 % 1000000 * 10 + ev.events : r; }
ROW(epoll_wait, SYS_epoll_wait, 0, epoll_in(), and_event(CALL(epoll_wait, fd, &ev, 1, -1)), give(p[1], "x"))
ROW(epoll_wait_limit, SYS_epoll_wait, TIMED, epoll_in(), and_event(CALL(epoll_wait, fd, &ev, 1, (int)limit * 1000)), give(p[1], "x"))
ROW(epoll_pwait, SYS_epoll_pwait, SIGNALS, (epoll_in(), block(SIGUSR1)), and_event(CALL(epoll_pwait, fd, &ev, 1, -1, set(SIGUSR2), 8)), kill(caller, SIGUSR1))
ROW(epoll_pwait2, SYS_epoll_pwait2, TIMED, epoll_in(), and_event(CALL(epoll_pwait2, fd, &ev, 1, in_limit(0, 0), NULL, 8)), give(p[1], "x"))

/* Futexes, mutexes and condition variables. */
static int word;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static void set_and_wake(void) { word = 1; CALL(futex, &word, FUTEX_WAKE_PRIVATE, 1); }
ROW(futex_wait, SYS_futex, HERE | THREAD, , OK(CALL(futex, &word, FUTEX_WAIT_PRIVATE, 0, NULL), word), set_and_wake())
ROW(futex_wait_limit, SYS_futex, HERE | THREAD | TIMED, , CALL(futex, &word, FUTEX_WAIT_PRIVATE, 0, in_limit(0, 0)), set_and_wake())
ROW(futex_bitset, SYS_futex, HERE | THREAD | TIMED, , CALL(futex, &word, FUTEX_WAIT_BITSET_PRIVATE, 0, in_limit(CLOCK_MONOTONIC, 1), NULL, 4),
    (word = 1, CALL(futex, &word, FUTEX_WAKE_BITSET_PRIVATE, 1, NULL, NULL, 2), CALL(futex, &word, FUTEX_WAKE_BITSET_PRIVATE, 1, NULL, NULL, 4)))
ROW(futex_waitv, 449, HERE | THREAD | TIMED, , syscall(449, ((uint64_t[]){0, (uintptr_t)&word, FUTEX_32 | FUTEX_PRIVATE_FLAG}), 1, 0, in_limit(CLOCK_MONOTONIC, 1), CLOCK_MONOTONIC), set_and_wake())
ROW(futex_wait2, 455, HERE | THREAD, , syscall(455, &word, 0L, 0xffffffffL, FUTEX_32 | FUTEX_PRIVATE_FLAG, NULL, 0), set_and_wake())
static void cond_signal(void) { pthread_mutex_lock(&mutex); word = 1; pthread_cond_signal(&cond); pthread_mutex_unlock(&mutex); }
static long cond_wait(void)
{
    pthread_mutex_lock(&mutex);
    while (!word)
        pthread_cond_wait(&cond, &mutex);
    return pthread_mutex_unlock(&mutex);
}
ROW(futex_cond, SYS_futex, HERE | THREAD, , cond_wait(), cond_signal())
static pthread_mutex_t pi;
static void *holds(void *unused)
{
    char c;
    block(SIGUSR1), pthread_mutex_lock(&pi), give(q[1], "r"), read(p[0], &c, 1), pthread_mutex_unlock(&pi);
    return unused;
}
static void held(void)
{
    pthread_mutexattr_t a;
    pthread_mutexattr_init(&a), pthread_mutexattr_setprotocol(&a, PTHREAD_PRIO_INHERIT);
    pthread_mutex_init(&pi, &a), pipe(p), pipe(q);
}
static long lock_pi(void)
{
    pthread_t t;
    char c;
    pthread_create(&t, NULL, holds, NULL), read(q[0], &c, 1);
    long r = pthread_mutex_lock(&pi);
    return r * 10 + pthread_mutex_unlock(&pi) + pthread_join(t, NULL);
}
ROW(futex_lock_pi, SYS_futex, HERE, held(), lock_pi(), give(p[1], "g"))
static int *shared;
ROW(futex_shared, SYS_futex, HERE, shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0),
    OK(CALL(futex, shared, FUTEX_WAIT, 0, NULL), *shared), (*shared = 1, CALL(futex, shared, FUTEX_WAKE, 1)))
static void *waits_for_byte(void *unused) { char c; block(SIGUSR1), read(p[0], &c, 1); return unused; }
static long join(void) { pthread_t t; pthread_create(&t, NULL, waits_for_byte, NULL); return pthread_join(t, NULL); }
ROW(join, SYS_futex, HERE, pipe(p), join(), give(p[1], "g"))

/* Time and signals. */
static long sleep_left(long r, struct timespec *rem) { return r < 0 ? and_left(r, began, rem->tv_sec, rem->tv_nsec) : r; }
static struct timespec rem;
ROW(nanosleep, SYS_nanosleep, TIMED | SIGNALS, , (began = now(), sleep_left(CALL(nanosleep, in_limit(0, 0), &rem), &rem)), kill(caller, SIGUSR1))
ROW(nanosleep_no_rem, SYS_nanosleep, TIMED | SIGNALS, , CALL(nanosleep, in_limit(0, 0), NULL), kill(caller, SIGUSR1))
ROW(clock_nanosleep, SYS_clock_nanosleep, TIMED | SIGNALS, , (began = now(), sleep_left(CALL(clock_nanosleep, CLOCK_REALTIME, 0, in_limit(0, 0), &rem), &rem)), kill(caller, SIGUSR1))
ROW(clock_nanosleep_until, SYS_clock_nanosleep, TIMED | SIGNALS, , CALL(clock_nanosleep, CLOCK_MONOTONIC, TIMER_ABSTIME, in_limit(CLOCK_MONOTONIC, 1), NULL), kill(caller, SIGUSR1))
ROW(pause, SYS_pause, HERE | SIGNALS, , CALL(pause), kill(caller, SIGUSR1))
ROW(sigsuspend, SYS_rt_sigsuspend, HERE | SIGNALS, block(SIGUSR1),
    (CALL(rt_sigsuspend, set(SIGUSR2), 8) + (sigprocmask(0, NULL, (void *)buf), AND("blocked %d", sigismember((void *)buf, SIGUSR1)))), kill(caller, SIGUSR1))
static siginfo_t info;
static long and_info(long r) { return r > 0 ? r * 10000 + info.si_code * 100 + info.si_value.sival_int : r; }
ROW(sigtimedwait, SYS_rt_sigtimedwait, HERE | TIMED, block(SIGUSR2), and_info(CALL(rt_sigtimedwait, set(SIGUSR2), &info, in_limit(0, 0), 8)), sigqueue(caller, SIGUSR2, (union sigval){77}))
ROW(sigwaitinfo, SYS_rt_sigtimedwait, HERE, block(SIGUSR2), and_info(CALL(rt_sigtimedwait, set(SIGUSR2), &info, NULL, 8)), kill(caller, SIGUSR2))

/* Children. The child that is waited for reads a pipe. */
static pid_t child;
static void child_waits(void)
{
    char c;
    pipe(p), pipe(q), child = fork();
    if (!child)
        close(p[1]), prctl(PR_SET_PDEATHSIG, SIGKILL), _exit(read(p[0], &c, 1) == 1 ? 7 : 9);
}
static int status;
static long and_status(long r) { return r > 0 ? (r == child) * 100000 + status : r; }
static long and_child(long r) { return r == 0 ? (info.si_pid == child) * 100000 + info.si_code * 1000 + info.si_status : r; }
ROW(wait4, SYS_wait4, 0, child_waits(), and_status(CALL(wait4, child, &status, 0, NULL)), give(p[1], "g"))
ROW(wait4_stopped, SYS_wait4, 0, child_waits(), OK(and_status(CALL(wait4, child, &status, WUNTRACED, NULL)), r_ + kill(child, SIGKILL)), kill(child, SIGSTOP))
ROW(waitid, SYS_waitid, 0, child_waits(), and_child(CALL(waitid, P_PID, child, &info, WEXITED, NULL)), kill(child, SIGTERM))
ROW(waitid_nowait, SYS_waitid, 0, child_waits(), OK(and_child(CALL(waitid, P_PID, child, &info, WEXITED | WNOWAIT, NULL)), r_ * 10 + (waitpid(child, &status, 0) == child)), give(p[1], "g"))
ROW(waitid_pidfd, SYS_waitid, 0, (child_waits(), fd = syscall(434, child, 0)), and_child(CALL(waitid, 3, fd, &info, WEXITED, NULL)), give(p[1], "g"))
ROW(poll_pidfd, SYS_poll, 0, (child_waits(), fd = syscall(434, child, 0)), (f = (struct pollfd){fd, POLLIN}, and_ready(CALL(poll, &f, 1, -1))), give(p[1], "g"))
static long vforks(void)
{
    char c;
    pid_t v = vfork();
    if (!v)
        _exit(read(p[0], &c, 1) == 1 ? 7 : 9);
    return waitpid(v, &status, 0) == v ? status : -1;
}
ROW(vfork, SYS_vfork, STAYS | HERE | SIGNALS, pipe(p), vforks(), give(p[1], "g"))

/* System V and POSIX messages, semaphores. */
static long room_;
struct text { long type; char t[16]; };
static struct text m;
static void queue(void) { fd = msgget(IPC_PRIVATE, 0600); }
static void full_queue(void) { queue(); m.type = 1; while (!msgsnd(fd, &m, 16, IPC_NOWAIT)) room_++; }
static long gone(long r) { int kept = errno; msgctl(fd, IPC_RMID, NULL); errno = kept; return r; }
static long received(long r) { return r >= 0 ? (AND("type %ld %.16s", m.type, m.t), r) : r; }
ROW(msgrcv, SYS_msgrcv, 0, queue(), gone(received(CALL(msgrcv, fd, &m, 16, 5, 0))),
    (m = (struct text){4, "not this"}, msgsnd(fd, &m, 9, 0), m = (struct text){5, "this"}, msgsnd(fd, &m, 5, 0)))
ROW(msgrcv_removed, SYS_msgrcv, 0, queue(), received(CALL(msgrcv, fd, &m, 16, 5, 0)), msgctl(fd, IPC_RMID, NULL))
static long count_queue(long r) { int kept = errno; struct msqid_ds d; msgctl(fd, IPC_STAT, &d); AND("more %ld", (long)d.msg_qnum - room_); errno = kept; return gone(r); }
ROW(msgsnd, SYS_msgsnd, 0, full_queue(), count_queue((m.type = 2, CALL(msgsnd, fd, &m, 16, 0))), msgrcv(fd, buf, 16, 1, 0))
static void semaphores(void) { fd = semget(IPC_PRIVATE, 2, 0600); }
static struct sembuf *ops(int a, int b, int flags)
{
    static struct sembuf s[2];
    s[0] = (struct sembuf){0, a, flags}, s[1] = (struct sembuf){1, b, flags};
    return s;
}
static long values(long r) { int kept = errno; AND("values %d %d", semctl(fd, 0, GETVAL), semctl(fd, 1, GETVAL)); semctl(fd, 0, IPC_RMID); errno = kept; return r; }
ROW(semop, SYS_semop, 0, semaphores(), values(CALL(semop, fd, ops(-1, 1, 0), 2)), semop(fd, ops(3, 2, 0), 2))
ROW(semop_undo, SYS_semop, 0, semaphores(), values(CALL(semop, fd, ops(-1, 1, SEM_UNDO), 2)), semop(fd, ops(3, 2, 0), 2))
ROW(semop_removed, SYS_semop, 0, semaphores(), CALL(semop, fd, ops(-1, 1, 0), 2), semctl(fd, 0, IPC_RMID))
ROW(semtimedop, SYS_semtimedop, TIMED, semaphores(), values(CALL(semtimedop, fd, ops(-1, 1, 0), 2, in_limit(0, 0))), semop(fd, ops(3, 2, 0), 2))
static void mq(void)
{
    char name[64];
    struct mq_attr a = {.mq_maxmsg = 1, .mq_msgsize = 16};
    snprintf(name, sizeof name, "/blocked-%d", getpid());
    fd = mq_open(name, O_CREAT | O_RDWR, 0600, &a), mq_unlink(name);
}
static unsigned prio;
ROW(mq_receive, SYS_mq_timedreceive, TIMED, mq(), OK(CALL(mq_timedreceive, fd, buf, 16, &prio, in_limit(CLOCK_REALTIME, 1)), r_ * 100 + prio), mq_send(fd, "hello", 5, 3))
ROW(mq_receive_ever, SYS_mq_timedreceive, 0, mq(), OK(CALL(mq_timedreceive, fd, buf, 16, &prio, NULL), r_ * 100 + prio), mq_send(fd, "hello", 5, 3))
ROW(mq_send, SYS_mq_timedsend, TIMED, (mq(), mq_send(fd, "first", 5, 1)), OK(CALL(mq_timedsend, fd, "hello", 5, 2, in_limit(CLOCK_REALTIME, 1)), r_ * 10 + mq_receive(fd, buf, 16, &prio) * (prio == 2)), mq_receive(fd, buf, 16, NULL))

/* Locks of files: held by another open file since before the call. */
static void lock_file(void) { fd = open("locked", O_CREAT | O_RDWR, 0600); q[0] = open("locked", O_RDWR), flock(q[0], LOCK_EX); }
static struct flock *range(int type) { static struct flock l; l = (struct flock){type, SEEK_SET, 10, 20}; return &l; }
/* A process of its own holds the range until the pipe tells it to end. */
static void range_held(void)
{
    fd = open("locked", O_CREAT | O_RDWR, 0600), pipe(p), pipe(q);
    if (!fork()) {
        char c;
        close(p[1]), fcntl(fd, F_SETLK, range(F_WRLCK)), give(q[1], "r"), read(p[0], &c, 1), _exit(0);
    }
    read(q[0], buf, 1);
}
ROW(flock, SYS_flock, 0, lock_file(), CALL(flock, fd, LOCK_EX), flock(q[0], LOCK_UN))
ROW(setlkw, SYS_fcntl, 0, range_held(), CALL(fcntl, fd, F_SETLKW, range(F_WRLCK)), give(p[1], "g"))
ROW(ofd_setlkw, SYS_fcntl, 0, range_held(), CALL(fcntl, fd, F_OFD_SETLKW, range(F_RDLCK)), give(p[1], "g"))

/* Rings that the kernel fills later: such programs stay home. */
static aio_context_t ring;
static struct io_event done;
static struct iocb cb;
static void aio(void) { pipe(p); }
static long submitted(void)
{
    struct iocb *one = &cb;
    cb = (struct iocb){.aio_fildes = p[0], .aio_lio_opcode = IOCB_CMD_POLL, .aio_buf = POLLIN, .aio_data = 9};
    return CALL(io_setup, 4, &ring) + CALL(io_submit, ring, 1, &one);
}
static long and_done(long r) { return r > 0 ? r * 1000 + (long)done.data * 100 + done.res : r; }
ROW(io_getevents, SYS_io_getevents, STAYS | COMES, aio(), (submitted(), and_done(CALL(io_getevents, ring, 1, 1, &done, NULL))), give(p[1], "x"))
ROW(io_pgetevents, 333, STAYS | COMES, aio(), (submitted(), and_done(syscall(333, ring, 1, 1, &done, NULL, NULL))), give(p[1], "x"))
