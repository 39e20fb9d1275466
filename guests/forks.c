/* Fork trees: three levels of four children, exit codes added up, shared offsets, copied memory, orphans, fork in a
 * thread, getppid of children. Proves that a tree on several nodes is one family at home. About 1 s. */
#include "show.h"

static int level(int depth, int index)
{
    int code = index + 1;
    pid_t parent = getpid(), children[4];
    chew((5 + index) * CHEW_MS);
    if (depth == 3) {
        rest(80);
        return code;
    }
    for (int i = 0; i < 4; i++) {
        children[i] = fork();
        if (!children[i])
            _exit(getppid() == parent ? level(depth + 1, i) : 200);
        if (children[i] < 0)
            return 201;
    }
    for (int i = 0; i < 4; i++) {
        int status = 0;
        if (waitpid(children[i], &status, 0) != children[i] || !WIFEXITED(status))
            return 202;
        code += WEXITSTATUS(status);
    }
    return code;
}

static void *forker(void *arg)
{
    pid_t child = fork();
    if (!child)
        _exit(gettid() == getpid() ? 17 : 18);
    int status;
    waitpid(child, &status, 0);
    return (void *)(long)WEXITSTATUS(status);
}

int main(void)
{
    say("tree %d", level(0, 0));
    int fd = open("shared", O_CREAT | O_RDWR | O_TRUNC, 0600), x = 1, p[2];
    char *heap = malloc(1 << 20);
    memset(heap, 'p', 1 << 20);
    pid_t child = fork();
    if (!child) {
        x = 2;
        memset(heap, 'c', 1 << 20);
        write(fd, "child ", 6);
        rest(60);
        say("child: x %d heap %c%c", x, heap[0], heap[(1 << 20) - 1]);
        _exit(0);
    }
    waitpid(child, NULL, 0);
    write(fd, "parent", 6);
    say("parent: x %d heap %c%c offset %ld", x, heap[0], heap[(1 << 20) - 1],
        (long)lseek(fd, 0, SEEK_CUR));
    pipe(p);
    pid_t me = getpid();
    child = fork();
    if (!child) {
        pid_t middle = getpid();
        if (!fork()) {
            while (getppid() == middle)
                rest(5);
            char told[2] = {getppid() == me ? 'P' : 'o', '\n'};
            write(p[1], told, 2);
            _exit(0);
        }
        rest(50);
        _exit(0);
    }
    waitpid(child, NULL, 0);
    close(p[1]);
    char b[8] = {0};
    SHOW(read(p[0], b, 8));
    say("orphan: %c", b[0]);
    SHOW(read(p[0], b, 8));
    pthread_t t[3];
    for (int i = 0; i < 3; i++)
        pthread_create(&t[i], NULL, forker, NULL);
    for (int i = 0; i < 3; i++) {
        void *r;
        pthread_join(t[i], &r);
        say("forked in a thread: %ld", (long)r);
    }
    for (int i = 0; i < 60; i++) {
        child = fork();
        if (!child) {
            chew(3 * CHEW_MS);
            _exit(i);
        }
        int status;
        if (waitpid(child, &status, 0) != child || WEXITSTATUS(status) != i)
            say("quick child %d: %d", i, status);
    }
    SHOW(wait(NULL));
    return 0;
}
