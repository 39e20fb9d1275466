/* A whole file of /proc. */
#ifndef SLURP_H
#define SLURP_H
#include "show.h"

static char text[1 << 20];

/* Reads into `text`, terminated by a zero; returns its length. Prints an error when it cannot be opened. */
static int take(const char *path)
{
    int fd = open(path, O_RDONLY), at = 0;
    for (int n; fd >= 0 && (n = read(fd, text + at, sizeof text - 1 - at)) > 0;)
        at += n;
    text[at] = 0;
    if (fd < 0)
        say("%s: %s", path, errno_name(errno));
    close(fd);
    return at;
}

__attribute__((unused)) static char *slurp(const char *path)
{
    take(path);
    return text;
}
#endif
