/* pair ROUNDS SECONDS A… -- B…: runs two commands in turn, prints the nanoseconds of each pair from
 * before the fork to after the wait. Stops early after so many seconds. */
#include "clock.h"
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>

extern char **environ;

static uint64_t run(char **command)
{
	posix_spawn_file_actions_t quiet;
	pid_t pid;
	int status;
	posix_spawn_file_actions_init(&quiet);
	posix_spawn_file_actions_addopen(&quiet, 1, "/dev/null", O_WRONLY, 0);
	uint64_t begin = now_ns();
	errno = posix_spawnp(&pid, command[0], &quiet, NULL, command, environ);
	check(errno == 0, command[0]);
	check(waitpid(pid, &status, 0) == pid, "waitpid");
	uint64_t took = now_ns() - begin;
	posix_spawn_file_actions_destroy(&quiet);
	if (status != 0) {
		fprintf(stderr, "%s: wait status %d\n", command[0], status);
		exit(1);
	}
	return took;
}

int main(int argc, char **argv)
{
	uint64_t rounds = number(argc, argv, 1);
	uint64_t end = now_ns() + number(argc, argv, 2) * 1000000000u;
	char **a = argv + 3, **b = a;
	while (*b && strcmp(*b, "--"))
		b++;
	check(*b != NULL, "no --");
	*b++ = NULL;
	run(a); /* both are in the page cache then */
	run(b);
	while (rounds-- && now_ns() < end) {
		uint64_t first = run(a), second = run(b);
		printf("%llu %llu\n", (unsigned long long)first, (unsigned long long)second);
		fflush(stdout);
	}
	return 0;
}
