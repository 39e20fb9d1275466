//! The ledger: this home's work is never counted as another's, and nothing is counted twice or forever.

use armento_balance::{
    Cause, Counts, Fresh, Grounds, Guest, Kind, Ledger, Move, Policy, Seen, View, decide, place,
};
use armento_gossip::{Entry, Known, Tick};
use armento_model::{HomePid, NodeName, Stay, Users};

fn name(text: &str) -> NodeName {
    text.parse().unwrap()
}

fn seen(pid: i32, place: &str) -> Seen {
    Seen {
        pid,
        uid: 1000,
        place: name(place),
        cpu_ms: 5000,
        rss_kib: 10_000,
        threads: 1,
        busy_percent: 100,
        calls: Default::default(),
        messages: None,
        settles: false,
        others: Vec::new(),
        name: String::new(),
        age_ms: 60_000,
        locked: false,
        waits: false,
        needs: None,
        hint: None,
    }
}

fn guest(home: &str, pid: i32, runnable: bool) -> Guest {
    Guest {
        home: name(home),
        pid: HomePid::of_home(pid),
        threads: 1,
        busy_percent: if runnable { 100 } else { 0 },
    }
}

/// The lag of the process at `n2` behind the one at `n1` after ten seconds of which both used nine. `n2` measured
/// itself a quarter slower; `kinds` of both.
fn behind(kinds: [u32; 2]) -> i64 {
    let policy = Policy::of(Kind::Armento);
    let mut ledger = Ledger::new(name("n1"));
    for second in 0..=10 {
        let now = Tick(100_000 + second * 1000);
        let at = |pid, place| Seen {
            cpu_ms: second * 900,
            age_ms: second * 1000,
            ..seen(pid, place)
        };
        ledger.observe(&[at(1, "n1"), at(2, "n2")], now);
        let mut nodes = vec![known("n1", 0, 0), known("n2", 100, 0)];
        nodes[1].entry.speed = nodes[0].entry.speed / 4 * 3;
        (nodes[0].entry.kind, nodes[1].entry.kind) = (kinds[0], kinds[1]);
        let view = ledger.view(nodes, |_| Users::all(), now);
        ledger.progress(&view, &policy, now);
    }
    let view = view(&mut ledger, known("n2", 100, 0), Tick(110_000));
    view.procs[1].lag_ms - view.procs[0].lag_ms
}

#[test]
fn equal_cpu_time_on_equal_processors_is_equal_progress() {
    // Between two processors of one kind a slower measurement is noise.
    assert_eq!(behind([7, 7]), 0);
    assert!(behind([7, 8]) > 1000);
}

/// The load vector's entry of `node`.
fn known(node: &str, load: u32, age_ms: u64) -> Known {
    let mut entry = Entry::new(name(node), 1);
    (entry.load, entry.mem_total_kib, entry.mem_free_kib) = (load, 4 << 20, 4 << 20);
    Known { entry, age_ms }
}

fn view(ledger: &mut Ledger, far: Known, now: Tick) -> View {
    ledger.view(vec![known("n1", 0, 0), far], |_| Users::all(), now)
}

fn others(ledger: &mut Ledger, load: u32, age_ms: u64, now: u64) -> u64 {
    view(ledger, known("n2", load, age_ms), Tick(now)).nodes[1].others
}

#[test]
fn own_work_elsewhere_is_not_counted_as_foreign() {
    let check = |load, age_ms, now, want| {
        let mut ledger = Ledger::new(name("n1"));
        ledger.observe(&[seen(1, "n2"), seen(2, "n1")], Tick(10_000));
        assert_eq!(
            others(&mut ledger, load, age_ms, now),
            want,
            "{load} {age_ms} ms before {now}"
        );
    };
    check(100, 0, 20_000, 0);
    check(300, 0, 20_000, 200);
    check(0, 0, 20_000, 0);
    // At its report our process was not there yet, or may just have come.
    check(100, 8000, 16_000, 100);
    check(100, 6500, 16_000, 0);
}

