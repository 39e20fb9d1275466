/* execs N: N times a child that execs this program again; that prints its pid and the nanoseconds from before
 * the exec to its main. */
#include "clock.h"
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	uint64_t now = now_ns(), n = number(argc, argv, 1);
	if (argc > 2) {
		printf("%d %llu\n", getpid(), (unsigned long long)(now - number(argc, argv, 2)));
		return 0;
	}
	for (uint64_t i = 0; i < n; i++) {
		pid_t pid = fork();
		if (pid == 0) {
			char begin[24];
			snprintf(begin, sizeof begin, "%llu", (unsigned long long)now_ns());
			execl(argv[0], argv[0], "begun", begin, NULL);
			_exit(1);
		}
		int status;
		check(pid > 0, "fork");
		check(waitpid(pid, &status, 0) == pid && status == 0, "child");
		/* Delays by the end of one child must not affect the next. */
		usleep(5000);
	}
	return 0;
}
