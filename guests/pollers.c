/* Threads that wait in poll without a limit, each on descriptors in an array of its own, and one in poll with a long
 * one, while the first computes: they are moved many times during one call, for which home's kernel reads the array
 * again as long as it waits. Woken round by round, each by another of its pipes. About 1 s. */
#include "show.h"

#define THREADS 3
#define PIPES 4
#define ROUNDS 8

static int ends[THREADS][PIPES][2];
static int heard[2];

static void *poller(void *arg)
{
    long me = (long)arg;
    struct pollfd set[PIPES], was[PIPES];
    for (int i = 0; i < PIPES; i++)
        was[i] = (struct pollfd){.fd = ends[me][i][0], .events = i % 2 ? POLLIN : POLLIN | POLLPRI};
    memcpy(set, was, sizeof set);
    for (int round = 0; round < ROUNDS; round++) {
        int limit = me ? -1 : 600000;
        int n = poll(set, PIPES, limit);
        char b = 0;
        for (int i = 0; i < PIPES; i++) {
            int same = set[i].fd == was[i].fd && set[i].events == was[i].events;
            if (!same || !!set[i].revents != (i == round % PIPES))
                say("%ld: entry %d: same %d, revents %x", me, i, same, set[i].revents);
            if (set[i].revents & POLLIN)
                read(set[i].fd, &b, 1);
        }
        say("%ld: poll = %d, heard %c", me, n, b ? b : '-');
        write(heard[1], "h", 1);
    }
    return NULL;
}

int main(void)
{
    pthread_t t[THREADS];
    pipe(heard);
    for (int i = 0; i < THREADS * PIPES; i++)
        pipe(ends[i / PIPES][i % PIPES]);
    for (long i = 0; i < THREADS; i++)
        pthread_create(&t[i], NULL, poller, (void *)i);
    uint64_t sum = 0;
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < 20; i++)
            sum += chew(5 * CHEW_MS);
        for (int i = 0; i < THREADS; i++) {
            char b = 'a' + round, h;
            write(ends[i][round % PIPES][1], &b, 1);
            read(heard[0], &h, 1);
        }
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(t[i], NULL);
    say("computed %lx", sum);
}
