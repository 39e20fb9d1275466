//! Single decisions, each from a view in one line.

use armento_balance::{
    Cause, FileUse, Flight, Fresh, Kind, Move, Need, Node, Policy, Proc, View, admit, barred,
    common, decide, place, why,
};
use armento_gossip::{CpuSet, Entry, Tick};
use armento_model::{Hint, NodeName, Stay, Users};

const NOW: Tick = Tick(100_000);
const GIB: u64 = 1 << 20;

fn name(text: &str) -> NodeName {
    text.parse().unwrap()
}

fn node(text: &str) -> Node {
    let mut entry = Entry::new(name(text), 1);
    (entry.mem_total_kib, entry.mem_free_kib) = (4 * GIB, 4 * GIB);
    Node {
        entry,
        age_ms: 500,
        open: Users::all(),
        others: 0,
        steady: 0,
        mean: 0,
        guests: 0,
        taken_kib: 0,
        freed_kib: 0,
        rtt_us: 0,
    }
}

/// `count` processes of this home at `place`, a minute old, using CPU all the time.
fn procs(place: &str, count: i32, first: i32) -> Vec<Proc> {
    let one = |pid| Proc {
        pid,
        uid: 1000,
        place: name(place),
        demand: 100,
        cpu_ms: 1000 + u64::from(pid.unsigned_abs()),
        rss_kib: 10_000,
        arrived: Tick(40_000),
        files: FileUse::default(),
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
    };
    (first..first + count).map(one).collect()
}

/// A farm seen from n1 with so many of its processes on n1, n2, …
fn farm(counts: &[i32]) -> View {
    let places = |i: usize| format!("n{}", i + 1);
    let at = |(i, &count): (usize, &i32)| procs(&places(i), count, 100 * (i as i32 + 1));
    View {
        me: name("n1"),
        nodes: (0..counts.len()).map(|i| node(&places(i))).collect(),
        procs: counts.iter().enumerate().flat_map(at).collect(),
        flights: Vec::new(),
        placements: 0,
        decided_last: None,
        ended_last: None,
        turns_ms: 0,
        upkeep: 0,
        busy_percent: 0,
        typical_ms: None,
    }
}

fn flight(pid: i32, to: &str) -> Flight {
    Flight {
        pid,
        to: name(to),
        need_kib: 20_000,
        since: NOW,
    }
}

/// The decision as `n1>n2`, or `-` for none.
fn check(what: &str, policy: &Policy, view: &View, want: &str) {
    let moves = decide(view, policy, NOW);
    let text = |m: &Move| format!("{}>{}", m.from, m.to);
    let got = moves.first().map_or("-".to_owned(), text);
    assert!(moves.len() <= 1, "{what}: {moves:?}");
    assert_eq!(got, want, "{what}");
    for m in &moves {
        let proc = view.procs.iter().find(|proc| proc.pid == m.pid).unwrap();
        assert!(!proc.locked && proc.place == m.from, "{what}: {proc:?}");
        assert_eq!(why(view, policy, m.pid, NOW), None, "{what}");
    }
}

#[test]
fn counts_are_evened_out_from_a_difference_of_two() {
    let mosix = Policy::of(Kind::Mosix);
    for (counts, want) in [
        (&[1, 0, 0, 0][..], "-"),
        (&[2, 0, 0, 0], "n1>n2"),
        (&[2, 1, 1, 1], "-"),
        (&[2, 1, 1, 0], "n1>n4"),
        (&[0, 2, 1, 0], "n2>n1"),
        (&[1, 1, 3, 1], "n3>n1"),
        (&[1, 3, 0, 1], "n2>n3"),
        (&[6, 6, 6, 6], "-"),
        (&[7, 6, 6, 5], "n1>n4"),
        (&[24, 0, 0, 0], "n1>n2"),
        (&[5], "-"),
        (&[0, 0], "-"),
    ] {
        check(&format!("{counts:?}"), &mosix, &farm(counts), want);
        for kind in [Kind::Static, Kind::None] {
            check(
                &format!("{counts:?} {kind}"),
                &Policy::of(kind),
                &farm(counts),
                "-",
            );
        }
    }
}

