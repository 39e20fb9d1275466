//! A hostile node: its daemon is the real one, but the hosts that it starts are this program.
//!
//! Without the test harness, because the daemon starts hosts from its own executable: `hostile node` is the daemon,
//! `hostile host` the host, and without an argument it is the test. See `hosts/mod.rs` (what must hold),
//! `hosts/relay.rs` (the host: a real one behind a man in the middle), `hosts/lies.rs` (forged messages).

mod hosts;
mod lab;

const TEST: &str = "hostile_host_gains_nothing";

fn main() {
    let mut words: Vec<String> = std::env::args().skip(1).collect();
    match words.first().map(String::as_str) {
        Some("node") => hosts::daemon(),
        Some("host") => hosts::relay::run(),
        _ => {}
    }
    // As the harness does it: filters, the list of tests, and one line a test.
    if words.iter().any(|w| w == "--list") {
        return println!("{TEST}: test");
    }
    words.retain(|w| !w.starts_with('-'));
    if !words.is_empty() && !words.iter().any(|w| TEST.contains(w.as_str())) {
        return println!(
            "test result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 1 filtered out"
        );
    }
    println!("\nrunning 1 test");
    let end = std::panic::catch_unwind(|| {
        if let Some(farm) = lab::Farm::up("hostile", None) {
            hosts::all_attacks_fail(&farm);
        }
    });
    let (said, code) = match end {
        Ok(()) => ("ok", 0),
        Err(_) => ("FAILED", 101),
    };
    println!("test {TEST} ... {said}");
    let (good, bad) = (1 - code / 101, code / 101);
    println!(
        "\ntest result: {said}. {good} passed; {bad} failed; 0 ignored; 0 measured; 0 filtered out"
    );
    std::process::exit(code);
}
