/* More threads at once than the room that a process gets when it leaves (192): 220 that wait for each other, while 12
 * children are forked and wait, too; none of them may fail. About 0.6 s. */
#include "show.h"

#define THREADS 220
#define CHILDREN 12

static pthread_barrier_t all;
static int ran[THREADS];

static void *one(void *number)
{
    pthread_barrier_wait(&all);
    ran[(long)number]++;
    return number;
}

/* Waits until no process has the pipe open for writing. */
static void child(const int *hold, int code)
{
    char c;
    close(hold[1]);
    _exit(read(hold[0], &c, 1) == 0 ? code : 255);
}

int main(void)
{
    pthread_t thread[THREADS];
    pthread_attr_t small;
    pthread_attr_init(&small), pthread_attr_setstacksize(&small, 64 << 10);
    pthread_barrier_init(&all, NULL, THREADS + 1);
    rest(400);
    int hold[2], status, made = 0, born = 0, codes = 0;
    while (made < THREADS && !pthread_create(&thread[made], &small, one, (void *)(long)made))
        made++;
    say("threads: %d", made);
    if (made < THREADS)
        return 1;
    rest(150);
    SHOW(pipe(hold));
    for (; born < CHILDREN; born++) {
        pid_t pid = fork();
        if (pid < 0)
            break;
        if (pid == 0)
            child(hold, born);
    }
    say("children: %d", born);
    pthread_barrier_wait(&all);
    long sum = 0;
    for (int i = 0; i < THREADS; i++) {
        void *number;
        pthread_join(thread[i], &number);
        sum += (long)number * ran[i];
    }
    say("the threads ran: %ld", sum);
    SHOW(close(hold[1]));
    for (int i = 0; i < born; i++)
        if (wait(&status) > 0 && WIFEXITED(status))
            codes += WEXITSTATUS(status);
    say("codes of the children: %d", codes);
    return 0;
}
