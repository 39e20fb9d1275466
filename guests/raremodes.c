/* Modes of a process that few programs use: a local descriptor table and selectors in segment registers, protection
 * keys, memory that the kernel cannot read, MAP_DROPPABLE, names of anonymous memory, PR_SET_MDWE, speculation
 * controls, cpuid that faults, AMX tiles, linear address masking, another vDSO, KSM for all memory, MCE policy. Proves
 * that each works away, or comes home, and is in force after moves. About 2 s. */
#include "show.h"
#include <asm/ldt.h>
#include <asm/prctl.h>
#include <cpuid.h>

#define PAGE 4096
#ifndef MAP_DROPPABLE
#define MAP_DROPPABLE 0x08
#endif

static void pass(void)
{
    chew(8 * CHEW_MS);
    rest(9);
}

static void in_child(const char *who, int (*body)(void))
{
    int status;
    pid_t child = fork();
    if (!child)
        _exit(body());
    HOLDS(waitpid(child, &status, 0) == child);
    say_status(who, status);
}

static unsigned selectors(void)
{
    unsigned short ds, es, fs, gs;
    asm volatile("mov %%ds, %0\n\tmov %%es, %1\n\tmov %%fs, %2\n\tmov %%gs, %3" : "=r"(ds), "=r"(es), "=r"(fs), "=r"(gs));
    return ds | es << 16 | fs << 8 | (unsigned)gs << 24;
}

/* Null and the user's data segment in the registers that 64-bit code does not use. */
static int segments(void)
{
    for (unsigned i = 0; i < 6; i++) {
        unsigned short value = i % 2 ? 0x2b : 0;
        asm volatile("mov %0, %%ds\n\tmov %0, %%es" ::"r"(value));
        pass();
        say("selectors %x", selectors());
    }
    return 0;
}

static int table(void)
{
    static int word = 4711;
    struct user_desc entry = {.entry_number = 3, .limit = 0xfffff, .seg_32bit = 1, .limit_in_pages = 1, .useable = 1};
    char *low = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
    *(int *)low = word;
    entry.base_addr = (uintptr_t)low;
    if (SHOW(syscall(SYS_modify_ldt, 1, &entry, sizeof entry)))
        return 0;
    asm volatile("mov %0, %%gs" ::"r"((unsigned short)(3 << 3 | 7)));
    for (int i = 0; i < 6; i++) {
        int got;
        pass();
        asm volatile("movl %%gs:0, %0" : "=r"(got));
        say("by its own segment %d", got);
    }
    char entries[64];
    SHOW(syscall(SYS_modify_ldt, 0, entries, sizeof entries));
    return 0;
}

static sigjmp_buf back;
static int code;
static void caught(int number, siginfo_t *info, void *context) { code = info->si_code; siglongjmp(back, number); }

static int read_of(volatile char *at)
{
    int number = sigsetjmp(back, 1);
    if (!number)
        (void)*at;
    return number;
}

static void catch_faults(void)
{
    struct sigaction action = {.sa_sigaction = caught, .sa_flags = SA_SIGINFO};
    sigaction(SIGSEGV, &action, NULL);
    sigaction(SIGBUS, &action, NULL);
}

static int keys(void)
{
    int key = pkey_alloc(0, 0);
    say("a key: %s", key > 0 ? "had" : errno_name(errno));
    if (key < 0)
        return 0;
    char *at = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    SHOW(pkey_mprotect(at, PAGE, PROT_READ | PROT_WRITE, key));
    for (int i = 0; i < 8; i++) {
        HOLDS(pkey_set(key, i % 2 ? PKEY_DISABLE_ACCESS : 0) == 0);
        pass();
        say("signal %d code %d, neighbour %d", read_of(at), code, read_of(at + PAGE));
    }
    pkey_set(key, 0);
    SHOW(pkey_free(key));
    SHOW(pkey_free(key));
    return 0;
}

/* Whether there is such a mapping of its own. */
static int listed(const char *name)
{
    char line[512];
    int found = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && fgets(line, sizeof line, maps))
        found += strstr(line, name) != NULL;
    fclose(maps);
    return found == 1;
}

static int hidden(void)
{
    int fd = syscall(SYS_memfd_secret, 0);
    say("secret memory: %s", fd >= 0 ? "made" : errno_name(errno));
    if (fd >= 0) {
        SHOW(ftruncate(fd, 2 * PAGE));
        char *at = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        say("mapped: %s", at != MAP_FAILED ? "yes" : errno_name(errno));
        for (int i = 0; i < 6 && at != MAP_FAILED; i++) {
            at[i] = 'a' + i;
            pass();
            say("%.*s", i + 1, at);
        }
    }
    char *drop = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_DROPPABLE | MAP_ANONYMOUS, -1, 0);
    say("droppable: %s", drop != MAP_FAILED ? "mapped" : errno_name(errno));
    if (drop != MAP_FAILED)
        for (int i = 0; i < 4; i++) {
            *drop = 'a' + i;
            pass();
            HOLDS(*drop == 'a' + i || *drop == 0);
        }
    /* A kernel may not support names. */
    char *named = mmap(NULL, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int known = !prctl(PR_SET_VMA, PR_SET_VMA_ANON_NAME, named + PAGE, PAGE, "first name");
    say("named: %s", known ? "done" : errno_name(errno));
    for (int i = 0; i < 5; i++) {
        pass();
        HOLDS(!known || listed(i < 3 ? "[anon:first name]" : "[anon:second]"));
        if (i == 2)
            prctl(PR_SET_VMA, PR_SET_VMA_ANON_NAME, named + PAGE, PAGE, "second");
    }
    return 0;
}

