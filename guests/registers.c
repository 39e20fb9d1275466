/* Registers under signals: x87, SSE and AVX contents, control words over handlers that
 * change them all, over nested handlers and siglongjmp, in two threads; a handler that changes the saved
 * registers and so the program. About 0.9 s. */
#include "show.h"
#include <fenv.h>
#include <immintrin.h>
#include <math.h>
#include <ucontext.h>

static volatile int handled;
static sigjmp_buf back;

/* Changes all registers; the kernel restores them. */
static void spoil(int s)
{
    handled++;
    fesetround(FE_UPWARD);
    _mm_setcsr(_mm_getcsr() | 0x8040);
    feraiseexcept(FE_DIVBYZERO | FE_INEXACT);
    asm volatile("fldpi; fldl2e; fldpi; fstp %%st(0); pxor %%xmm0, %%xmm0; pxor %%xmm7, %%xmm7; pxor %%xmm15, %%xmm15"
                 ::: "xmm0", "xmm7", "xmm15", "st", "st(1)");
    if (__builtin_cpu_supports("avx"))
        asm volatile("vzeroall" ::: "memory");
    if (s == SIGUSR1)
        raise(SIGUSR2);
    asm volatile("fstp %%st(0); fstp %%st(0)" ::: "st", "st(1)");
}

static void change(int s, siginfo_t *i, void *u)
{
    ucontext_t *c = u;
    c->uc_mcontext.gregs[REG_R12] += 1000;
    c->uc_mcontext.gregs[REG_R13] = ~c->uc_mcontext.gregs[REG_R13];
    ((uint32_t *)&c->uc_mcontext.fpregs->_xmm[6])[1] ^= 0xffff;
}

static void skip(int s, siginfo_t *i, void *u)
{
    ucontext_t *c = u;
    c->uc_mcontext.gregs[REG_RIP] += 2; /* over ud2 */
    c->uc_mcontext.gregs[REG_RBX]++;
}

static void jump(int s) { feraiseexcept(FE_OVERFLOW), fesetround(FE_DOWNWARD), siglongjmp(back, 1); }

/* Fills registers, waits for `rounds` signals, and returns how many differ. */
static __attribute__((target("avx"))) int avx(int rounds)
{
    int bad = 0;
    for (int r = 0; r < rounds; r++) {
        __m256i in = _mm256_set1_epi32(0x1000 + r), out = in;
        pid_t pid = getpid(), tid = gettid();
        asm volatile("vmovdqa %1, %%ymm3\n\tvmovdqa %1, %%ymm12\n\t"
                     "mov %2, %%edi\n\tmov %3, %%esi\n\tmov %4, %%edx\n\tmov %5, %%eax\n\tsyscall\n\t"
                     "vpxor %%xmm0, %%xmm0, %%xmm0\n\tvmovdqa %%ymm3, %0"
                     : "=m"(out)
                     : "m"(in), "r"(pid), "r"(tid), "i"(SIGUSR1), "i"(SYS_tgkill)
                     : "rax", "rcx", "r11", "rdi", "rsi", "rdx", "xmm0", "xmm3", "xmm12", "memory");
        bad += memcmp(&in, &out, sizeof in) != 0;
        if (r % 8 == 0)
            rest(16);
    }
    return bad;
}

static void *worker(void *arg)
{
    int bad = 0;
    fesetround((long)arg ? FE_DOWNWARD : FE_TOWARDZERO);
    unsigned csr = _mm_getcsr() & ~0x3f;
    double x = 1;
    for (int i = 0; i < 40; i++) {
        double before = x;
        raise(SIGUSR1);
        bad += x != before || (_mm_getcsr() & ~0x3f) != csr || fegetround() != ((long)arg ? FE_DOWNWARD : FE_TOWARDZERO);
        x = x * 1.0000001 / 3 + sin(x);
        chew(CHEW_MS / 4);
        if (i % 10 == 0)
            rest(40);
    }
    if (__builtin_cpu_supports("avx"))
        bad += avx(30);
    return (void *)(long)bad;
}

int main(void)
{
    struct sigaction a = {.sa_handler = spoil};
    sigaction(SIGUSR1, &a, NULL), sigaction(SIGUSR2, &a, NULL);
    pthread_t t;
    void *there;
    pthread_create(&t, NULL, worker, (void *)1);
    long here = (long)worker(NULL);
    pthread_join(t, &there);
    say("spoilt here %ld there %ld, handled %d", here, (long)there, handled);
    fesetround(FE_TONEAREST);
    feclearexcept(FE_ALL_EXCEPT);

    a.sa_sigaction = change, a.sa_flags = SA_SIGINFO;
    sigaction(SIGTERM, &a, NULL);
    long r12 = 7, r13 = 0x1234;
    __m128i v = _mm_set1_epi32(3);
    for (int i = 0; i < 10; i++) {
        asm volatile("mov %0, %%r12\n\tmov %1, %%r13\n\tmovdqa %2, %%xmm6\n\t"
                     "mov %3, %%edi\n\tmov %4, %%esi\n\tmov %5, %%eax\n\tsyscall\n\t"
                     "mov %%r12, %0\n\tmov %%r13, %1\n\tmovdqa %%xmm6, %2"
                     : "+m"(r12), "+m"(r13), "+m"(v)
                     : "r"(getpid()), "i"(SIGTERM), "i"(SYS_kill)
                     : "rax", "rcx", "r11", "rdi", "rsi", "r12", "r13", "xmm6", "memory");
        rest(24);
    }
    say("changed to %ld %lx %x %x", r12, r13, ((uint32_t *)&v)[0], ((uint32_t *)&v)[1]);
    a.sa_sigaction = skip;
    sigaction(SIGILL, &a, NULL);
    long rbx = 0;
    for (int i = 0; i < 20; i++) {
        asm volatile("mov %0, %%rbx\n\tud2\n\tmov %%rbx, %0" : "+m"(rbx)::"rbx");
        chew(CHEW_MS);
    }
    say("skipped %ld", rbx);
    a.sa_handler = jump, a.sa_flags = 0;
    sigaction(SIGHUP, &a, NULL);
    for (volatile int i = 0; i < 10; i++) {
        if (!sigsetjmp(back, 1))
            raise(SIGHUP), say("not here");
        if (i % 3 == 0)
            rest(40);
    }
    say("after jumps: rounding %d overflow %d", fegetround() == FE_DOWNWARD, fetestexcept(FE_OVERFLOW) != 0);
    volatile long double pi = 3.14159265358979323846L, sum = 0;
    fesetround(FE_TONEAREST);
    for (int i = 0; i < 200; i++) {
        sum += pi / (i + 1);
        if (i % 50 == 0)
            rest(30);
    }
    say("sum %.15Lf", sum);
    return 0;
}
