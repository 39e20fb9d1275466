/* hold MIB RATE MODE [THREADS [MAPPINGS]]: allocates so much memory and dirties RATE bytes a second of it, a page a step,
 * in order or (MODE random) anywhere. Prints "ready PID". With spin or random it reads the clock without pause and
 * records when it did not run; SIGUSR1 makes it print these gaps, "START LENGTH" in nanoseconds, and end; but first
 * it checks that every byte is correct, because a move that loses memory is not worth timing.
 * With sleep it waits until it is killed, with huge too, in huge pages. THREADS - 1 more threads wake up now and then
 * and must all be alive at the end; MAPPINGS more mappings of two pages are adjacent, each different from its
 * neighbours. With half it waits, too, and every other part of 64 KiB of the memory has no contents of its own: in turn
 * only read, zeros that were written, and a copy of the C library's file, which is also mapped as often as makes up an
 * eighth of it. */
#include "clock.h"
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* Shorter ones are interrupts of the machine. */
#define GAP_MIN_NS 200000u
/* A minute of a program that waits for a page four thousand times a second. */
#define GAPS_MAX 262144u
#define PAGE 4096u
#define PART (64u << 10)
#define THREADS_MAX 4096u
/* How long a thread sleeps. */
#define NAP_NS 50000000

static struct gap { uint64_t start, length; } gaps[GAPS_MAX];
static uint64_t count, lost;
static volatile sig_atomic_t over;
static volatile uint64_t naps[THREADS_MAX];

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

static int half, huge;

static int is_left_out(size_t at)
{
	return half && at / PART % 2;
}

static const char *text;
static size_t text_size;

/* Maps the C library's file, so many bytes of it in all, and looks at each page. */
static void map_text(size_t total)
{
	char line[4096], path[4096];
	struct stat st = { 0 };
	FILE *maps = fopen("/proc/self/maps", "r");
	int fd = -1;
	while (maps && fd < 0 && fgets(line, sizeof line, maps))
		if (sscanf(line, "%*s %*s %*s %*s %*s %4095s", path) == 1 && strstr(path, "/libc"))
			fd = open(path, O_RDONLY);
	/* A process that keeps this file open stays home. */
	if (maps)
		fclose(maps);
	check(fd >= 0 && fstat(fd, &st) == 0 && st.st_size > PAGE, "the C library's file");
	text_size = st.st_size / PAGE * PAGE;
	for (size_t done = 0; done < total; done += text_size) {
		text = mmap(NULL, text_size, PROT_READ, MAP_PRIVATE, fd, 0);
		check(text != MAP_FAILED, "mmap");
		for (size_t at = 0; at < text_size; at += PAGE)
			(void)*(volatile const char *)(text + at);
	}
}

/* Contents of an excluded part. */
static uint64_t left_out(char *p, size_t at)
{
	uint64_t *word = (uint64_t *)(p + at);
	size_t kind = at / PART % 8;
	if (kind == 3)
		*word = 0;
	if (kind == 5)
		memcpy(word, text + (at / PART / 8 * PART + at % PART) % text_size, 8);
	return *word;
}

static char *hold(size_t size)
{
	char *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	check(p != MAP_FAILED, "mmap");
	madvise(p, size, huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
	uint64_t x = SEED;
	for (size_t i = 0; i < size / 8; i++) {
		x = next(x);
		if (!is_left_out(i * 8))
			((uint64_t *)p)[i] = x;
		else
			left_out(p, i * 8);
	}
	return p;
}

/* The page that a step writes. */
static uint64_t choose(uint64_t step, uint64_t pages, uint64_t *dice)
{
	if (!dice)
		return step % pages;
	*dice = next(*dice);
	return *dice % pages;
}

/* Adds one to the first word of a page in each step. Returns the number of steps. */
static uint64_t watch(char *p, size_t size, uint64_t rate, uint64_t *dice)
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
		if (rate && (double)done * PAGE < (double)(now - begin) * 1e-9 * rate)
			*(uint64_t *)(p + choose(done++, size / PAGE, dice) * PAGE) += 1;
	}
	return done;
}

