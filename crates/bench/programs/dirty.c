/* A computation that writes a fixed share of its memory for each unit of work.
 *   dirty calibrate             prints the iterations of a hundredth of a second
 *   dirty MIB ITERATIONS UNITS  fills so much memory; does UNITS times so many iterations and as many writes as make up
 *                               5 % of the pages in a hundred units; prints the nanoseconds of all units */
#include "clock.h"
#include <sys/mman.h>

#define PAGE 4096u
#define UNIT_NS 10000000u
/* Of all pages, in a hundred units. */
#define SHARE 0.05

static uint64_t compute(uint64_t x, uint64_t iterations)
{
	for (uint64_t i = 0; i < iterations; i++) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
	}
	return x;
}

int main(int argc, char **argv)
{
	uint64_t x = 88172645463325252u;
	if (argc > 1 && !strcmp(argv[1], "calibrate")) {
		const uint64_t tried = 100000000;
		uint64_t begin = now_ns();
		x = compute(x, tried);
		double took = now_ns() - begin;
		printf("%llu\n", (unsigned long long)(tried * UNIT_NS / took) + (x == 0));
		return 0;
	}
	size_t size = number(argc, argv, 1) << 20, pages = size / PAGE;
	uint64_t iterations = number(argc, argv, 2), units = number(argc, argv, 3);
	char *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	check(p != MAP_FAILED, "mmap");
	madvise(p, size, MADV_NOHUGEPAGE);
	for (size_t i = 0; i < size / 8; i++)
		((uint64_t *)p)[i] = x = compute(x, 1);
	uint64_t begin = now_ns(), writes = pages * SHARE / 100, at = 0;
	for (uint64_t i = 0; i < units; i++) {
		x = compute(x, iterations);
		for (uint64_t k = 0; k < writes; k++)
			*(uint64_t *)(p + at++ % pages * PAGE) += x;
	}
	printf("%llu\n", (unsigned long long)(now_ns() - begin));
	return 0;
}
