/* N processes in a ring or a chain, each exchanging messages with its two neighbours: in each cycle it sends one to and
   receives one from each, then computes briefly. Over TCP, a process on each node, or over pipes, all from one parent.
   usage: exchange sockets ring|chain N PLAN RANK PORT HOST…    rank 0 is on the first host
          exchange pipes ring|chain N PLAN [hold]    hold: prints all pids, and begins after a line of input
   PLAN: KB:CYCLES,… A line of output for each size: rank, KB, cycles, seconds of communication, seconds computed. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define N_MAX 64
#define KB_MAX 4096
#define LEFT 0
#define RIGHT 1
/* Some milliseconds of a node of a tenth of a core. */
#define ROUNDS 200000

/* Descriptors of the neighbours, or -1. */
static int in[2] = {-1, -1}, out[2] = {-1, -1};
static char sent[KB_MAX << 10], got[2][KB_MAX << 10];
static volatile unsigned long sum = 1;

static void fail(const char *what)
{
    fprintf(stderr, "exchange: %s: %s\n", what, strerror(errno));
    exit(1);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}

static void whole(int fd, char *byte, int writes)
{
    ssize_t n;
    struct pollfd p = {fd, writes ? POLLOUT : POLLIN, 0};
    while ((n = writes ? write(fd, byte, 1) : read(fd, byte, 1)) < 0 && (errno == EAGAIN || errno == EINTR))
        poll(&p, 1, -1);
    if (n != 1)
        fail("a neighbour has gone");
}

/* All begin when the last one is here: a byte goes from the first to the last and back. */
static void barrier(int rank, int n)
{
    char byte = 0;
    if (rank > 0)
        whole(in[LEFT], &byte, 0);
    if (rank < n - 1) {
        whole(out[RIGHT], &byte, 1);
        whole(in[RIGHT], &byte, 0);
    }
    if (rank > 0)
        whole(out[LEFT], &byte, 1);
}

static void cycle(size_t bytes)
{
    size_t written[2] = {0}, taken[2] = {0};
    for (;;) {
        struct pollfd p[4];
        int open = 0, side[4], writes[4];
        for (int s = LEFT; s <= RIGHT; s++)
            for (int w = 0; w < 2; w++) {
                int fd = w ? out[s] : in[s];
                if (fd < 0 || (w ? written[s] : taken[s]) == bytes)
                    continue;
                p[open] = (struct pollfd){fd, w ? POLLOUT : POLLIN, 0};
                side[open] = s;
                writes[open++] = w;
            }
        if (!open)
            return;
        if (poll(p, open, -1) < 0 && errno != EINTR)
            fail("poll");
        for (int i = 0; i < open; i++) {
            if (!p[i].revents)
                continue;
            size_t *at = writes[i] ? &written[side[i]] : &taken[side[i]];
            ssize_t n = writes[i] ? write(p[i].fd, sent + *at, bytes - *at)
                                  : read(p[i].fd, got[side[i]] + *at, bytes - *at);
            if (n > 0)
                *at += n;
            else if (!n || (errno != EAGAIN && errno != EINTR))
                fail("a neighbour has gone");
        }
    }
}

/* Each neighbour's message has its rank and cycle in every byte. */
static void check(int side, int from, int at, size_t bytes)
{
    if (in[side] < 0)
        return;
    for (size_t i = 0; i < bytes; i++)
        if (got[side][i] != (char)(from * 7 + at)) {
            fprintf(stderr, "exchange: byte %zu of rank %d is wrong\n", i, from);
            exit(1);
        }
}

static void run(int rank, int n, const char *plan)
{
    int kb, cycles, used;
    signal(SIGPIPE, SIG_IGN);
    for (int s = LEFT; s <= RIGHT; s++)
        for (int w = 0; w < 2; w++) {
            int fd = w ? out[s] : in[s];
            if (fd >= 0)
                fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
        }
    while (sscanf(plan, "%d:%d%n", &kb, &cycles, &used) == 2) {
        if (kb < 1 || kb > KB_MAX)
            exit(2);
        size_t bytes = (size_t)kb << 10;
        double talked = 0, computed = 0;
        barrier(rank, n);
        for (int c = 0; c < cycles; c++) {
            memset(sent, rank * 7 + c, bytes);
            double begin = now();
            cycle(bytes);
            double middle = now();
            check(LEFT, (rank + n - 1) % n, c, bytes);
            check(RIGHT, (rank + 1) % n, c, bytes);
            for (int i = 0; i < ROUNDS; i++)
                sum = sum * 1103515245 + 12345;
            talked += middle - begin;
            computed += now() - middle;
        }
        printf("%d %d %d %.6f %.6f\n", rank, kb, cycles, talked, computed);
        fflush(stdout);
        plan += used;
        plan += *plan == ',';
    }
}