#[test]
fn flight_counts_at_its_target_until_it_ends() {
    let order = Move {
        pid: 1,
        from: name("n1"),
        to: name("n2"),
        grounds: Grounds {
            cause: Cause::Share,
            now_milli: 500,
            then_milli: 1000,
            price_ms: 6,
            lag_ms: 0,
            lost_now_permille: 0,
            lost_then_permille: 0,
        },
    };
    let flying = || {
        let mut ledger = Ledger::new(name("n1"));
        ledger.observe(&[seen(1, "n1")], Tick(1000));
        assert_eq!(ledger.load(), 100);
        ledger.moving(&order, &Policy::of(Kind::Mosix), Tick(2000));
        assert_eq!(ledger.load(), 0);
        ledger
    };
    let flights =
        |ledger: &mut Ledger, now| view(ledger, known("n2", 0, 0), Tick(now)).flights.len();

    let mut moved = flying();
    assert_eq!(flights(&mut moved, 2100), 1);
    moved.moved(1, &name("n2"), Tick(2200));
    assert_eq!((flights(&mut moved, 2200), moved.load()), (0, 0));
    // A list sent before the move does not undo it; a later one may.
    moved.observe(&[seen(1, "n1")], Tick(2300));
    assert_eq!(moved.load(), 0);
    moved.observe(&[seen(1, "n1")], Tick(9000));
    assert_eq!(moved.load(), 100);

    let mut reported = flying();
    reported.observe(&[seen(1, "n2")], Tick(2200));
    assert_eq!((flights(&mut reported, 2200), reported.load()), (0, 0));

    let mut stayed = flying();
    stayed.stayed(1, Stay::Busy, Tick(2200));
    assert_eq!((flights(&mut stayed, 2200), stayed.load()), (0, 100));

    let mut ended = flying();
    ended.observe(&[], Tick(2200));
    assert_eq!((flights(&mut ended, 2200), ended.load()), (0, 0));

    let mut lost = flying();
    assert_eq!(flights(&mut lost, 41_000), 1);
    assert_eq!((flights(&mut lost, 43_000), lost.load()), (0, 100));
}

#[test]
fn placed_program_counts_before_its_first_report() {
    let mosix = Policy::of(Kind::Mosix);
    let mut ledger = Ledger::new(name("n1"));
    let mut put = |pid, now| {
        let view = view(&mut ledger, known("n2", 0, 900), Tick(now));
        let to = place(&view, &mosix, &Fresh::default()).unwrap();
        ledger.placing(pid, &to, &Fresh::default(), Tick(now));
        to.to_string()
    };
    let got: Vec<String> = (0..4).map(|i| put(i, 5000 + i as u64)).collect();
    assert_eq!(got, ["n1", "n2", "n1", "n2"]);
    assert_eq!(ledger.load(), 200);
    ledger.ended(0, Tick(6000));
    assert_eq!(ledger.load(), 100);
    // Never reported: given up, but not while it may be queued for its start.
    view(&mut ledger, known("n2", 0, 0), Tick(24_000));
    assert_eq!(ledger.load(), 100);
    view(&mut ledger, known("n2", 0, 0), Tick(26_000));
    assert_eq!(ledger.load(), 0);
}

#[test]
fn refused_moves_are_retried_ever_more_slowly() {
    let mut ledger = Ledger::new(name("n1"));
    ledger.observe(&[seen(1, "n1"), seen(2, "n1")], Tick(1000));
    let mut hold = |stay, now: u64| {
        ledger.stayed(1, stay, Tick(now));
        let view = view(&mut ledger, known("n2", 0, 0), Tick(now));
        let (stay, until) = view.procs[0].hold.unwrap();
        (stay, until.0 - now)
    };
    for (stay, want) in [
        (Stay::Busy, 1000),
        (Stay::TargetFailed, 2000),
        (Stay::Busy, 4000),
        (Stay::IoUring, 60_000),
        (Stay::Busy, 60_000),
    ] {
        assert_eq!(hold(stay, 5000), (stay, want));
    }
    ledger.moved(1, &name("n2"), Tick(6000));
    assert!(
        view(&mut ledger, known("n2", 0, 0), Tick(6000)).procs[0]
            .hold
            .is_none()
    );
}