#[test]
fn speed_cores_and_foreign_work_count() {
    let mosix = Policy::of(Kind::Mosix);
    let with = |counts: &[i32], change: &dyn Fn(&mut [Node])| {
        let mut view = farm(counts);
        change(&mut view.nodes);
        view
    };
    let slow = |n: &mut [Node]| n[0].entry.speed = 4000;
    check(
        "an idle fast node draws",
        &mosix,
        &with(&[1, 0], &slow),
        "n1>n2",
    );
    check(
        "two on the fast one still gain",
        &mosix,
        &with(&[1, 1], &slow),
        "n1>n2",
    );
    let twice = |n: &mut [Node]| n[1].entry.speed = 20_000;
    check(
        "twice as fast and busy",
        &mosix,
        &with(&[1, 1], &twice),
        "-",
    );
    check("two of three", &mosix, &with(&[2, 1], &twice), "n1>n2");
    check(
        "a slow node is no relief",
        &mosix,
        &with(&[2, 0], &|n| n[1].entry.speed = 5000),
        "-",
    );
    check(
        "cores take one each",
        &mosix,
        &with(&[2, 3], &|n| n[1].entry.cores = 4),
        "n1>n2",
    );
    check(
        "full cores",
        &mosix,
        &with(&[2, 7], &|n| n[1].entry.cores = 4),
        "-",
    );
    check(
        "idle cores at home suffice",
        &mosix,
        &with(&[4, 0], &|n| n[0].entry.cores = 4),
        "-",
    );
    check(
        "others' work keeps away",
        &mosix,
        &with(&[2, 0], &|n| n[1].others = 100),
        "-",
    );
    check(
        "others' work drives out",
        &mosix,
        &with(&[1, 0], &|n| n[0].others = 100),
        "n1>n2",
    );
    check(
        "a trace of it does not",
        &mosix,
        &with(&[1, 0], &|n| n[0].others = 30),
        "-",
    );
}

#[test]
fn bound_processes_do_not_move() {
    let mosix = Policy::of(Kind::Mosix);
    let with = |change: &dyn Fn(&mut Proc)| {
        let mut view = farm(&[3, 0]);
        view.procs.iter_mut().for_each(change);
        view
    };
    let bound = |what: &str, stay: Stay, change: &dyn Fn(&mut Proc)| {
        let view = with(change);
        check(what, &mosix, &view, "-");
        assert_eq!(why(&view, &mosix, 100, NOW), Some(stay), "{what}");
    };
    bound("locked", Stay::Locked, &|p| p.locked = true);
    bound("held", Stay::IoUring, &|p| {
        p.hold = Some((Stay::IoUring, NOW.plus(1)))
    });
    bound("young", Stay::TooYoung, &|p| p.arrived = Tick(NOW.0 - 999));
    bound("calls home all the time", Stay::WouldNotPay, &|p| {
        p.files.home.waits = 20_000
    });
    bound("asleep", Stay::WouldNotPay, &|p| p.demand = 20);
    check(
        "the hold is over",
        &mosix,
        &with(&|p| p.hold = Some((Stay::Busy, NOW))),
        "n1>n2",
    );
    check(
        "old enough",
        &mosix,
        &with(&|p| p.arrived = Tick(NOW.0 - 1000)),
        "n1>n2",
    );
    check(
        "calls home now and then",
        &mosix,
        &with(&|p| p.files.home.waits = 500),
        "n1>n2",
    );
    // If one of them may move, it is chosen.
    let mut view = with(&|p| p.locked = p.pid != 101);
    check("the only free one", &mosix, &view, "n1>n2");
    assert_eq!(decide(&view, &mosix, NOW)[0].pid, 101);
    view.flights.push(flight(101, "n2"));
    check("it is under way", &mosix, &view, "-");
    assert_eq!(why(&view, &mosix, 101, NOW), Some(Stay::Busy));
}

#[test]
fn longest_computing_process_with_fewest_calls_home_moves() {
    let mosix = Policy::of(Kind::Mosix);
    let mut view = farm(&[3, 0]);
    assert_eq!(decide(&view, &mosix, NOW)[0].pid, 102, "most CPU");
    view.procs[2].files.home.waits = 5000;
    assert_eq!(
        decide(&view, &mosix, NOW)[0].pid,
        101,
        "… with few calls home"
    );
    let mut view = farm(&[0, 3]);
    view.procs[0].files.home.waits = 5000;
    assert_eq!(
        decide(&view, &mosix, NOW)[0].pid,
        200,
        "homewards the one with most calls"
    );
}

