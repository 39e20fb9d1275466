/* calls N BATCHES: N times getppid as a real system call, again and again; prints the nanoseconds
 * of each batch. The first tenth of a batch more comes first, untimed. */
#include "clock.h"
#include <sys/syscall.h>
#include <unistd.h>

static void batch(uint64_t n)
{
	while (n--)
		check(syscall(SYS_getppid) >= 0, "getppid");
}

int main(int argc, char **argv)
{
	uint64_t n = number(argc, argv, 1), batches = number(argc, argv, 2);
	batch(n / 10 + 1);
	while (batches--) {
		uint64_t begin = now_ns();
		batch(n);
		uint64_t took = now_ns() - begin;
		printf("%llu\n", (unsigned long long)took);
	}
	return 0;
}
