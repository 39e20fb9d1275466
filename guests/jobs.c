/* Job control on a terminal of its own: setsid, TIOCSCTTY, process groups, tcsetpgrp, Ctrl-Z and
 * Ctrl-C through the terminal, SIGTTIN in the background, window size, raw mode, SIGHUP when the
 * terminal goes. About 0.8 s. */
#include "show.h"
#include <pty.h>
#include <termios.h>

static int master;
static char shown[65536];
static int got;

/* Reads what the terminal shows until it holds the text; keeps the text after it. */
static void until(const char *text)
{
    char *at;
    while (!(at = memmem(shown, got, text, strlen(text)))) {
        int n = read(master, shown + got, sizeof shown - got);
        if (n <= 0) {
            say("terminal ended before '%s'", text);
            exit(1);
        }
        got += n;
    }
    at += strlen(text);
    got -= at - shown;
    memmove(shown, at, got);
}

static void session(void)
{
    signal(SIGTTOU, SIG_IGN);
    HOLDS(tcgetpgrp(0) == getpgrp());
    HOLDS(getsid(0) == getpid());
    struct winsize w;
    ioctl(0, TIOCGWINSZ, &w);
    dprintf(2, "size %d %d\n", w.ws_row, w.ws_col);
    for (int job = 0; job < 3; job++) {
        pid_t child = fork();
        if (!child) {
            setpgid(0, 0);
            if (job != 2)
                tcsetpgrp(0, getpid());
            signal(SIGTTOU, SIG_DFL);
            if (job == 2) {
                char b;
                read(0, &b, 1);
                _exit(1);
            }
            write(2, "running\n", 8);
            for (;;)
                chew(CHEW_MS);
        }
        setpgid(child, child);
        int status;
        HOLDS(waitpid(child, &status, WUNTRACED) == child);
        say_status("job", status);
        tcsetpgrp(0, getpgrp());
        if (WIFSTOPPED(status)) {
            write(2, "stopped\n", 8);
            rest(120);
            kill(-child, job == 2 ? SIGKILL : SIGTERM);
            kill(-child, SIGCONT);
            waitpid(child, &status, 0);
            say_status("job", status);
        }
    }
    struct termios t;
    tcgetattr(0, &t);
    cfmakeraw(&t);
    SHOW(tcsetattr(0, TCSANOW, &t));
    write(2, "raw\n", 4);
    char key;
    SHOW(read(0, &key, 1));
    say("key %d", key);
    signal(SIGHUP, SIG_DFL);
    write(2, "bye\n", 4);
    for (;;)
        rest(1000);
}

int main(void)
{
    struct winsize w = {33, 99};
    int slave;
    SHOW(openpty(&master, &slave, NULL, NULL, &w) < 0);
    pid_t child = fork();
    if (!child) {
        close(master);
        setsid();
        ioctl(slave, TIOCSCTTY, 0);
        int out = dup(1);
        dup2(slave, 0), dup2(slave, 2);
        session();
    }
    close(slave);
    until("size 33 99\r\n");
    until("running\r\n");
    write(master, "\x1a", 1);
    until("stopped\r\n");
    until("running\r\n");
    rest(60);
    write(master, "\x03", 1);
    until("stopped\r\n");
    until("raw\n");
    write(master, "\x03", 1);
    until("bye\n");
    rest(120);
    close(master);
    int status;
    waitpid(child, &status, 0);
    say_status("session", status);
    return 0;
}
