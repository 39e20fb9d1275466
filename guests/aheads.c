/* Files that are read in order in small pieces, long enough to be read ahead, with computing and writing between: where the
 * program stands, lseek back and to the end, pread elsewhere, two files in turn, and a file that grows while it is read. Each
 * byte goes into a sum that is written now and then, so that a byte that is lost, doubled or of another place shows. About 2 s. */
#include "show.h"

#define MIB (1u << 20)
#define PIECE 2048

static uint64_t sum = 14695981039346656037u;

/* FNV-1a, Fowler, Noll, Vo. */
static void add(const unsigned char *p, ssize_t n)
{
    for (ssize_t i = 0; i < n; i++)
        sum = (sum ^ p[i]) * 1099511628211u;
}

static void make(const char *path, size_t size, uint64_t x)
{
    static uint64_t block[1024];
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    for (size_t done = 0; done < size; done += sizeof block) {
        for (size_t i = 0; i < 1024; i++) {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            block[i] = x;
        }
        if (write(fd, block, sizeof block) != sizeof block)
            say("make %s", errno_name(errno));
    }
    close(fd);
}

static void told(const char *what, int fd)
{
    say("%s at %lld: %016llx", what, (long long)lseek(fd, 0, SEEK_CUR), (unsigned long long)sum);
}

static void in_order(void)
{
    unsigned char b[PIECE];
    int fd = open("one", O_RDONLY), step = 0;
    ssize_t n;
    while ((n = read(fd, b, sizeof b)) > 0) {
        add(b, n);
        for (volatile int i = 0; i < 100000; i++)
            ;
        if (++step % 100 == 0)
            told("in order", fd);
        if (step % 250 == 0)
            lseek(fd, -3 * PIECE, SEEK_CUR);
        if (step % 70 == 0 && pread(fd, b, 1000, step * 777) == 1000)
            add(b, 1000);
    }
    say("end %zd, size %lld", n, (long long)lseek(fd, 0, SEEK_END));
    lseek(fd, 12345, SEEK_SET);
    for (step = 0; step < 20 && (n = read(fd, b, 100 + step)) > 0; step++)
        add(b, n);
    told("again", fd);
    close(fd);
}

static void in_turn(void)
{
    unsigned char b[PIECE];
    int one = open("one", O_RDONLY), two = open("two", O_RDONLY);
    for (int step = 0; step < 400; step++) {
        add(b, read(one, b, sizeof b));
        add(b, read(two, b, 1 + step));
        for (volatile int i = 0; i < 200000; i++)
            ;
        if (step % 80 == 79)
            told("one", one), told("two", two);
    }
    close(one), close(two);
}

/* Each write ends what was read ahead. */
static void that_grows(void)
{
    unsigned char b[PIECE];
    int in = open("two", O_RDONLY), out = -1;
    for (int step = 0; step < 300; step++) {
        ssize_t n = read(in, b, sizeof b);
        add(b, n);
        for (volatile int i = 0; i < 200000; i++)
            ;
        if (step % 60 == 59) {
            if (out < 0)
                out = open("two", O_WRONLY | O_APPEND);
            memset(b, step, sizeof b);
            if (pwrite(out, b, 100, lseek(in, 0, SEEK_CUR)) != 100)
                say("append %s", errno_name(errno));
            told("grows", in);
        }
    }
    say("size %lld", (long long)lseek(in, 0, SEEK_END));
    close(in), close(out);
}

int main(void)
{
    make("one", 3 * MIB, 88172645463325252u);
    make("two", MIB, 362436069u);
    in_order();
    in_turn();
    that_grows();
    unlink("one"), unlink("two");
    return 0;
}
