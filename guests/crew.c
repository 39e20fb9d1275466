/* A crew that shares MAP_SHARED | MAP_ANONYMOUS memory: process-shared mutex, condition and semaphore, a
 * table that all of them write, grandchildren, one that execs, one that is killed holding a robust mutex, a
 * message passed through memory while the others sleep in calls. About 1.2 s. */
#include "show.h"
#include <semaphore.h>

enum { CREW = 4, ROUNDS = 150, TURNS = 12 };

struct ship {
    pthread_mutex_t lock, robust;
    pthread_cond_t turned;
    sem_t done;
    long sum, turn;
    unsigned table[CREW][4096];
    char text[256];
};

static struct ship *ship;

static void shared_objects(void)
{
    pthread_mutexattr_t m;
    pthread_mutexattr_init(&m);
    pthread_mutexattr_setpshared(&m, PTHREAD_PROCESS_SHARED);
    pthread_mutex_init(&ship->lock, &m);
    pthread_mutexattr_setrobust(&m, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&ship->robust, &m);
    pthread_condattr_t c;
    pthread_condattr_init(&c);
    pthread_condattr_setpshared(&c, PTHREAD_PROCESS_SHARED);
    pthread_cond_init(&ship->turned, &c);
    sem_init(&ship->done, 1, 0);
}

static void add(int me)
{
    for (int i = 0; i < ROUNDS; i++) {
        pthread_mutex_lock(&ship->lock);
        ship->sum += me + 1;
        pthread_mutex_unlock(&ship->lock);
        ship->table[me][(i * 37) % 4096] = i * (me + 3);
        chew(CHEW_MS);
    }
}

static void take_turns(int me)
{
    for (int i = 0; i < TURNS; i++) {
        pthread_mutex_lock(&ship->lock);
        while (ship->turn % CREW != me)
            pthread_cond_wait(&ship->turned, &ship->lock);
        ship->turn++;
        pthread_cond_broadcast(&ship->turned);
        pthread_mutex_unlock(&ship->lock);
        rest(5);
    }
}

static void sailor(int me)
{
    if (me == 1) { /* a grandchild does the work */
        pid_t child = fork();
        if (child) {
            int status;
            waitpid(child, &status, 0);
            _exit(WEXITSTATUS(status));
        }
    }
    add(me);
    take_turns(me);
    sem_post(&ship->done);
    if (me == 2)
        execlp("true", "true", NULL);
    _exit(me);
}

int main(void)
{
    ship = mmap(NULL, sizeof *ship, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    shared_objects();
    pid_t crew[CREW];
    for (int i = 0; i < CREW; i++)
        if (!(crew[i] = fork()))
            sailor(i);
    for (int i = 0; i < CREW; i++)
        sem_wait(&ship->done);
    for (int i = 0; i < CREW; i++) {
        int status;
        HOLDS(waitpid(crew[i], &status, 0) == crew[i]);
        say_status("sailor", status);
    }
    say("sum %ld turns %ld table %lx", ship->sum, ship->turn, hash(ship->table, sizeof ship->table));

    pid_t child = fork();
    if (!child) {
        pthread_mutex_lock(&ship->robust);
        strcpy(ship->text + 1, "he captain is dead");
        __atomic_store_n(ship->text, 't', __ATOMIC_RELEASE); /* the last byte: the parent looks for it */
        for (;;)
            rest(1000);
    }
    while (!__atomic_load_n(ship->text, __ATOMIC_ACQUIRE))
        rest(3);
    say("'%s'", ship->text);
    kill(child, SIGKILL);
    int e = pthread_mutex_lock(&ship->robust);
    say("lock %s", e ? errno_name(e) : "0");
    SHOW(pthread_mutex_consistent(&ship->robust));
    SHOW(pthread_mutex_unlock(&ship->robust));
    HOLDS(waitpid(child, NULL, 0) == child);

    int p[2];
    pipe(p);
    child = fork();
    if (!child) {
        char c;
        read(p[0], &c, 1); /* asleep while the message is written */
        say("child reads '%s'", ship->text);
        strcpy(ship->text, "and answers");
        _exit(0);
    }
    rest(80);
    strcpy(ship->text, "written beside a sleeper");
    rest(80);
    write(p[1], "g", 1);
    waitpid(child, NULL, 0);
    say("parent reads '%s'", ship->text);
    return 0;
}
