/* Shared memory with a name: a file in /dev/shm and a System V segment that several processes map. Its contents through
 * moves, what another process reads from the file meanwhile, the attach count, a name that is removed, remains when all
 * have ended, by themselves or killed. About 1.2 s. */
#include "show.h"
#include <sys/ipc.h>
#include <sys/shm.h>

enum { LEN = 40000, KIDS = 3 };

static char name[64];

/* Through the file system, as any other process. */
static void look(const char *when)
{
    char bytes[LEN];
    char path[96];
    snprintf(path, sizeof path, "/dev/shm%s", name);
    int fd = open(path, O_RDONLY);
    long n = read(fd, bytes, sizeof bytes);
    close(fd);
    say("%s: %ld bytes %lx", when, n, hash(bytes, n > 0 ? n : 0));
}

static long attached(int id)
{
    struct shmid_ds ds;
    return shmctl(id, IPC_STAT, &ds) ? -1 : (long)ds.shm_nattch;
}

int main(void)
{
    snprintf(name, sizeof name, "/armento-lasting-%d", getpid());
    int fd = shm_open(name, O_CREAT | O_EXCL | O_RDWR, 0600);
    HOLDS(fd >= 0 && !ftruncate(fd, LEN));
    char *file = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    int id = shmget(IPC_PRIVATE, LEN, IPC_CREAT | 0600);
    char *seg = shmat(id, NULL, 0);
    HOLDS(file != MAP_FAILED && seg != (void *)-1);
    for (int i = 0; i < LEN; i++)
        file[i] = i % 251, seg[i] = i % 241;
    pid_t kids[KIDS];
    for (int k = 0; k < KIDS; k++)
        if (!(kids[k] = fork())) {
            for (int i = 0; i < 30; i++) {
                __atomic_fetch_add((int *)file + k, 1, __ATOMIC_RELAXED);
                __atomic_fetch_add((int *)seg + k, 2, __ATOMIC_RELAXED);
                chew(4 * CHEW_MS);
            }
            rest(30);
            _exit(k);
        }
    chew(30 * CHEW_MS);
    say("attached %ld", attached(id));
    for (int k = 0; k < KIDS; k++) {
        int status;
        HOLDS(waitpid(kids[k], &status, 0) == kids[k]);
        say_status("child", status);
    }
    rest(60);
    say("file %lx segment %lx", hash(file, LEN), hash(seg, LEN));
    look("found");
    rest(60);
    strcpy(file + 5000, "written later");
    chew(20 * CHEW_MS);
    look("again");

    /* A child alone goes on with both; it ends by itself, then one is killed. */
    SHOW(munmap(file, LEN));
    for (int k = 0; k < 2; k++) {
        int id2 = shmget(IPC_PRIVATE, LEN, IPC_CREAT | 0600), p[2];
        HOLDS(!pipe(p));
        pid_t kid = fork();
        if (!kid) {
            int f = shm_open(name, O_RDWR, 0);
            char *own = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_SHARED, f, 0), *two = shmat(id2, NULL, 0);
            close(f);
            rest(60);
            for (int i = 0; i < LEN; i++)
                own[i] = two[i] = i % (7 + k);
            chew(20 * CHEW_MS);
            rest(60);
            if (!k)
                _exit(9);
            close(p[0]);
            write(p[1], "x", 1);
            pause();
        }
        char c;
        close(p[1]);
        if (k) {
            HOLDS(read(p[0], &c, 1) == 1);
            rest(60);
            kill(kid, SIGTERM);
        }
        close(p[0]);
        int status;
        HOLDS(waitpid(kid, &status, 0) == kid);
        say_status("alone", status);
        look("left");
        char *three = shmat(id2, NULL, 0);
        say("segment left %lx", hash(three, LEN));
        SHOW(shmdt(three));
        SHOW(shmctl(id2, IPC_RMID, NULL));
    }
    SHOW(shmctl(id, IPC_RMID, NULL));
    rest(60);
    seg[100] = 'y';
    chew(20 * CHEW_MS);
    say("segment %lx attached %ld", hash(seg, LEN), attached(id));
    SHOW(shmdt(seg));
    say("gone %ld", attached(id));
    SHOW(shm_unlink(name));
    return 0;
}
