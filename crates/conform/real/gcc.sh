set -e
cat > a.c <<'END'
#include <stdio.h>
#include <math.h>
double area(double);
int main(int argc, char **argv) { double s = 0; for (int i = 1; i < 2000000; i++) s += area(1.0 / i); printf("%.12f %d %s\n", s, argc, argv[1]); return 6; }
END
cat > b.c <<'END'
double area(double r) { return 3.14159265358979 * r * r; }
END
for i in 1 2 3 4 5 6 7 8; do echo "static double t$i(double x) { double y = x; for (int i = 0; i < 64; i++) y = y * 1.0001 + x / (i + $i); return y; } double u$i(double x) { return t$i(x) * t$i(x + 1); }"; done > c.c
gcc -O2 -Wall -c a.c
gcc -O0 -c b.c
gcc -O3 -march=x86-64-v2 -c c.c
gcc -o prog a.o b.o c.o -lm
./prog first || echo "status $?"
gcc -O2 -S -o - c.c | sha256sum
gcc -E a.c | grep -c printf
echo 'int main(void) { return undefined; }' > bad.c
gcc -c bad.c 2> errors || echo "status $?"
grep -c error: errors
gcc -O2 -fPIC -shared -o libb.so b.c && gcc -o dyn a.o -L. -lb -lm && LD_LIBRARY_PATH=. ./dyn second || echo "status $?"
nm prog | grep -c ' [Tt] ' > /dev/null; size prog | tail -1 | cut -f1
