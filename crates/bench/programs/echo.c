/* The bare TCP round trip.
 *   echo serve PORT ASK ANSWER               answers every ASK bytes with ANSWER bytes
 *   echo ping ADDR PORT ASK ANSWER N BATCHES prints the nanoseconds of each N round trips */
#include "clock.h"
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

static char buffer[1 << 17];

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

static _Noreturn void serve(struct sockaddr_in at, size_t ask, size_t answer)
{
	int one = 1, fd = socket(AF_INET, SOCK_STREAM, 0);
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
	check(bind(fd, (struct sockaddr *)&at, sizeof at) == 0, "bind");
	check(listen(fd, 1) == 0, "listen");
	puts("ready");
	fflush(stdout);
	for (;;) {
		int peer = accept(fd, NULL, NULL);
		check(peer >= 0, "accept");
		no_delay(peer);
		while (receive_all(peer, ask))
			send_all(peer, answer);
		close(peer);
	}
}

static int ping(struct sockaddr_in at, size_t ask, size_t answer, uint64_t n, uint64_t batches)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	check(connect(fd, (struct sockaddr *)&at, sizeof at) == 0, "connect");
	no_delay(fd);
	for (uint64_t b = 0; b <= batches; b++) {
		/* The first batch only warms up. */
		uint64_t begin = now_ns();
		for (uint64_t i = 0; i < (b ? n : n / 10 + 1); i++) {
			send_all(fd, ask);
			check(receive_all(fd, answer), "closed");
		}
		uint64_t took = now_ns() - begin;
		if (b)
			printf("%llu\n", (unsigned long long)took);
	}
	return 0;
}

int main(int argc, char **argv)
{
	struct sockaddr_in at = { .sin_family = AF_INET };
	int client = argc > 1 && !strcmp(argv[1], "ping");
	int i = client ? 3 : 2;
	if (client)
		check(inet_pton(AF_INET, argv[2], &at.sin_addr) == 1, "address");
	at.sin_port = htons(number(argc, argv, i));
	size_t ask = number(argc, argv, i + 1), answer = number(argc, argv, i + 2);
	check(ask && answer && ask <= sizeof buffer && answer <= sizeof buffer, "sizes");
	if (!client)
		serve(at, ask, answer);
	return ping(at, ask, answer, number(argc, argv, 6), number(argc, argv, 7));
}
