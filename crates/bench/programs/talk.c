/* Messages over one TCP connection: round trips of 64 bytes, then bytes one way.
 *   talk serve PORT                 answers, as the second process of the others
 *   talk ping ADDR PORT BATCHES     prints, of each batch, the nanoseconds of the trips and of the bytes
 *   talk pair BATCHES               the same with a child; first prints its pid and the child's, and talks for a while */
#include "clock.h"
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SMALL = 64, TRIPS = 4000, LARGE = 64 << 10, PIECES = 2000, WHILE_S = 4 };

static char buffer[LARGE];

static void send_all(int fd, size_t n)
{
	for (ssize_t done; n; n -= done)
		check((done = write(fd, buffer, n)) > 0, "write");
}

/* 0 when the other side is done. */
static int receive_all(int fd, size_t n)
{
	for (ssize_t done; n; n -= done) {
		done = read(fd, buffer, n);
		if (done == 0)
			return 0;
		check(done > 0, "read");
	}
	return 1;
}

static void no_delay(int fd)
{
	int one = 1;
	check(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) == 0, "nodelay");
}

static int listening(struct sockaddr_in *at)
{
	int one = 1, fd = socket(AF_INET, SOCK_STREAM, 0);
	socklen_t len = sizeof *at;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
	check(bind(fd, (struct sockaddr *)at, sizeof *at) == 0, "bind");
	check(listen(fd, 1) == 0, "listen");
	check(getsockname(fd, (struct sockaddr *)at, &len) == 0, "getsockname");
	return fd;
}

static int dial(const struct sockaddr_in *at)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	check(connect(fd, (const struct sockaddr *)at, sizeof *at) == 0, "connect");
	no_delay(fd);
	return fd;
}

/* The first byte of a message says what follows. */
static void answer(int fd)
{
	while (receive_all(fd, SMALL)) {
		if (buffer[0] == 1) {
			for (int i = 0; i < PIECES; i++)
				check(receive_all(fd, LARGE), "bytes");
			buffer[0] = 0;
		}
		send_all(fd, SMALL);
	}
}

static void trip(int fd, char what)
{
	buffer[0] = what;
	send_all(fd, SMALL);
	check(receive_all(fd, SMALL), "an answer");
}

static void measure(int fd, uint64_t batches)
{
	while (batches--) {
		uint64_t begun = now_ns();
		for (int i = 0; i < TRIPS; i++)
			trip(fd, 0);
		uint64_t between = now_ns();
		buffer[0] = 1;
		send_all(fd, SMALL);
		for (int i = 0; i < PIECES; i++)
			send_all(fd, LARGE);
		check(receive_all(fd, SMALL), "an answer");
		printf("%llu\n%llu\n", (unsigned long long)(between - begun),
		       (unsigned long long)(now_ns() - between));
		fflush(stdout);
	}
}

int main(int argc, char **argv)
{
	check(argc > 2, "arguments");
	struct sockaddr_in at = {.sin_family = AF_INET};
	if (strcmp(argv[1], "serve") == 0) {
		at.sin_port = htons(number(argc, argv, 2));
		int fd = listening(&at);
		puts("ready");
		fflush(stdout);
		for (;;) {
			int peer = accept(fd, NULL, NULL);
			check(peer >= 0, "accept");
			no_delay(peer);
			answer(peer);
			close(peer);
		}
	}
	if (strcmp(argv[1], "ping") == 0) {
		at.sin_port = htons(number(argc, argv, 3));
		check(inet_pton(AF_INET, argv[2], &at.sin_addr) == 1, "address");
		measure(dial(&at), number(argc, argv, 4));
		return 0;
	}
	at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	int fd = listening(&at), here = dial(&at), there = accept(fd, NULL, NULL);
	check(there >= 0, "accept");
	no_delay(there);
	close(fd);
	pid_t child = fork();
	check(child >= 0, "fork");
	if (!child) {
		close(here);
		answer(there);
		return 0;
	}
	close(there);
	printf("%d\n%d\n", getpid(), child);
	fflush(stdout);
	/* Meanwhile both are moved, and their connection becomes direct. */
	for (uint64_t until = now_ns() + WHILE_S * 1000000000ull; now_ns() < until;)
		trip(here, 0);
	measure(here, number(argc, argv, 2));
	close(here);
	wait(NULL);
	return 0;
}
