/* Vector registers: SSE, AVX and AVX-512 with their mask registers hold a known pattern over calls and CPU loops, in
 * two threads; prints n/a for features that the CPU lacks. Proves that the whole extended state is moved.
 * About 0.8 s. */
#include "show.h"
#include <cpuid.h>

static int have_avx512(void)
{
    unsigned a, b, c, d;
    if (!__builtin_cpu_supports("avx512f"))
        return 0;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b >> 16 & 1);
}

/* Loads the register, loops in user mode, stores it: all in one asm, so the compiler cannot spill. */
#define HOLD(load, store, clobber, in, out, rounds)                                                \
    do {                                                                                           \
        uint64_t n_ = rounds;                                                                      \
        asm volatile(load "\n1: dec %0\n jnz 1b\n" store                                           \
                     : "+r"(n_)                                                                    \
                     : "r"(in), "r"(out)                                                           \
                     : "memory", "cc", clobber);                                                   \
    } while (0)

/* The same over a sleeping system call: nanosleep({0, 20 ms}). */
#define HOLD_CALL(load, store, clobber, in, out)                                                   \
    do {                                                                                           \
        struct timespec t_ = {0, 20000000};                                                        \
        long n_ = SYS_nanosleep;                                                                   \
        asm volatile(load "\nmov %3, %%rdi\nxor %%esi, %%esi\nsyscall\n" store                     \
                     : "+a"(n_)                                                                    \
                     : "r"(in), "r"(out), "r"(&t_)                                                 \
                     : "memory", "cc", "rcx", "r11", "rdi", "rsi", clobber);                       \
        if (n_)                                                                                    \
            say("nanosleep %ld", n_);                                                              \
    } while (0)

__attribute__((target("avx512f"))) static int zmm(const char *in, char *out, int i)
{
    if (i % 2)
        HOLD("vmovdqu64 (%1), %%zmm19\nkmovw (%1), %%k3", "vmovdqu64 %%zmm19, (%2)\nkmovw %%k3, 64(%2)", "xmm19", in, out, 40 * CHEW_MS);
    else
        HOLD_CALL("vmovdqu64 (%1), %%zmm19\nkmovw (%1), %%k3", "vmovdqu64 %%zmm19, (%2)\nkmovw %%k3, 64(%2)", "xmm19", in, out);
    return memcmp(in, out, 64) || memcmp(in, out + 64, 2);
}
__attribute__((target("avx"))) static int ymm(const char *in, char *out, int i)
{
    if (i % 2)
        HOLD("vmovdqu (%1), %%ymm7", "vmovdqu %%ymm7, (%2)\nvzeroupper", "xmm7", in, out, 40 * CHEW_MS);
    else
        HOLD_CALL("vmovdqu (%1), %%ymm7", "vmovdqu %%ymm7, (%2)\nvzeroupper", "xmm7", in, out);
    return memcmp(in, out, 32);
}
static int xmm(const char *in, char *out, int i)
{
    if (i % 2)
        HOLD("movdqu (%1), %%xmm9", "movdqu %%xmm9, (%2)", "xmm9", in, out, 40 * CHEW_MS);
    else
        HOLD_CALL("movdqu (%1), %%xmm9", "movdqu %%xmm9, (%2)", "xmm9", in, out);
    return memcmp(in, out, 16);
}

static void *all(void *arg)
{
    long bad = 0;
    for (int i = 0; i < 12; i++) {
        char in[80], out[80];
        for (int j = 0; j < 80; j++)
            in[j] = i * 17 + j * 3 + (long)arg * 101;
        memset(out, 0, sizeof out);
        bad += xmm(in, out, i);
        if (__builtin_cpu_supports("avx"))
            bad += ymm(in, out, i);
        if (have_avx512())
            bad += zmm(in, out, i);
    }
    return (void *)bad;
}

int main(void)
{
    say("sse: yes");
    say("avx: %s", __builtin_cpu_supports("avx") ? "yes" : "n/a");
    say("avx512: %s", have_avx512() ? "yes" : "n/a");
    pthread_t t[2];
    long bad = 0;
    for (long i = 0; i < 2; i++)
        pthread_create(&t[i], NULL, all, (void *)i);
    for (int i = 0; i < 2; i++) {
        void *r;
        pthread_join(t[i], &r);
        bad += (long)r;
    }
    say("registers lost: %ld", bad);
    return 0;
}
