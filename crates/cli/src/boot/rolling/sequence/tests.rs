//! A farm of this test's own, with a clock of its own: machines empty, start and join as told.

use super::*;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

const IMAGE: &str = "base@3";

#[derive(Default)]
struct Machine {
    member: bool,
    order: Option<DrainChange>,
    /// Processes to go; one leaves each second.
    to_go: u64,
    /// … or none does.
    stuck: bool,
    start: Option<Start>,
    /// Its starts; of each the second at which it is back.
    back: Option<u64>,
    restarts: u32,
    /// How long a start takes; `None`: for ever.
    takes: Option<u64>,
    boots: &'static str,
    /// The order of drain outlives its start.
    persists: bool,
    /// Its daemon answers from then on.
    silent_until: u64,
}

impl Machine {
    fn new() -> Machine {
        Machine {
            member: true,
            to_go: 3,
            takes: Some(50),
            boots: IMAGE,
            start: Some(Start {
                at_ms: 1,
                joined: true,
                image: Some("base@2".into()),
            }),
            ..Machine::default()
        }
    }

    fn is_away(&self) -> bool {
        self.back.is_some() || !self.member
    }
}

struct Fake {
    now: Cell<u64>,
    machines: RefCell<BTreeMap<String, Machine>>,
    said: RefCell<Vec<String>>,
    most_away: Cell<usize>,
    noted: RefCell<Record>,
}

impl Fake {
    fn new(change: impl Fn(&str, &mut Machine)) -> Fake {
        let mut machines = BTreeMap::new();
        for name in ["n2", "n3", "n4", "n5"] {
            let mut machine = Machine::new();
            change(name, &mut machine);
            machines.insert(name.to_owned(), machine);
        }
        Fake {
            now: Cell::new(10),
            machines: RefCell::new(machines),
            said: RefCell::default(),
            most_away: Cell::default(),
            noted: RefCell::default(),
        }
    }

    fn of<T>(&self, node: &str, see: impl FnOnce(&mut Machine) -> T) -> T {
        see(self.machines.borrow_mut().get_mut(node).expect("a node"))
    }

    fn daemon<T>(&self, node: &str, see: impl FnOnce(&mut Machine) -> T) -> anyhow::Result<T> {
        let now = self.now.get();
        self.of(node, |m| match m.silent_until > now || !m.member {
            true => Err(anyhow::anyhow!("{node} does not answer")),
            false => Ok(see(m)),
        })
    }

    fn run(&self, at_once: usize) -> Ended {
        let mut record = self.noted.borrow().clone();
        run(&wanted(), at_once, &mut record, self)
    }
}

fn wanted() -> Vec<Wanted> {
    let one = |name: &str| Wanted {
        name: name.into(),
        image: IMAGE.into(),
    };
    ["n2", "n3", "n4", "n5"].map(one).to_vec()
}

fn names(all: &[&str]) -> Vec<String> {
    all.iter().map(|n| (*n).to_owned()).collect()
}

impl Nodes for Fake {
    fn is_member(&self, node: &str) -> anyhow::Result<bool> {
        Ok(self.of(node, |m| m.member))
    }

    fn drained(&self, node: &str) -> anyhow::Result<Option<DrainChange>> {
        self.daemon(node, |m| m.order.clone())
    }

    fn drain(&self, node: &str, change: &DrainChange) -> anyhow::Result<()> {
        self.daemon(node, |m| {
            m.order = change.drained.then(|| change.clone());
        })
    }

    fn to_go(&self, node: &str) -> anyhow::Result<Option<u64>> {
        self.daemon(node, |m| Some(m.to_go).filter(|n| *n > 0))
    }

    fn restart(&self, node: &str) -> anyhow::Result<()> {
        let now = self.now.get();
        self.of(node, |m| {
            let drained_first = m.order.is_some() && m.to_go == 0 || !m.member;
            assert!(drained_first, "{node} was started again with its work");
            m.member = false;
            m.restarts += 1;
            m.back = m.takes.map(|s| now + s);
        });
        let machines = self.machines.borrow();
        let away = machines.values().filter(|m| m.is_away()).count();
        self.most_away.set(self.most_away.get().max(away));
        Ok(())
    }

    fn last_start(&self, node: &str) -> anyhow::Result<Option<Start>> {
        Ok(self.of(node, |m| m.start.clone()))
    }

    fn note(&self, record: &Record) {
        *self.noted.borrow_mut() = record.clone();
    }

    fn say(&self, node: &str, what: &str) {
        self.said.borrow_mut().push(format!("{node} {what}"));
    }

    fn wait_for(&self, _: &str, _: &str) {}

    fn now(&self) -> Duration {
        Duration::from_secs(self.now.get())
    }

    fn pause(&self) {
        let now = self.now.get() + 1;
        self.now.set(now);
        for m in self.machines.borrow_mut().values_mut() {
            if m.order.is_some() && !m.stuck {
                m.to_go = m.to_go.saturating_sub(1);
            }
            if m.back.is_some_and(|at| now >= at) {
                (m.back, m.member) = (None, true);
                m.order = m.order.take().filter(|_| m.persists);
                m.start = Some(Start {
                    at_ms: now * 1000,
                    joined: true,
                    image: Some(m.boots.into()),
                });
            }
        }
    }
}

