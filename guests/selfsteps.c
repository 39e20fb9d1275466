/* A program that steps through itself by the trap flag (EFLAGS.TF): a trap behind each instruction, and behind a system
 * call that it makes on the way, wherever it is stopped; none is lost, none is too many. With int3 of its own, too.
 * About 1.5 s. */
#include "show.h"

static volatile int traps;

static void trapped(int s) { traps++; }

#define STEPPED(middle)                                                                                                \
    asm volatile("sub $128, %%rsp\n pushfq\n orq $0x100, (%%rsp)\n popfq\n nop\n nop\n" middle                         \
                 "nop\n nop\n pushfq\n andq $~0x100, (%%rsp)\n popfq\n nop\n add $128, %%rsp" ::                       \
                     : "rax", "rcx", "r11", "memory", "cc")

static void without_a_call(void) { STEPPED("mov $110, %%eax\n nop\n"); }
static void with_a_call(void) { STEPPED("mov $110, %%eax\n syscall\n"); }
static void many(void) { STEPPED("mov $400, %%eax\n 1: dec %%eax\n jnz 1b\n"); }
static void breakpoints(void)
{
    for (int i = 0; i < 20; i++)
        asm volatile("int3" ::: "memory");
}

static void rounds(const char *what, int times, void (*step)(void))
{
    int first = -1, others = 0;
    for (int i = 0; i < times; i++) {
        traps = 0;
        step();
        if (first < 0)
            first = traps;
        others += traps != first;
        i % 4 ? (void)chew(3 * CHEW_MS) : rest(3);
    }
    say("%s: %d traps, other numbers %d", what, first, others);
}

int main(void)
{
    struct sigaction a = {.sa_handler = trapped};
    int status;
    sigaction(SIGTRAP, &a, NULL);
    rounds("start", 10, without_a_call);
    rounds("without a call", 60, without_a_call);
    rounds("with a call", 60, with_a_call);
    rounds("many", 80, many);
    rounds("breakpoints", 60, breakpoints);
    pid_t child = fork();
    if (!child) {
        rounds("child", 30, with_a_call);
        signal(SIGTRAP, SIG_DFL);
        with_a_call();
        _exit(1);
    }
    HOLDS(waitpid(child, &status, 0) == child);
    say_status("child without a handler", status);
    return 0;
}
