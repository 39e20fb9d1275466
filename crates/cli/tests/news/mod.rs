//! Changes that are reported before a node's next regular gossip interval.

use super::{Farm, until};
use serde_json::Value;
use std::time::{Duration, Instant};

/// Well below the gossip interval of this farm, one minute.
const AT_ONCE: Duration = Duration::from_secs(20);

/// Free memory of `node` as n1 and n3 have it, KiB.
fn known(farm: &Farm, node: &str) -> [Option<u64>; 2] {
    ["n1", "n3"].map(|at| {
        let doc: Value = serde_json::from_str(&farm.sh(at, "armento nodes --json")).ok()?;
        let nodes = doc["nodes"].as_array()?;
        let of = nodes.iter().find(|n| n["name"] == node)?;
        of["mem_free_kib"]
            .as_u64()
            .filter(|_| of["mem_total_kib"] != 0)
    })
}

#[test]
fn low_memory_is_announced_at_once() {
    let Some(farm) = Farm::up("news", Some(256)) else {
        return;
    };
    for node in ["n1", "n2", "n3"] {
        farm.sh(node, "printf 'gossip_period_ms = 60000\\nmem_reserve_permille = 300\\n' >> /etc/armento/config.toml; pkill -f '[a]rmento node$'");
        farm.daemon(node);
    }
    // A node without guests checks its memory only once an interval.
    farm.sh(
        "n1",
        "setsid armento run --on n2 sleep 60 >/dev/null 2>&1 </dev/null &",
    );
    until("a guest at n2", || {
        farm.sh("n1", "armento ps").contains("  n2 ")
    });
    let plenty = |free: Option<u64>| free.is_none_or(|kib| kib > 100 << 10);
    assert!(
        known(&farm, "n2").into_iter().all(plenty),
        "{:?}",
        known(&farm, "n2")
    );
    let from = Instant::now();
    farm.sh(
        "n2",
        "setsid perl -e 'vec($x, 220 << 20, 8) = 1; sleep 30' >/dev/null 2>&1 </dev/null &",
    );
    until("the news", || {
        known(&farm, "n2")
            .into_iter()
            .all(|free| free.is_some_and(|kib| kib < 60 << 10))
    });
    assert!(from.elapsed() < AT_ONCE, "{:?}", from.elapsed());
}
