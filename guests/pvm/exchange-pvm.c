/* The exchange of exchange.c with messages of PVM, by its usual route: task to pvmd to pvmd to task. One task is started by
   hand; it spawns the N others, one on each host, gives them their neighbours and prints what they measured.
   usage: exchange-pvm ring|chain N PLAN HOST… */
#include <pvm3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define N_MAX 64
#define KB_MAX 4096
#define ROUNDS 200000
enum { SETUP = 1, READY, GO, DATA, RESULT, GONE };

static char sent[KB_MAX << 10], got[KB_MAX << 10];
static volatile unsigned long sum = 1;
/* All tasks, in the order of their ranks. */
static int tids[N_MAX], n;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}

static void must(int result, const char *what)
{
    if (result < 0) {
        fprintf(stderr, "exchange-pvm: %s: error %d of PVM\n", what, result);
        exit(1);
    }
}

static void task(int parent)
{
    int rank, ring, kb, cycles, used;
    char text[200], *plan = text;
    must(pvm_recv(parent, SETUP), "setup");
    pvm_upkint(&n, 1, 1);
    pvm_upkint(&rank, 1, 1);
    pvm_upkint(&ring, 1, 1);
    pvm_upkint(tids, n, 1);
    pvm_upkstr(text);
    int near[2] = {(rank + n - 1) % n, (rank + 1) % n};
    int has[2] = {ring || rank > 0, ring || rank < n - 1};
    while (sscanf(plan, "%d:%d%n", &kb, &cycles, &used) == 2) {
        int bytes = kb << 10;
        double talked = 0, computed = 0;
        pvm_initsend(PvmDataDefault);
        must(pvm_send(parent, READY), "ready");
        must(pvm_recv(parent, GO), "go");
        for (int c = 0; c < cycles; c++) {
            memset(sent, rank * 7 + c, bytes);
            double begin = now();
            for (int s = 0; s < 2; s++)
                if (has[s]) {
                    pvm_initsend(PvmDataDefault);
                    pvm_pkbyte(sent, bytes, 1);
                    must(pvm_send(tids[near[s]], DATA), "send");
                }
            double checked = 0;
            for (int s = 0; s < 2; s++)
                if (has[s]) {
                    must(pvm_recv(tids[near[s]], DATA), "receive");
                    pvm_upkbyte(got, bytes, 1);
                    double before = now();
                    for (int i = 0; i < bytes; i++)
                        if (got[i] != (char)(near[s] * 7 + c)) {
                            fprintf(stderr, "exchange-pvm: byte %d of rank %d is wrong\n", i, near[s]);
                            exit(1);
                        }
                    checked += now() - before;
                }
            double middle = now();
            for (int i = 0; i < ROUNDS; i++)
                sum = sum * 1103515245 + 12345;
            talked += middle - begin - checked;
            computed += now() - middle + checked;
        }
        pvm_initsend(PvmDataDefault);
        pvm_pkint(&rank, 1, 1);
        pvm_pkint(&kb, 1, 1);
        pvm_pkint(&cycles, 1, 1);
        pvm_pkdouble(&talked, 1, 1);
        pvm_pkdouble(&computed, 1, 1);
        must(pvm_send(parent, RESULT), "result");
        plan += used;
        plan += *plan == ',';
    }
    pvm_exit();
}

/* The next message of this kind. When none comes and a task is gone, all end. */
static void take(int tag)
{
    struct timeval wait = {.tv_sec = 5};
    int id;
    while (!(id = pvm_trecv(-1, tag, &wait)))
        if (pvm_probe(-1, GONE) > 0) {
            fprintf(stderr, "exchange-pvm: a task has ended early; /tmp/pvml.0 has its errors\n");
            for (int i = 0; i < n; i++)
                pvm_kill(tids[i]);
            pvm_exit();
            exit(1);
        }
    must(id, "receive");
}

int main(int argc, char **argv)
{
    int parent = pvm_parent();
    if (parent >= 0) {
        task(parent);
        return 0;
    }
    n = argc > 3 ? atoi(argv[2]) : 0;
    int ring = n && !strcmp(argv[1], "ring");
    if (n < 3 || n > N_MAX || argc != 4 + n || pvm_mytid() < 0)
        return 2;
    for (int i = 0; i < n; i++)
        if (pvm_spawn("exchange-pvm", NULL, PvmTaskHost, argv[4 + i], 1, &tids[i]) != 1) {
            fprintf(stderr, "exchange-pvm: PVM starts nothing on %s: error %d\n", argv[4 + i], tids[i]);
            return 1;
        }
    for (int i = 0; i < n; i++) {
        pvm_initsend(PvmDataDefault);
        pvm_pkint(&n, 1, 1);
        pvm_pkint(&i, 1, 1);
        pvm_pkint(&ring, 1, 1);
        pvm_pkint(tids, n, 1);
        pvm_pkstr(argv[3]);
        must(pvm_send(tids[i], SETUP), "setup");
    }
    pvm_notify(PvmTaskExit, GONE, n, tids);
    const char *plan = argv[3];
    for (int kb, cycles, used; sscanf(plan, "%d:%d%n", &kb, &cycles, &used) == 2;) {
        for (int i = 0; i < n; i++)
            take(READY);
        pvm_initsend(PvmDataDefault);
        must(pvm_mcast(tids, n, GO), "go");
        for (int i = 0; i < n; i++) {
            int rank;
            double talked, computed;
            take(RESULT);
            pvm_upkint(&rank, 1, 1);
            pvm_upkint(&kb, 1, 1);
            pvm_upkint(&cycles, 1, 1);
            pvm_upkdouble(&talked, 1, 1);
            pvm_upkdouble(&computed, 1, 1);
            printf("%d %d %d %.6f %.6f\n", rank, kb, cycles, talked, computed);
            fflush(stdout);
        }
        plan += used;
        plan += *plan == ',';
    }
    pvm_exit();
    return 0;
}
