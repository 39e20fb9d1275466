//! Decisions of the policy `armento` about what a farm looks like at one moment.

mod drain;
mod files;
mod groups;

use armento_balance::{FileUse, Move, Node, Proc, View};
use armento_gossip::{Entry, Tick};
use armento_model::{NodeName, Users};

const NOW: Tick = Tick(100_000);
const GIB: u64 = 1 << 20;

fn name(text: &str) -> NodeName {
    text.parse().unwrap()
}

/// A node of one core of that speed, thousandths, with other homes' work of so many hundredths, so far away.
fn node(text: &str, speed_milli: u32, others: u64, rtt_us: u64) -> Node {
    let mut entry = Entry::new(name(text), 1);
    (entry.mem_total_kib, entry.mem_free_kib) = (4 * GIB, 4 * GIB);
    entry.speed = speed_milli * 10;
    Node {
        entry,
        age_ms: 500,
        open: Users::all(),
        others,
        steady: others,
        mean: others,
        guests: 0,
        taken_kib: 0,
        freed_kib: 0,
        rtt_us,
    }
}

fn proc(pid: i32, place: &str, files: FileUse) -> Proc {
    Proc {
        pid,
        uid: 1000,
        place: name(place),
        demand: 100,
        cpu_ms: 20_000,
        rss_kib: 10_000,
        arrived: Tick(40_000),
        files,
        back_until: None,
        group: None,
        rates: Default::default(),
        computes_permille: 1000,
        locked: false,
        hold: None,
        needs: None,
        hint: None,
        lag_ms: 0,
        age_ms: 60_000,
        known: vec![name(place)],
    }
}

fn view(nodes: Vec<Node>, procs: Vec<Proc>) -> View {
    View {
        me: name("n1"),
        nodes,
        procs,
        flights: Vec::new(),
        placements: 0,
        decided_last: None,
        ended_last: None,
        turns_ms: 0,
        upkeep: 0,
        busy_percent: Default::default(),
        typical_ms: None,
    }
}

fn said(moves: &[Move]) -> String {
    let each = moves.iter().map(|m| {
        let cause = m.grounds.cause.name();
        format!("{}:{}>{} {cause}", m.pid, m.from, m.to)
    });
    each.collect::<Vec<_>>().join(", ")
}
