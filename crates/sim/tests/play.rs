//! Scenarios in virtual time.

use armento_balance::{Kind, Policy};
use armento_scenario::{Row, Scenario};
use armento_sim::{Prices, play};

fn row(file: &str, scale: f64, n: usize, kind: Kind) -> Row {
    let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios");
    let path = std::path::Path::new(dir).join(file);
    let plan = Scenario::load(&path, scale).expect("good").plan(n, 1);
    let played = play(&plan, &Policy::of(kind), Prices::default(), 1);
    assert_eq!(played.ends_s.len(), plan.jobs.len(), "{file} {n}");
    Row::of(n, kind.name(), 0, &plan, &played)
}

#[test]
fn seventeenth_process_costs_mosix_much_and_armento_little() {
    assert!(row("paper-equal.toml", 1.0, 17, Kind::Armento).ratio < 1.02);
    let mosix = row("paper-equal.toml", 1.0, 17, Kind::Mosix).ratio;
    assert!((1.38..1.46).contains(&mosix), "{mosix}");
    let dealt = row("paper-equal.toml", 1.0, 17, Kind::Static).ratio;
    assert!((1.85..1.95).contains(&dealt), "{dealt}");
}

/// Relations between the paper's columns (`papers/`, Q-11, Q-12 and Q-14), for all its numbers of programs.
#[test]
fn relations_between_the_papers_columns_hold() {
    for n in [
        1, 2, 4, 8, 16, 17, 20, 24, 25, 27, 31, 32, 33, 36, 38, 40, 43, 47, 48,
    ] {
        let mosix = row("paper-equal.toml", 1.0, n, Kind::Mosix);
        let dealt = row("paper-equal.toml", 1.0, n, Kind::Static);
        let of_rule = mosix.of_rule.expect("equal jobs on equal nodes");
        assert!((0.999..1.05).contains(&of_rule), "{n}: {of_rule}");
        let stair = dealt.makespan_s / (300.0 * n.div_ceil(16) as f64);
        assert!((0.999..1.06).contains(&stair), "{n}: {stair}");
        let slower = dealt.makespan_s / mosix.makespan_s - 1.0;
        match n {
            17 => assert!(slower >= 0.25, "{n}: {slower}"),
            ..=16 | 32 | 48 => assert!(slower.abs() < 0.03, "{n}: {slower}"),
            _ => {}
        }
    }
}

#[test]
fn equivalent_power_is_near_node_count_except_for_one_program() {
    let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios");
    let path = std::path::Path::new(dir).join("paper-equal.toml");
    let sizes = Scenario::load(&path, 1.0).expect("good");
    for size in sizes.sizes(&[1, 2, 3, 4, 5, 6, 7, 8]).expect("sizes") {
        let nodes = size.size() as f64;
        // 24 programs, which are no multiple of some node counts; and one, which does not fork.
        for (n, most) in [(24, nodes), (1, 1.0)] {
            let plan = size.plan(n, 1);
            let played = play(&plan, &Policy::of(Kind::Armento), Prices::default(), 1);
            let power = Row::of(n, "armento", 0, &plan, &played).power;
            let part = power.expect("all ended") / most;
            assert!((0.97..=1.0).contains(&part), "{n} on {nodes}: {part}");
        }
    }
}

#[test]
fn owned_nodes_get_no_programs_and_slow_nodes_fewer() {
    for (file, n) in [
        ("four-background.toml", 6),
        ("four-mixed.toml", 5),
        ("four-random.toml", 12),
    ] {
        let ours = row(file, 1.0, n, Kind::Armento);
        let dealt = row(file, 1.0, n, Kind::Static);
        assert!(
            ours.ratio < dealt.ratio && ours.mean_s < dealt.mean_s,
            "{ours}\n{dealt}"
        );
    }
}

#[test]
fn every_scenario_file_runs_to_its_end() {
    let text = "about = \"troubles\"\nlimit = 600.0\n[[nodes]]\ncount = 4\nspeed = 0.5\n[[jobs]]\ncount = 6\nseconds = 20.0\nevery = 2.0\nlengths = \"pareto\"\n\
                [[events]]\nat = 5.0\nnode = 2\nwhat = \"owner\"\n[[events]]\nat = 9.0\nnode = 3\nwhat = \"slow\"\n[[events]]\nat = 12.0\nnode = 4\nwhat = \"cut\"\nfor = 8.0\n";
    let plan = Scenario::parse(text).expect("good").plan(0, 3);
    let once = play(&plan, &Policy::of(Kind::Armento), Prices::default(), 3);
    let again = play(&plan, &Policy::of(Kind::Armento), Prices::default(), 3);
    assert_eq!(once.ends_s, again.ends_s);
    assert_eq!(once.ends_s.len(), 6);
}

/// PAPER: Argentini, table 1 (`scenarios/riello.toml`): copies on four nodes, and simulation programs on the fast one.
/// openMosix made the longest node a tenth shorter, and the three others a third later.
#[test]
fn riello_copies_end_earlier_and_none_later() {
    let ends = |text: &str, kind: Kind, seed| {
        let plan = Scenario::parse(text).expect("good").plan(0, seed);
        let played = play(&plan, &Policy::of(kind), Prices::default(), seed);
        assert_eq!(played.copies_s.len(), 4);
        played.copies_s
    };
    let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios");
    let path = std::path::Path::new(dir).join("riello.toml");
    let text = std::fs::read_to_string(path).expect("there");
    let longest =
        |ends: &std::collections::BTreeMap<usize, f64>| ends.values().copied().fold(0.0, f64::max);
    // As published: 300 minutes against 200.
    let none = ends(&text, Kind::None, 1);
    let uneven = none[&3] / none[&0];
    assert!((1.4..1.7).contains(&uneven), "{uneven}");
    for seed in 1..=10 {
        let ours = ends(&text, Kind::Armento, seed);
        let ratio = longest(&ours) / longest(&none);
        assert!(ratio <= 0.8, "{seed}: {ratio}");
        for (home, end) in &ours {
            // Calls of programs that are away are served at home, too.
            let later = end / none[home];
            assert!(later <= 1.02, "{seed}: node {home}: {later}");
        }
    }
    // Guests of the same weight as the node's own programs, as openMosix has them, and its policy: the fast node gains,
    // the others lose, and the longest gains a little.
    let same = text.replace("guest_cpu_weight = 1", "guest_cpu_weight = 100");
    let theirs = ends(&same, Kind::Mosix, 1);
    assert!(
        theirs[&3] < 0.85 * none[&3] && theirs[&0] > 1.1 * none[&0],
        "{theirs:?}"
    );
    let ratio = longest(&theirs) / longest(&none);
    assert!((0.75..0.95).contains(&ratio), "{ratio}");
}
