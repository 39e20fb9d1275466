/* System V and POSIX IPC between parent and child: semop with timeouts, IPC_NOWAIT, message queues
 * of both kinds, objects removed under sleepers, mq_notify by signal, inotify, errors. About 1.5 s. */
#include "show.h"
#include <mqueue.h>
#include <sys/inotify.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/sem.h>

static volatile int notified;
static void on_notify(int s, siginfo_t *i, void *u) { notified = i->si_value.sival_int; }

static void semaphores(void)
{
    int id = semget(IPC_PRIVATE, 2, IPC_CREAT | 0600);
    HOLDS(id >= 0);
    unsigned short values[2] = {1, 0};
    SHOW(semctl(id, 0, SETALL, values));
    struct sembuf take = {0, -1, 0}, nowait = {1, -1, IPC_NOWAIT}, zero = {0, 0, 0}, give = {1, 1, 0};
    SHOW(semop(id, &take, 1));
    SHOW(semop(id, &nowait, 1));
    SHOW(semop(id, &zero, 1));
    struct timespec t = {0, 100000000};
    SHOW(semtimedop(id, &take, 1, &t));
    pid_t child = fork();
    if (!child) {
        for (int i = 0; i < 5; i++) {
            rest(20);
            semop(id, &give, 1);
        }
        _exit(0);
    }
    struct sembuf want = {1, -1, 0};
    for (int i = 0; i < 5; i++)
        if (semop(id, &want, 1))
            say("semop %s", errno_name(errno));
    waitpid(child, NULL, 0);
    SHOW(semctl(id, 1, GETVAL));
    HOLDS(semctl(id, 1, GETPID) == getpid());
    child = fork();
    if (!child) {
        _exit(semop(id, &want, 1) < 0 && errno == EIDRM ? 43 : 1);
    }
    while (semctl(id, 1, GETNCNT) != 1)
        rest(5);
    rest(60);
    SHOW(semctl(id, 0, IPC_RMID));
    int status;
    waitpid(child, &status, 0);
    say_status("removed under it", status);
    SHOW(semop(id, &take, 1));
}

/* Whether it is in this call (natively, or its deputy). */
static int sleeps_in(pid_t child, long call)
{
    char path[64], text[64] = "";
    sprintf(path, "/proc/%d/syscall", child);
    int fd = open(path, O_RDONLY);
    if (fd >= 0 && read(fd, text, sizeof text - 1) < 0)
        text[0] = 0;
    close(fd);
    return text[0] >= '0' && text[0] <= '9' && atol(text) == call;
}

/* Sets and queues that are removed under a child that sleeps in a call on them. */
static void removed(int round)
{
    struct { long type; char text[2048]; } m = {1, ""};
    int sem = semget(IPC_PRIVATE, 1, IPC_CREAT | 0600), queue = msgget(IPC_PRIVATE, IPC_CREAT | 0600);
    struct sembuf take = {0, -1, 0};
    struct timespec t = {100, 0};
    pid_t child[4];
    while (!msgsnd(queue, &m, sizeof m.text, IPC_NOWAIT))
        ;
    for (int i = 0; i < 4; i++) {
        if ((child[i] = fork()))
            continue;
        long r = i == 0 ? syscall(SYS_semop, sem, &take, 1L) : i == 1 ? semtimedop(sem, &take, 1, &t)
            : i == 2 ? msgrcv(queue, &m, sizeof m.text, 2, 0) : msgsnd(queue, &m, sizeof m.text, 0);
        _exit(r < 0 && errno == EIDRM ? 43 : r < 0 && errno == EINVAL ? 22 : 1);
    }
    const long calls[] = {SYS_semop, SYS_semtimedop, SYS_msgrcv, SYS_msgsnd};
    for (int i = 0; i < 4; i++)
        while (!sleeps_in(child[i], calls[i]))
            rest(2);
    rest(round * 3);
    chew(CHEW_MS);
    semctl(sem, 0, IPC_RMID);
    msgctl(queue, IPC_RMID, NULL);
    for (int i = 0; i < 4; i++) {
        int status;
        waitpid(child[i], &status, 0);
        if (WEXITSTATUS(status) != 43)
            say("round %d, call %d: %d", round, i, WEXITSTATUS(status));
    }
    /* … and calls that did not sleep have their usual results. */
    if (semop(sem, &take, 1) != -1 || errno != EINVAL)
        say("round %d: semop", round);
    if (msgrcv(queue, &m, sizeof m.text, 2, 0) != -1 || errno != EINVAL)
        say("round %d: msgrcv", round);
}

