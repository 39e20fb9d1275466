/* sem_open of names that stay: the creator maps them under names that glibc unlinks at once, others open them later by
 * their final names, exec'd programs too. Values, waits across processes, a time-out, sem_unlink while they are mapped.
 * About 0.8 s. */
#include "show.h"
#include <semaphore.h>

#define ROUNDS 4

static void name_of(char *to, const char *kind, const char *whose)
{
    snprintf(to, 64, "/armento-guest-%s-%s", kind, whose);
}

static int value(sem_t *s)
{
    int v = -1;
    sem_getvalue(s, &v);
    return v;
}

/* Another program, which has only the names. */
static int worker(const char *whose)
{
    char n[64];
    name_of(n, "lock", whose);
    sem_t *lock = sem_open(n, 0);
    name_of(n, "go", whose);
    sem_t *go = sem_open(n, 0);
    name_of(n, "ready", whose);
    sem_t *ready = sem_open(n, 0);
    if (lock == SEM_FAILED || go == SEM_FAILED || ready == SEM_FAILED)
        return 1;
    say("worker: lock is %d", value(lock));
    sem_wait(lock);
    chew(20 * CHEW_MS);
    sem_post(lock);
    sem_post(ready);
    sem_wait(go);
    say("worker: goes, lock is %d", value(lock));
    return 0;
}

static void one_round(char **argv, const char *whose)
{
    char n[3][64];
    name_of(n[0], "lock", whose);
    name_of(n[1], "go", whose);
    name_of(n[2], "ready", whose);
    sem_t *lock = sem_open(n[0], O_CREAT | O_EXCL, 0600, 1);
    sem_t *go = sem_open(n[1], O_CREAT | O_EXCL, 0600, 0);
    sem_t *ready = sem_open(n[2], O_CREAT | O_EXCL, 0600, 0);
    chew(60 * CHEW_MS);
    say("lock %d, go %d", value(lock), value(go));
    pid_t pid = fork();
    if (pid == 0) {
        execl("/proc/self/exe", argv[0], whose, (char *)NULL);
        _exit(127);
    }
    chew(20 * CHEW_MS);
    sem_wait(ready);
    chew(20 * CHEW_MS);
    rest(20);
    sem_post(go);
    int status;
    waitpid(pid, &status, 0);
    say_status("worker", status);
    struct timespec soon;
    clock_gettime(CLOCK_REALTIME, &soon);
    soon.tv_nsec += 20000000;
    soon.tv_sec += soon.tv_nsec / 1000000000, soon.tv_nsec %= 1000000000;
    SHOW(sem_wait(lock));
    SHOW(sem_timedwait(lock, &soon));
    sem_unlink(n[0]);
    sem_unlink(n[1]);
    sem_unlink(n[2]);
    SHOW(sem_post(lock));
    chew(10 * CHEW_MS);
    say("unlinked, lock %d", value(lock));
    sem_close(lock);
    sem_close(go);
    sem_close(ready);
}

int main(int argc, char **argv)
{
    char whose[32];
    if (argc > 1)
        return worker(argv[1]);
    for (int i = 0; i < ROUNDS; i++) {
        snprintf(whose, sizeof whose, "%d-%d", (int)getpid(), i);
        one_round(argv, whose);
    }
}
