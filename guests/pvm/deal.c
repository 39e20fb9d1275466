/* Starts the programs of a list on a virtual machine of PVM, each where PVM places it, and reports their ends.
   usage: pvm-deal PROGRAM LIST REPORT
   A line of LIST: number, start time, seconds of processor time, MiB. A line of REPORT: number, end as Unix time. */
#include <pvm3.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>

/* As task.c sends it. */
#define DONE 1
/* From pvm_notify: the task is gone. */
#define GONE 2

#define TASKS_MAX 4096

static struct {
    int number, tid;
} tasks[TASKS_MAX];

static double now(void)
{
    struct timeval t;
    gettimeofday(&t, NULL);
    return t.tv_sec + t.tv_usec / 1e6;
}

/* The next message before the time `until`, or with 0 the next one. Zero when there was none. */
static int take(double until, FILE *report, int count, int *running)
{
    int id, bytes, tag, tid;
    double left = until - now();
    struct timeval wait = {0};
    if (until > 0 && left > 0) {
        wait.tv_sec = left;
        wait.tv_usec = (left - wait.tv_sec) * 1e6;
    }
    id = until > 0 ? pvm_trecv(-1, -1, &wait) : pvm_recv(-1, -1);
    if (id < 0)
        exit(1);
    if (!id)
        return 0;
    pvm_bufinfo(id, &bytes, &tag, &tid);
    if (tag == GONE)
        pvm_upkint(&tid, 1, 1);
    for (int i = 0; i < count; i++)
        if (tasks[i].tid == tid) {
            if (tag == DONE) {
                fprintf(report, "%d %.6f\n", tasks[i].number, now());
                fflush(report);
            }
            tasks[i].tid = 0;
            --*running;
        }
    return 1;
}

int main(int argc, char **argv)
{
    char line[200], seconds[40], mib[40];
    char *words[] = {seconds, mib, NULL};
    int count = 0, running = 0;
    FILE *list = argc == 4 ? fopen(argv[2], "r") : NULL;
    FILE *report = list ? fopen(argv[3], "w") : NULL;
    if (!report || pvm_mytid() < 0)
        return 2;
    double begin = now();
    while (fgets(line, sizeof line, list)) {
        int number, tid;
        double at;
        if (count == TASKS_MAX || sscanf(line, "%d %lf %39s %39s", &number, &at, seconds, mib) != 4)
            return 2;
        while (now() < begin + at)
            take(begin + at, report, count, &running);
        if (pvm_spawn(argv[1], words, PvmTaskDefault, "", 1, &tid) != 1) {
            fprintf(stderr, "pvm-deal: PVM does not start %s: error %d\n", argv[1], tid);
            return 1;
        }
        tasks[count].number = number;
        tasks[count++].tid = tid;
        running++;
        pvm_notify(PvmTaskExit, GONE, 1, &tid);
    }
    while (running)
        take(0, report, count, &running);
    pvm_exit();
    return 0;
}
