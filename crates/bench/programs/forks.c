/* forks N: N times a child that ends at once; prints the nanoseconds of each fork, for the parent. */
#include "clock.h"
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	uint64_t n = number(argc, argv, 1);
	/* The first only warms up. */
	for (uint64_t i = 0; i <= n; i++) {
		uint64_t begin = now_ns();
		pid_t pid = fork();
		uint64_t took = now_ns() - begin;
		if (pid == 0)
			_exit(0);
		check(pid > 0, "fork");
		check(waitpid(pid, NULL, 0) == pid, "waitpid");
		if (i)
			printf("%llu\n", (unsigned long long)took);
		usleep(1000);
	}
	return 0;
}
