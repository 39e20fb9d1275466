/* Memory shared by parent and child: MAP_SHARED anonymous and of a file, process-shared mutex,
 * condition and semaphore, System V shared memory, memfd with seals. Stays home: shared writable
 * memory with others; it must be right all the same. About 0.9 s. */
#include "show.h"
#include <semaphore.h>
#include <sys/ipc.h>
#include <sys/shm.h>

struct common {
    pthread_mutex_t lock;
    pthread_cond_t cond;
    sem_t sem;
    long counter, turn;
    char text[64];
};

int main(void)
{
    struct common *c = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pthread_mutexattr_t ma;
    pthread_mutexattr_init(&ma);
    pthread_mutexattr_setpshared(&ma, PTHREAD_PROCESS_SHARED);
    pthread_mutex_init(&c->lock, &ma);
    pthread_condattr_t ca;
    pthread_condattr_init(&ca);
    pthread_condattr_setpshared(&ca, PTHREAD_PROCESS_SHARED);
    pthread_cond_init(&c->cond, &ca);
    sem_init(&c->sem, 1, 0);
    pid_t children[3];
    for (int i = 0; i < 3; i++) {
        children[i] = fork();
        if (!children[i]) {
            for (int n = 0; n < 3000; n++) {
                pthread_mutex_lock(&c->lock);
                c->counter++;
                pthread_mutex_unlock(&c->lock);
                chew(30000);
            }
            for (int n = 0; n < 10; n++) {
                pthread_mutex_lock(&c->lock);
                while (c->turn % 3 != i)
                    pthread_cond_wait(&c->cond, &c->lock);
                c->turn++;
                pthread_cond_broadcast(&c->cond);
                pthread_mutex_unlock(&c->lock);
                rest(4);
            }
            sem_post(&c->sem);
            _exit(i);
        }
    }
    for (int i = 0; i < 3; i++)
        sem_wait(&c->sem);
    for (int i = 0; i < 3; i++) {
        int status;
        waitpid(children[i], &status, 0);
        say_status("child", status);
    }
    say("counter %ld turn %ld", c->counter, c->turn);

    int fd = open("mapped", O_CREAT | O_RDWR, 0600);
    ftruncate(fd, 8192);
    char *f = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    pid_t child = fork();
    if (!child) {
        strcpy(f + 5000, "written by the child");
        rest(60);
        _exit(0);
    }
    waitpid(child, NULL, 0);
    char b[32] = {0};
    SHOW(pread(fd, b, 20, 5000));
    say("file has '%s'", b);
    strcpy(f, "and by the parent");
    SHOW(msync(f, 8192, MS_SYNC));
    rest(60);
    munmap(f, 8192);

    int id = shmget(IPC_PRIVATE, 100000, IPC_CREAT | 0600);
    char *s = shmat(id, NULL, 0);
    HOLDS(s != (void *)-1);
    child = fork();
    if (!child) {
        rest(60);
        memset(s, 's', 100000);
        _exit(0);
    }
    waitpid(child, NULL, 0);
    say("segment %lx", hash(s, 100000));
    SHOW(shmctl(id, IPC_RMID, NULL));
    SHOW(shmdt(s));
    SHOW(shmdt(s));
    int mem = memfd_create("sealed", MFD_ALLOW_SEALING);
    SHOW(ftruncate(mem, 4096));
    SHOW(write(mem, "in memory", 9));
    SHOW(fcntl(mem, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK));
    rest(60);
    SHOW(write(mem, "x", 1));
    SHOW(ftruncate(mem, 10));
    SHOW(fcntl(mem, F_GET_SEALS));
    /* From here on no memory is shared: it may leave. */
    munmap(c, 65536);
    chew(100 * CHEW_MS);
    rest(60);
    return 0;
}