#[test]
fn one_decision_a_period_and_flights_count_at_their_target() {
    let mosix = Policy::of(Kind::Mosix);
    let mut view = farm(&[3, 0, 0]);
    view.decided_last = Some(Tick(NOW.0 - mosix.period_ms + 1));
    check("too early", &mosix, &view, "-");
    view.ended_last = Some(Tick(NOW.0 - mosix.period_ms));
    check("too early, and no process ended since", &mosix, &view, "-");
    view.ended_last = Some(NOW);
    check("one of ours ended", &mosix, &view, "n1>n2");
    view.decided_last = Some(Tick(NOW.0 - mosix.prompt_ms + 1));
    check("the last decision is under way", &mosix, &view, "-");
    view.ended_last = None;
    view.decided_last = Some(Tick(NOW.0 - mosix.period_ms));
    check("in time", &mosix, &view, "n1>n2");
    view.flights.push(flight(100, "n2"));
    check("n2 is taken", &mosix, &view, "n1>n3");
    view.flights.push(flight(101, "n3"));
    check("one each", &mosix, &view, "-");
    let few = Policy {
        flights_max: 2,
        ..mosix
    };
    let mut view = farm(&[9, 0]);
    view.flights.extend([flight(100, "n2"), flight(101, "n2")]);
    check("enough under way", &few, &view, "-");
}

#[test]
fn target_must_have_room_features_and_permission() {
    let mosix = Policy::of(Kind::Mosix);
    let shut = |what: &str, stay: Stay, change: &dyn Fn(&mut Node)| {
        let mut view = farm(&[3, 0]);
        change(&mut view.nodes[1]);
        check(what, &mosix, &view, "-");
        assert_eq!(why(&view, &mosix, 100, NOW), Some(stay), "{what}");
        assert_ne!(
            place(&view, &mosix, &Fresh::default()),
            Some(name("n2")),
            "{what}"
        );
    };
    shut("no memory", Stay::NoRoom, &|n| {
        n.entry.mem_free_kib = 200_000
    });
    shut("memory unknown", Stay::NoRoom, &|n| {
        n.entry.mem_free_kib = 0
    });
    shut("memory promised", Stay::NoRoom, &|n| n.taken_kib = 4 * GIB);
    shut("not trusted", Stay::NotTrusted, &|n| n.open = Users::none());
    shut("not heard of", Stay::LinkLost, &|n| n.age_ms = 15_001);
    let mut view = farm(&[3, 0]);
    view.nodes[0].entry.cpu.flags[2] = 1;
    check("features missing there", &mosix, &view, "-");
    assert_eq!(why(&view, &mosix, 100, NOW), Some(Stay::CpuFeatures));
    // A user may not move it either, once the node's features are known.
    assert_eq!(barred(&view, &name("n2"), None), None);
    view.nodes[1].entry.cpu.vendor = "GenuineIntel".into();
    let barred_there = barred(&view, &name("n2"), None).expect("barred");
    assert_eq!(
        barred_there,
        (Stay::CpuFeatures, vec!["fsgsbase".to_owned()])
    );
    let portable = common(&view).expect("a common set");
    assert_eq!(barred(&view, &name("n2"), Some(&portable)), None);
    assert_eq!(barred(&view, &name("n1"), None), None);
    view.nodes[1].entry.cpu = view.nodes[0].entry.cpu.clone();
    assert_eq!(barred(&view, &name("n2"), None), None);
    view.nodes[1].entry.cpu = CpuSet::default();
    view.procs
        .iter_mut()
        .for_each(|p| p.needs = Some(CpuSet::default()));
    check("portable", &mosix, &view, "n1>n2");
    // A node may reject one user.
    let mut view = farm(&[3, 0]);
    view.nodes[1].open = Users::AllBut([1000].into());
    check("user not trusted", &mosix, &view, "-");
    assert_eq!(why(&view, &mosix, 100, NOW), Some(Stay::NotTrusted));
    let start = |uid| {
        let fresh = Fresh {
            uid,
            ..Fresh::default()
        };
        place(&view, &mosix, &fresh)
    };
    assert_eq!(start(1000), Some(name("n1")));
    assert_eq!(start(1001), Some(name("n2")));
    view.nodes[1].open = Users::Only([1000].into());
    check("user trusted", &mosix, &view, "n1>n2");
    // It may always come home.
    let mut view = farm(&[0, 3]);
    view.nodes[0].open = Users::none();
    view.nodes[0].entry.cpu.flags[2] = 1;
    check("homewards", &mosix, &view, "n2>n1");
    assert_eq!(why(&farm(&[1]), &mosix, 100, NOW), Some(Stay::NoRoom));
    assert_eq!(why(&farm(&[1]), &mosix, 7, NOW), None);
}

