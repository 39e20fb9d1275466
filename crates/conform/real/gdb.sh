cat > prog.c <<'CC'
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>
static volatile int count;
static int square(int n) { count++; return n * n; }
static void *thread(void *arg) { for (int i = 0; i < 3; i++) { count += square(i) > 99; usleep(20000); } return arg; }
int main(void) {
    pthread_t t;
    for (int i = 1; i <= 3; i++) printf("square %d\n", square(i)), fflush(stdout);
    pthread_create(&t, 0, thread, 0);
    pthread_join(t, 0);
    printf("count %d\n", count);
    fflush(stdout);
    return *(volatile int *)8;
}
CC
gcc -g -O0 -pthread -o prog prog.c
cat > script <<'GDB'
set pagination off
set confirm off
set print thread-events off
set disable-randomization on
break square
run
print n
finish
continue
backtrace
watch count
continue
delete
call square(12)
set var count = 40
continue
print $_siginfo.si_signo
backtrace 1
kill
GDB
gdb -nx -q -batch -x script ./prog 2>&1 | sed -e 's/0x[0-9a-f]*/ADDR/g' -e '/^\[/d' -e '/^warning/d' -e '/libthread_db/d' \
    -e 's/(Thread ADDR (LWP [0-9]*))/(THREAD)/' -e '/Missing separate/d' -e 's/LWP [0-9]*/LWP/g' -e 's/process [0-9]*/process/g'
./prog & pid=$!
wait $pid 2>/dev/null
echo "status $?"
rm -f prog script
