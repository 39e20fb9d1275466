//! Processes that share memory move together, where all of them fit and gain.

use super::{GIB, NOW, name, node, proc, said, view};
use armento_balance::{FileUse, Policy, Proc, View, decide};
use armento_gossip::Tick;
use armento_model::{Hint, Stay};

/// Processes 7, 8, … of one group on n1.
fn group(count: i32) -> Vec<Proc> {
    let member = |i| Proc {
        group: Some(7),
        ..proc(7 + i, "n1", FileUse::default())
    };
    (0..count).map(member).collect()
}

/// n1 has one core, n2 four.
fn farm(procs: Vec<Proc>) -> View {
    let mut four = node("n2", 1000, 0, 0);
    four.entry.cores = 4;
    view(vec![node("n1", 1000, 0, 0), four], procs)
}

fn decided(view: &View) -> String {
    said(&decide(view, &Policy::default(), NOW))
}

#[test]
fn a_group_goes_where_all_of_it_gains() {
    assert_eq!(decided(&farm(group(3))), "7:n1>n2 share");
    // Three on one core gain nothing on a node that is as full as theirs.
    let mut full = farm(group(3));
    full.nodes[1].others = 800;
    full.nodes[1].steady = 800;
    assert_eq!(decided(&full), "");
    // A single process is moved first: then the others may have what they need.
    let single = proc(20, "n1", FileUse::default());
    let with_single = farm(group(2).into_iter().chain([single]).collect());
    assert_eq!(decided(&with_single), "20:n1>n2 share");
}

#[test]
fn a_group_stays_if_one_of_it_cannot_go() {
    let mut locked = group(3);
    locked[2].locked = true;
    assert_eq!(decided(&farm(locked)), "");
    let mut works_with_files = group(3);
    works_with_files[0].hint = Some(Hint::Io);
    assert_eq!(decided(&farm(works_with_files)), "");
    let mut held = group(3);
    held[1].hold = Some((Stay::Busy, Tick(NOW.0 + 1000)));
    assert_eq!(decided(&farm(held)), "");
    let mut apart = group(3);
    apart[1].place = name("n2");
    assert_eq!(decided(&farm(apart)), "");
}

#[test]
fn all_of_a_group_must_fit() {
    let each = |rss_kib: u64| {
        let mut procs = group(3);
        procs.iter_mut().for_each(|p| p.rss_kib = rss_kib);
        decided(&farm(procs))
    };
    // n2 has 4 GiB.
    assert_eq!(each(GIB * 5 / 4), "");
    assert_eq!(each(GIB / 4), "7:n1>n2 share");
}