#[test]
fn each_node_is_emptied_and_back_before_the_next_one() {
    let farm = Fake::new(|_, m| m.persists = true);
    let ended = farm.run(1);
    assert_eq!(ended.done, names(&["n2", "n3", "n4", "n5"]));
    assert!(ended.failed.is_empty() && ended.left.is_empty());
    assert_eq!(farm.most_away.get(), 1);
    let said = farm.said.borrow();
    let each = [
        "is drained",
        "starts again",
        "has joined again, with base@3",
    ];
    let wanted: Vec<String> = ["n2", "n3", "n4", "n5"]
        .iter()
        .flat_map(|n| each.map(|what| format!("{n} {what}")))
        .collect();
    assert_eq!(*said, wanted);
    for m in farm.machines.borrow().values() {
        assert!(m.order.is_none() && m.restarts == 1, "undrained, once");
    }
}

#[test]
fn so_many_nodes_are_away_at_once_as_were_asked_for() {
    for at_once in [2, 3, 9] {
        let farm = Fake::new(|_, _| ());
        assert_eq!(farm.run(at_once).done.len(), 4);
        assert_eq!(farm.most_away.get(), at_once.min(4));
    }
}

#[test]
fn the_first_that_is_not_back_ends_it_and_the_same_command_goes_on() {
    let farm = Fake::new(|name, m| {
        if name == "n3" {
            m.takes = None;
        }
    });
    let ended = farm.run(1);
    assert_eq!(ended.done, names(&["n2"]));
    let why = "it has not joined again within 600 s";
    assert_eq!(ended.failed, [("n3".to_owned(), why.to_owned())]);
    assert_eq!(ended.left, names(&["n4", "n5"]));
    // It is switched on by hand meanwhile.
    let now = farm.now.get();
    farm.of("n3", |m| m.back = Some(now + 1));
    farm.pause();
    let ended = farm.run(1);
    assert_eq!(ended.done, names(&["n3", "n4", "n5"]));
    for m in farm.machines.borrow().values() {
        assert_eq!(m.restarts, 1, "none is started twice");
    }
}

#[test]
fn with_several_at_once_those_under_way_are_waited_for() {
    let farm = Fake::new(|name, m| match name {
        "n2" => m.boots = "base@2",
        "n3" => m.takes = Some(100),
        _ => {}
    });
    let ended = farm.run(2);
    let why = "it has joined again with base@2, not with base@3";
    assert_eq!(ended.failed, [("n2".to_owned(), why.to_owned())]);
    assert_eq!(ended.done, names(&["n3"]));
    assert_eq!(ended.left, names(&["n4", "n5"]));
}

#[test]
fn a_node_that_does_not_empty_is_not_started_again() {
    let farm = Fake::new(|name, m| m.stuck = name == "n2");
    let ended = farm.run(1);
    let (node, why) = &ended.failed[0];
    assert_eq!(node, "n2");
    assert_eq!(
        why,
        "3 processes are left on it after 600 s; it was not started again, and stays drained"
    );
    farm.of("n2", |m| {
        assert_eq!(m.restarts, 0);
        assert_eq!(m.order.as_ref().expect("drained").why, WHY);
        // Its processes end. It was drained by this command, so it is not drained afterwards.
        (m.stuck, m.persists) = (false, true);
    });
    assert_eq!(farm.run(1).done.len(), 4);
    farm.of("n2", |m| assert!(m.order.is_none() && m.restarts == 1));
}

#[test]
fn a_node_that_was_drained_is_drained_afterwards() {
    let order = DrainChange {
        drained: true,
        why: "new disk".into(),
        all_home: true,
    };
    for persists in [false, true] {
        let farm = Fake::new(|name, m| {
            m.persists = persists;
            m.order = Some(order.clone()).filter(|_| name == "n4");
        });
        assert_eq!(farm.run(1).done.len(), 4);
        farm.of("n4", |m| assert_eq!(m.order, Some(order.clone())));
        farm.of("n5", |m| assert_eq!(m.order, None));
    }
}

#[test]
fn a_node_that_is_not_in_the_farm_is_started_without_a_drain() {
    let farm = Fake::new(|name, m| m.member = name != "n2");
    assert_eq!(farm.run(1).done.len(), 4);
    assert_eq!(farm.said.borrow()[0], "n2 starts again");
}

#[test]
fn a_daemon_may_be_silent_for_a_moment_and_not_for_long() {
    let silent = |until: u64| {
        let farm = Fake::new(|name, m| m.to_go = if name == "n2" { 30 } else { 3 });
        // Silent after it was drained.
        let mut record = Record::default();
        let begun = begin(wanted()[0].clone(), &mut record, &farm).expect("begun");
        farm.of("n2", |m| m.silent_until = until);
        let mut begun = begun;
        loop {
            match begun.step(&mut record, &farm) {
                Ok(true) => return Ok(()),
                Ok(false) => farm.pause(),
                Err(e) => return Err(first_line(&e)),
            }
        }
    };
    assert_eq!(silent(20), Ok(()));
    let why = "it was not started again, and stays drained: n2 does not answer";
    assert_eq!(silent(40), Err(why.to_owned()));
}
