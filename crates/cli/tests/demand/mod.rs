//! CPU demand that the farm reports for a program while a quota throttles the host that serves its calls.

use super::{Farm, USER, until};

/// Computes for a tenth of a millisecond, then asks its node for its own CPU time.
const ASKS: &str = "perl -e 'while (1) { for (1..1500) { $x += $_ % 7 } times }'";
/// So many checks in a row must succeed; demand is reported once a second.
const LOOKS: u32 = 5;

/// While the quota throttles the whole node the program may be asleep: it waits for its node's answer.
pub fn waiting_for_the_node_counts_as_demand(farm: &Farm) {
    let start =
        format!("setsid {USER} armento run --on n2 -- {ASKS} > /dev/null 2>&1 < /dev/null &");
    farm.sh("n1", &start);
    let wants = || {
        let said = farm.sh("n1", "armento ps --json");
        let doc: serde_json::Value = serde_json::from_str(&said).expect("JSON");
        let its = doc["procs"].as_array().and_then(|procs| procs.first())?;
        (its["place"] == "n2").then(|| its["busy_percent"].as_u64())?
    };
    let mut seen = 0;
    until("full demand in ps", || {
        std::thread::sleep(std::time::Duration::from_secs(1));
        seen = if wants() == Some(100) { seen + 1 } else { 0 };
        seen == LOOKS
    });
    farm.sh("n1", "pkill -f '[1]500'");
}
