/* Threads and futexes: mutex under contention, condition with timeout, barrier, rwlock,
 * semaphore, TLS, once, robust mutex of a dead thread, cancel, pthread_kill, exit values, a
 * thread group of eight that computes. Proves that all threads move together. About 1.2 s. */
#include "show.h"
#include <semaphore.h>

#define N 8
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER, robust;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static pthread_barrier_t barrier;
static pthread_rwlock_t rw = PTHREAD_RWLOCK_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static sem_t sem;
static long shared, inits;
static int turn;
static __thread long mine;
static __thread char name[32];

static void init(void) { inits++; }

static void *count(void *arg)
{
    mine = (long)arg;
    sprintf(name, "thread-%ld", mine);
    pthread_once(&once, init);
    for (int i = 0; i < 2000; i++) {
        pthread_mutex_lock(&lock);
        shared += mine;
        pthread_mutex_unlock(&lock);
        chew(200 * 5);
    }
    for (int i = 0; i < 10; i++) {
        pthread_barrier_wait(&barrier);
        if (i % 3 == 0)
            rest(4);
        else
            chew(2 * CHEW_MS);
    }
    char expected[32];
    sprintf(expected, "thread-%ld", (long)arg);
    return (void *)(!strcmp(name, expected) ? mine * mine : -1);
}

static void *take_turns(void *arg)
{
    long me = (long)arg;
    for (int i = 0; i < 20; i++) {
        pthread_mutex_lock(&lock);
        while (turn % 4 != me)
            pthread_cond_wait(&cond, &lock);
        turn++;
        pthread_cond_broadcast(&cond);
        pthread_mutex_unlock(&lock);
        if (i % 7 == 0)
            rest(3);
    }
    return NULL;
}

static void *die_holding(void *arg)
{
    pthread_mutex_lock(&robust);
    return (void *)1;
}

static void cleanup(void *arg) { say("cleaned up %s", (char *)arg); }
static void *cancelled(void *arg)
{
    pthread_cleanup_push(cleanup, "after cancel");
    char b;
    read(*(int *)arg, &b, 1);
    say("never here");
    pthread_cleanup_pop(0);
    return NULL;
}

static __thread volatile int hits;
static volatile int all_hits;
static void on_usr1(int s) { hits++, all_hits++; }
static void *signalled(void *arg)
{
    while (hits < 3) {
        struct timespec t = {0, 2000000};
        nanosleep(&t, NULL);
    }
    return (void *)(long)hits;
}

static void *poster(void *arg)
{
    for (int i = 0; i < 5; i++) {
        rest(20);
        sem_post(&sem);
    }
    return (void *)(long)gettid();
}

int main(void)
{
    pthread_t t[N];
    void *result;
    pthread_barrier_init(&barrier, NULL, N);
    for (long i = 0; i < N; i++)
        pthread_create(&t[i], NULL, count, (void *)(i + 1));
    long squares = 0;
    for (int i = 0; i < N; i++)
        pthread_join(t[i], &result), squares += (long)result;
    say("shared %ld squares %ld inits %ld mine %ld", shared, squares, inits, mine);
    for (long i = 0; i < 4; i++)
        pthread_create(&t[i], NULL, take_turns, (void *)i);
    for (int i = 0; i < 4; i++)
        pthread_join(t[i], NULL);
    say("turns %d", turn);

    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += 100000000;
    if (until.tv_nsec >= 1000000000)
        until.tv_sec++, until.tv_nsec -= 1000000000;
    pthread_mutex_lock(&lock);
    say("timedwait %s", errno_name(pthread_cond_timedwait(&cond, &lock, &until)));
    say("trylock %s", errno_name(pthread_mutex_trylock(&lock)));
    say("timedlock %s", errno_name(pthread_mutex_timedlock(&lock, &until)));
    pthread_mutex_unlock(&lock);

    pthread_mutexattr_t attr;
    pthread_mutexattr_init(&attr);
    pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&robust, &attr);
    pthread_create(&t[0], NULL, die_holding, NULL);
    pthread_join(t[0], &result);
    rest(60);
    say("robust lock %s", errno_name(pthread_mutex_lock(&robust)));
    say("consistent %d", pthread_mutex_consistent(&robust));
    say("unlock %d", pthread_mutex_unlock(&robust));
    pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_ERRORCHECK);
    pthread_mutexattr_setprotocol(&attr, PTHREAD_PRIO_INHERIT);
    pthread_mutex_t pi;
    pthread_mutex_init(&pi, &attr);
    SHOW(pthread_mutex_lock(&pi));
    say("again %s", errno_name(pthread_mutex_lock(&pi)));
    rest(60);
    SHOW(pthread_mutex_unlock(&pi));
    say("again %s", errno_name(pthread_mutex_unlock(&pi)));

    int p[2];
    pipe(p);
    pthread_create(&t[0], NULL, cancelled, p);
    rest(70);
    pthread_cancel(t[0]);
    pthread_join(t[0], &result);
    HOLDS(result == PTHREAD_CANCELED);
    sem_init(&sem, 0, 0);
    signal(SIGUSR1, on_usr1);
    pthread_create(&t[0], NULL, signalled, NULL);
    for (int i = 0; i < 3; i++) {
        pthread_kill(t[0], SIGUSR1);
        while (all_hits <= i) /* two at once would count as one */
            rest(5);
        rest(20);
    }
    pthread_join(t[0], &result);
    say("hits there %ld, here %d", (long)result, hits);
    sem_init(&sem, 0, 0);
    pthread_create(&t[0], NULL, poster, NULL);
    for (int i = 0; i < 5; i++)
        sem_wait(&sem);
    pthread_join(t[0], &result);
    HOLDS((pid_t)(long)result != getpid());
    SHOW(sem_trywait(&sem));
    SHOW(pthread_rwlock_wrlock(&rw));
    say("tryrdlock %s", errno_name(pthread_rwlock_tryrdlock(&rw)));
    SHOW(syscall(SYS_tgkill, getpid(), getpid(), 0));
    SHOW(syscall(SYS_tgkill, getpid(), 99999999, 0));
    int word = 5;
    SHOW(syscall(SYS_futex, &word, 0, 4, NULL, NULL, 0));
    struct timespec ms = {0, 70000000};
    SHOW(syscall(SYS_futex, &word, 0, 5, &ms, NULL, 0));
    SHOW(syscall(SYS_futex, &word, 1, 5, NULL, NULL, 0));
    return 0;
}
