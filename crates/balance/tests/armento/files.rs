//! The price of being away from one's files, in decisions.

use super::{GIB, NOW, name, node, proc, said, view};
use armento_balance::{
    Cause, Counts, FileUse, Fresh, Ledger, Node, Policy, Proc, Seen, Traffic, View, away, decide,
    place,
};
use armento_gossip::{Dice, Entry, Known, Tick};
use armento_model::{NodeName, Users};

/// Calls and bytes for each second of CPU time.
fn home(waits: u64, posts: u64, bytes: u64) -> FileUse {
    FileUse {
        home: Traffic {
            waits,
            posts,
            bytes,
        },
        others: Vec::new(),
    }
}

fn at(holder: &str, waits: u64, bytes: u64) -> FileUse {
    let traffic = Traffic {
        waits,
        posts: 0,
        bytes,
    };
    FileUse {
        home: Traffic::default(),
        others: vec![(name(holder), traffic)],
    }
}

/// Other homes' work on n1 and n2, hundredths, and the round trip.
fn two(others: [u64; 2], rtt_us: u64, procs: Vec<Proc>) -> View {
    let nodes = vec![
        node("n1", 1000, others[0], 0),
        node("n2", 1000, others[1], rtt_us),
    ];
    view(nodes, procs)
}

#[test]
fn processor_and_files_are_weighed() {
    let check = |what: &str, view: View, want: &str| {
        let got = said(&decide(&view, &Policy::default(), NOW));
        assert_eq!(got, want, "{what}");
    };
    let none = FileUse::default();
    let one = |place, files| vec![proc(1, place, files)];
    // --- going back ---
    let back = |files| two([0, 0], 200, one("n2", files));
    check("no calls: it stays", back(none.clone()), "");
    check("few calls", back(home(300, 0, 0)), "");
    check("many calls", back(home(3000, 0, 0)), "1:n2>n1 files");
    check("many posts cost little", back(home(0, 3000, 0)), "");
    check(
        "very many do not",
        back(home(0, 30_000, 0)),
        "1:n2>n1 files",
    );
    check("a few megabytes", back(home(0, 0, 10 << 20)), "");
    check(
        "as many as the network takes",
        back(home(0, 0, 100 << 20)),
        "1:n2>n1 files",
    );
    // The same calls over another network.
    let far = |rtt_us| two([0, 0], rtt_us, one("n2", home(500, 0, 0)));
    check("near", far(100), "");
    check("far", far(2000), "1:n2>n1 files");
    // Home is busy: away it is slow, there it would be slower.
    let busy = |others| two([others, 0], 200, one("n2", home(3000, 0, 0)));
    check("home has one more", busy(100), "");
    check("… is used by little else", busy(0), "1:n2>n1 files");
    // A process that mostly sleeps loses little, whatever its calls are for each second of CPU time.
    let mut idle = proc(1, "n2", home(50_000, 0, 0));
    (idle.demand, idle.computes_permille) = (1, 2);
    check("it sleeps", two([0, 0], 200, vec![idle]), "");
    // It waits for home: it is seldom runnable, and goes back all the same.
    let mut waits = proc(1, "n2", home(50_000, 0, 0));
    (waits.demand, waits.computes_permille) = (10, 70);
    check("it waits", two([0, 0], 200, vec![waits]), "1:n2>n1 files");

    // --- leaving ---
    let pair = |files: FileUse| {
        let both = vec![proc(1, "n1", files.clone()), proc(2, "n1", files)];
        two([0, 0], 200, both)
    };
    check("two at home", pair(none.clone()), "1:n1>n2 share");
    check("with some calls", pair(home(1000, 0, 0)), "1:n1>n2 share");
    check("with too many", pair(home(4000, 0, 0)), "");
    let mixed = vec![
        proc(1, "n1", none.clone()),
        proc(2, "n1", home(4000, 0, 0)),
        proc(3, "n1", home(2000, 0, 0)),
    ];
    check(
        "the one that computes leaves",
        two([0, 0], 200, mixed),
        "1:n1>n2 share",
    );

    // --- files of other nodes ---
    let there = |place, others| two(others, 200, one(place, at("n2", 3000, 0)));
    check("its files are at n2", there("n1", [0, 0]), "1:n1>n2 files");
    check("where it is already", there("n2", [0, 0]), "");
    check("but n2 is full", there("n1", [0, 100]), "");
    check(
        "n2 is full, and n1 fuller",
        there("n1", [100, 100]),
        "1:n1>n2 files",
    );
    let both = FileUse {
        home: home(6000, 0, 0).home,
        ..at("n2", 3000, 0)
    };
    check(
        "more at home",
        two([0, 0], 200, one("n2", both.clone())),
        "1:n2>n1 files",
    );
    check("… where it stays", two([0, 0], 200, one("n1", both)), "");
    let third = |place| {
        let nodes = vec![
            node("n1", 1000, 0, 0),
            node("n2", 1000, 0, 200),
            node("n3", 1000, 0, 200),
        ];
        view(nodes, one(place, at("n3", 3000, 0)))
    };
    check("it moves on", third("n2"), "1:n2>n3 files");
}

