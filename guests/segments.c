/* System V shared memory that one process has for itself: attach twice, read-only, at a wanted address, bytes
 * seen through both, removed while attached, nattch, a child that inherits it, errors. Stays home while one is
 * attached. About 0.6 s. */
#include "show.h"
#include <sys/ipc.h>
#include <sys/shm.h>

static sigjmp_buf back;
static void fault(int s) { siglongjmp(back, s); }

static void count(int id)
{
    struct shmid_ds ds;
    SHOW(shmctl(id, IPC_STAT, &ds));
    say("size %ld attached %ld mode %o", (long)ds.shm_segsz, (long)ds.shm_nattch, ds.shm_perm.mode & 0777);
    HOLDS(ds.shm_cpid == getpid());
}

int main(void)
{
    SHOW(shmget(IPC_PRIVATE, 0, 0600));
    SHOW(shmat(-1, NULL, 0));
    SHOW(shmdt((void *)4096));
    chew(20 * CHEW_MS);
    int id = shmget(IPC_PRIVATE, 300000, IPC_CREAT | 0640);
    HOLDS(id >= 0);
    count(id);
    char *one = shmat(id, NULL, 0);
    HOLDS(one != (void *)-1);
    for (int i = 0; i < 300000; i++)
        one[i] = i * 17 % 241;
    const char *two = shmat(id, NULL, SHM_RDONLY);
    HOLDS(two != (void *)-1 && two != one && !memcmp(one, two, 300000));
    rest(70);
    say("read-only %lx", hash(two, 300000));
    strcpy(one + 123456, "through the first");
    say("%s", two + 123456);
    signal(SIGSEGV, fault);
    int caught = sigsetjmp(back, 1);
    if (!caught)
        *(volatile char *)two = 1;
    say("caught %d", caught);
    count(id);
    char *room = mmap(NULL, 1 << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    SHOW(shmat(id, room, 0) == room);
    SHOW(shmat(id, room, SHM_REMAP) == room);
    SHOW(shmat(id, room + 1, 0));
    SHOW(shmat(id, room + 4097, SHM_RND | SHM_REMAP) == room + 4096);
    say("%s", room + 4096 + 123456);
    SHOW(shmdt(room + 4096));
    SHOW(shmdt(room + 4096));
    munmap(room, 1 << 20);
    count(id);
    pid_t child = fork();
    if (!child) {
        rest(60);
        strcpy(one + 1000, "by the child");
        shmdt(two);
        _exit(0);
    }
    int status;
    waitpid(child, &status, 0);
    say_status("child", status);
    say("%s", two + 1000);
    SHOW(shmctl(id, IPC_RMID, NULL));
    struct shmid_ds ds;
    SHOW(shmctl(id, IPC_STAT, &ds));
    say("goes when it is left: %d", !!(ds.shm_perm.mode & SHM_DEST));
    strcpy(one, "still here");
    rest(70);
    say("%s", two);
    SHOW(shmdt(one));
    SHOW(shmdt(two));
    SHOW(shmctl(id, IPC_STAT, &ds));
    /* No memory is shared now: it may leave. */
    chew(80 * CHEW_MS);
    rest(145);
    for (int i = 0; i < 5; i++) {
        id = shmget(IPC_PRIVATE, 8192, IPC_CREAT | 0600);
        one = shmat(id, NULL, 0);
        one[5000] = i;
        rest(8);
        if (one[5000] != i || shmdt(one) || shmctl(id, IPC_RMID, NULL))
            say("lost in round %d", i);
        chew(10 * CHEW_MS);
        rest(25);
    }
    return 0;
}
