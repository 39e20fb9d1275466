/* Private file mappings that see later writes to the file, as on Linux until a page has been copied: bytes written, a
 * file that grows, that shrinks (SIGBUS) and grows by a hole, from this process and from a child. About 0.8 s. */
#include "pages.h"

int main(void)
{
    catch_faults();
    int fd = open("file", O_CREAT | O_RDWR, 0600);
    fill(fd, 0, 16, 'a');
    char *p = mmap(NULL, 24 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    look("behind the end", p, 24);
    rest(60);
    look("behind the end", p, 24);
    say("SIGBUS code %d", code);
    p[2 * 4096] = 'X', p[10 * 4096] = 'Y';
    fill(fd, 0, 16, 'A'); /* written pages keep their bytes, the others show the new ones */
    look("the file was written", p, 24);
    rest(60);
    look("the file was written", p, 24);
    fill(fd, 16, 20, 'A');
    rest(50);
    look("the file grew", p, 24);
    SHOW(ftruncate(fd, 8 * 4096 + 100));
    rest(60);
    look("the file shrank", p, 24);
    say("rest of the last page %d %d", p[8 * 4096 + 99], p[8 * 4096 + 100]);
    SHOW(ftruncate(fd, 20 * 4096));
    rest(50);
    look("grew by a hole", p, 24);
    p[15 * 4096] = 'Z';
    fill(fd, 12, 16, '0');
    look("hole filled", p, 24);
    SHOW(madvise(p + 2 * 4096, 4096, MADV_DONTNEED));
    look("one given up", p, 24);
    SHOW(rename("file", "renamed"));
    rest(40);
    int other = open("file", O_CREAT | O_RDWR, 0600);
    fill(other, 0, 20, 'n');
    look("another took its name", p, 24);
    close(fd);
    SHOW(unlink("renamed"));
    rest(60);
    look("unlinked", p, 24);
    fd = open("tail", O_CREAT | O_RDWR, 0600);
    write(fd, "only this", 9);
    char *q = mmap(NULL, 3 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_POPULATE, fd, 0);
    HOLDS(q[8] == 's' && q[9] == 0 && q[4095] == 0);
    SHOW(pwrite(fd, " and more", 9, 9));
    say("sees %.18s", q);
    q[4000] = 'k';
    SHOW(pwrite(fd, "unseen", 6, 0));
    rest(60);
    say("keeps %.18s", q);
    SHOW(read(fd, q + 4096, 10));
    SHOW(write(fd, q + 2 * 4096, 10));
    pid_t child = fork();
    int status;
    if (!child) {
        look("child", p, 24);
        p[0] = 'C', q[0] = 'C';
        rest(50);
        look("child", p, 24);
        ftruncate(other, 0);
        _exit(0);
    }
    waitpid(child, &status, 0);
    say_status("child", status);
    look("parent", p, 24);
    say("parent %.18s", q);
    char *r = mmap(NULL, 4 * 4096, PROT_READ, MAP_PRIVATE, other, 0);
    look("emptied", r, 4);
    fill(other, 0, 2, 'r');
    rest(50);
    look("filled again", r, 4);
    SHOW(mprotect(r, 4096, PROT_READ | PROT_WRITE));
    r[0] = 'w';
    rest(50);
    look("written", r, 4);
    for (int i = 0; i < 12; i++) {
        char *m = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE, other, i % 2 * 4096);
        chew(2 * CHEW_MS);
        if (m[0] != 'r' + i % 2)
            say("round %d: %c", i, m[0]);
        m[1] = i;
        rest(6);
        if (m[1] != i)
            say("round %d lost", i);
        munmap(m, 4096);
    }
    return 0;
}
