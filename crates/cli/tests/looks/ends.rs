//! A child that is killed at home while it execs another program: only the child ends.

use super::Farm;

const PROGRAM: &str = include_str!("execs.c");
/// One in four is killed during the preparations for an exec.
const CHILDREN: usize = 24;
/// Each is killed a little later than the one before: somewhere in its execs, some 40 ms each.
const KILLS: &str = "n=0; while kill -0 $p 2>/dev/null; do sleep 0.1; n=$((n + 7)); sleep 0.0$((n % 40 + 10)); \
                     k=$(tail -n 1 /tmp/execs.out | sed -n 's/^child //p'); \
                     if [ -n \"$k\" ]; then kill -KILL $k; fi; done 2>/dev/null";

pub fn kill_during_exec_ends_one_child(farm: &Farm) {
    let make = format!("gcc -O1 -o /tmp/execs -x c - <<'EOF'\n{PROGRAM}EOF");
    farm.sh("n1", &make);
    let start = format!("armento run --on n2 /tmp/execs {CHILDREN} >/tmp/execs.out 2>&1 & p=$!");
    let said = farm.sh(
        "n1",
        &format!("{start}; {KILLS}; wait $p; grep -v ^child /tmp/execs.out"),
    );
    assert_eq!(said, "ended with 9\n".repeat(CHILDREN));
}
