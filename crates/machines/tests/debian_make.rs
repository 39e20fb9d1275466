//! `armento run --spread make -j8` of a user under Yama 1: what it starts spreads over the farm.

use armento_machines::farm::{Farm, runs_on};
use armento_machines::{Kernel, Kind, Machine};
use std::time::Duration;

/// Compilers that each need some seconds of a processor, and far more of an emulated one.
const SOURCES: &str = r#"mkdir -p build; cd build
for i in $(seq 12); do cat > f$i.cc <<E
#include <regex>
#include <iostream>
int f$i(const char *s) { std::regex r("a(b|c)*d$i"); return std::regex_match(s, r) ? std::cout << s, 1 : 0; }
E
done
printf 'all: %s\n%%.o: %%.cc\n\tg++ -O2 -c $< -o $@\n' "$(ls *.cc | sed 's/cc$/o/' | tr '\n' ' ')" > Makefile"#;
/// In the background of a login that ends; what make used of its home's processors goes into `times`.
const MAKE: &str = r#"(setsid bash -c 'cd ~/build; TIMEFORMAT="%U %S"
time armento run --spread make -j8 > ../out 2>&1; echo $? > ../code' > /dev/null 2> times < /dev/null &)"#;
const LIMIT: Duration = Duration::from_secs(1500);

/// Seconds of processors that guests have used here.
fn hosted(m: &Machine) -> f64 {
    let stat = "/sys/fs/cgroup/system.slice/armento-guests.scope/cpu.stat";
    let said = m.sh("root", &format!("sed -n 's/^usage_usec //p' {stat}"));
    said.trim().parse::<f64>().expect("microseconds") / 1e6
}

#[test]
fn compilers_of_make_run_away_for_the_greater_part() {
    let Some(farm) = Farm::up_long(Kind::Full, &[Kernel::V6_12; 3]) else {
        return;
    };
    let n1 = farm.n(1);
    n1.sh("alice", SOURCES);
    for node in ["n2", "n3"] {
        runs_on(n1, node);
    }
    let others = [farm.n(2), farm.n(3)];
    let before: f64 = others.map(hosted).iter().sum();
    n1.sh("alice", MAKE);
    n1.until("the end of make", "alice", "test -s code", LIMIT);
    let said = n1.sh("alice", "cat code; tail -n 3 out; ls build/*.o | wc -l");
    assert!(said.starts_with("0\n") && said.ends_with("12\n"), "{said}");
    let times = n1.sh("alice", "tail -n 1 times");
    let seconds = times.split_whitespace().map(|t| t.parse::<f64>());
    let home: f64 = seconds.map(|t| t.expect("seconds")).sum();
    let away = others.map(hosted).iter().sum::<f64>() - before;
    println!("make -j8: {away:.1} s of processors away, {home:.1} s at home");
    assert!(
        away > home,
        "{away:.1} s away, {home:.1} s at home: {}",
        n1.sh("alice", "armento log | tail -n 40")
    );
}