static int written_never_run(void)
{
    say("mdwe: %s", prctl(65 /* PR_SET_MDWE */, 1, 0, 0, 0) ? errno_name(errno) : "set");
    for (int i = 0; i < 6; i++) {
        char *at = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        SHOW(mprotect(at, PAGE, PROT_READ | PROT_EXEC));
        pass();
        SHOW(prctl(66 /* PR_GET_MDWE */, 0, 0, 0, 0));
        munmap(at, PAGE);
    }
    return 0;
}

static int speculation(void)
{
    for (int which = 0; which < 3; which++) {
        SHOW(prctl(PR_GET_SPECULATION_CTRL, which, 0, 0, 0));
        pass();
        SHOW(prctl(PR_SET_SPECULATION_CTRL, which, PR_SPEC_DISABLE, 0, 0));
        for (int i = 0; i < 3; i++) {
            SHOW(prctl(PR_GET_SPECULATION_CTRL, which, 0, 0, 0));
            pass();
        }
    }
    return 0;
}

static int faults_at_cpuid(void)
{
    SHOW(syscall(SYS_arch_prctl, ARCH_GET_CPUID, 0));
    say("cpuid that faults: %s", syscall(SYS_arch_prctl, ARCH_SET_CPUID, 0) ? errno_name(errno) : "set");
    for (int i = 0; i < 6; i++) {
        unsigned a, b, c, d;
        int number = sigsetjmp(back, 1);
        if (!number)
            __cpuid(0, a, b, c, d);
        say("cpuid: signal %d, %ld", number, syscall(SYS_arch_prctl, ARCH_GET_CPUID, 0));
        pass();
    }
    return 0;
}

/* The permission is the process', permanently; the tiles of a thread are part of its XSAVE state. */
static int tiles(void)
{
    unsigned long permitted = 0;
    say("tiles: %s", syscall(SYS_arch_prctl, 0x1023 /* ARCH_REQ_XCOMP_PERM */, 18) ? errno_name(errno) : "allowed");
    for (int i = 0; i < 4; i++) {
        pass();
        SHOW(syscall(SYS_arch_prctl, 0x1022 /* ARCH_GET_XCOMP_PERM */, &permitted));
        say("permitted %lu", permitted >> 17 & 3);
    }
    return 0;
}

static int others(void)
{
    unsigned long mask = 0;
    SHOW(syscall(SYS_arch_prctl, 0x4001 /* ARCH_GET_UNTAG_MASK */, &mask));
    say("mask %lx", mask);
    say("tagged addresses: %s", syscall(SYS_arch_prctl, 0x4002 /* ARCH_ENABLE_TAGGED_ADDR */, 6) ? errno_name(errno) : "enabled");
    pass();
    say("KSM for all: %s", prctl(67 /* PR_SET_MEMORY_MERGE */, 1, 0, 0, 0) ? errno_name(errno) : "set");
    for (int i = 0; i < 4; i++) {
        SHOW(prctl(68 /* PR_GET_MEMORY_MERGE */, 0, 0, 0, 0));
        pass();
    }
    SHOW(prctl(PR_MCE_KILL, PR_MCE_KILL_SET, PR_MCE_KILL_EARLY, 0, 0));
    for (int i = 0; i < 4; i++) {
        SHOW(prctl(PR_MCE_KILL_GET, 0, 0, 0, 0));
        pass();
    }
    say("a vDSO more: %s", syscall(SYS_arch_prctl, 0x2003 /* ARCH_MAP_VDSO_64 */, 0x200000000) > 0 ? "mapped" : errno_name(errno));
    pass();
    SHOW(prctl(77 /* PR_TIMER_CREATE_RESTORE_IDS */, 2 /* GET */, 0, 0, 0));
    int fd = open("file", O_CREAT | O_RDWR, 0600);
    SHOW(mmap(NULL, PAGE, PROT_READ, MAP_SHARED_VALIDATE | 0x80000 /* MAP_SYNC */, fd, 0) != MAP_FAILED);
    unlink("file");
    char group[100] = {0};
    int nice = open("/proc/self/autogroup", O_RDWR);
    HOLDS(nice < 0 || read(nice, group, sizeof group - 1) >= 0);
    /* Where a processor has shadow stacks, the next return of this thread faults, natively too. */
    say("shadow stack: %s", syscall(SYS_arch_prctl, 0x5001 /* ARCH_SHSTK_ENABLE */, 1) ? errno_name(errno) : "enabled");
    return 0;
}

int main(void)
{
    catch_faults();
    in_child("segments", segments);
    in_child("table", table);
    in_child("keys", keys);
    in_child("hidden", hidden);
    in_child("written never run", written_never_run);
    in_child("speculation", speculation);
    in_child("cpuid", faults_at_cpuid);
    in_child("tiles", tiles);
    in_child("others", others);
    return 0;
}