#[test]
fn fresh_programs_of_a_known_name_start_near_their_files() {
    let check = |what: &str, others, files, want: &str| {
        let view = two(others, 200, Vec::new());
        let fresh = Fresh {
            files,
            ..Fresh::default()
        };
        assert_eq!(
            place(&view, &Policy::default(), &fresh),
            Some(name(want)),
            "{what}"
        );
    };
    check("unknown", [100, 0], Traffic::default(), "n2");
    check("calls often", [100, 0], home(9000, 0, 0).home, "n1");
    check("home is very full", [900, 0], home(9000, 0, 0).home, "n2");
}

/// Farms by chance: no move that takes a process further from its files, by more than a tenth of its time, loses more
/// than it gains.
#[test]
fn no_move_away_from_files_costs_more_than_it_gains() {
    let policy = Policy::default();
    let (mut moves, mut further) = (0, 0);
    for seed in 0..3000 {
        let mut dice = Dice::seeded(seed);
        let n = 2 + dice.below(4);
        let mut any = |most: usize| dice.below(most) as u64;
        let nodes: Vec<Node> = (0..n)
            .map(|i| {
                let speed = 100 + any(10) as u32 * 100;
                let rtt_us = if i == 0 { 0 } else { any(1000) };
                node(&format!("n{}", i + 1), speed, any(4) * 50, rtt_us)
            })
            .collect();
        let procs = (1..=1 + any(8) as i32).map(|pid| {
            let files = FileUse {
                home: home(any(3) * any(5000), any(2) * any(20_000), any(1 << 27)).home,
                others: at(&format!("n{}", 1 + any(n)), any(2) * any(3000), 0).others,
            };
            let mut p = proc(pid, &format!("n{}", 1 + any(n)), files);
            p.lag_ms = any(20_000) as i64 - 10_000;
            p.demand = 10 + any(91);
            p
        });
        let mut view = view(nodes, procs.collect());
        view.turns_ms = 1000;
        for m in decide(&view, &policy, NOW) {
            let g = m.grounds;
            moves += 1;
            if g.cause == Cause::Memory || g.lost_then_permille <= g.lost_now_permille + 100 {
                continue;
            }
            further += 1;
            let left = |milli: u64, lost: u64| milli * (1000 - lost);
            assert!(
                left(g.then_milli, g.lost_then_permille) > left(g.now_milli, g.lost_now_permille),
                "{seed}: {m:?}"
            );
        }
    }
    assert!(moves > 1000 && further > 50, "{moves} {further}");
}

