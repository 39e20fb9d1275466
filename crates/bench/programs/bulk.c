/* The plain transfer that a move is measured against.
 *   bulk receive PORT MIB [huge]  into fresh memory of 4 KiB pages, or huge ones; the kernel's copy touches them first;
 *                                 prints nanoseconds from the connection to the last byte
 *   bulk drain PORT MIB           the same into one buffer: what the link and the kernel can do
 *   bulk send ADDR PORT MIB       out of memory that was filled before
 *   bulk warm MIB [huge]          touches so much memory and ends: a virtual machine may have returned free memory
 *                                 to its hypervisor, and the first touch would then be slow */
#include "clock.h"
#include <arpa/inet.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

/* A move reads and writes blocks of about this size too. */
#define BLOCK (1u << 20)

static int advice = MADV_NOHUGEPAGE;

static char *fresh(size_t size)
{
	char *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	check(p != MAP_FAILED, "mmap");
	madvise(p, size, advice);
	return p;
}

static int receive(struct sockaddr_in at, size_t size, int keep)
{
	int one = 1, fd = socket(AF_INET, SOCK_STREAM, 0);
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
	check(bind(fd, (struct sockaddr *)&at, sizeof at) == 0, "bind");
	check(listen(fd, 1) == 0, "listen");
	puts("ready");
	fflush(stdout);
	int peer = accept(fd, NULL, NULL);
	check(peer >= 0, "accept");
	uint64_t begin = now_ns();
	char *p = fresh(keep ? size : BLOCK);
	for (size_t at = 0; at < size;) {
		size_t want = size - at < BLOCK ? size - at : BLOCK;
		ssize_t got = recv(peer, p + (keep ? at : 0), want, 0);
		check(got > 0, "recv");
		at += got;
	}
	printf("%llu\n", (unsigned long long)(now_ns() - begin));
	return 0;
}

static int transmit(struct sockaddr_in to, size_t size)
{
	char *p = fresh(size);
	memset(p, 0x5a, size);
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	check(connect(fd, (struct sockaddr *)&to, sizeof to) == 0, "connect");
	for (size_t at = 0; at < size;) {
		size_t want = size - at < BLOCK ? size - at : BLOCK;
		ssize_t sent = send(fd, p + at, want, 0);
		check(sent > 0, "send");
		at += sent;
	}
	return 0;
}

int main(int argc, char **argv)
{
	struct sockaddr_in at = { .sin_family = AF_INET };
	if (!strcmp(argv[argc - 1], "huge"))
		advice = MADV_HUGEPAGE, argc--;
	if (argc > 1 && !strcmp(argv[1], "warm")) {
		size_t size = number(argc, argv, 2) << 20;
		memset(fresh(size), 1, size);
		return 0;
	}
	int sends = argc > 1 && !strcmp(argv[1], "send");
	int i = sends ? 3 : 2;
	if (sends)
		check(inet_pton(AF_INET, argv[2], &at.sin_addr) == 1, "address");
	at.sin_port = htons(number(argc, argv, i));
	size_t size = number(argc, argv, i + 1) << 20;
	return sends ? transmit(at, size) : receive(at, size, !strcmp(argv[1], "receive"));
}
