/* Makes children one after the other, each of which execs itself for ever: ignoring signals, then not, in turn. Prints
 * their pids and how they ended. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static void again(char *self, int ignores) {
    for (int sig = 1; sig < NSIG; sig++)
        if (sig != SIGCHLD)
            signal(sig, ignores ? SIG_IGN : SIG_DFL);
    execl(self, self, "0", ignores ? "1" : "0", (char *)0);
    _exit(9);
}

int main(int argc, char **argv) {
    setvbuf(stdout, 0, _IOLBF, 0);
    if (argc == 3)
        again(argv[0], argv[2][0] == '0');
    for (int left = atoi(argv[1]); left > 0; left--) {
        pid_t child = fork();
        if (child == 0)
            again(argv[0], 1);
        printf("child %d\n", (int)child);
        int status = 0;
        waitpid(child, &status, 0);
        printf("ended with %d\n", status);
    }
}
