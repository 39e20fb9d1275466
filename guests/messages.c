/* System V message queues: types, the lowest of several, all but one, copies without taking, truncation,
 * a queue that is full and blocks, big messages, IPC_STAT and IPC_SET, IPC_NOWAIT, permissions, keys.
 * About 0.8 s. */
#include "show.h"
#include <sys/ipc.h>
#include <sys/msg.h>

struct message { long type; char text[8192]; };
static struct message m, r;

static void put(int q, long type, const char *text)
{
    m.type = type;
    strcpy(m.text, text);
    if (msgsnd(q, &m, strlen(text) + 1, 0))
        say("msgsnd %s", errno_name(errno));
}

static void get(int q, size_t size, long type, int flags)
{
    memset(&r, 0, sizeof r);
    long n = msgrcv(q, &r, size, type, flags);
    int e = errno;
    if (n < 0)
        say("type %ld: %s", type, errno_name(e));
    else
        say("type %ld: %ld bytes of type %ld '%.20s'", type, n, r.type, r.text);
}

int main(void)
{
    struct msqid_ds ds;
    SHOW(msgget(0x41524d31 + getpid(), 0600));
    SHOW(msgsnd(-1, &m, 1, 0));
    int q = msgget(IPC_PRIVATE, IPC_CREAT | 0640);
    HOLDS(q >= 0);
    for (int i = 0; i < 6; i++) {
        char text[32];
        sprintf(text, "number %d", i);
        put(q, 1 + i * 5 % 7, text);
    }
    rest(120);
    SHOW(msgctl(q, IPC_STAT, &ds));
    say("holds %ld messages, mode %o", (long)ds.msg_qnum, ds.msg_perm.mode & 0777);
    HOLDS(ds.msg_perm.uid == getuid() && ds.msg_lspid == getpid() && ds.msg_lrpid == 0);
    get(q, 100, -4, 0);
    get(q, 100, 4, 0);
    get(q, 100, 77, IPC_NOWAIT);
    get(q, 3, 0, 0);
    get(q, 3, 0, MSG_NOERROR);
    get(q, 100, 6, MSG_EXCEPT);
    get(q, 100, 0, MSG_COPY | IPC_NOWAIT);
    get(q, 100, 0, 0);
    get(q, 100, 0, 0);
    get(q, 100, 0, IPC_NOWAIT);
    m.type = 0;
    SHOW(msgsnd(q, &m, 1, 0));
    m.type = 3;
    SHOW(msgsnd(q, &m, -1, 0));
    SHOW(msgsnd(q, &m, 10000, 0));
    SHOW(msgsnd(q, (void *)8, 10, 0));
    SHOW(msgrcv(q, (void *)8, 10, 0, IPC_NOWAIT));

    /* A child fills the queue and blocks; what it sends comes in order. */
    ds.msg_qbytes = 16000;
    ds.msg_perm.mode = 0600;
    SHOW(msgctl(q, IPC_SET, &ds));
    pid_t child = fork();
    if (!child) {
        int bad = 0;
        for (int i = 0; i < 25; i++) {
            m.type = 1 + i % 3;
            memset(m.text, 'A' + i, 4000);
            bad += msgsnd(q, &m, 4000 - i, 0) != 0;
        }
        _exit(bad);
    }
    rest(160);
    int wrong = 0, status;
    for (int i = 0; i < 25; i++) {
        long n = msgrcv(q, &r, sizeof r.text, 1 + i % 3, 0);
        wrong += n != 4000 - i || r.type != 1 + i % 3 || r.text[n - 1] != 'A' + i;
        if (i % 4 == 0)
            rest(30);
    }
    waitpid(child, &status, 0);
    say_status("sender", status);
    say("wrong %d", wrong);
    child = fork();
    if (!child) {
        for (int i = 0; i < 10; i++) {
            long n = msgrcv(q, &r, 100, 50, 0);
            chew(2 * CHEW_MS);
            r.type = 60;
            for (int k = 0; k < n - 1; k++)
                r.text[k] |= 32;
            msgsnd(q, &r, n, 0);
        }
        _exit(0);
    }
    for (int i = 0; i < 10; i++) {
        char text[32];
        sprintf(text, "QUESTION%d", i);
        put(q, 50, text);
        rest(20);
        get(q, 100, 60, 0);
    }
    waitpid(child, &status, 0);
    say_status("answerer", status);
    SHOW(msgctl(q, IPC_STAT, &ds));
    say("holds %ld messages, %ld bytes", (long)ds.msg_qnum, (long)ds.__msg_cbytes);
    HOLDS(ds.msg_lrpid == getpid() && ds.msg_lspid == child);
    SHOW(msgctl(q, 99, &ds));
    SHOW(msgctl(q, IPC_RMID, NULL));
    SHOW(msgctl(q, IPC_STAT, &ds));
    get(q, 100, 0, 0);
    key_t key = ftok(".", 7);
    HOLDS(key != -1);
    return 0;
}
