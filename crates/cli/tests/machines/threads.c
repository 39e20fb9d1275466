/* threads GATES N: four threads compute until the first gate is there, print their results, and so for each gate. */
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t all;
static double sum[4], part[4];
static const char *gates;
static int n, go;

static int open_yet(int gate)
{
	char path[4096];
	snprintf(path, sizeof path, "%s/%d", gates, gate);
	return access(path, F_OK) == 0;
}

static void *compute(void *arg)
{
	long me = (long)arg;
	char *text = malloc(100000);
	for (int gate = 1; gate <= n; gate++) {
		int on = 0;
		while (!on) {
			memset(text, 'a' + me, 99999);
			text[99999] = 0;
			double x = strlen(text);
			for (int i = 1; i < 20000; i++)
				x += sin(i * (me + gate)) * sqrt(i);
			pthread_mutex_lock(&lock);
			part[me] = x;
			pthread_mutex_unlock(&lock);
			pthread_barrier_wait(&all);
			if (me == 0)
				go = open_yet(gate);
			pthread_barrier_wait(&all);
			on = go;
		}
		sum[me] += part[me];
		pthread_barrier_wait(&all);
		if (me == 0) {
			printf("%d %.4f %.4f %.4f %.4f\n", gate, sum[0], sum[1], sum[2], sum[3]);
			fflush(stdout);
		}
	}
	free(text);
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t t[4];
	if (argc != 3)
		return 2;
	gates = argv[1];
	n = atoi(argv[2]);
	pthread_barrier_init(&all, NULL, 4);
	for (long k = 0; k < 4; k++)
		pthread_create(&t[k], NULL, compute, (void *)k);
	for (int k = 0; k < 4; k++)
		pthread_join(t[k], NULL);
	return 0;
}
