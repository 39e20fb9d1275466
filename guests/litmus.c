/* Litmus tests of files between two processes that begin at the same moment: message passing through contents, names and
 * lengths, Dekker by names and by contents, readdir then stat, renames, appends, replaced files. An outcome that no order
 * of the calls explains is wrong. LITMUS=N rounds of each test, 40 if not given; about 1 s. */
#include "show.h"
#include <dirent.h>
#include <sys/stat.h>

#define TESTS 9
#define LIMIT_NS 20000000L

struct start {
    long at, round;
    int test;
};
static int to[2], from[2];

static long clock_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000L + t.tv_nsec;
}
static void until(long at)
{
    while (clock_now() < at)
        ;
}
static int has(const char *name) { return access(name, F_OK) == 0; }
static void make(const char *name) { close(open(name, O_CREAT | O_WRONLY, 0644)); }
static long size_of(const char *name)
{
    struct stat st;
    return stat(name, &st) ? -1 : st.st_size;
}
static void put(const char *name, long value)
{
    int fd = open(name, O_WRONLY | O_CREAT, 0644);
    if (pwrite(fd, &value, sizeof value, 0) != sizeof value)
        _exit(97);
    close(fd);
}
static long get(const char *name)
{
    long value = -1;
    int fd = open(name, O_RDONLY);
    if (fd < 0)
        return -1;
    if (read(fd, &value, sizeof value) != sizeof value)
        value = -1;
    close(fd);
    return value;
}
static int lists(const char *dir, const char *name)
{
    DIR *d = opendir(dir);
    int found = 0;
    for (struct dirent *e; d && (e = readdir(d));)
        found |= !strcmp(e->d_name, name);
    closedir(d);
    return found;
}

static char name_a[32], name_b[32];

/* What the first does. Returns what it saw. */
static long first(struct start s)
{
    static int log = -1;
    char line[32];
    if (log < 0)
        log = open("log", O_WRONLY | O_APPEND | O_CREAT, 0644);
    switch (s.test) {
    case 0:
        put("data", s.round);
        make(name_a);
        return 0;
    case 1:
        snprintf(line, sizeof line, "a%014ld\n", s.round);
        if (write(log, line, 16) != 16)
            _exit(97);
        unlink("sentinel");
        return 0;
    case 2:
        make(name_a);
        return has(name_b);
    case 3:
        put("x", s.round);
        return get("y") == s.round;
    case 4:
        make(name_a);
        return 0;
    case 5:
        rename("old", "new");
        return 0;
    case 6:
        for (int i = 0; i < 4; i++)
            if (write(log, "aaaaaaaaaaaaaaa\n", 16) != 16)
                _exit(97);
        return 0;
    case 7:
        put("fresh", s.round);
        rename("fresh", "file");
        return 0;
    default:
        snprintf(line, sizeof line, "a%014ld\n", s.round);
        if (write(log, line, 16) != 16)
            _exit(97);
        put("told", s.round);
        return 0;
    }
}

/* The second. What it returns is 0 if it saw nothing that excludes an order. */
static long second(struct start s)
{
    static int log = -1;
    static long last;
    long value, end = s.at + LIMIT_NS;
    if (log < 0)
        log = open("log", O_WRONLY | O_APPEND | O_CREAT, 0644);
    switch (s.test) {
    case 0:
        while (!has(name_a))
            if (clock_now() > end)
                return 0;
        return get("data") != s.round;
    case 1:
        while (has("sentinel"))
            if (clock_now() > end)
                return 0;
        return size_of("log") < 16 * s.round;
    case 2:
        make(name_b);
        return has(name_a);
    case 3:
        put("y", s.round);
        return get("x") == s.round;
    case 4:
        while (!lists("d", name_a + 2))
            if (clock_now() > end)
                return 0;
        return !has(name_a);
    case 5:
        while (has("old"))
            if (clock_now() > end)
                return 0;
        return !has("new");
    case 6:
        for (int i = 0; i < 4; i++)
            if (write(log, "bbbbbbbbbbbbbbb\n", 16) != 16)
                _exit(97);
        return 0;
    case 7:
        for (int i = 0; i < 4; i++) {
            value = get("file");
            if (value < last || size_of("file") != sizeof value)
                return 1;
            last = value;
        }
        return 0;
    default:
        while (get("told") != s.round)
            if (clock_now() > end)
                return 0;
        /* Its line lies before what it told. */
        return size_of("log") / 16 < s.round;
    }
}

static void prepare(struct start s)
{
    snprintf(name_a, sizeof name_a, "d/a%ld", s.round);
    snprintf(name_b, sizeof name_b, "d/b%ld", s.round);
}

/* Lines of which a piece is another's. */
static int torn(void)
{
    char line[16];
    int n = 0, fd = open("log", O_RDONLY);
    while (read(fd, line, 16) == 16)
        n += line[15] != '\n' || line[0] != line[14];
    close(fd);
    return n;
}

int main(void)
{
    const char *given = getenv("LITMUS");
    long rounds = given ? atol(given) : 40, wrong[TESTS] = {0};
    pipe(to), pipe(from);
    mkdir("d", 0755);
    put("data", -1), put("x", -1), put("y", -1), put("told", -1), put("file", 0);
    pid_t child = fork();
    if (!child) {
        struct start s;
        close(to[1]), close(from[0]);
        while (read(to[0], &s, sizeof s) == sizeof s) {
            prepare(s);
            until(s.at);
            long saw = second(s);
            if (write(from[1], &saw, sizeof saw) != sizeof saw)
                _exit(98);
        }
        _exit(0);
    }
    close(to[0]), close(from[1]);
    for (int test = 0; test < TESTS; test++) {
        if (test == 7)
            put("file", 0);
        for (long i = 0; i < rounds; i++) {
            struct start s = {0, i + 1, test};
            long other;
            prepare(s);
            if (test == 1)
                make("sentinel");
            if (test == 5)
                make("old");
            if (i == 0)
                truncate("log", 0);
            s.at = clock_now() + 200000;
            if (write(to[1], &s, sizeof s) != sizeof s)
                _exit(98);
            until(s.at + i % 7 * 10000);
            long saw = first(s);
            if (read(from[0], &other, sizeof other) != sizeof other)
                _exit(98);
            wrong[test] += test == 2 || test == 3 ? !saw && !other : other;
            unlink(name_a), unlink(name_b), unlink("new");
        }
        if (test == 6)
            wrong[test] = torn() || size_of("log") != 2 * 4 * 16 * rounds;
    }
    close(to[1]);
    waitpid(child, NULL, 0);
    static const char *what[TESTS] = {"contents then a name", "a line then an unlink", "Dekker by names",
        "Dekker by contents", "readdir then stat", "rename", "appends of two", "replaced file", "a line then contents"};
    for (int k = 0; k < TESTS; k++)
        say("%s: wrong %ld", what[k], wrong[k]);
    return 0;
}