#[test]
fn memory_shortage_precedes_even_counts() {
    let mosix = Policy::of(Kind::Mosix);
    let mut view = farm(&[2, 1, 1]);
    view.nodes[0].entry.mem_free_kib = 100_000;
    view.procs[0].rss_kib = GIB;
    check(
        "the largest leaves a node that runs short",
        &mosix,
        &view,
        "n1>n2",
    );
    assert_eq!(decide(&view, &mosix, NOW)[0].pid, 100);
    view.nodes[1].entry.mem_free_kib = GIB;
    check(
        "to one that does not run short by it",
        &mosix,
        &view,
        "n1>n3",
    );
    view.nodes[2].entry.mem_free_kib = GIB;
    assert_eq!(decide(&view, &mosix, NOW)[0].pid, 101, "or else the next");
    view.procs[1].locked = true;
    check("nowhere", &mosix, &view, "-");
    // Half of the reserve is used up: any room is accepted that is not the target's own reserve.
    let mut view = farm(&[1, 0]);
    view.procs[0].rss_kib = 4 * GIB / 10;
    let reserve = mosix.reserve_kib(view.nodes[1].entry.mem_total_kib);
    view.nodes[1].entry.mem_free_kib = GIB / 2 + reserve;
    view.nodes[0].entry.mem_free_kib = reserve * 3 / 4;
    check("not yet", &mosix, &view, "-");
    view.nodes[0].entry.mem_free_kib = reserve / 3;
    check("in need", &mosix, &view, "n1>n2");
}

#[test]
fn small_node_reserves_a_larger_share_of_memory() {
    let mut policy = Policy::of(Kind::Armento);
    const MIB: u64 = 1024;
    let reserve_mib = |total_mib: u64, policy: &Policy| policy.reserve_kib(total_mib * MIB) / MIB;
    assert_eq!(reserve_mib(512, &policy), 64, "an eighth");
    assert_eq!(reserve_mib(2048, &policy), 128);
    assert_eq!(reserve_mib(10_000, &policy), 500, "a twentieth");
    assert_eq!(reserve_mib(64_000, &policy), 1024);
    // With the administrator's settings.
    (policy.reserve_permille, policy.reserve_min_kib) = (0, 0);
    assert_eq!(reserve_mib(2048, &policy), 0);
}

#[test]
fn user_settings_of_a_program_count() {
    let mosix = Policy::of(Kind::Mosix);
    let mut view = farm(&[3, 0]);
    view.procs
        .iter_mut()
        .for_each(|p| p.files.home.waits = 9_000);
    check("it calls home", &mosix, &view, "-");
    view.procs[1].hint = Some(Hint::Cpu);
    check("and computes all the same", &mosix, &view, "n1>n2");
    view = farm(&[3, 0]);
    view.procs.iter_mut().for_each(|p| p.hint = Some(Hint::Io));
    check("it will call home", &mosix, &view, "-");
    assert_eq!(why(&view, &mosix, 100, NOW), Some(Stay::WouldNotPay));
    view.nodes[0].entry.mem_free_kib = 100_000;
    check("but not be killed there", &mosix, &view, "n1>n2");
    let io = Fresh {
        hint: Some(Hint::Io),
        ..Fresh::default()
    };
    assert_eq!(place(&farm(&[3, 0]), &mosix, &io), Some(name("n1")));
}

#[test]
fn last_programs_of_a_burst_stay_at_home() {
    let armento = Policy::of(Kind::Armento);
    let at = |procs: &[i32], begin| {
        let fresh = Fresh {
            begin,
            ..Fresh::default()
        };
        place(&farm(procs), &armento, &fresh)
    };
    assert_eq!(at(&[0, 0, 0], 0), Some(name("n1")));
    assert_eq!(at(&[0, 0, 0], 2), Some(name("n2")));
    assert_eq!(at(&[0, 1, 0], 1), Some(name("n3")));
    assert_eq!(at(&[0, 1, 1], 0), Some(name("n1")));
    // If all nodes are occupied home counts as any other.
    assert_eq!(at(&[0, 2, 2], 1), Some(name("n1")));
}

