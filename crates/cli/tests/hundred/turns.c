/* turns FILE N: each turn is a byte through a pipe, some computing and, now and then, a line and a child. Ends after N
 * turns, or after whole hundreds when /tmp/enough is there. The output depends only on the number of turns. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    int p[2], out = open(argv[1], O_WRONLY | O_CREAT | O_APPEND, 0666);
    long most = atol(argv[2]);
    unsigned long x = 1;
    pipe(p);
    for (long i = 1; i <= most; i++) {
        char c = i, d = 0;
        write(p[1], &c, 1);
        read(p[0], &d, 1);
        for (int j = 0; j < 20000; j++)
            x = x * 6364136223846793005ul + d;
        if (i % 100)
            continue;
        char line[64];
        int n = sprintf(line, "%ld %lx %d\n", i, x, c == d), status = 0;
        if (write(out, line, n) != n)
            return 1;
        if (i % 1000 == 0) {
            if (!fork())
                _exit(write(out, "child\n", 6) == 6 ? 3 : 4);
            wait(&status);
            n = sprintf(line, "%d\n", WEXITSTATUS(status));
            write(out, line, n);
        }
        if (!access("/tmp/enough", F_OK))
            break;
    }
    return 0;
}
