/* Calls that few programs make: kcmp, name_to_handle_at, bpf, landlock, unprivileged fanotify, an alarm timer, the
 * numbers of clocks, core scheduling, perf events of its own, getcpu, remap_file_pages, reads and writes with O_DIRECT. Proves that
 * each has its native result away and after moves, and that landlock's rules hold wherever the process runs. About 3 s. */
#include "show.h"
#include <linux/bpf.h>
#include <linux/kcmp.h>
#include <linux/landlock.h>
#include <linux/perf_event.h>
#include <sys/fanotify.h>

#define PAGE 4096

/* Some computing and some waiting: moves hit both. */
static void pass(void)
{
    chew(8 * CHEW_MS);
    rest(9);
}

static int in_child(const char *who, int (*body)(void))
{
    int status;
    pid_t child = fork();
    if (!child)
        _exit(body());
    HOLDS(waitpid(child, &status, 0) == child);
    say_status(who, status);
    return 0;
}

static int compares(void)
{
    int a = open("/dev/null", O_RDONLY), b = dup(a), c = open("/dev/null", O_RDONLY);
    pid_t me = getpid();
    for (int i = 0; i < 5; i++) {
        SHOW(syscall(SYS_kcmp, me, me, KCMP_FILE, a, b));
        HOLDS(syscall(SYS_kcmp, me, me, KCMP_FILE, a, c) > 0);
        SHOW(syscall(SYS_kcmp, me, me, KCMP_VM, 0, 0));
        HOLDS(syscall(SYS_kcmp, me, getppid(), KCMP_VM, 0, 0) > 0);
        pass();
    }
    SHOW(syscall(SYS_kcmp, me, me, KCMP_FILE, a, 900));
    SHOW(syscall(SYS_kcmp, me, me, 99, a, a));
    return 0;
}

static int handles(void)
{
    union {
        struct file_handle handle;
        char room[sizeof(struct file_handle) + MAX_HANDLE_SZ];
    } h = {.handle.handle_bytes = MAX_HANDLE_SZ}, again = h, none = {0};
    int mount, other;
    close(open("named", O_CREAT | O_WRONLY, 0600));
    long first = SHOW(name_to_handle_at(AT_FDCWD, "named", &h.handle, &mount, 0));
    pass();
    SHOW(name_to_handle_at(AT_FDCWD, "named", &again.handle, &other, 0));
    HOLDS(first || (mount == other && !memcmp(&h, &again, sizeof h)));
    SHOW(name_to_handle_at(AT_FDCWD, "named", &none.handle, &other, 0));
    SHOW(name_to_handle_at(AT_FDCWD, "absent", &again.handle, &other, 0));
    unlink("named");
    return 0;
}

static int programs(void)
{
    union bpf_attr map = {.map_type = BPF_MAP_TYPE_ARRAY, .key_size = 4, .value_size = 8, .max_entries = 2};
    int fd = syscall(SYS_bpf, BPF_MAP_CREATE, &map, sizeof map);
    say("a map: %s", fd >= 0 ? "made" : errno_name(errno));
    for (uint64_t i = 0; i < 6 && fd >= 0; i++) {
        uint32_t key = i % 2;
        uint64_t value = i * 17, got = 0;
        union bpf_attr at = {.map_fd = fd, .key = (uintptr_t)&key, .value = (uintptr_t)&value};
        HOLDS(syscall(SYS_bpf, BPF_MAP_UPDATE_ELEM, &at, sizeof at) == 0);
        pass();
        at.value = (uintptr_t)&got;
        HOLDS(syscall(SYS_bpf, BPF_MAP_LOOKUP_ELEM, &at, sizeof at) == 0 && got == value);
    }
    SHOW(syscall(SYS_bpf, 9999, &map, sizeof map));
    return 0;
}

