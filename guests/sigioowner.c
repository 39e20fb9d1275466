/* fcntl(F_SETOWN_EX) with F_OWNER_TID and O_ASYNC: the signal of each descriptor comes to the thread that owns it and
 * to no other, 30 times each: a socket's by F_SETSIG with its descriptor and band, a pipe's as SIGIO, and a datagram
 * socket's. One owner computes, one sleeps, one is blocked in a read. Owners change in between. About 0.8 s. */
#include "show.h"

#define OWNERS 3
#define ROUNDS 30

static __thread int me = -1;
/* By thread and descriptor; the last row is the first thread's. */
static volatile int count[OWNERS + 1][OWNERS], odd, arrived;
static int in[OWNERS], out[OWNERS];
static pid_t tids[OWNERS];
static volatile int quit;
static pthread_barrier_t gate;
static int never[2];

static void on(int s, siginfo_t *i, void *u)
{
    int which = s == SIGIO ? 1 : s - SIGRTMIN - 3;
    if (which == 0 || which == 2)
        odd += i->si_fd != in[which] || i->si_code != POLL_IN || !(i->si_band & POLLIN);
    count[me < 0 ? OWNERS : me][which]++;
    arrived++;
}

static void *owner(void *arg)
{
    char c;
    me = (long)arg;
    tids[me] = gettid();
    pthread_barrier_wait(&gate);
    if (me == 2)
        while (read(never[0], &c, 1) != 1)
            ;
    while (!quit)
        me == 0 ? (void)chew(CHEW_MS) : rest(5);
    return NULL;
}

static void own(int which, int thread)
{
    struct f_owner_ex o = {F_OWNER_TID, tids[thread]}, got = {0};
    int a = fcntl(in[which], F_SETOWN_EX, &o), b = fcntl(in[which], F_GETOWN_EX, &got);
    say("descriptor %d to thread %d: %d %d %s", which, thread, a, b,
        got.type == F_OWNER_TID && got.pid == o.pid ? "told" : "NOT TOLD");
}

static void told(const char *when)
{
    for (int t = 0; t <= OWNERS; t++)
        say("%s: thread %d got %d %d %d", when, t, count[t][0], count[t][1], count[t][2]);
    say("%s: odd %d", when, odd);
}

/* A byte to each in turn; the next only when its signal has come. */
static void rounds(int times)
{
    int lost = 0;
    char c;
    for (int k = 0; k < times; k++)
        for (int i = 0; i < OWNERS; i++) {
            int before = arrived;
            write(out[i], "a", 1);
            for (int w = 0; arrived == before && w < 3000; w++)
                k % 2 ? rest(1) : (void)chew(CHEW_MS);
            lost += arrived == before;
            read(in[i], &c, 1);
            rest(3);
        }
    say("lost %d", lost);
}

int main(void)
{
    struct sigaction a = {.sa_sigaction = on, .sa_flags = SA_SIGINFO | SA_RESTART};
    pthread_t t[OWNERS];
    int s[2];
    sigaction(SIGIO, &a, NULL);
    sigaction(SIGRTMIN + 3, &a, NULL);
    sigaction(SIGRTMIN + 5, &a, NULL);
    pipe(never);
    pthread_barrier_init(&gate, NULL, OWNERS + 1);
    for (long i = 0; i < OWNERS; i++)
        pthread_create(&t[i], NULL, owner, (void *)i);
    pthread_barrier_wait(&gate);
    for (int i = 0; i < OWNERS; i++) {
        i == 1 ? pipe(s) : socketpair(AF_UNIX, i == 0 ? SOCK_STREAM : SOCK_DGRAM, 0, s);
        in[i] = s[0];
        out[i] = s[1];
        own(i, i);
        SHOW(fcntl(in[i], F_SETSIG, i == 1 ? 0 : SIGRTMIN + 3 + i));
        SHOW(fcntl(in[i], F_GETSIG) == (i == 1 ? 0 : SIGRTMIN + 3 + i));
        SHOW(fcntl(in[i], F_SETFL, O_ASYNC));
    }
    rounds(ROUNDS / 2);
    told("half");
    rounds(ROUNDS - ROUNDS / 2);
    told("each its own");
    for (int i = 0; i < OWNERS; i++)
        own(i, (i + 1) % OWNERS);
    rounds(6);
    told("changed");
    for (int i = 0; i < OWNERS; i++)
        SHOW(fcntl(in[i], F_SETFL, 0));
    for (int i = 0; i < OWNERS; i++)
        write(out[i], "b", 1);
    rest(30);
    told("switched off");
    struct f_owner_ex none = {F_OWNER_TID, 0x3fffffff};
    SHOW(fcntl(in[0], F_SETOWN_EX, &none));
    quit = 1;
    write(never[1], "q", 1);
    for (int i = 0; i < OWNERS; i++)
        pthread_join(t[i], NULL);
    return 0;
}
