/* Floating-point environment: rounding modes of SSE and x87, mxcsr with flush-to-zero, the x87
 * control word and its stack, exception flags, long double sums, in main and in a thread.
 * About 0.7 s. */
#include "show.h"
#include <fenv.h>
#include <math.h>

static unsigned mxcsr(void)
{
    unsigned m;
    asm volatile("stmxcsr %0" : "=m"(m));
    return m;
}
static unsigned short cw(void)
{
    unsigned short c;
    asm volatile("fnstcw %0" : "=m"(c));
    return c;
}

static void pause_a_while(int i)
{
    if (i % 2)
        chew(30 * CHEW_MS);
    else
        rest(40);
}

static void modes(const char *who)
{
    static const int list[] = {FE_TONEAREST, FE_DOWNWARD, FE_UPWARD, FE_TOWARDZERO};
    for (int i = 0; i < 4; i++) {
        fesetround(list[i]);
        pause_a_while(i);
        volatile double one = 1, three = 3, minus = -1;
        volatile long double lone = 1, lthree = 3;
        say("%s mode %x: round %x mxcsr %x cw %x %a %a %La rint %g", who, list[i], fegetround(),
            mxcsr() & ~0x3fu, cw(), one / three, minus / three, lone / lthree, rint(2.5));
    }
    fesetround(FE_TONEAREST);
}

static void *thread(void *arg)
{
    modes("thread");
    return NULL;
}

int main(void)
{
    pthread_t t;
    pthread_create(&t, NULL, thread, NULL);
    pthread_join(t, NULL);
    modes("main");
    feclearexcept(FE_ALL_EXCEPT);
    volatile double zero = 0, tiny = 4.9e-324, huge = 1e308;
    volatile double r = 1 / zero;
    pause_a_while(0);
    say("divbyzero %d overflow %d", !!fetestexcept(FE_DIVBYZERO), !!fetestexcept(FE_OVERFLOW));
    r = huge * huge;
    pause_a_while(1);
    say("overflow %d invalid %d", !!fetestexcept(FE_OVERFLOW), !!fetestexcept(FE_INVALID));
    unsigned m = mxcsr() | 0x8040;
    asm volatile("ldmxcsr %0" : : "m"(m));
    pause_a_while(0);
    r = tiny / 2 + tiny;
    say("flushed %a mxcsr %x", r, mxcsr() & 0xffc0);
    m &= ~0x8040u;
    asm volatile("ldmxcsr %0" : : "m"(m));
    unsigned short single = 0x007f;
    asm volatile("fldcw %0" : : "m"(single));
    pause_a_while(1);
    volatile long double lone = 1, lthree = 3;
    say("single precision %La cw %x", lone / lthree, cw());
    asm volatile("fninit");
    double a = 1.25, b = -7.5, c = 1e300, out[3];
    struct timespec ts = {0, 60000000};
    long n = SYS_nanosleep;
    asm volatile("fldl %4\nfldl %5\nfldl %6\nmov %7, %%rdi\nxor %%esi, %%esi\nsyscall\n"
                 "fstpl %1\nfstpl %2\nfstpl %3\n"
                 : "+a"(n), "=m"(out[0]), "=m"(out[1]), "=m"(out[2])
                 : "m"(a), "m"(b), "m"(c), "r"(&ts)
                 : "rcx", "r11", "rdi", "rsi", "memory");
    say("x87 stack %a %a %a", out[0], out[1], out[2]);
    long double sum = 0;
    for (int i = 1; i < 20000000; i++)
        sum += 1.0L / i;
    say("harmonic %.18Lf", sum);
    return 0;
}