static int dial(const char *host, const char *port)
{
    struct addrinfo want = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM}, *found;
    if (getaddrinfo(host, port, &want, &found))
        fail(host);
    /* The neighbour may not listen yet. */
    for (int i = 0; i < 600; i++) {
        int fd = socket(AF_INET, SOCK_STREAM, 0);
        if (!connect(fd, found->ai_addr, found->ai_addrlen)) {
            freeaddrinfo(found);
            return fd;
        }
        close(fd);
        usleep(100000);
    }
    fail(host);
    return -1;
}

static void sockets(int ring, int n, int rank, const char *port, char **hosts)
{
    int one = 1, door = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_port = htons(atoi(port))};
    setsockopt(door, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(door, (struct sockaddr *)&any, sizeof any) || listen(door, 4))
        fail("cannot listen");
    if (ring || rank < n - 1)
        in[RIGHT] = out[RIGHT] = dial(hosts[(rank + 1) % n], port);
    if (ring || rank > 0) {
        in[LEFT] = out[LEFT] = accept(door, NULL, NULL);
        if (in[LEFT] < 0)
            fail("accept");
    }
    for (int s = LEFT; s <= RIGHT; s++)
        if (in[s] >= 0)
            setsockopt(in[s], IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    close(door);
}

/* edges[i]: from i to its right neighbour, and back. */
static void pipes(int ring, int n, const char *plan, int hold)
{
    static int there[N_MAX][2], back[N_MAX][2];
    int edges = ring ? n : n - 1, failed = 0, gate[2];
    char byte;
    if (pipe(gate))
        fail("pipe");
    for (int i = 0; i < edges; i++)
        if (pipe(there[i]) || pipe(back[i]))
            fail("pipe");
    for (int rank = 0; rank < n; rank++) {
        pid_t child = fork();
        if (child < 0)
            fail("fork");
        if (child) {
            if (hold) {
                printf("pid %d %d\n", rank, child);
                fflush(stdout);
            }
            continue;
        }
        close(gate[1]);
        int left = rank ? rank - 1 : ring ? n - 1 : -1, right = rank < edges ? rank : -1;
        for (int i = 0; i < edges; i++)
            for (int end = 0; end < 2; end++) {
                /* The left neighbour writes into `there`, and this one into `back`. */
                if (!(i == right && end == 1) && !(i == left && end == 0))
                    close(there[i][end]);
                if (!(i == right && end == 0) && !(i == left && end == 1))
                    close(back[i][end]);
            }
        if (left >= 0)
            in[LEFT] = there[left][0], out[LEFT] = back[left][1];
        if (right >= 0)
            in[RIGHT] = back[right][0], out[RIGHT] = there[right][1];
        /* The end of the pipe comes when the parent closes its end. */
        while (read(gate[0], &byte, 1) < 0 && errno == EINTR)
            ;
        run(rank, n, plan);
        exit(0);
    }
    for (int i = 0; i < edges; i++)
        for (int end = 0; end < 2; end++) {
            close(there[i][end]);
            close(back[i][end]);
        }
    if (hold && read(0, &byte, 1) < 0)
        fail("input");
    close(gate[1]);
    for (int status; wait(&status) > 0;)
        failed |= status;
    exit(failed != 0);
}

int main(int argc, char **argv)
{
    if (argc < 5)
        return 2;
    int ring = !strcmp(argv[2], "ring"), n = atoi(argv[3]);
    if (n < 3 || n > N_MAX)
        return 2;
    if (!strcmp(argv[1], "pipes"))
        pipes(ring, n, argv[4], argc > 5);
    if (argc != 7 + n)
        return 2;
    sockets(ring, n, atoi(argv[5]), argv[6], argv + 7);
    run(atoi(argv[5]), n, argv[4]);
    return 0;
}
