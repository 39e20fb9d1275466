/* Large reads without a signal return the whole length: /dev/zero, /dev/urandom, getrandom, /proc/self/environ, a file,
 * recv with MSG_WAITALL of a message that a thread still sends, a pipe's full contents. 67 of them, with moves in
 * between. Prints how many were short and how many wrong. About 1.4 s. */
#include "show.h"
#include <sys/random.h>

#define MIB (1 << 20)
#define MESSAGE (4 * MIB)
#define VARIABLES 16

static char buf[16 * MIB];
static int ends[2];

static void *writer(void *arg)
{
    for (long at = 0, n; at < MESSAGE; at += n) {
        n = write(ends[1], (char *)arg + at, MESSAGE - at < 300000 ? MESSAGE - at : 300000);
        if (n < 0)
            n = 0;
        chew(CHEW_MS / 4);
    }
    return NULL;
}

static void pause_between(int k) { k % 2 ? rest(10) : (void)chew(10 * CHEW_MS); }

static void reckon(const char *what, int rounds, int few, int wrong)
{
    say("%s: short %d, wrong %d of %d", what, few, wrong, rounds);
}

/* Execs itself with a large environment. */
static void with_environment(char *link)
{
    static char text[VARIABLES][60000], *list[VARIABLES + 2];
    for (int i = 0; i < VARIABLES; i++) {
        memset(text[i], 'a' + i, sizeof text[i] - 1);
        memcpy(text[i], "V_=", 3);
        text[i][1] = 'a' + i;
        list[i] = text[i];
    }
    execle(link, "shortreads", "again", NULL, list);
    _exit(1);
}

int main(int argc, char **argv)
{
    char link[4096] = {0};
    readlink("/proc/self/exe", link, sizeof link - 1);
    if (argc == 1)
        with_environment(link);

    int few = 0, wrong = 0, fd = open("/dev/zero", O_RDONLY);
    for (int k = 0; k < 12; k++) {
        memset(buf, 1, sizeof buf);
        long n = read(fd, buf, sizeof buf);
        few += n != sizeof buf;
        for (long i = 0; i < n; i += 4096)
            wrong += buf[i] != 0;
        pause_between(k);
    }
    close(fd);
    reckon("/dev/zero", 12, few, wrong);

    few = wrong = 0;
    fd = open("/dev/urandom", O_RDONLY);
    for (int k = 0; k < 12; k++) {
        few += read(fd, buf, MIB) != MIB;
        pause_between(k);
    }
    close(fd);
    reckon("/dev/urandom", 12, few, wrong);

    few = 0;
    for (int k = 0; k < 12; k++) {
        few += getrandom(buf, MIB, 0) != MIB;
        pause_between(k);
    }
    reckon("getrandom", 12, few, wrong);

    few = wrong = 0;
    long size = VARIABLES * 60000l;
    fd = open("/proc/self/environ", O_RDONLY);
    for (int k = 0; k < 10; k++) {
        long from = k * 10000;
        memset(buf, 0, size);
        few += pread(fd, buf, MIB, from) != size - from;
        for (long i = from; i < size; i++) /* two letters differ in each variable, its end is zero */
            wrong += buf[i - from] != environ[i / 60000][i % 60000];
        pause_between(k);
    }
    close(fd);
    reckon("/proc/self/environ", 10, few, wrong);

    few = wrong = 0;
    fd = open("large", O_RDWR | O_CREAT | O_TRUNC, 0600);
    for (long i = 0; i < 8 * MIB; i += 8)
        *(long *)(buf + i) = i;
    for (long at = 0, n; at < 8 * MIB; at += n) {
        n = write(fd, buf + at, 8 * MIB - at);
        if (n <= 0)
            break;
    }
    for (int k = 0; k < 6; k++) {
        memset(buf, 0, 8 * MIB);
        few += pread(fd, buf, sizeof buf, 0) != 8 * MIB;
        for (long i = 0; i < 8 * MIB; i += 4096)
            wrong += *(long *)(buf + i) != i;
        pause_between(k);
    }
    close(fd);
    unlink("large");
    reckon("a file", 6, few, wrong);

    few = wrong = 0;
    socketpair(AF_UNIX, SOCK_STREAM, 0, ends);
    for (int k = 0; k < 8; k++) {
        pthread_t t;
        char *from = buf + 8 * MIB;
        for (long i = 0; i < MESSAGE; i += 8)
            *(long *)(from + i) = i + k;
        pthread_create(&t, NULL, writer, from);
        few += recv(ends[0], buf, MESSAGE, MSG_WAITALL) != MESSAGE;
        pthread_join(t, NULL);
        while (recv(ends[0], buf + MESSAGE, MESSAGE, MSG_DONTWAIT) > 0) /* the rest after a short read */
            ;
        wrong += memcmp(from, buf, MESSAGE) != 0;
        pause_between(k);
    }
    close(ends[0]);
    close(ends[1]);
    reckon("recv", 8, few, wrong);

    few = wrong = 0;
    pipe(ends);
    fcntl(ends[1], F_SETPIPE_SZ, MIB); /* where that is refused, as large as it is */
    long room = fcntl(ends[1], F_GETPIPE_SZ);
    for (int k = 0; k < 7; k++) {
        memset(buf, 'a' + k, room);
        memset(buf + MIB, 0, room);
        few += write(ends[1], buf, room) != room;
        pause_between(k);
        few += read(ends[0], buf + MIB, room) != room;
        wrong += memcmp(buf, buf + MIB, room) != 0;
    }
    reckon("a pipe", 7, few, wrong);
    return 0;
}