#[test]
fn only_lasting_foreign_work_drives_processes_out() {
    let armento = Policy::of(Kind::Armento);
    let moves = |others, steady| {
        let mut view = farm(&[1, 0]);
        (view.nodes[0].others, view.nodes[0].steady) = (others, steady);
        decide(&view, &armento, NOW).len()
    };
    assert_eq!(moves(100, 0), 0);
    assert_eq!(moves(100, 100), 1);
}

#[test]
fn process_beside_farm_overhead_is_rotated() {
    let armento = Policy::of(Kind::Armento);
    let moves = |counts: &[i32], upkeep| {
        let mut view = farm(counts);
        (view.upkeep, view.turns_ms) = (upkeep, 10_000);
        view.procs[0].lag_ms = 8_000;
        let moves = decide(&view, &armento, NOW);
        let leaves = moves.into_iter().find(|m| m.from == view.me);
        leaves.map(|m| (m.grounds.now_milli, m.grounds.then_milli))
    };
    // The process that is behind, alone at home, swaps with one that is alone elsewhere; the result names its share at
    // home.
    let (now, _) = moves(&[1, 2, 1, 1], 20).expect("it goes");
    assert_eq!(now, 833);
    assert_eq!(moves(&[1, 2, 1, 1], 2), None);
    // If each has a core of its own, none moves for it.
    assert_eq!(moves(&[1, 1, 1, 1], 20), None);
}

#[test]
fn nodes_are_filled_to_the_packing_percentage() {
    let mut view = farm(&[4, 0, 1, 3]);
    view.nodes.iter_mut().for_each(|n| n.entry.cores = 4);
    view.nodes[1].entry.mem_free_kib = view.nodes[1].entry.mem_total_kib;
    let check = |packing_percent, want: &str| {
        let policy = Policy {
            packing_percent,
            ..Policy::of(Kind::Armento)
        };
        assert_eq!(place(&view, &policy, &Fresh::default()), Some(name(want)));
    };
    check(0, "n2");
    check(50, "n3");
    check(100, "n4");
}

#[test]
fn memory_shortage_moves_no_more_than_needed() {
    let mosix = Policy::of(Kind::Mosix);
    let mut view = farm(&[3, 0]);
    // Some 200 MB are the reserve.
    view.nodes[0].entry.mem_free_kib = 100_000;
    for (proc, kib) in view.procs.iter_mut().zip([GIB, 150_000, 400_000]) {
        proc.rss_kib = kib;
    }
    let first = |view: &View| decide(view, &mosix, NOW).first().map(|m| m.pid);
    assert_eq!(first(&view), Some(101), "the smallest that suffices");
    view.procs[1].locked = true;
    assert_eq!(first(&view), Some(102), "… of those that may go");
    view.procs[2].rss_kib = 50_000;
    view.procs[0].rss_kib = 90_000;
    assert_eq!(first(&view), Some(100), "… or the largest");
    view.procs[2].rss_kib = 400_000;
    view.procs[1].locked = false;
    let usher = |view: &View| {
        let moves = decide(view, &mosix, NOW);
        moves.iter().any(|m| m.grounds.cause == Cause::Memory)
    };
    assert!(usher(&view));
    view.flights.push(flight(102, "n2"));
    assert!(!usher(&view), "enough is leaving");
    view.flights.clear();
    view.nodes[0].freed_kib = 400_000;
    assert!(!usher(&view), "enough has left since it spoke");
}

/// Places `count` programs at once; each takes the earlier ones into account as flights.
fn burst(view: &mut View, policy: &Policy, count: i32) -> String {
    let mut got = vec![0; view.nodes.len()];
    for pid in 0..count {
        let to = place(view, policy, &Fresh::default()).unwrap_or(view.me.clone());
        let at = view.nodes.iter().position(|n| n.entry.node == to).unwrap();
        got[at] += 1;
        view.placements += 1;
        view.flights.push(flight(10_000 + pid, to.as_str()));
    }
    got.iter().map(i32::to_string).collect::<Vec<_>>().join(" ")
}

