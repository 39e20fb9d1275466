/* hold MIB RATE spin|sleep: holds so much memory and dirties RATE bytes a second of it.
 * Says "ready PID". With spin it reads the clock without pause and remembers when it did not run;
 * SIGUSR1 makes it print these gaps, "START LENGTH" in nanoseconds, and end; but first it proves
 * that every byte is what it should be, because a move that loses memory is not worth timing.
 * With sleep it waits until it is killed. */
#include "clock.h"
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

/* Shorter ones are interrupts of the machine. */
#define GAP_MIN_NS 200000u
/* A minute of a machine that takes the processor away a thousand times a second. */
#define GAPS_MAX 65536u
#define PAGE 4096u

static struct gap { uint64_t start, length; } gaps[GAPS_MAX];
static uint64_t count, lost;
static volatile sig_atomic_t over;

static void end(int signal)
{
	(void)signal;
	over = 1;
}

/* No two pages alike, none of them empty. */
static uint64_t next(uint64_t x)
{
	x ^= x << 13;
	x ^= x >> 7;
	return x ^ x << 17;
}

#define SEED 88172645463325252u

static char *hold(size_t size)
{
	char *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	check(p != MAP_FAILED, "mmap");
	madvise(p, size, MADV_NOHUGEPAGE);
	uint64_t x = SEED;
	for (size_t i = 0; i < size / 8; i++)
		((uint64_t *)p)[i] = x = next(x);
	return p;
}

/* Adds one to the first word of a page a step, page after page. The number of steps. */
static uint64_t watch(char *p, size_t size, uint64_t rate)
{
	uint64_t begin = now_ns(), last = begin, done = 0;
	while (!over) {
		uint64_t now = now_ns();
		if (now - last > GAP_MIN_NS) {
			if (count < GAPS_MAX)
				gaps[count++] = (struct gap){ last, now - last };
			else
				lost++;
		}
		last = now;
		/* After a gap it catches up without a new one. */
		if (rate && (double)done < (double)(now - begin) * 1e-9 * rate) {
			*(uint64_t *)(p + done % size) += 1;
			done += PAGE;
		}
	}
	return done / PAGE;
}

static void prove(const char *p, size_t size, uint64_t steps)
{
	uint64_t x = SEED, pages = size / PAGE;
	for (size_t i = 0; i < size / 8; i++) {
		uint64_t page = i * 8 / PAGE, added = 0;
		if (i * 8 % PAGE == 0)
			added = steps / pages + (page < steps % pages);
		x = next(x);
		if (((const uint64_t *)p)[i] != x + added) {
			fprintf(stderr, "memory changed in page %llu\n", (unsigned long long)page);
			exit(1);
		}
	}
}

int main(int argc, char **argv)
{
	size_t size = number(argc, argv, 1) << 20;
	uint64_t rate = number(argc, argv, 2);
	struct sigaction on = { .sa_handler = end };
	check(argc == 4 && sigaction(SIGUSR1, &on, NULL) == 0, "start");
	memset(gaps, 0, sizeof gaps);
	char *p = hold(size);
	printf("ready %d\n", (int)getpid());
	fflush(stdout);
	if (!strcmp(argv[3], "sleep"))
		for (;;)
			pause();
	prove(p, size, watch(p, size, rate));
	for (uint64_t i = 0; i < count; i++)
		printf("%llu %llu\n", (unsigned long long)gaps[i].start,
		       (unsigned long long)gaps[i].length);
	printf("lost %llu\n", (unsigned long long)lost);
	return 0;
}
