//! A stream of short programs, as `make` starts them: what they count for, and where they begin.

use armento_balance::{Fresh, Ledger, Policy, Seen, View, place};
use armento_gossip::{Entry, Known, Tick};
use armento_model::{NodeName, Users};

const UID: u32 = 1000;
const NOW: Tick = Tick(50_000);

fn name(text: &str) -> NodeName {
    text.parse().unwrap()
}

fn seen(pid: i32, place: &str, cpu_ms: u64) -> Seen {
    Seen {
        pid,
        uid: UID,
        place: name(place),
        cpu_ms,
        rss_kib: 10_000,
        threads: 1,
        busy_percent: 100,
        calls: Default::default(),
        messages: None,
        settles: false,
        others: Vec::new(),
        name: String::new(),
        age_ms: 10_000,
        locked: false,
        waits: false,
        needs: None,
        hint: None,
    }
}

fn view(ledger: &mut Ledger, nodes: &[&str]) -> View {
    let known = |node: &&str| {
        let mut entry = Entry::new(name(node), 1);
        (entry.mem_total_kib, entry.mem_free_kib) = (4 << 20, 4 << 20);
        Known { entry, age_ms: 0 }
    };
    ledger.view(nodes.iter().map(known).collect(), |_| Users::all(), NOW)
}

fn chosen(ledger: &mut Ledger, nodes: &[&str], fresh: &Fresh) -> String {
    let view = view(ledger, nodes);
    let to = place(&view, &Policy::default(), fresh);
    to.map_or("n1".to_owned(), |to| to.to_string())
}

#[test]
fn programs_that_were_short_begin_at_home() {
    let mut ledger = Ledger::new(name("n1"));
    ledger.observe(&[seen(1, "n1", 5000), seen(2, "n1", 5000)], NOW);
    ledger.ran(UID, "/bin/cc", 4, NOW);
    ledger.ran(UID, "/bin/cc1", 400, NOW);
    for (program, want) in [("/bin/cc", "n1"), ("/bin/cc1", "n2"), ("/bin/new", "n2")] {
        let fresh = Fresh {
            uid: UID,
            expected_ms: ledger.expected_ms(UID, program),
            ..Fresh::default()
        };
        assert_eq!(
            chosen(&mut ledger, &["n1", "n2"], &fresh),
            want,
            "{program}"
        );
    }
}

#[test]
fn a_program_that_has_ended_counts_no_more() {
    let mut ledger = Ledger::new(name("n1"));
    ledger.placing(7, &name("n2"), &Fresh::default(), NOW);
    assert_eq!(view(&mut ledger, &["n1", "n2"]).flights.len(), 1);
    assert!(ledger.ended(7, NOW));
    assert!(view(&mut ledger, &["n1", "n2"]).flights.is_empty());
    assert!(!ledger.ended(7, NOW), "it does not count any more");
}

#[test]
fn a_parent_that_waits_does_not_count() {
    let mut ledger = Ledger::new(name("n1"));
    let waits = Seen {
        waits: true,
        ..seen(1, "n2", 5000)
    };
    ledger.observe(&[waits], NOW);
    assert_eq!(view(&mut ledger, &["n1", "n2"]).procs[0].demand, 0);
    // One that was placed a moment ago and has started a program already.
    ledger.placing(7, &name("n2"), &Fresh::default(), NOW);
    ledger.waits(7);
    assert!(view(&mut ledger, &["n1", "n2"]).flights.is_empty());
    ledger.observe(&[seen(7, "n2", 5)], NOW);
    assert_eq!(view(&mut ledger, &["n1", "n2"]).procs[0].demand, 0);
    ledger.observe(&[seen(7, "n2", 500)], Tick(NOW.0 + 1000));
    assert!(
        view(&mut ledger, &["n1", "n2"]).procs[0].demand > 0,
        "it computes"
    );
}

#[test]
fn what_home_does_for_others_is_taken_from_its_power() {
    let mut ledger = Ledger::new(name("n1"));
    ledger.observe(&[seen(1, "n1", 50), seen(2, "n2", 50)], NOW);
    assert_eq!(chosen(&mut ledger, &["n1", "n2"], &Fresh::default()), "n1");
    (0..4).for_each(|_| ledger.upkeep(400, 1000, NOW));
    assert_eq!(chosen(&mut ledger, &["n1", "n2"], &Fresh::default()), "n2");
}

#[test]
fn a_program_that_outlives_the_others_gets_more_room() {
    let mut ledger = Ledger::new(name("n1"));
    let old = seen(1, "n2", 5000);
    let young = [2, 3, 4, 5].map(|pid| seen(pid, if pid < 4 { "n3" } else { "n1" }, 50));
    let all: Vec<Seen> = young.into_iter().chain([old]).collect();
    ledger.observe(&all, NOW);
    let nodes = ["n1", "n2", "n3"];
    assert_eq!(chosen(&mut ledger, &nodes, &Fresh::default()), "n2");
    (0..4).for_each(|_| ledger.ran(UID, "/bin/cc1", 100, NOW));
    assert_ne!(chosen(&mut ledger, &nodes, &Fresh::default()), "n2");
}
