/* Kernel AIO: io_submit of reads, writes and vectors, several at once, completions on an eventfd, io_getevents
 * that waits for a poll request, IOCB_CMD_FSYNC, io_cancel, errors in the request and in its result. Stays
 * home while a context exists: the kernel writes its ring into the process's memory. About 0.7 s. */
#include "show.h"
#include <linux/aio_abi.h>
#include <sys/eventfd.h>

static aio_context_t ctx;
static int setup(unsigned n, aio_context_t *c) { return syscall(SYS_io_setup, n, c); }
static int submit(long n, struct iocb **list) { return syscall(SYS_io_submit, ctx, n, list); }
static int events(long least, long most, struct io_event *e, struct timespec *t)
{
    return syscall(SYS_io_getevents, ctx, least, most, e, t);
}

static int by_data(const void *a, const void *b)
{
    return (int)((struct io_event *)a)->data - (int)((struct io_event *)b)->data;
}

int main(void)
{
    static char block[8][4096];
    struct iocb cb[8], *list[8];
    struct io_event done[8];
    struct timespec t = {0, 60000000};
    chew(40 * CHEW_MS);
    rest(85);
    SHOW(setup(0, &ctx));
    SHOW(setup(4, (aio_context_t *)8));
    SHOW(setup(16, &ctx));
    SHOW(setup(16, &ctx));
    int fd = open("data", O_CREAT | O_RDWR, 0600);
    for (int i = 0; i < 8; i++) {
        memset(block[i], 'a' + i, 4096);
        cb[i] = (struct iocb){.aio_lio_opcode = IOCB_CMD_PWRITE, .aio_fildes = fd, .aio_buf = (uintptr_t)block[i],
            .aio_nbytes = 4000 + i, .aio_offset = i * 4096, .aio_data = i};
        list[i] = &cb[i];
    }
    SHOW(submit(8, list));
    int n = 0;
    while (n < 8)
        n += events(1, 8 - n, done + n, NULL);
    qsort(done, 8, sizeof *done, by_data);
    for (int i = 0; i < 8; i++)
        say("written %lld of %lld", done[i].res, done[i].data);
    rest(85);
    SHOW(lseek(fd, 0, SEEK_END));
    memset(block, 0, sizeof block);
    struct iovec v[2] = {{block[1], 10}, {block[2], 20}};
    int event = eventfd(0, 0);
    for (int i = 0; i < 4; i++) {
        cb[i].aio_lio_opcode = IOCB_CMD_PREAD;
        cb[i].aio_buf = (uintptr_t)block[i + 4];
        cb[i].aio_flags = IOCB_FLAG_RESFD, cb[i].aio_resfd = event;
    }
    cb[1].aio_lio_opcode = IOCB_CMD_PREADV, cb[1].aio_buf = (uintptr_t)v, cb[1].aio_nbytes = 2;
    cb[2].aio_offset = 1000000;
    cb[3].aio_buf = 8;
    SHOW(submit(4, list));
    uint64_t told = 0, k;
    while (told < 4 && read(event, &k, 8) == 8)
        told += k;
    say("told of %lu", (unsigned long)told);
    SHOW(events(4, 8, done, NULL));
    qsort(done, 4, sizeof *done, by_data);
    for (int i = 0; i < 4; i++)
        say("read %lld of %lld", done[i].res, done[i].data);
    say("%c %c %c", block[4][0], block[1][9], block[2][19]);

    int p[2];
    pipe(p);
    cb[0] = (struct iocb){.aio_lio_opcode = IOCB_CMD_POLL, .aio_fildes = p[0], .aio_buf = POLLIN, .aio_data = 5};
    SHOW(submit(1, list));
    SHOW(events(1, 1, done, &t));
    pid_t child = fork();
    if (!child) {
        rest(110);
        write(p[1], "x", 1);
        _exit(0);
    }
    SHOW(events(1, 1, done, NULL));
    say("poll told %llx of %lld", done[0].res, done[0].data);
    waitpid(child, NULL, 0);
    cb[1] = (struct iocb){.aio_lio_opcode = IOCB_CMD_FSYNC, .aio_fildes = fd, .aio_data = 6};
    SHOW(submit(1, list + 1));
    SHOW(events(1, 1, done, NULL));
    say("fsync told %lld of %lld", done[0].res, done[0].data);
    cb[2].aio_lio_opcode = 99;
    SHOW(submit(1, list + 2));
    cb[2].aio_lio_opcode = IOCB_CMD_PREAD, cb[2].aio_fildes = 99;
    SHOW(submit(1, list + 2));
    cb[2].aio_fildes = fd, cb[2].aio_offset = 0, cb[2].aio_flags = 0, cb[3].aio_fildes = 99;
    SHOW(submit(2, list + 2));
    SHOW(events(1, 1, done, NULL));
    SHOW(submit(-1, list));
    SHOW(submit(1, (struct iocb **)8));
    SHOW(syscall(SYS_io_cancel, ctx, list[2], done));
    SHOW(events(2, 1, done, &t));
    SHOW(events(0, 4, done, &t));
    SHOW(syscall(SYS_io_destroy, ctx));
    SHOW(syscall(SYS_io_destroy, ctx));
    SHOW(submit(1, list));
    /* It may leave again. */
    chew(60 * CHEW_MS);
    rest(140);
    return 0;
}
