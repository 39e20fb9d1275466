/* Keyrings: add_key, request_key, keyctl to read, update, describe, link, search, clear, revoke, time out, in the
 * process's, the thread's and a session keyring of its own; errors. Proves that keys are those of home, set and read on
 * any node. About 0.6 s. */
#include "show.h"
#include <linux/keyctl.h>

typedef int32_t key;
static key add(const char *type, const char *name, const char *data, key ring)
{
    return syscall(SYS_add_key, type, name, data, data ? strlen(data) : 0, ring);
}
#define KEYCTL(...) syscall(SYS_keyctl, __VA_ARGS__)

static void content(const char *when, key k)
{
    char b[64] = {0};
    long n = KEYCTL(KEYCTL_READ, k, b, sizeof b - 1);
    if (n < 0)
        say("%s: %s", when, errno_name(errno));
    else
        say("%s: %ld '%s'", when, n, b);
}

static void *in_thread(void *arg)
{
    key mine = add("user", "of a thread", "threaded", KEY_SPEC_THREAD_KEYRING);
    rest(115);
    content("thread", mine);
    return NULL;
}

int main(void)
{
    HOLDS((key)KEYCTL(KEYCTL_JOIN_SESSION_KEYRING, NULL) > 0);
    key ring = KEYCTL(KEYCTL_GET_KEYRING_ID, KEY_SPEC_PROCESS_KEYRING, 1);
    if (ring == -1 && errno == ENOSYS) {
        say("no keyrings here");
        return 0;
    }
    HOLDS(ring > 0);
    key one = add("user", "one", "first content", KEY_SPEC_PROCESS_KEYRING);
    HOLDS(one > 0);
    content("one", one);
    rest(115);
    content("one", one);
    HOLDS(add("user", "one", "second", KEY_SPEC_PROCESS_KEYRING) == one);
    content("updated by adding", one);
    SHOW(KEYCTL(KEYCTL_UPDATE, one, "third!", 6));
    content("updated", one);
    char b[128] = {0};
    HOLDS(KEYCTL(KEYCTL_DESCRIBE, one, b, sizeof b) > 0);
    HOLDS(!strncmp(b, "user;4242;", 10) || getuid() != 4242);
    say("described %s", strrchr(b, ';'));
    SHOW(KEYCTL(KEYCTL_READ, one, b, 2));
    SHOW(add("nonsense", "x", "y", ring));
    SHOW(add("user", "", "y", ring));
    SHOW(add("user", "empty", NULL, ring));
    SHOW(add("user", "x", "y", 99999999));
    SHOW(add("user", (char *)8, "y", ring));
    SHOW(KEYCTL(KEYCTL_READ, 99999999, b, 2));
    SHOW(KEYCTL(9999, 0));
    HOLDS((key)KEYCTL(KEYCTL_SEARCH, ring, "user", "one", 0) == one);
    SHOW(KEYCTL(KEYCTL_SEARCH, ring, "user", "none", 0));
    HOLDS((key)syscall(SYS_request_key, "user", "one", NULL, 0) == one);
    SHOW(syscall(SYS_request_key, "user", "not there at all", NULL, 0));

    key sub = add("keyring", "below", NULL, ring);
    HOLDS(sub > 0);
    key two = add("user", "two", "in a ring", sub);
    chew(30 * CHEW_MS);
    rest(115);
    content("two", two);
    HOLDS((key)KEYCTL(KEYCTL_SEARCH, ring, "user", "two", 0) == two);
    SHOW(KEYCTL(KEYCTL_LINK, one, sub));
    key held[8];
    long n = KEYCTL(KEYCTL_READ, sub, held, sizeof held);
    say("the ring holds %ld", n / (long)sizeof(key));
    SHOW(KEYCTL(KEYCTL_UNLINK, one, sub));
    SHOW(KEYCTL(KEYCTL_UNLINK, one, sub));
    SHOW(KEYCTL(KEYCTL_CLEAR, sub));
    SHOW(KEYCTL(KEYCTL_CLEAR, one));
    SHOW(KEYCTL(KEYCTL_LINK, ring, ring));
    pthread_t t;
    pthread_create(&t, NULL, in_thread, NULL);
    pthread_join(t, NULL);

    key session = add("user", "of the session", "inherited", KEY_SPEC_SESSION_KEYRING);
    pid_t child = fork();
    if (!child) {
        rest(95);
        content("the session's, in a child", session);
        SHOW(add("user", "from the child", "child", KEY_SPEC_SESSION_KEYRING) > 0);
        _exit(KEYCTL(KEYCTL_SEARCH, KEY_SPEC_PROCESS_KEYRING, "user", "one", 0) == -1 ? errno : 0);
    }
    int status;
    waitpid(child, &status, 0);
    say_status("child", status);
    HOLDS((key)KEYCTL(KEYCTL_SEARCH, KEY_SPEC_SESSION_KEYRING, "user", "from the child", 0) > 0);
    SHOW(KEYCTL(KEYCTL_SETPERM, one, 0x3f000000));
    SHOW(KEYCTL(KEYCTL_CHOWN, one, 0, -1));
    SHOW(KEYCTL(KEYCTL_REVOKE, one));
    content("revoked", one);
    rest(115);
    SHOW(KEYCTL(KEYCTL_CLEAR, KEY_SPEC_SESSION_KEYRING));
    SHOW(KEYCTL(KEYCTL_CLEAR, KEY_SPEC_PROCESS_KEYRING));
    return 0;
}