/// A process of so many calls for each second of CPU time beside one that computes, on two nodes, followed for ten
/// minutes as a daemon would: how often it moves, in turns and otherwise. `talks`: its calls are known at home already.
fn moves_in_ten_minutes(waits: u64, home_only: u64, talks: bool) -> [usize; 2] {
    let policy = Policy::default();
    let mut ledger = Ledger::new(name("n1"));
    ledger.round_trips([(name("n2"), 300)].into());
    let seen = |pid: i32, place: &NodeName, cpu_ms: u64, calls: u64, at_home: u64, now: u64| Seen {
        pid,
        uid: 1000,
        place: place.clone(),
        cpu_ms,
        rss_kib: 10_000,
        threads: 1,
        busy_percent: 100,
        waits: false,
        calls: Counts {
            waits: calls,
            ..Counts::default()
        },
        messages: (talks && pid == 1).then_some(Counts {
            waits: at_home,
            ..Counts::default()
        }),
        others: Vec::new(),
        name: format!("job{pid}"),
        age_ms: now,
        locked: false,
        settles: talks,
        needs: None,
        hint: None,
    };
    let known = |node: &str, load: u32| {
        let mut entry = Entry::new(name(node), 1);
        (entry.mem_total_kib, entry.mem_free_kib) = (4 * GIB, 4 * GIB);
        entry.load = load;
        Known { entry, age_ms: 0 }
    };
    let mut places = [name("n1"), name("n1")];
    let (mut cpu_us, mut calls, mut count) = ([0; 2], [0; 2], [0; 2]);
    let mut at_home = 0;
    for now in (0..600_000).step_by(100) {
        let at = |node: &str| places.iter().filter(|p| **p == name(node)).count() as u64;
        let sharing = [at("n1") + home_only, at("n2")];
        for i in 0..2 {
            let here = usize::from(places[i] == name("n2"));
            let away_us = if here == 1 && i == 0 { waits * 400 } else { 0 };
            // 100 ms on its share of a core, less its waits.
            let got = 100_000 / sharing[here].max(1) * 1_000_000 / (1_000_000 + away_us);
            cpu_us[i] += got;
            match (here, i) {
                (1, 0) => calls[i] += got * waits / 1_000_000,
                (0, 0) => at_home += got * waits / 1_000_000,
                _ => {}
            }
        }
        if now % 500 == 0 {
            let both: Vec<Seen> = (0..2)
                .map(|i| {
                    let used = cpu_us[i] / 1000;
                    seen(i as i32 + 1, &places[i], used, calls[i], at_home, now)
                })
                .collect();
            ledger.observe(&both, Tick(now));
            ledger.sampled((at("n1") + home_only) as u32, Tick(now));
        }
        let loads = [ledger.load(), at("n2") as u32 * 100];
        let all = vec![known("n1", loads[0]), known("n2", loads[1])];
        let view = ledger.view(all, |_| Users::all(), Tick(now));
        ledger.progress(&view, &policy, Tick(now));
        for m in decide(&view, &policy, Tick(now)) {
            ledger.moving(&m, &policy, Tick(now));
            ledger.moved(m.pid, &m.to, Tick(now));
            if m.pid == 1 {
                count[usize::from(m.grounds.cause != Cause::Turn)] += 1;
            }
            places[m.pid as usize - 1] = m.to.clone();
        }
    }
    count
}

#[test]
fn a_process_does_not_go_to_and_fro() {
    // At the limit, on both sides of it and far from it, with and without other work at home.
    for home_only in [0, 1, 3] {
        for waits in [0, 200, 500, 1000, 2000, 3000, 5000, 10_000, 100_000] {
            for talks in [false, true] {
                let [_, others] = moves_in_ten_minutes(waits, home_only, talks);
                assert!(others <= 12, "{waits} {home_only} {talks}: {others} moves");
            }
        }
    }
}

#[test]
fn a_process_that_talks_does_not_leave_to_find_out() {
    for home_only in [0, 1, 3] {
        for waits in [20_000, 100_000] {
            let moves = moves_in_ten_minutes(waits, home_only, true);
            assert_eq!(moves, [0, 0], "{waits} {home_only}");
        }
    }
}

#[test]
fn price_of_being_away_is_told() {
    let policy = Policy::default();
    let mut view = two([0, 0], 100, vec![proc(1, "n2", home(3400, 0, 0))]);
    view.procs[0].rates.waits = 2200;
    let told = away(&view, &policy, 1).expect("known");
    assert_eq!((told.node, told.waits_per_s), (name("n2"), 2200));
    assert!(
        (300..400).contains(&told.lost_permille),
        "{}",
        told.lost_permille
    );
    assert_eq!(away(&view, &policy, 2), None);
    view.procs[0] = proc(1, "n1", home(3400, 0, 0));
    let told = away(&view, &policy, 1).expect("known");
    assert_eq!(told.node, name("n2"));
    assert!(
        (2000..2500).contains(&told.waits_per_s),
        "{}",
        told.waits_per_s
    );
    view.procs[0].files = FileUse::default();
    assert_eq!(away(&view, &policy, 1), None);
}

