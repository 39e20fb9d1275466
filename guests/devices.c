/* Reads and writes of /dev/null, zero, full, random and urandom, for which no other machine is needed: lengths, memory that
 * is not there, descriptors that are open for one direction only, numbers that are given to another device or to a file,
 * descriptors of children. About 1 s. */
#include "show.h"

static void each(const char *path)
{
    static char text[1 << 16];
    char *edge = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(edge + 4096, 4096);
    int fd = open(path, O_RDWR), wrong = 0;
    say("%s", path);
    for (int i = 0; i < 50; i++) {
        memset(text, 'x', sizeof text);
        wrong += write(fd, text, 100) != (strcmp(path, "/dev/full") ? 100 : -1);
        ssize_t n = read(fd, text, sizeof text);
        if (!strcmp(path, "/dev/null"))
            wrong += n != 0;
        else if (strstr(path, "random"))
            wrong += n != sizeof text || hash(text, sizeof text) == hash(text, sizeof text - 8);
        else
            for (size_t k = 0; k < sizeof text; k++)
                wrong += n != sizeof text || text[k];
    }
    say("%d wrong", wrong);
    SHOW(write(fd, text, 0));
    SHOW(read(fd, text, 0));
    if (!strstr(path, "random")) {
        SHOW(write(fd, edge + 4096, 10));
        SHOW(write(fd, (char *)-4096l, 10));
        SHOW(read(fd, edge + 4090, 100));
        SHOW(pread(fd, text, 10, 100));
    }
    SHOW(lseek(fd, 10, SEEK_SET));
    SHOW(isatty(fd));
    struct stat st;
    SHOW(fstat(fd, &st));
    say("%o %u", st.st_mode & S_IFMT, (unsigned)st.st_rdev);
    SHOW(close(fd));
    SHOW(read(fd, text, 1));
    SHOW(write(fd, text, 1));
    int in = open(path, O_RDONLY), out = open(path, O_WRONLY);
    for (int i = 0; i < 3; i++) {
        wrong += read(out, text, 10) != -1 || errno != EBADF;
        wrong += write(in, text, 10) != -1 || errno != EBADF;
    }
    say("%d wrong", wrong);
    close(in), close(out);
    munmap(edge, 4096);
}

static void numbers(void)
{
    char got[64];
    int wrong = 0, ends[2], status;
    for (int i = 0; i < 40; i++) {
        int fd = open(i % 2 ? "/dev/zero" : "/dev/null", O_RDWR);
        for (int k = 0; k < 3; k++)
            wrong += read(fd, got, 8) != (i % 2 ? 8 : 0) || write(fd, got, 8) != 8;
        int file = open("file", O_CREAT | O_RDWR | O_TRUNC, 0600);
        write(file, "contents", 8), lseek(file, 0, SEEK_SET);
        dup2(file, fd);
        wrong += read(fd, got, 64) != 8 || memcmp(got, "contents", 8);
        pipe(ends);
        dup2(ends[0], fd);
        wrong += write(ends[1], "piped", 5) != 5 || read(fd, got, 64) != 5;
        int zero = open("/dev/zero", O_RDONLY);
        read(zero, got, 1);
        pid_t child = fork();
        if (!child) {
            memset(got, 1, sizeof got);
            _exit(read(zero, got, sizeof got) != sizeof got || got[63] || write(zero, got, 1) != -1);
        }
        waitpid(child, &status, 0);
        wrong += status != 0;
        close(zero), close(ends[0]), close(ends[1]), close(file), close(fd);
    }
    say("numbers: %d wrong", wrong);
}

int main(void)
{
    const char *all[] = {"/dev/null", "/dev/zero", "/dev/full", "/dev/urandom", "/dev/random"};
    for (int i = 0; i < 5; i++) {
        each(all[i]);
        rest(10);
    }
    chew(20 * CHEW_MS);
    numbers();
    return 0;
}