static void queues(void)
{
    struct { long type; char text[64]; } m = {2, "two"}, r;
    int id = msgget(IPC_PRIVATE, IPC_CREAT | 0600);
    SHOW(msgsnd(id, &m, 4, 0));
    m.type = 1, strcpy(m.text, "one");
    SHOW(msgsnd(id, &m, 4, 0));
    m.type = 0;
    SHOW(msgsnd(id, &m, 4, 0));
    SHOW(msgrcv(id, &r, 64, -5, 0));
    say("type %ld %s", r.type, r.text);
    SHOW(msgrcv(id, &r, 2, 2, 0));
    SHOW(msgrcv(id, &r, 2, 2, MSG_NOERROR));
    SHOW(msgrcv(id, &r, 64, 0, IPC_NOWAIT));
    pid_t child = fork();
    if (!child) {
        for (int i = 0; i < 4; i++) {
            rest(25);
            m.type = 10 + i;
            msgsnd(id, &m, 5 + i, 0);
        }
        _exit(0);
    }
    for (int i = 0; i < 4; i++) {
        long n = msgrcv(id, &r, 64, 10 + i, 0);
        say("got %ld of type %ld", n, r.type);
    }
    waitpid(child, NULL, 0);
    SHOW(msgctl(id, IPC_RMID, NULL));

    char name[64];
    sprintf(name, "/armento-%d", getpid());
    struct mq_attr attr = {.mq_maxmsg = 4, .mq_msgsize = 64};
    mqd_t q = mq_open(name, O_CREAT | O_RDWR | O_EXCL, 0600, &attr);
    HOLDS(q >= 0);
    if (q < 0)
        return;
    SHOW(mq_send(q, "low", 4, 1));
    SHOW(mq_send(q, "high", 5, 9));
    char b[64];
    unsigned prio;
    SHOW(mq_receive(q, b, 64, &prio));
    say("%s prio %u", b, prio);
    SHOW(mq_receive(q, b, 10, &prio));
    SHOW(mq_receive(q, b, 64, &prio));
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += 90000000;
    if (until.tv_nsec >= 1000000000)
        until.tv_sec++, until.tv_nsec -= 1000000000;
    SHOW(mq_timedreceive(q, b, 64, &prio, &until));
    struct sigaction a = {.sa_sigaction = on_notify, .sa_flags = SA_SIGINFO};
    sigaction(SIGUSR1, &a, NULL);
    sigset_t usr, old;
    sigemptyset(&usr), sigaddset(&usr, SIGUSR1);
    sigprocmask(SIG_BLOCK, &usr, &old);
    struct sigevent ev = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
    ev.sigev_value.sival_int = 31;
    SHOW(mq_notify(q, &ev));
    child = fork();
    if (!child) {
        rest(60);
        mq_send(q, "wake", 5, 0);
        _exit(0);
    }
    SHOW(sigsuspend(&old));
    say("notified %d", notified);
    waitpid(child, NULL, 0);
    SHOW(mq_close(q));
    SHOW(mq_unlink(name));
    SHOW(mq_unlink(name));
}

static void watch(void)
{
    int in = inotify_init1(IN_CLOEXEC);
    mkdir("watched", 0755);
    SHOW(inotify_add_watch(in, "watched", IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_CLOSE_WRITE));
    SHOW(inotify_add_watch(in, "none", IN_CREATE));
    pid_t child = fork();
    if (!child) {
        rest(40);
        close(open("watched/a", O_CREAT | O_WRONLY, 0600));
        rest(40);
        rename("watched/a", "watched/b");
        rest(40);
        unlink("watched/b");
        _exit(0);
    }
    char b[4096] __attribute__((aligned(8)));
    for (int events = 0; events < 5;) {
        int n = read(in, b, sizeof b);
        for (int at = 0; at < n; events++) {
            struct inotify_event *e = (void *)(b + at);
            say("event %x %s cookie %d", e->mask, e->name, e->cookie != 0);
            at += sizeof *e + e->len;
        }
    }
    waitpid(child, NULL, 0);
    SHOW(inotify_rm_watch(in, 1));
    SHOW(inotify_rm_watch(in, 77));
}

int main(void)
{
    semaphores();
    for (int round = 0; round < 12; round++)
        removed(round);
    queues();
    watch();
    return 0;
}
