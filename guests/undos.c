/* System V semaphores: several operations at once or none, SEM_UNDO when a child exits, is killed or execs,
 * waiting for zero, GETALL and SETALL, counts of waiters, timeouts, ERANGE and E2BIG. Proves that undo lists
 * stay with the process at home. About 0.8 s. */
#include "show.h"
#include <sys/ipc.h>
#include <sys/sem.h>

static int id;

static void values(const char *when)
{
    unsigned short v[4];
    if (semctl(id, 0, GETALL, v))
        say("GETALL %s", errno_name(errno));
    say("%s: %d %d %d %d", when, v[0], v[1], v[2], v[3]);
}

static void takes_and_ends(const char *how, int way)
{
    int p[2], seen[2], status;
    char b;
    pipe(p), pipe(seen);
    pid_t child = fork();
    if (!child) {
        close(seen[1]);
        struct sembuf ops[2] = {{0, -2, SEM_UNDO}, {1, 3, SEM_UNDO}};
        semop(id, ops, 2);
        write(p[1], "t", 1);
        read(seen[0], &b, 1);
        rest(65);
        if (way == 0)
            _exit(0);
        if (way == 1)
            raise(SIGKILL);
        if (way == 2)
            execl("/bin/sh", "sh", "-c", "exit 6", NULL);
        ops[0].sem_op = 2, ops[1].sem_op = -3;
        semop(id, ops, 2);
        _exit(3);
    }
    read(p[0], &b, 1);
    values("taken");
    close(seen[0]), close(seen[1]);
    waitpid(child, &status, 0);
    say_status(how, status);
    values("after");
    close(p[0]), close(p[1]);
}

int main(void)
{
    int status;
    struct sembuf op;
    SHOW(semget(IPC_PRIVATE, 0, 0600));
    SHOW(semget(IPC_PRIVATE, 1000000, 0600));
    id = semget(IPC_PRIVATE, 4, IPC_CREAT | 0600);
    HOLDS(id >= 0);
    unsigned short start[4] = {5, 0, 1, 7};
    SHOW(semctl(id, 0, SETALL, start));
    values("set");
    struct sembuf both[3] = {{0, -5, IPC_NOWAIT}, {3, -7, IPC_NOWAIT}, {1, -1, IPC_NOWAIT}};
    SHOW(semop(id, both, 3));
    values("none");
    SHOW(semop(id, both, 2));
    values("both");
    semctl(id, 0, SETALL, start);
    op = (struct sembuf){9, 1, 0};
    SHOW(semop(id, &op, 1));
    op = (struct sembuf){0, 32767, 0};
    SHOW(semop(id, &op, 1));
    SHOW(semop(id, &op, 0));
    SHOW(semop(id, &op, 100000));
    SHOW(semop(id, (void *)8, 1));
    SHOW(semctl(id, 0, SETVAL, -1));
    SHOW(semctl(id, 9, GETVAL));
    takes_and_ends("exit", 0);
    takes_and_ends("kill", 1);
    takes_and_ends("exec", 2);
    takes_and_ends("gave back", 3);

    /* Wait for zero while a child counts down. */
    SHOW(semctl(id, 2, SETVAL, 6));
    pid_t child = fork();
    if (!child) {
        struct sembuf down = {2, -1, 0};
        for (int i = 0; i < 6; i++) {
            rest(25);
            semop(id, &down, 1);
        }
        _exit(0);
    }
    op = (struct sembuf){2, 0, 0};
    SHOW(semop(id, &op, 1));
    SHOW(semctl(id, 2, GETVAL));
    waitpid(child, &status, 0);
    say_status("counter", status);
    pid_t waiters[3];
    for (int i = 0; i < 3; i++)
        if (!(waiters[i] = fork())) {
            struct sembuf want = {1, i < 2 ? -1 : 0, 0};
            if (i == 2)
                want.sem_num = 3; /* waits for zero */
            _exit(semop(id, &want, 1) ? 1 : 10 + i);
        }
    while (semctl(id, 1, GETNCNT) != 2 || semctl(id, 3, GETZCNT) != 1)
        rest(5);
    rest(105);
    chew(20 * CHEW_MS);
    SHOW(semctl(id, 1, SETVAL, 2));
    SHOW(semctl(id, 3, SETVAL, 0));
    for (int i = 0; i < 3; i++) {
        waitpid(waiters[i], &status, 0);
        say_status("waiter", status);
    }
    struct timespec t = {0, 80000000}, wrong = {0, -1};
    op = (struct sembuf){1, -1, 0};
    SHOW(semtimedop(id, &op, 1, &t));
    SHOW(semtimedop(id, &op, 1, &wrong));
    values("end");
    struct semid_ds ds;
    SHOW(semctl(id, 0, IPC_STAT, &ds));
    say("%ld semaphores, mode %o", (long)ds.sem_nsems, ds.sem_perm.mode & 0777);
    SHOW(semctl(id, 0, IPC_RMID));
    SHOW(semctl(id, 0, IPC_STAT, &ds));
    return 0;
}
