//! A home that is being drained.

use super::{GIB, NOW, name, node, proc, view};
use armento_balance::{Cause, FileUse, Fresh, Policy, View, drain, place};
use armento_model::Stay;

/// Three processes at n1, and n2 and n3 without work.
fn farm() -> View {
    let nodes = ["n1", "n2", "n3"].map(|n| node(n, 1000, 0, 100));
    let procs = (1..=3).map(|pid| proc(pid, "n1", FileUse::default()));
    view(nodes.to_vec(), procs.collect())
}

#[test]
fn every_process_leaves_a_drained_home() {
    let mut v = farm();
    v.procs.push(proc(4, "n2", FileUse::default()));
    let found = drain(&v, &Policy::default(), NOW);
    let pids: Vec<_> = found.moves.iter().map(|m| m.pid).collect();
    assert_eq!((pids, found.stays), (vec![1, 2, 3], Vec::new()));
    let to = |n: &str| found.moves.iter().filter(|m| m.to == name(n)).count();
    assert_eq!((to("n2"), to("n3")), (1, 2), "one of n2 is busy");
    assert!(found.moves.iter().all(|m| m.grounds.cause == Cause::Drain));
}

#[test]
fn processes_that_cannot_leave_have_a_reason() {
    let check = |what: &str, set: &dyn Fn(&mut View), want: Stay| {
        let mut v = farm();
        v.procs.truncate(1);
        set(&mut v);
        let found = drain(&v, &Policy::default(), NOW);
        assert_eq!(found.stays, [(1, want)], "{what}");
        assert!(found.moves.is_empty(), "{what}");
    };
    check("locked", &|v| v.procs[0].locked = true, Stay::Locked);
    let full = |v: &mut View| {
        v.nodes[1..]
            .iter_mut()
            .for_each(|n| n.entry.mem_free_kib = 0)
    };
    check("full", &full, Stay::NoRoom);
    check("alone", &|v| v.nodes.truncate(1), Stay::NoRoom);
    let shut = |v: &mut View| v.nodes[1..].iter_mut().for_each(|n| n.entry.shut = true);
    check("shut", &shut, Stay::SwitchedOff);
    check("young", &|v| v.procs[0].arrived = NOW, Stay::TooYoung);
    let held = |v: &mut View| v.procs[0].hold = Some((Stay::IoUring, NOW.plus(1)));
    check("held", &held, Stay::IoUring);
}

#[test]
fn processes_that_share_memory_leave_together_or_not_at_all() {
    let mut v = farm();
    v.procs.iter_mut().for_each(|p| p.group = Some(1));
    let found = drain(&v, &Policy::default(), NOW);
    assert_eq!((found.moves.len(), found.moves[0].pid), (1, 1));
    assert!(found.stays.is_empty());
    v.procs.iter_mut().for_each(|p| p.rss_kib = 2 * GIB);
    let found = drain(&v, &Policy::default(), NOW);
    assert!(found.moves.is_empty());
    assert_eq!(found.stays, [1, 2, 3].map(|pid| (pid, Stay::NoRoom)));
}

#[test]
fn programs_of_a_drained_home_begin_elsewhere_if_they_can() {
    let policy = Policy::default();
    let mut v = view(
        ["n1", "n2"].map(|n| node(n, 1000, 0, 100)).to_vec(),
        Vec::new(),
    );
    let fresh = Fresh {
        leaves: true,
        ..Fresh::default()
    };
    assert_eq!(place(&v, &policy, &fresh), Some(name("n2")));
    v.nodes[1].entry.mem_free_kib = 0;
    assert_eq!(place(&v, &policy, &fresh), None);
}
