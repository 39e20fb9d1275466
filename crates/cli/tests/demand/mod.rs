//! What the farm believes that a program wants, where a quota holds back whoever serves its calls.

use super::{Farm, USER, until};

/// Computes for a tenth of a millisecond, then asks its node for its own CPU time.
const ASKS: &str = "perl -e 'while (1) { for (1..1500) { $x += $_ % 7 } times }'";
/// So often in a row; what it wants is told once a second.
const LOOKS: u32 = 5;

/// While the quota holds all of a node back the program may be asleep: it waits for its node's answer.
pub fn asking_is_no_sleep(farm: &Farm) {
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
    until("that it wants all", || {
        std::thread::sleep(std::time::Duration::from_secs(1));
        seen = if wants() == Some(100) { seen + 1 } else { 0 };
        seen == LOOKS
    });
    farm.sh("n1", "pkill -f '[1]500'");
}
