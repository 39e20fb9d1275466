//! What a node knows of the others, event by event.

use super::*;

fn name(n: &str) -> NodeName {
    n.parse().expect("name")
}

/// The members of n1, and its load vector.
struct Known {
    members: Members,
    vector: Vector,
}

fn known() -> Known {
    Known {
        members: Members::new(name("n1"), Vec::new()),
        vector: Vector::new(name("n1"), 1),
    }
}

fn life(n: &str, boot: u64) -> Life {
    Life {
        name: name(n),
        boot,
        addr: format!("127.0.0.1:{}", 1000 + boot).parse().expect("addr"),
    }
}

impl Known {
    /// foca's table is `lives`; what is believed of n2 then.
    fn learns(&mut self, lives: &[(u64, State)]) -> Option<(State, u64)> {
        let lives = lives
            .iter()
            .map(|(boot, state)| (life("n2", *boot), *state));
        self.members.sync(lives, &mut self.vector);
        let m = self.members.get(&name("n2"))?;
        Some((m.state, m.boot))
    }
}

#[test]
fn the_latest_life_counts() {
    let mut c = known();
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
    assert_eq!(c.members.addr_of(&name("n2")), Some(life("n2", 9).addr));
    assert_eq!(
        c.learns(&[(5, State::Alive)]),
        Some((State::Alive, 9)),
        "out of date"
    );
    let itself = [(life("n1", 99), State::Alive)];
    c.members.sync(itself.into_iter(), &mut c.vector);
    assert!(
        !c.members.contains(&name("n1")),
        "a node is not its own peer"
    );
}

#[test]
fn a_life_that_left_is_forgotten() {
    let mut c = known();
    c.learns(&[(5, State::Alive)]);
    c.members.left(&name("n2"), &mut c.vector);
    assert_eq!(c.learns(&[(5, State::Alive)]), None);
    assert_eq!(c.learns(&[(5, State::Down)]), None);
    assert_eq!(c.learns(&[(6, State::Alive)]), Some((State::Alive, 6)));
}

#[test]
fn an_admitted_node_is_sent_the_members() {
    let mut c = known();
    c.learns(&[(5, State::Alive)]);
    let member = |n: &str| Member {
        name: name(n),
        addr: life(n, 1).addr,
        admitted: 1,
        seen_up: false,
        machine: Some("ab".into()),
    };
    let seeds = c.members.admitted(member("n3"));
    assert_eq!(seeds.len(), 1);
    assert_eq!(seeds[0].name, name("n2"));
    assert_eq!(seeds[0].machine, None);
    assert!(!c.members.get(&name("n3")).expect("admitted").is_up());
    assert!(c.members.peers() == [name("n2")]);
}
