//! Orders that meet `armento run` before it has become the program.

mod lab;

use lab::Farm;
use serde_json::Value;

/// Each way to start that an order can overtake; `--on` and `--spread` choose a node themselves.
const OPTIONS: [&str; 7] = [
    "",
    "--on n3",
    "--stay",
    "--cpu",
    "--io",
    "--spread",
    "--portable",
];
/// Starts of each, and in the long run: how far `armento run` has come when the order arrives differs between them.
const STARTS: usize = 3;
const STARTS_LONG: usize = 30;

#[test]
fn an_order_that_overtakes_run_moves_the_program_that_it_becomes() {
    let Some(farm) = Farm::up("orders", None) else {
        return;
    };
    let starts = if lab::long() { STARTS_LONG } else { STARTS };
    for options in OPTIONS {
        for _ in 0..starts {
            let started = farm.sh(
                "n1",
                &format!(
                    "armento run {options} sleep 99 >/dev/null 2>&1 & p=$!; armento migrate $p n2 >&2 && echo $p"
                ),
            );
            let pid = started.trim();
            let listed = farm.sh("n1", "armento ps --json");
            let listed: Value = serde_json::from_str(&listed).expect("JSON");
            let all = listed["procs"].as_array().expect("processes");
            let its = |p: &&Value| p["pid"].as_u64() == pid.parse().ok();
            let process = all.iter().find(its).expect("a line of it");
            assert_eq!(process["place"], "n2", "{options}: {process}");
            assert!(
                process["command"]
                    .as_str()
                    .is_some_and(|c| c.starts_with("sleep")),
                "{options}: {process}"
            );
            assert_eq!(process["portable"], options == "--portable", "{process}");
            farm.sh("n1", &format!("kill {pid}"));
        }
    }
}
