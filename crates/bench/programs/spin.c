/* spin ROUNDS: integer work without system calls; prints its nanoseconds. */
#include "clock.h"

int main(int argc, char **argv)
{
	uint64_t rounds = number(argc, argv, 1), x = 88172645463325252u;
	uint64_t begin = now_ns();
	for (uint64_t i = 0; i < rounds; i++) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
	}
	uint64_t took = now_ns() - begin;
	printf("%llu\n", (unsigned long long)took);
	/* The result is used, so that the loop stays. */
	return x == 0;
}
