/* One blocking call, in which its process is moved about: shared by all rows.
 *
 * blocked ROW KIND: sets up, forks the process that will end the wait, and makes the call. Lines that begin with #
 * are for the test, all others must be those of a native run. Commands to the other process, on standard input:
 *   mark    the call has been seen; remember the time       late    the last move has been
 *   signal  a signal with a handler                         wake    what the call waits for, or a part of it
 *   end     the call has returned
 * Lines of the other begin with ~: when they come is chance.
 * KIND: event, signal (no SA_RESTART), restart (SA_RESTART, then the event), expire (the time-out ends it). */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <linux/futex.h>
#include <mqueue.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/prctl.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/sendfile.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    HERE = 1,     /* the body's kernel waits, not the deputy */
    STAYS = 2,    /* a process in this call does not move */
    COMES = 64,   /* a process in this call is moved home */
    THREAD = 4,   /* a thread of the same process ends the call */
    SIGNALS = 8,  /* the call waits for a signal: no other handler runs */
    TIMED = 16,   /* `limit` ends the call */
    TWICE = 32,   /* the call waits for two parts: `part` */
};

struct row {
    const char *name;
    long nr;
    int flags;
    void (*setup)(void);
    long (*call)(void);
    void (*wake)(void);
};

#define ROW(id, number, flags, setup, call, wake)                                                  \
    static void setup_##id(void) { setup; }                                                        \
    static long call_##id(void) { return call; }                                                   \
    static void wake_##id(void) { wake; }                                                          \
    __attribute__((used, section("rows"))) static struct row *row_##id =                           \
        &(struct row){#id, number, flags, setup_##id, call_##id, wake_##id};

/* Descriptors, by row; the calling process; seconds that a timed call waits. */
extern int p[2], q[2], fd;
extern pid_t caller;
extern long limit;
extern int part;
extern char buf[1 << 19];

void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
double now(void);
/* When the call was seen, and the time of the last move. */
double marked(void), later(void);
#define CALL(name, ...) syscall(SYS_##name, ##__VA_ARGS__)
/* The value of a call, or -1 when it failed. */
#define OK(call, value) ({ long r_ = (call); r_ < 0 ? -1 : (long)(value); })
/* Prints a number or text that belongs to the result. */
#define AND(format, ...) (say("  " format, __VA_ARGS__), 0)
#define HOLDS(condition) (say("  %s: %s", (condition) ? "holds" : "DOES NOT HOLD", #condition), 0)

/* Fills a pipe or socket until a write would block. */
void fill(int to);
/* Reads so many bytes; prints their number and a checksum. */
void drain(int from, long bytes);
void sockets(int type);
void give(int to, const char *text);
sigset_t *set(int sig);
void block(int sig);
long queued(int in);
struct timespec *in_limit(clockid_t id, int absolute);
struct timespec *spec(long s, long ns);
