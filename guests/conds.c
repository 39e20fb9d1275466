/* Conditions on the monotonic clock, time-outs of semaphores, rwlocks and joins, broadcast to many waiters,
 * a bounded queue of producers and consumers, barriers round by round, spin locks, rwlocks with readers and
 * writers, pthread_once under a race. About 0.9 s. */
#include "show.h"
#include <semaphore.h>

#define ITEMS 400
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond, room = PTHREAD_COND_INITIALIZER, items = PTHREAD_COND_INITIALIZER;
static int queue[8], held, put_at, take_at, produced, consumed, woken, generation;
static long sum;

static void *producer(void *arg)
{
    for (;;) {
        pthread_mutex_lock(&lock);
        while (held == 8 && produced < ITEMS)
            pthread_cond_wait(&room, &lock);
        if (produced == ITEMS) {
            pthread_cond_broadcast(&room), pthread_cond_broadcast(&items);
            pthread_mutex_unlock(&lock);
            return NULL;
        }
        queue[put_at++ % 8] = ++produced, held++;
        int pause_ = produced % 40 == 0;
        pthread_cond_signal(&items);
        pthread_mutex_unlock(&lock);
        pause_ ? rest(10) : 0;
    }
}

static void *consumer(void *arg)
{
    for (;;) {
        pthread_mutex_lock(&lock);
        while (!held && consumed < ITEMS)
            pthread_cond_wait(&items, &lock);
        if (!held) {
            pthread_mutex_unlock(&lock);
            return NULL;
        }
        sum += queue[take_at++ % 8], held--, consumed++;
        if (consumed == ITEMS)
            pthread_cond_broadcast(&items);
        pthread_cond_signal(&room);
        pthread_mutex_unlock(&lock);
        chew(CHEW_MS / 10);
    }
}

static void *sleeper(void *arg)
{
    pthread_mutex_lock(&lock);
    int mine = generation;
    woken--;
    while (generation == mine)
        pthread_cond_wait(&cond, &lock);
    woken += 2;
    pthread_mutex_unlock(&lock);
    return NULL;
}

static pthread_barrier_t barrier;
static volatile long rounds[5];
static int serials;
static void *stepper(void *arg)
{
    long me = (long)arg, bad = 0;
    for (int i = 0; i < 25; i++) {
        rounds[me]++;
        if (pthread_barrier_wait(&barrier) == PTHREAD_BARRIER_SERIAL_THREAD)
            __sync_fetch_and_add(&serials, 1);
        for (int k = 0; k < 5; k++)
            bad += rounds[k] != i + 1;
        if (i % 8 == me)
            rest(8);
        pthread_barrier_wait(&barrier);
    }
    return (void *)bad;
}

static pthread_rwlock_t rw = PTHREAD_RWLOCK_INITIALIZER;
static pthread_spinlock_t spin;
static long pair[2], torn, spun;
static void *reader_writer(void *arg)
{
    for (int i = 0; i < 300; i++) {
        if ((i + (long)arg) % 5 == 0) {
            pthread_rwlock_wrlock(&rw);
            pair[0]++;
            chew(1000);
            pair[1]++;
            pthread_rwlock_unlock(&rw);
        } else {
            pthread_rwlock_rdlock(&rw);
            if (pair[0] != pair[1])
                __sync_fetch_and_add(&torn, 1);
            pthread_rwlock_unlock(&rw);
        }
        pthread_spin_lock(&spin);
        spun++;
        pthread_spin_unlock(&spin);
        if (i % 100 == 0)
            rest(6);
    }
    return NULL;
}

static void *slow(void *arg) { rest(150); return (void *)5; }

int main(void)
{
    pthread_t t[5];
    void *result;
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&cond, &attr);
    struct timespec until = soon(CLOCK_MONOTONIC, 80);
    double t0 = now();
    pthread_mutex_lock(&lock);
    say("wait %s", errno_name(pthread_cond_timedwait(&cond, &lock, &until)));
    HOLDS(now() - t0 > 0.079);
    until = soon(CLOCK_REALTIME, 60);
    say("clockwait %s", errno_name(pthread_cond_clockwait(&cond, &lock, CLOCK_REALTIME, &until)));
    until = (struct timespec){0, 1000000000};
    say("wrong %s", errno_name(pthread_cond_timedwait(&cond, &lock, &until)));
    pthread_mutex_unlock(&lock);

    for (int i = 0; i < 5; i++)
        pthread_create(&t[i], NULL, i < 2 ? producer : consumer, NULL);
    for (int i = 0; i < 5; i++)
        pthread_join(t[i], NULL);
    say("produced %d consumed %d sum %ld", produced, consumed, sum);
    for (int i = 0; i < 5; i++)
        pthread_create(&t[i], NULL, sleeper, NULL);
    for (int asleep = 0; asleep != -5; rest(4)) {
        pthread_mutex_lock(&lock);
        asleep = woken;
        pthread_mutex_unlock(&lock);
    }
    rest(50);
    pthread_mutex_lock(&lock);
    generation++;
    pthread_cond_broadcast(&cond);
    pthread_mutex_unlock(&lock);
    for (int i = 0; i < 5; i++)
        pthread_join(t[i], NULL);
    say("woken %d", woken);

    pthread_barrier_init(&barrier, NULL, 5);
    long bad = 0;
    for (long i = 0; i < 5; i++)
        pthread_create(&t[i], NULL, stepper, (void *)i);
    for (int i = 0; i < 5; i++)
        pthread_join(t[i], &result), bad += (long)result;
    say("barriers: bad %ld serials %d", bad, serials);
    pthread_spin_init(&spin, 0);
    for (long i = 0; i < 4; i++)
        pthread_create(&t[i], NULL, reader_writer, (void *)i);
    for (int i = 0; i < 4; i++)
        pthread_join(t[i], NULL);
    say("pair %ld %ld torn %ld spun %ld", pair[0], pair[1], torn, spun);

    sem_t sem;
    sem_init(&sem, 0, 1);
    SHOW(sem_wait(&sem));
    until = soon(CLOCK_REALTIME, 50);
    SHOW(sem_timedwait(&sem, &until));
    until = soon(CLOCK_MONOTONIC, 50);
    SHOW(sem_clockwait(&sem, CLOCK_MONOTONIC, &until));
    pthread_rwlock_rdlock(&rw);
    until = soon(CLOCK_REALTIME, 50);
    say("timedwrlock %s", errno_name(pthread_rwlock_timedwrlock(&rw, &until)));
    say("tryrdlock %d", pthread_rwlock_tryrdlock(&rw));
    pthread_create(&t[0], NULL, slow, NULL);
    until = soon(CLOCK_REALTIME, 20);
    say("tryjoin %s", errno_name(pthread_tryjoin_np(t[0], &result)));
    say("timedjoin %s", errno_name(pthread_timedjoin_np(t[0], &result, &until)));
    pthread_join(t[0], &result);
    say("joined %ld", (long)result);
    return 0;
}
