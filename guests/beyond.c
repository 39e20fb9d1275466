/* Private file mappings: pages beyond the end (SIGBUS), holes, bytes in the last page, writes that stay private, a
 * child that has its own copy, a file that is renamed, replaced, unlinked, mappings that outlive their descriptor,
 * MAP_POPULATE, system calls across the end. The file itself keeps its bytes. About 0.9 s. */
#include "pages.h"

int main(void)
{
    catch_faults();
    int fd = open("file", O_CREAT | O_RDWR, 0600), status;
    fill(fd, 0, 12, 'a');
    ftruncate(fd, 18 * 4096 + 100);
    fill(fd, 16, 17, 'a');
    char *p = mmap(NULL, 24 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    char *q = mmap(NULL, 8 * 4096, PROT_READ, MAP_PRIVATE | MAP_POPULATE, fd, 14 * 4096);
    for (int i = 0; i < 3; i++) {
        look("whole", p, 24), look("tail", q, 8);
        rest(50);
    }
    say("SIGBUS code %d", code);
    p[2 * 4096] = 'X', p[13 * 4096] = 'Y', p[18 * 4096 + 99] = 'Z', p[18 * 4096 + 3000] = 'z';
    rest(60);
    look("written", p, 24);
    say("behind the last byte %c %c", p[18 * 4096 + 99], p[18 * 4096 + 3000]);
    look("the other sees the file", q, 8);
    char b[8] = {0};
    SHOW(pread(fd, b, 4, 2 * 4096));
    say("the file has %s", b);
    SHOW(madvise(p + 2 * 4096, 4096, MADV_DONTNEED));
    rest(40);
    look("one given up", p, 24);
    SHOW(read(fd, p + 20 * 4096, 10));
    lseek(fd, 0, SEEK_SET);
    SHOW(read(fd, p + 19 * 4096 - 4, 10));
    SHOW(write(1, p + 20 * 4096, 10));
    SHOW(open(p + 21 * 4096, O_RDONLY));
    SHOW(mprotect(p + 19 * 4096, 5 * 4096, PROT_NONE));
    look("shut", p, 24);
    SHOW(mprotect(p + 19 * 4096, 5 * 4096, PROT_READ));
    look("open", p, 24);
    SHOW(rename("file", "renamed"));
    int other = open("file", O_CREAT | O_RDWR, 0600);
    fill(other, 0, 20, 'A');
    rest(50);
    look("another has its name", p, 24);
    close(fd);
    SHOW(unlink("renamed"));
    rest(60);
    look("unlinked", p, 24);
    pid_t child = fork();
    if (!child) {
        look("child", p, 24);
        p[0] = 'C', p[11 * 4096] = 'D';
        rest(60);
        look("child", p, 24);
        _exit(0);
    }
    waitpid(child, &status, 0);
    say_status("child", status);
    look("parent", p, 24);
    SHOW(mremap(p, 24 * 4096, 10 * 4096, 0) == p);
    char *moved = mremap(p, 10 * 4096, 30 * 4096, MREMAP_MAYMOVE);
    rest(50);
    look("moved", moved, 24);
    for (int i = 0; i < 12; i++) {
        char *m = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE, other, i % 20 * 4096);
        chew(2 * CHEW_MS);
        if (m[0] != 'A' + i % 20)
            say("round %d: %c", i, m[0]);
        m[1] = i;
        rest(15);
        if (m[1] != i)
            say("round %d lost", i);
        munmap(m, 4096);
    }
    return 0;
}
