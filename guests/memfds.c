/* memfd: writing, growing, seals of every kind and the calls that they refuse, private mappings of it that see its
 * bytes and keep their own, a memfd as a program (fexecve), one passed to a child over fork, MFD errors, its name in
 * /proc/self/fd. About 0.8 s. */
#include "show.h"

static void try_seal(const char *name, int seal)
{
    int fd = memfd_create(name, MFD_ALLOW_SEALING | MFD_CLOEXEC);
    ftruncate(fd, 8192);
    write(fd, "some bytes", 10);
    say("sealed %s", name);
    SHOW(fcntl(fd, F_ADD_SEALS, seal));
    rest(30);
    SHOW(pwrite(fd, "x", 1, 0));
    SHOW(pwrite(fd, "x", 1, 9000));
    SHOW(ftruncate(fd, 4096));
    SHOW(ftruncate(fd, 20000));
    SHOW(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096));
    SHOW(fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL));
    SHOW(fcntl(fd, F_ADD_SEALS, F_SEAL_GROW));
    SHOW(fcntl(fd, F_GET_SEALS));
    close(fd);
}

int main(int argc, char **argv)
{
    if (argc > 1) {
        say("running from memory: %s", argv[1]);
        return 21;
    }
    char big[300], b[64] = {0}, path[64], link[64] = {0};
    memset(big, 'n', sizeof big - 1);
    big[sizeof big - 1] = 0;
    SHOW(memfd_create(big, 0));
    SHOW(memfd_create("x", 0x7fff0000));
    SHOW(memfd_create((char *)8, 0));
    int fd = memfd_create("named", MFD_CLOEXEC);
    SHOW(fcntl(fd, F_GET_SEALS));
    SHOW(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE));
    sprintf(path, "/proc/self/fd/%d", fd);
    readlink(path, link, sizeof link - 1);
    say("link %s", link);
    for (int i = 0; i < 64; i++) {
        char page[4096];
        memset(page, 'a' + i % 26, sizeof page);
        write(fd, page, sizeof page);
    }
    struct stat st;
    SHOW(fstat(fd, &st));
    say("size %ld mode %o links %ld", (long)st.st_size, st.st_mode & 07777, (long)st.st_nlink);

    volatile char *map = mmap(NULL, 64 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    HOLDS((void *)map != MAP_FAILED);
    rest(120);
    say("mapped %lx", hash((void *)map, 64 * 4096));
    for (int i = 0; i < 64; i += 3)
        map[i * 4096] = '0' + i % 10;
    chew(20 * CHEW_MS);
    rest(120);
    say("mapped %lx", hash((void *)map, 64 * 4096));
    SHOW(pread(fd, b, 4, 3 * 4096));
    say("the file still has %.4s", b);
    SHOW(pwrite(fd, "MINE", 4, 3 * 4096 + 8)); /* that page is private already */
    say("private page %c", map[3 * 4096 + 8]);
    pid_t child = fork();
    if (!child) {
        rest(80);
        map[4096] = 'C';
        _exit(pwrite(fd, "child", 5, 500000) == 5 ? map[4096] : 1);
    }
    int status;
    waitpid(child, &status, 0);
    say_status("child", status);
    say("mine %c size %ld", map[4096], (long)lseek(fd, 0, SEEK_END));
    munmap((void *)map, 64 * 4096);
    close(fd);

    try_seal("write", F_SEAL_WRITE);
    try_seal("shrink", F_SEAL_SHRINK);
    try_seal("grow", F_SEAL_GROW);
    try_seal("future", F_SEAL_FUTURE_WRITE);
    try_seal("seal", F_SEAL_SEAL);

    int self = open("/proc/self/exe", O_RDONLY), program = memfd_create("program", MFD_CLOEXEC);
    long n, copied = 0;
    char block[4096];
    while ((n = read(self, block, sizeof block)) > 0)
        copied += write(program, block, n);
    HOLDS(copied == lseek(self, 0, SEEK_END));
    child = fork();
    if (!child) {
        char *args[] = {"memory", "as an argument", NULL}, *env[] = {NULL};
        fexecve(program, args, env);
        _exit(99);
    }
    waitpid(child, &status, 0);
    say_status("program", status);
    chew(30 * CHEW_MS);
    rest(160);
    return 0;
}