static void prove(const char *p, size_t size, uint64_t steps, uint64_t *dice)
{
	uint64_t x = SEED, pages = size / PAGE, *added = calloc(pages, sizeof *added);
	check(added != NULL, "memory");
	for (uint64_t i = 0; i < steps; i++)
		added[choose(i, pages, dice)]++;
	for (size_t i = 0; i < size / 8; i++) {
		uint64_t page = i * 8 / PAGE;
		uint64_t more = i * 8 % PAGE == 0 ? added[page] : 0;
		x = next(x);
		if (((const uint64_t *)p)[i] != x + more) {
			fprintf(stderr, "memory changed in page %llu\n", (unsigned long long)page);
			exit(1);
		}
	}
}

static void *nap(void *arg)
{
	size_t i = (size_t)arg;
	for (;;) {
		struct timespec t = { .tv_nsec = NAP_NS };
		nanosleep(&t, NULL);
		naps[i]++;
	}
	return NULL;
}

static void start_threads(size_t n)
{
	pthread_attr_t small;
	pthread_t t;
	check(n <= THREADS_MAX, "threads");
	pthread_attr_init(&small);
	pthread_attr_setstacksize(&small, 64 << 10);
	for (size_t i = 1; i < n; i++)
		check(pthread_create(&t, &small, nap, (void *)i) == 0, "thread");
}

static void prove_threads(size_t n)
{
	uint64_t before[THREADS_MAX];
	if (n < 2)
		return;
	for (size_t i = 1; i < n; i++)
		before[i] = naps[i];
	usleep(20 * NAP_NS / 1000);
	for (size_t i = 1; i < n; i++)
		if (naps[i] == before[i]) {
			fprintf(stderr, "thread %zu does not run\n", i);
			exit(1);
		}
}

static char **start_mappings(size_t n)
{
	char **all = calloc(n + 1, sizeof *all);
	size_t each = 2 * PAGE;
	char *p = mmap(NULL, n * each + 1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	check(all && p != MAP_FAILED, "mappings");
	for (size_t i = 0; i < n; i++) {
		all[i] = p + i * each;
		*(size_t *)all[i] = i;
		/* Every other one is read-only: the kernel joins none. */
		if (i % 2)
			check(mprotect(all[i], each, PROT_READ) == 0, "mprotect");
	}
	return all;
}

static void prove_mappings(char **all, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (*(size_t *)all[i] != i) {
			fprintf(stderr, "mapping %zu changed\n", i);
			exit(1);
		}
}

int main(int argc, char **argv)
{
	size_t size = number(argc, argv, 1) << 20;
	uint64_t rate = number(argc, argv, 2), seed = SEED, again = SEED;
	check(argc > 3, "arguments");
	int dices = !strcmp(argv[3], "random");
	half = !strcmp(argv[3], "half");
	huge = !strcmp(argv[3], "huge");
	size_t threads = argc > 4 ? number(argc, argv, 4) : 1;
	size_t mappings = argc > 5 ? number(argc, argv, 5) : 0;
	struct sigaction on = { .sa_handler = end };
	check(sigaction(SIGUSR1, &on, NULL) == 0, "start");
	memset(gaps, 0, sizeof gaps);
	if (half)
		map_text(size / 8);
	char *p = hold(size);
	char **all = start_mappings(mappings);
	start_threads(threads);
	printf("ready %d\n", (int)getpid());
	fflush(stdout);
	if (half || huge || !strcmp(argv[3], "sleep"))
		for (;;)
			pause();
	uint64_t steps = watch(p, size, rate, dices ? &seed : NULL);
	prove(p, size, steps, dices ? &again : NULL);
	prove_mappings(all, mappings);
	prove_threads(threads);
	for (uint64_t i = 0; i < count; i++)
		printf("%llu %llu\n", (unsigned long long)gaps[i].start,
		       (unsigned long long)gaps[i].length);
	printf("lost %llu\n", (unsigned long long)lost);
	return 0;
}