#[test]
fn what_was_seen_away_is_remembered_at_home_and_by_name() {
    let mut ledger = Ledger::new(name("n1"));
    let mut report = |pid: i32, place: &str, now: u64| {
        let seen = Seen {
            pid,
            uid: 1000,
            place: name(place),
            cpu_ms: now / 2,
            rss_kib: 10_000,
            threads: 1,
            busy_percent: 100,
            waits: false,
            calls: Counts {
                waits: now * 2,
                sent: now * 1000,
                ..Counts::default()
            },
            messages: None,
            settles: false,
            others: Vec::new(),
            name: "cp".into(),
            age_ms: now,
            locked: false,
            needs: None,
            hint: None,
        };
        ledger.observe(&[seen], Tick(now));
        let view = ledger.own_view(None, Users::all(), Tick(now));
        let files = view.procs[0].files.home;
        (files, ledger.file_rates(pid), ledger.habit("cp", Tick(now)))
    };
    assert!(report(1, "n2", 1000).0.is_none(), "not measured yet");
    report(1, "n2", 1500);
    let (files, rates, habit) = report(1, "n2", 2000);
    // 2000 calls a second, half a second of CPU time in each.
    assert!((3900..4100).contains(&files.waits), "{files:?}");
    assert!((1900..2100).contains(&rates.waits), "{rates:?}");
    assert!((900_000..1_100_000).contains(&rates.sent), "{rates:?}");
    assert!(habit.waits > 3500, "{habit:?}");
    // At home it makes no calls to home, and what it did is remembered for a while.
    let (files, rates, _) = report(1, "n1", 3000);
    assert!(
        (3900..4100).contains(&files.waits) && rates.waits == 0,
        "{files:?}"
    );
    assert!(!report(1, "n1", 20_000).0.is_none());
    assert!(report(1, "n1", 30_000).0.is_none(), "forgotten");
    // Another program of that name.
    assert!(report(2, "n1", 40_000).0.waits > 3500);
    let (.., habit) = report(3, "n1", 700_000);
    assert!(habit.is_none(), "measured again some time");
}

#[test]
fn guests_of_a_low_weight_take_what_is_left() {
    let low = Policy {
        guest_weight: 1,
        ..Policy::default()
    };
    let check = |what: &str, policy: &Policy, view: &View, want: &str| {
        let got = said(&decide(view, policy, NOW));
        assert_eq!(got, want, "{what}");
    };
    let none = FileUse::default();
    let at_home = |n: i32| (1..=n).map(|pid| proc(pid, "n1", none.clone())).collect();
    // n2's own program uses a half.
    let half = two([0, 50], 200, at_home(3));
    check("equal weight", &Policy::default(), &half, "1:n1>n2 share");
    check("a half is left", &low, &half, "1:n1>n2 share");
    let pair = two([0, 50], 200, at_home(2));
    check("no more than here, but idle", &low, &pair, "1:n1>n2 share");
    let most = two([0, 90], 200, at_home(2));
    check("a tenth is left", &low, &most, "");
    // There it stays: with it home would be shared again.
    let there = vec![proc(1, "n2", none.clone()), proc(2, "n1", none.clone())];
    check("it stays there", &low, &two([0, 50], 200, there), "");
    // Guests at home do not drive a home's own program out.
    let mut guests = two([100, 0], 200, at_home(1));
    check("equal weight", &Policy::default(), &guests, "1:n1>n2 share");
    guests.nodes[0].guests = 100;
    check("they yield", &low, &guests, "");
    // A faster node is left by its own programs at any time.
    let fast = view(
        vec![node("n1", 500, 0, 0), node("n2", 900, 0, 200)],
        at_home(1),
    );
    check("a faster node", &Policy::default(), &fast, "1:n1>n2 share");
    check("… where it would be a guest", &low, &fast, "");
}
