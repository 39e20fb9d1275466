/* /proc/self/maps and smaps against the program's own calls: each mapping it made, its rights, offset and file, holes,
 * splits by mprotect, growth by mremap, a file that was deleted, sizes and private bytes in smaps, the sum in
 * smaps_rollup and the total in statm. About 0.7 s. */
#include "slurp.h"

struct line { unsigned long low, high, offset, inode; char rights[5], name[512]; };

static int parse(const char *from, struct line *l)
{
    char line[1024];
    int n = strcspn(from, "\n");
    n = n < (int)sizeof line ? n : (int)sizeof line - 1;
    memcpy(line, from, n);
    line[n] = 0;
    l->name[0] = 0;
    return sscanf(line, "%lx-%lx %4s %lx %*s %lu %511[^\n]", &l->low, &l->high, l->rights, &l->offset, &l->inode, l->name) >= 5;
}

/* Where the mapping that holds `address` begins in the text. */
static char *holding(void *address, struct line *l)
{
    for (char *at = text; at && *at; at = strchr(at, '\n') ? strchr(at, '\n') + 1 : NULL)
        if (parse(at, l) && l->low <= (unsigned long)address && (unsigned long)address < l->high)
            return at;
    return NULL;
}

static void shown(const char *what, char *address, char *base)
{
    struct line l;
    slurp("/proc/self/maps");
    if (!holding(address, &l))
        say("%s: not mapped", what);
    else if (base)
        say("%s: %s from %ld to %ld pages, offset %lx, inode %d, %s", what, l.rights, ((long)l.low - (long)base) / 4096,
            ((long)l.high - (long)base) / 4096, l.offset, l.inode != 0, strrchr(l.name, '/') ? strrchr(l.name, '/') + 1 : l.name);
    else
        say("%s: %s %s", what, l.rights, strrchr(l.name, '/') ? strrchr(l.name, '/') + 1 : l.name);
}

static long in_smaps(void *address, const char *name)
{
    struct line l;
    slurp("/proc/self/smaps");
    char *at = holding(address, &l), *field = at ? strstr(at, name) : NULL;
    return field ? atol(field + strlen(name)) : -1;
}

static void ordered(void)
{
    struct line l;
    unsigned long before = 0;
    int bad = 0, n = 0;
    slurp("/proc/self/maps");
    for (char *at = text; *at; at = strchr(at, '\n') + 1, n++) {
        bad += !parse(at, &l) || l.low < before || l.high <= l.low || (l.low | l.high) & 4095;
        before = l.high;
    }
    say("lines in order: %d bad, some %d", bad, n > 10);
}

int main(void)
{
    char block[4096] = "some file content";
    int fd = open("mapped-file", O_CREAT | O_RDWR, 0600), gone = open("deleted-file", O_CREAT | O_RDWR, 0600);
    for (int i = 0; i < 16; i++)
        write(fd, block, sizeof block), write(gone, block, sizeof block);
    char *room = mmap(NULL, 256 * 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *file = mmap(room + 20 * 4096, 8 * 4096, PROT_READ, MAP_PRIVATE | MAP_FIXED, fd, 3 * 4096);
    char *data = mmap(room + 40 * 4096, 10 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    char *deleted = mmap(room + 60 * 4096, 4 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, gone, 0);
    munmap(room + 80 * 4096, 20 * 4096);
    unlink("deleted-file");
    close(gone);
    for (int round = 0; round < 3; round++) {
        say("round %d", round);
        ordered();
        shown("reserved", room, room);
        shown("file", file, room);
        shown("data", data, room);
        shown("deleted", deleted, room);
        shown("hole", room + 90 * 4096, room);
        shown("behind", room + 100 * 4096, room);
        shown("program", (char *)main, NULL);
        shown("stack", block, NULL);
        if (round == 0) {
            mprotect(data + 2 * 4096, 3 * 4096, PROT_READ);
            mprotect(file + 4096, 4096, PROT_READ | PROT_EXEC);
            memset(data, 1, 2 * 4096);
        } else if (round == 1) {
            mprotect(data + 2 * 4096, 3 * 4096, PROT_READ | PROT_WRITE);
            munmap(file + 6 * 4096, 4096);
            deleted[5000] = 'w';
        }
        rest(160);
        chew(20 * CHEW_MS);
    }
    say("data: %ld kB, private %ld kB, anonymous %ld kB", in_smaps(data, "\nSize:"), in_smaps(data, "\nPrivate_Dirty:"),
        in_smaps(data, "\nAnonymous:"));
    memset(data + 5 * 4096, 2, 5 * 4096);
    rest(120);
    say("data: %ld kB, private %ld kB, anonymous %ld kB", in_smaps(data, "\nSize:"), in_smaps(data, "\nPrivate_Dirty:"),
        in_smaps(data, "\nAnonymous:"));
    say("deleted: anonymous %ld kB", in_smaps(deleted, "\nAnonymous:"));
    say("reserved: resident %ld kB", in_smaps(room, "\nRss:"));

    long sum = 0, total = 0;
    struct line l;
    slurp("/proc/self/maps");
    for (char *at = text; *at; at = strchr(at, '\n') + 1)
        if (parse(at, &l) && !strstr(l.name, "[vsyscall]"))
            sum += (l.high - l.low) / 4096;
    sscanf(slurp("/proc/self/statm"), "%ld", &total);
    HOLDS(total == sum);
    slurp("/proc/self/smaps_rollup");
    HOLDS(strstr(text, "[rollup]") && strstr(text, "Rss:"));
    return 0;
}