#[test]
fn programs_started_together_are_spread() {
    let check = |policy: &str, counts: &[i32], count, change: &dyn Fn(&mut [Node]), want: &str| {
        let mut view = farm(counts);
        change(&mut view.nodes);
        assert_eq!(
            burst(&mut view, &policy.parse().unwrap(), count),
            want,
            "{policy} {counts:?}"
        );
    };
    let same = |_: &mut [Node]| {};
    check("mosix", &[0, 0, 0, 0], 24, &same, "6 6 6 6");
    check("static", &[0, 0, 0, 0], 24, &same, "6 6 6 6");
    check("none", &[0, 0, 0, 0], 24, &same, "24 0 0 0");
    check("mosix", &[0, 0, 0, 0], 1, &same, "1 0 0 0");
    check("mosix", &[0, 0, 0, 0], 5, &same, "2 1 1 1");
    check("mosix", &[3, 0, 0, 0], 9, &same, "0 3 3 3");
    check("static", &[3, 0, 0, 0], 9, &same, "3 2 2 2");
    // The work of daemon and keepers at home does not drive a lone program out, and does not upset even counts.
    check("mosix", &[0, 0, 0, 0], 1, &|n| n[0].others = 40, "1 0 0 0");
    check("mosix", &[0, 0, 0, 0], 24, &|n| n[0].others = 90, "6 6 6 6");
    check("mosix", &[0, 0, 0, 0], 3, &|n| n[0].others = 300, "0 1 1 1");
    check("mosix", &[0, 0], 9, &|n| n[1].entry.speed = 20_000, "3 6");
    check("mosix", &[0, 0], 10, &|n| n[1].entry.cores = 4, "2 8");
    check(
        "mosix",
        &[0, 0, 0],
        4,
        &|n| n[1].open = Users::none(),
        "2 0 2",
    );
    check(
        "static",
        &[0, 0, 0],
        4,
        &|n| n[1].open = Users::none(),
        "2 0 2",
    );
    // Slightly different speed measurements must not make counts uneven.
    check(
        "mosix",
        &[0, 0, 0, 0],
        24,
        &|n| n[0].entry.speed = 12_000,
        "6 6 6 6",
    );
    check(
        "mosix",
        &[0, 0, 0, 0],
        24,
        &|n| n[2].entry.speed = 8_500,
        "6 6 6 6",
    );
}

#[test]
fn target_admits_what_it_has_room_for() {
    let policy = Policy::of(Kind::Mosix);
    let check = |what: &str, need: &Need, change: &dyn Fn(&mut View), want: Result<(), Stay>| {
        let mut view = farm(&[1, 0]);
        change(&mut view);
        assert_eq!(admit(&view, &policy, need), want, "{what}");
    };
    let small = Need {
        rss_kib: 10_000,
        ..Need::default()
    };
    check("room", &small, &|_| {}, Ok(()));
    check(
        "large",
        &Need {
            rss_kib: 4 * GIB,
            ..small.clone()
        },
        &|_| {},
        Err(Stay::NoRoom),
    );
    check(
        "promised",
        &small,
        &|v| v.nodes[0].taken_kib = 4 * GIB,
        Err(Stay::NoRoom),
    );
    check(
        "crowded",
        &small,
        &|v| v.nodes[0].entry.guests = 256,
        Err(Stay::NoRoom),
    );
    check(
        "closed",
        &small,
        &|v| v.nodes[0].open = Users::none(),
        Err(Stay::NotTrusted),
    );
    check(
        "no sample yet",
        &small,
        &|v| v.nodes.clear(),
        Err(Stay::NoRoom),
    );
    let modern = CpuSet {
        flags: [1; 9],
        ..CpuSet::default()
    };
    let need = Need {
        cpu: Some(modern),
        ..small.clone()
    };
    check("features", &need, &|_| {}, Err(Stay::CpuFeatures));
    // A policy's move must still pay with the target's own data: one of its own processes runs here.
    let need = |there| Need {
        load_there: Some(there),
        ..small.clone()
    };
    check("pays", &need(300), &|_| {}, Ok(()));
    check("pays no more", &need(200), &|_| {}, Err(Stay::WouldNotPay));
    check(
        "others came first",
        &need(300),
        &|v| v.nodes[0].others = 100,
        Err(Stay::WouldNotPay),
    );
}

#[test]
fn decisions_for_large_farms_take_bounded_work() {
    let mut view = farm(&vec![1; 1000]);
    view.procs.extend(procs("n1", 999, 1_000_000));
    let got = decide(&view, &Policy::of(Kind::Mosix), NOW);
    assert_eq!(got.len(), 1);
    assert_eq!(got[0].from, name("n1"));
    assert!(place(&view, &Policy::of(Kind::Mosix), &Fresh::default()).is_some());
}