#[test]
fn guests_and_admitted_guests_count_as_work() {
    let mut ledger = Ledger::new(name("n1"));
    ledger.expect(&name("n2"), HomePid::of_home(7), 10_000, Tick(1000));
    ledger.expect(&name("n2"), HomePid::of_home(7), 10_000, Tick(1000));
    assert_eq!(ledger.load(), 100);
    let own = view(&mut ledger, known("n2", 0, 0), Tick(1000)).nodes[0].clone();
    assert_eq!((own.others, own.taken_kib > 10_000), (100, true));
    ledger.guests(&[guest("n2", 7, true), guest("n3", 7, true)], Tick(1500));
    assert_eq!(
        ledger.load(),
        200,
        "it came, with another of the same number"
    );
    ledger.guests(&[], Tick(2000));
    assert_eq!(ledger.load(), 0);
    ledger.expect(&name("n2"), HomePid::of_home(8), 10_000, Tick(2000));
    ledger.unexpect(&name("n2"), HomePid::of_home(8));
    assert_eq!(ledger.load(), 0, "it will not come");
    ledger.expect(&name("n2"), HomePid::of_home(9), 10_000, Tick(2000));
    ledger.sampled(0, Tick(7_001));
    assert_eq!(ledger.load(), 0, "it never came");
}

#[test]
fn background_is_the_remaining_work_and_rises_slowly() {
    let mut ledger = Ledger::new(name("n1"));
    ledger.observe(&[seen(1, "n1"), seen(2, "n2")], Tick(0));
    ledger.guests(&[guest("n3", 5, true)], Tick(0));
    let mut background = |runnable, now| {
        ledger.sampled(runnable, Tick(now));
        ledger.load() - 200
    };
    // One process of this home and one guest are here.
    assert_eq!(background(2, 1000), 0);
    assert_eq!(background(4, 2000), 75);
    assert_eq!(background(4, 3000), 121);
    assert_eq!(background(2, 4000), 45);
    assert_eq!(background(0, 5000), 16);
}

#[test]
fn demand_and_calls_follow_activity() {
    let mut ledger = Ledger::new(name("n1"));
    let mut at = |runnable, forwarded, now| {
        ledger.observe(
            &[Seen {
                busy_percent: if runnable { 100 } else { 0 },
                calls: Counts {
                    waits: forwarded,
                    ..Counts::default()
                },
                ..seen(1, "n2")
            }],
            Tick(now),
        );
        let view = view(&mut ledger, known("n2", 0, 0), Tick(now));
        (view.procs[0].demand, view.procs[0].rates.waits)
    };
    assert_eq!(at(true, 100, 1000), (100, 0));
    assert_eq!(at(false, 600, 1100), (100, 0), "too soon for a step");
    assert_eq!(at(false, 1100, 2000), (100, 1000), "young and away");
    assert_eq!(at(true, 1100, 20_000).0, 100);
    assert_eq!(at(false, 1600, 20_100).0, 100, "too soon again");
    assert_eq!(at(false, 2100, 21_000), (63, 444));
    assert_eq!(at(false, 2100, 22_000), (40, 259), "forgotten in seconds");
    let (demand, calls) = at(false, 2100, 80_000);
    assert!(demand < 40 && calls < 20, "{demand} {calls}");
}

#[test]
fn without_own_sample_no_move_is_decided() {
    let mut ledger = Ledger::new(name("n1"));
    ledger.observe(&[seen(1, "n1"), seen(2, "n1"), seen(3, "n1")], Tick(1000));
    let blind = ledger.view(vec![known("n2", 0, 0)], |_| Users::all(), Tick(9000));
    for kind in Kind::ALL {
        let policy = Policy::of(kind);
        assert!(decide(&blind, &policy, Tick(9000)).is_empty(), "{kind}");
        assert_eq!(place(&blind, &policy, &Fresh::default()), None, "{kind}");
    }
}

#[test]
fn processes_that_share_memory_are_a_group_for_a_minute() {
    let mut ledger = Ledger::new(name("n1"));
    let now = Tick(100_000);
    ledger.observe(&[seen(7, "n1"), seen(8, "n1")], now);
    ledger.stayed(8, Stay::SharedMemory, now);
    ledger.share_memory(&[8, 7], now);
    let procs = ledger.own_view(None, Users::all(), now).procs;
    let known = procs.iter().all(|p| p.group == Some(7) && p.hold.is_none());
    assert!(known, "{procs:?}");
    let later = Tick(now.0 + 60_000);
    let procs = ledger.own_view(None, Users::all(), later).procs;
    assert!(
        procs.iter().all(|p| p.group.is_none()),
        "it is asked alone once more"
    );
}
