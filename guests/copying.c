/* Kernel copies between descriptors: sendfile, splice, tee, copy_file_range, vmsplice, readahead,
 * process_vm_readv of a child, large writev to a pipe. About 0.6 s. */
#include "show.h"
#include <sys/sendfile.h>

int main(void)
{
    int in = open("in", O_CREAT | O_RDWR, 0600), out = open("out", O_CREAT | O_RDWR, 0600), p[2], q[2];
    char block[100000];
    for (int i = 0; i < (int)sizeof block; i++)
        block[i] = i * 7 % 253;
    write(in, block, sizeof block);
    off_t at = 100;
    SHOW(sendfile(out, in, &at, 50000));
    say("offset %ld", (long)at);
    loff_t a = 0, b = 60000;
    SHOW(copy_file_range(in, &a, out, &b, 1000, 0));
    pipe(p), pipe(q);
    a = 10;
    SHOW(splice(in, &a, p[1], NULL, 5000, 0));
    SHOW(tee(p[0], q[1], 3000, 0));
    SHOW(read(q[0], block, sizeof block));
    say("tee %lx", hash(block, 3000));
    SHOW(splice(p[0], NULL, out, &b, 5000, 0));
    SHOW(splice(in, NULL, out, NULL, 10, 0));
    struct iovec v = {"vmspliced", 9};
    SHOW(vmsplice(p[1], &v, 1, 0));
    SHOW(read(p[0], block, 100));
    say("%.9s", block);
    SHOW(posix_fadvise(in, 0, 0, POSIX_FADV_WILLNEED));
    rest(60);
    pid_t child = fork();
    if (!child) {
        strcpy(block, "memory of the child");
        write(q[1], "r", 1);
        for (;;)
            rest(1000);
    }
    char c, got[32] = {0};
    read(q[0], &c, 1);
    struct iovec l = {got, 20}, r = {block, 20};
    SHOW(process_vm_readv(child, &l, 1, &r, 1, 0));
    say("%s", got);
    strcpy(got, "MEMORY");
    l.iov_len = r.iov_len = 6;
    SHOW(process_vm_writev(child, &l, 1, &r, 1, 0));
    rest(60);
    l.iov_len = r.iov_len = 20;
    SHOW(process_vm_readv(child, &l, 1, &r, 1, 0));
    say("%s", got);
    r.iov_base = (void *)8;
    SHOW(process_vm_readv(child, &l, 1, &r, 1, 0));
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    for (int i = 0; i < 60; i++) {
        at = i * 500;
        lseek(out, 0, SEEK_SET);
        if (sendfile(out, in, &at, 3000) != 3000)
            say("sendfile %d %s", i, errno_name(errno));
        chew(5 * CHEW_MS);
        rest(5);
    }
    return 0;
}
