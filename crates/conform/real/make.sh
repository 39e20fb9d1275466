set -e
mkdir src
for i in $(seq 12); do echo "int f$i(int x) { for (int i = 0; i < x; i++) x ^= i * $i; return x; }" > src/f$i.c; done
{ for i in $(seq 12); do echo "int f$i(int);"; done; echo '#include <stdio.h>'; echo 'int main(void) { int s = 0;'
for i in $(seq 12); do echo "s += f$i($i * 1000);"; done; echo 'printf("sum %d", s); puts(""); return 0; }'; } > src/main.c
cat > Makefile <<'END'
OBJ := $(patsubst src/%.c,obj/%.o,$(wildcard src/*.c))
prog: $(OBJ)
	@gcc -o $@ $(sort $^)
obj/%.o: src/%.c | obj
	@gcc -O2 -c -o $@ $<
obj:
	@mkdir obj
fail:
	@exit 3
.PHONY: fail
END
make -s -j2
./prog
make -j2
touch -d '2030-01-01' src/f3.c
make -s -j2 2>/dev/null && ./prog
make -s fail 2>/dev/null || echo "status $?"
ls obj | wc -l
