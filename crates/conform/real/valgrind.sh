cat > prog.c <<'CC'
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static void *thread(void *arg) { char *p = malloc(100); memset(p, 1, 100); usleep(30000); free(p); return arg; }
int main(void) {
    pthread_t t[3];
    for (int i = 0; i < 3; i++) pthread_create(&t[i], 0, thread, 0);
    for (int i = 0; i < 3; i++) pthread_join(t[i], 0);
    unsigned long s = 7;
    char *kept[50];
    for (int i = 0; i < 50; i++) { kept[i] = malloc(1000 + i); for (int j = 0; j < 1000; j++) kept[i][j] = (s = s * 16807 % 2147483647); }
    int *bad = malloc(40);
    printf("beyond %d\n", bad[10] == 3);
    free(bad);
    for (int i = 0; i < 49; i++) free(kept[i]);
    kept[49] = 0;
    printf("done %lu\n", s);
    return 3;
}
CC
gcc -g -O1 -pthread -o prog prog.c
valgrind -q --leak-check=full --error-exitcode=9 ./prog 2>&1 | sed -e 's/^==[0-9]*==/==/' -e 's/0x[0-9A-Fa-f]*/ADDR/g'
valgrind -q --error-exitcode=9 ./prog > /dev/null 2>&1
echo "status $?"
rm -f prog
