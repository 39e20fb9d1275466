/* calls KIND N BATCHES [filtered]: N times the same system call, again and again; prints the nanoseconds of each
 * batch. The first tenth of a batch more comes first, untimed.
 *   getppid, getpid   the call itself, never from a cache
 *   pread             4 KiB of /dev/zero
 *   write             64 KiB to /dev/null
 * filtered: under a seccomp filter that lets everything through, as little as one can be. */
#include "clock.h"
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static char buffer[65536];
static int zero, null;

static void batch(char kind, uint64_t n)
{
	while (n--)
		switch (kind) {
		case 'd':
			check(syscall(SYS_getppid) >= 0, "getppid");
			break;
		case 'i':
			check(syscall(SYS_getpid) > 0, "getpid");
			break;
		case 'r':
			check(pread(zero, buffer, 4096, 0) == 4096, "pread");
			break;
		default:
			check(write(null, buffer, sizeof buffer) == sizeof buffer, "write");
		}
}

static void filter(void)
{
	struct sock_filter all = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	struct sock_fprog program = { .len = 1, .filter = &all };
	check(!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no new privileges");
	check(!prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), "filter");
}

int main(int argc, char **argv)
{
	uint64_t n = number(argc, argv, 2), batches = number(argc, argv, 3);
	const char *names[] = { "getppid", "getpid", "pread", "write" };
	char kind = 0;
	for (int i = 0; i < 4; i++)
		if (!strcmp(argv[1], names[i]))
			kind = "dirw"[i];
	check(kind, "kind");
	zero = open("/dev/zero", O_RDONLY);
	null = open("/dev/null", O_WRONLY);
	check(zero >= 0 && null >= 0, "open");
	if (argc > 4)
		filter();
	batch(kind, n / 10 + 1);
	while (batches--) {
		uint64_t begin = now_ns();
		batch(kind, n);
		uint64_t took = now_ns() - begin;
		printf("%llu\n", (unsigned long long)took);
	}
	return 0;
}
