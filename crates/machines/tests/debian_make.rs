//! `armento run --spread make -j8` of a user under Yama 1: the compilers are spread over the farm.

use armento_machines::farm::{Farm, runs_on};
use armento_machines::{Kernel, Kind};
use serde_json::Value;
use std::time::Duration;

/// Sources that take the compiler some seconds of a processor each, and far more of an emulated one.
const SOURCES: &str = r#"mkdir -p build; cd build
for i in $(seq 12); do cat > f$i.cc <<E
#include <regex>
#include <iostream>
int f$i(const char *s) { std::regex r("a(b|c)*d$i"); return std::regex_match(s, r) ? std::cout << s, 1 : 0; }
E
done
printf 'all: %s\n%%.o: %%.cc\n\tg++ -O2 -c $< -o $@\n' "$(ls *.cc | sed 's/cc$/o/' | tr '\n' ' ')" > Makefile"#;
/// In the background of a login that ends. `summary`: a line for each process that ended.
const MAKE: &str = r#"(setsid sh -c 'cd ~/build; ARMENTO_SUMMARY=$HOME/summary armento run --spread make -j8 > ../out 2>&1
echo $? > ../code' > /dev/null 2>&1 < /dev/null &)"#;
/// Enough for eight of these compilers at once: each takes 250 MiB in the end.
const MEM_MIB: u32 = 3072;
/// Several times the duration on two cores.
const LIMIT: Duration = Duration::from_secs(1500);

#[test]
fn make_runs_most_compilers_away() {
    let Some(farm) = Farm::up_long_with(Kind::Full, &[Kernel::V6_12; 3], MEM_MIB) else {
        return;
    };
    let n1 = farm.n(1);
    n1.sh("alice", SOURCES);
    for node in ["n2", "n3"] {
        runs_on(n1, node);
    }
    n1.sh("alice", MAKE);
    n1.until("the end of make", "alice", "test -s code", LIMIT);
    let said = n1.sh("alice", "cat code; tail -n 3 out; ls build/*.o | wc -l");
    assert!(said.starts_with("0\n") && said.ends_with("12\n"), "{said}");
    let (mut all, mut away) = (0, 0);
    for line in n1.sh("alice", "grep cc1plus summary").lines() {
        let ended: Value = serde_json::from_str(line).expect("a line of the summary");
        let ms = |field: &str| ended[field].as_u64().expect("milliseconds");
        all += ms("cpu_ms");
        away += ms("away_cpu_ms");
    }
    println!("make -j8: {away} of {all} ms of the compilers' processor time away");
    let log = n1.sh("alice", "armento log | tail -n 40");
    assert!(2 * away > all, "{away} of {all} ms away: {log}");
}
