/* pthread_cancel in blocking calls: read, write to a full pipe, accept, poll, select, sleep, condition,
 * semaphore, join, wait, sigwait; cleanup handlers in order, disabled and deferred and asynchronous cancellation,
 * the mutex a cancelled condition wait holds again. About 0.9 s. */
#include "show.h"
#include <semaphore.h>
#include <sys/un.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static pthread_barrier_t gate;
static sem_t sem;
static int p[2], full[2], listener;
static pthread_t other;
static pid_t child;

static void in_read(void) { char b; read(p[0], &b, 1); }
static void in_write(void) { char b[4096] = {0}; for (;;) write(full[1], b, sizeof b); }
static void in_accept(void) { accept(listener, NULL, NULL); }
static void in_poll(void) { struct pollfd f = {p[0], POLLIN}; poll(&f, 1, -1); }
static void in_select(void)
{
    fd_set r;
    FD_ZERO(&r);
    FD_SET(p[0], &r);
    select(p[0] + 1, &r, NULL, NULL, NULL);
}
static void in_sleep(void) { sleep(1000); }
static void in_cond(void) { pthread_mutex_lock(&lock); pthread_cond_wait(&cond, &lock); }
static void in_sem(void) { sem_wait(&sem); }
static void in_join(void) { pthread_join(other, NULL); }
static void in_wait(void) { waitpid(child, NULL, 0); }
static void in_sigwait(void)
{
    sigset_t set;
    int s;
    sigemptyset(&set), sigaddset(&set, SIGUSR2);
    sigwait(&set, &s);
}
static void in_test(void) { for (;;) { chew(CHEW_MS / 4); pthread_testcancel(); } }
static void in_chew(void)
{
    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
    for (;;)
        chew(CHEW_MS);
}
static void in_lockf(void) { lockf(listener, F_TLOCK, 0); pause(); }

static const struct { const char *name; void (*f)(void); } ways[] = {
    {"read", in_read}, {"write", in_write}, {"accept", in_accept}, {"poll", in_poll}, {"select", in_select},
    {"sleep", in_sleep}, {"condition", in_cond}, {"semaphore", in_sem}, {"join", in_join}, {"wait", in_wait},
    {"sigwait", in_sigwait}, {"test", in_test}, {"computing", in_chew}, {"pause", in_lockf},
};

static char order[16];
static void clean(void *arg)
{
    strcat(order, arg);
    if (*(char *)arg == 'm' && pthread_mutex_trylock(&lock) == EBUSY)
        strcat(order, "!"); /* it holds it again */
}

static void *runs(void *arg)
{
    int i = (long)arg;
    pthread_cleanup_push(clean, "a");
    pthread_cleanup_push(clean, ways[i].f == in_cond ? "m" : "b");
    pthread_barrier_wait(&gate);
    ways[i].f();
    say("%s returned", ways[i].name);
    pthread_cleanup_pop(0);
    pthread_cleanup_pop(0);
    return NULL;
}

static volatile int passed;
static void *disabled(void *arg)
{
    int old;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old);
    pthread_barrier_wait(&gate);
    for (int i = 0; i < 4; i++)
        rest(30), passed++;
    pthread_setcancelstate(old, NULL);
    pthread_testcancel();
    say("not cancelled");
    return NULL;
}

static void *forever(void *arg) { for (;;) pause(); }

int main(void)
{
    struct sockaddr_un a = {AF_UNIX, "cancel.sock"};
    void *result;
    pipe(p), pipe(full);
    listener = socket(AF_UNIX, SOCK_STREAM, 0);
    bind(listener, (void *)&a, sizeof a);
    listen(listener, 1);
    sem_init(&sem, 0, 0);
    sigset_t usr2;
    sigemptyset(&usr2), sigaddset(&usr2, SIGUSR2);
    pthread_sigmask(SIG_BLOCK, &usr2, NULL);
    child = fork();
    if (!child)
        for (;;)
            pause();
    pthread_create(&other, NULL, forever, NULL);
    pthread_barrier_init(&gate, NULL, 2);
    for (long i = 0; i < (long)(sizeof ways / sizeof *ways); i++) {
        pthread_t t;
        order[0] = 0;
        pthread_create(&t, NULL, runs, (void *)i);
        pthread_barrier_wait(&gate);
        rest(50);
        int e = pthread_cancel(t);
        pthread_join(t, &result);
        if (ways[i].f == in_cond)
            pthread_mutex_unlock(&lock);
        say("%s: %d cancelled %d cleanups %s", ways[i].name, e, result == PTHREAD_CANCELED, order);
    }
    pthread_t t;
    pthread_create(&t, NULL, disabled, NULL);
    pthread_barrier_wait(&gate);
    pthread_cancel(t);
    pthread_join(t, &result);
    say("disabled for a while: passed %d cancelled %d", passed, result == PTHREAD_CANCELED);
    SHOW(pthread_setcancelstate(77, NULL));
    SHOW(pthread_setcanceltype(77, NULL));
    pthread_cancel(other);
    pthread_join(other, &result);
    HOLDS(result == PTHREAD_CANCELED);
    kill(child, SIGKILL);
    int status;
    waitpid(child, &status, 0);
    say_status("child", status);
    return 0;
}