/* Accesses that are allowed before the rules are refused after them, permanently, and for its children too. */
static int ruled(void)
{
    struct landlock_ruleset_attr attr = {.handled_access_fs = LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_MAKE_REG};
    close(open("before", O_CREAT | O_WRONLY, 0600));
    int rules = syscall(SYS_landlock_create_ruleset, &attr, sizeof attr, 0);
    say("rules: %s", rules >= 0 ? "made" : errno_name(errno));
    if (rules < 0)
        return 0;
    SHOW(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
    pass();
    SHOW(syscall(SYS_landlock_restrict_self, rules, 0));
    for (int i = 0; i < 8; i++) {
        SHOW(open("before", O_WRONLY) >= 0);
        SHOW(open("after", O_CREAT | O_WRONLY, 0600));
        SHOW(open("before", O_RDONLY) >= 0);
        SHOW(open("before", O_RDONLY | O_TRUNC) >= 0);
        pass();
    }
    int status;
    pid_t child = fork();
    if (!child) {
        pass();
        SHOW(open("after", O_CREAT | O_WRONLY, 0600));
        pass();
        _exit(open("before", O_WRONLY) >= 0);
    }
    waitpid(child, &status, 0);
    say_status("child under rules", status);
    return 0;
}

/* Events of a directory, without rights (Linux 5.13). */
static int marks(void)
{
    int group = fanotify_init(FAN_CLASS_NOTIF | FAN_REPORT_FID | FAN_NONBLOCK, O_RDONLY);
    say("a group: %s", group >= 0 ? "made" : errno_name(errno));
    if (group < 0)
        return 0;
    mkdir("watched", 0700);
    if (SHOW(fanotify_mark(group, FAN_MARK_ADD, FAN_CREATE | FAN_DELETE | FAN_ONDIR, AT_FDCWD, "watched")))
        return 0;
    for (int i = 0; i < 6; i++) {
        char name[32];
        sprintf(name, "watched/%d", i);
        close(open(name, O_CREAT | O_WRONLY, 0600));
        pass();
        unlink(name);
        uint64_t seen = 0;
        char buffer[4096] __attribute__((aligned(8)));
        ssize_t n = read(group, buffer, sizeof buffer);
        for (struct fanotify_event_metadata *e = (void *)buffer; FAN_EVENT_OK(e, n); e = FAN_EVENT_NEXT(e, n))
            seen |= e->mask;
        say("round %d: %#lx", i, seen);
    }
    SHOW(fanotify_mark(group, FAN_MARK_REMOVE, FAN_CREATE, AT_FDCWD, "watched"));
    SHOW(rmdir("watched"));
    return 0;
}

static int alarms(void)
{
    struct sigevent event = {.sigev_notify = SIGEV_NONE};
    timer_t timer;
    struct timespec t;
    say("an alarm timer: %s", timer_create(CLOCK_REALTIME_ALARM, &event, &timer) ? errno_name(errno) : "made");
    say("one of boot time: %s", timer_create(CLOCK_BOOTTIME_ALARM, &event, &timer) ? errno_name(errno) : "made");
    for (int clock = 0; clock < 14; clock++) {
        int resolution = clock_getres(clock, &t), why = errno;
        say("clock %d: %d %s %ld ns", clock, resolution, resolution ? errno_name(why) : "", resolution ? 0 : t.tv_nsec);
        pass();
    }
    return 0;
}

static int counted(void)
{
    struct perf_event_attr attr = {.type = PERF_TYPE_SOFTWARE, .size = sizeof attr, .config = PERF_COUNT_SW_TASK_CLOCK, .exclude_kernel = 1, .exclude_hv = 1};
    int fd = syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0);
    say("an event: %s", fd >= 0 ? "made" : errno_name(errno));
    uint64_t before = 0, after = 0;
    if (fd >= 0) {
        HOLDS(read(fd, &before, 8) == 8);
        chew(40 * CHEW_MS);
        HOLDS(read(fd, &after, 8) == 8);
        HOLDS(after > before);
    }
    SHOW(prctl(PR_TASK_PERF_EVENTS_DISABLE, 0, 0, 0, 0));
    SHOW(prctl(PR_TASK_PERF_EVENTS_ENABLE, 0, 0, 0, 0));
    if (fd >= 0) {
        chew(20 * CHEW_MS);
        HOLDS(read(fd, &before, 8) == 8 && before > after);
    }
    SHOW(prctl(62 /* PR_SCHED_CORE */, 0 /* GET */, 0, 0, 9));
    return 0;
}

static int placed(void)
{
    for (int i = 0; i < 6; i++) {
        unsigned cpu = ~0, node = ~0;
        SHOW(syscall(SYS_getcpu, &cpu, &node, NULL));
        HOLDS(cpu < 8192 && node < 1024);
        pass();
    }
    return 0;
}

/* Pages of a file in another order, and a read that a device may write behind the page tables. */
static int files(void)
{
    int fd = open("pages", O_CREAT | O_RDWR, 0600);
    char *block = aligned_alloc(PAGE, 4 * PAGE);
    for (int i = 0; i < 4 * PAGE; i++)
        block[i] = "abcd"[i / PAGE];
    HOLDS(write(fd, block, 4 * PAGE) == 4 * PAGE);
    char *at = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    SHOW(syscall(SYS_remap_file_pages, at, PAGE, 0, 2, 0));
    SHOW(syscall(SYS_remap_file_pages, at + 2 * PAGE, PAGE, 0, 0, 0));
    for (int i = 0; i < 6; i++) {
        say("order %c%c%c%c", at[0], at[PAGE], at[2 * PAGE], at[3 * PAGE]);
        pass();
    }
    munmap(at, 4 * PAGE);
    int direct = open("pages", O_RDWR | O_DIRECT);
    say("direct: %s", direct >= 0 ? "opened" : errno_name(errno));
    for (int i = 0; i < 8 && direct >= 0; i++) {
        memset(block, 0, 4 * PAGE);
        long n = pread(direct, block, 4 * PAGE, 0);
        say("read %ld %s: %c%c%c%c", n, n < 0 ? errno_name(errno) : "", block[0], block[PAGE], block[2 * PAGE], block[3 * PAGE]);
        n = pwrite(direct, block, 2 * PAGE, 0);
        say("written %ld %s", n, n < 0 ? errno_name(errno) : "");
        pass();
    }
    unlink("pages");
    return 0;
}

int main(void)
{
    in_child("compares", compares);
    in_child("handles", handles);
    in_child("programs", programs);
    in_child("ruled", ruled);
    SHOW(unlink("before"));
    in_child("marks", marks);
    in_child("alarms", alarms);
    in_child("counted", counted);
    in_child("placed", placed);
    in_child("files", files);
    return 0;
}
