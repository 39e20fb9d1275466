/* Reads a file, or looks up many, by libnfs; prints milliseconds. usage: nfs-bench URL read BYTES | URL lookup COUNT */
#include <sys/time.h>
#include <sys/stat.h>
#include <fcntl.h>
#include <inttypes.h>
#include <nfsc/libnfs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double now_ms(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e3 + t.tv_nsec / 1e6;
}

static int fail(struct nfs_context *nfs, const char *what)
{
	fprintf(stderr, "nfs-bench: %s: %s\n", what, nfs_get_error(nfs));
	return 1;
}

int main(int argc, char **argv)
{
	struct nfs_context *nfs = nfs_init_context();
	if (argc != 4 || !nfs)
		return 2;
	struct nfs_url *url = nfs_parse_url_dir(nfs, argv[1]);
	if (!url || nfs_mount(nfs, url->server, url->path))
		return fail(nfs, argv[1]);
	uint64_t count = strtoull(argv[3], NULL, 10);
	double begin = now_ms();
	if (!strcmp(argv[2], "read")) {
		static char buffer[1 << 20];
		struct nfsfh *file;
		uint64_t at = 0;
		int n;
		if (nfs_open(nfs, "/big", O_RDONLY, &file))
			return fail(nfs, "open");
		while ((n = nfs_pread(nfs, file, at, sizeof buffer, buffer)) > 0)
			at += n;
		if (n < 0 || at != count)
			return fail(nfs, "read");
	} else {
		struct nfs_stat_64 st;
		char path[64];
		for (uint64_t i = 0; i < count; i++) {
			snprintf(path, sizeof path, "/many/f%" PRIu64, i);
			if (nfs_stat64(nfs, path, &st))
				return fail(nfs, path);
		}
	}
	printf("%.0f\n", now_ms() - begin);
	return 0;
}
