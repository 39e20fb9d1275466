//! What a node knows of the others, event by event.

use super::*;

fn name(n: &str) -> NodeName {
    n.parse().expect("name")
}

fn core() -> Core {
    Core {
        me: name("n1"),
        members: BTreeMap::new(),
        gone: BTreeMap::new(),
        members_changed: false,
        vector: Vector::new(name("n1"), 1),
        ledger: Ledger::new(name("n1")),
        dice: Dice::seeded(1),
        keepers: KeeperTable::default(),
        rejoin: Rejoin::look(),
        hosts: HostTable::default(),
        leaving: false,
        draining: BTreeMap::new(),
        refused: BTreeMap::new(),
        switches: Default::default(),
        recalled: BTreeMap::new(),
        clocks: HashMap::new(),
        consents: Default::default(),
        trace_rate: Default::default(),
        count: 0,
    }
}

fn life(n: &str, boot: u64) -> Life {
    Life {
        name: name(n),
        boot,
        addr: format!("127.0.0.1:{}", 1000 + boot).parse().expect("addr"),
    }
}

impl Core {
    /// foca's table is `lives`; what is believed of n2 then.
    fn learns(&mut self, lives: &[(u64, State)]) -> Option<(State, u64)> {
        let lives = lives
            .iter()
            .map(|(boot, state)| (life("n2", *boot), *state));
        self.sync_members(lives);
        let m = self.members.get(&name("n2"))?;
        Some((m.state, m.boot))
    }
}

#[test]
fn the_latest_life_counts() {
    let mut c = core();
    assert_eq!(
        c.learns(&[(5, State::Down)]),
        None,
        "dead before this daemon"
    );
    assert_eq!(c.learns(&[(5, State::Alive)]), Some((State::Alive, 5)));
    assert_eq!(c.learns(&[(5, State::Suspect)]), Some((State::Suspect, 5)));
    assert_eq!(c.learns(&[(5, State::Down)]), Some((State::Down, 5)));
    let restarted = [(5, State::Down), (9, State::Alive)];
    assert_eq!(c.learns(&restarted), Some((State::Alive, 9)));
    assert_eq!(c.addr_of(&name("n2")), Some(life("n2", 9).addr));
    assert_eq!(
        c.learns(&[(5, State::Alive)]),
        Some((State::Alive, 9)),
        "out of date"
    );
    c.sync_members([(life("n1", 99), State::Alive)].into_iter());
    assert!(
        !c.members.contains_key(&name("n1")),
        "a node is not its own peer"
    );
}

#[test]
fn a_life_that_left_is_forgotten() {
    let mut c = core();
    c.learns(&[(5, State::Alive)]);
    c.member_left(&name("n2"));
    assert_eq!(c.learns(&[(5, State::Alive)]), None);
    assert_eq!(c.learns(&[(5, State::Down)]), None);
    assert_eq!(c.learns(&[(6, State::Alive)]), Some((State::Alive, 6)));
}

#[test]
fn an_admitted_node_is_sent_the_members() {
    let mut c = core();
    c.learns(&[(5, State::Alive)]);
    let member = |n: &str| Member {
        name: name(n),
        addr: life(n, 1).addr,
        admitted: 1,
        seen_up: false,
        machine: Some("ab".into()),
    };
    let seeds = c.member_admitted(member("n3"));
    assert_eq!(seeds.len(), 1);
    assert_eq!(seeds[0].name, name("n2"));
    assert_eq!(seeds[0].machine, None);
    assert!(!c.members[&name("n3")].is_up());
    assert!(c.peers() == [name("n2")]);
}
