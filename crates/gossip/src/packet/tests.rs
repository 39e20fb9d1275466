use super::*;
use crate::message::{Item, Message};
use crate::{Entry, Tick, Vector};
use armento_model::NodeName;
use serde::{Deserialize, Serialize};

/// The message of the version before this one.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Before {
    from: NodeName,
    items: Vec<Item>,
}

fn name(i: usize) -> NodeName {
    format!("n{i}").parse().unwrap()
}

fn entry(i: usize) -> Entry {
    let mut entry = Entry::new(name(i), 0);
    (entry.load, entry.mem_free_kib) = (i as u32 * 77, 23_951_568 - i as u64);
    entry.mem_total_kib = 24_684_092;
    entry.speed = 10_000 + i as u32;
    entry.cpu.vendor = "AuthenticAMD".into();
    entry.cpu.flags = [0x7ed8_3203; 9];
    // Every third has another version.
    entry.version = if i.is_multiple_of(3) {
        "0.2.0"
    } else {
        "0.1.0"
    }
    .into();
    entry
}

/// A vector with so many other nodes.
fn knows(others: usize) -> Vector {
    let mut vector = Vector::new(name(0), 1_795_300_000_000);
    vector.set_own(entry(0), Tick(1000));
    for i in 1..=others {
        let mut other = Vector::new(name(i), 1_795_300_000_000 + i as u64 * 1000);
        other.set_own(entry(i), Tick(1000));
        let message = other.message_for(&name(0), Tick(1000 + i as u64 % 30));
        assert_eq!(vector.receive(message, Tick(1000)).newer, 1);
    }
    vector
}

#[test]
fn packet_size_equals_its_message_size() {
    for others in [0, 1, 63, 1000, 3000] {
        let mut vector = knows(others);
        let packet = vector.packet_for(&name(7), Tick(1100));
        let message = vector.named(packet.clone());
        let bytes = postcard::to_stdvec(&message).unwrap();
        assert_eq!(bytes.len(), packet.bytes(), "{others} others");
        assert!(bytes.len() <= MESSAGE_BYTES_MAX);
        assert_eq!(packet.builds.len(), 2.min(others + 1), "equal builds once");
        let again: Message = postcard::from_bytes(&bytes).unwrap();
        assert_eq!(again, message);
        // About 1800 of ten thousand are needed to keep data fresh there (RFD 6).
        assert!(packet.len() >= 1700.min(others), "{} entries", packet.len());
    }
}

#[test]
fn previous_version_reads_the_part_it_knows() {
    let mut vector = knows(20);
    let message = vector.message_for(&name(99), Tick(1100));
    let bytes = postcard::to_stdvec(&message).unwrap();
    let before: Before = postcard::from_bytes(&bytes).unwrap();
    assert_eq!(before.items, message.items);
    // Facts that it receives from these alone: the sender's own, and all in turn.
    let mut told = std::collections::BTreeSet::new();
    for _ in 0..25 {
        let message = vector.message_for(&name(99), Tick(1100));
        let with_facts = message
            .items
            .into_iter()
            .filter(|item| item.facts.is_some());
        let names: Vec<NodeName> = with_facts.map(|item| item.node).collect();
        assert!(names.contains(&name(0)) && names.len() <= 2);
        told.extend(names);
    }
    assert_eq!(told.len(), 21);
}

#[test]
fn previous_version_is_understood() {
    let mut vector = knows(3);
    let mut message = vector.message_for(&name(99), Tick(1100));
    for (item, about) in message.items.iter_mut().zip(&message.rest.about) {
        let build = message.rest.builds[about.build as usize - 1].clone();
        item.facts = Some(crate::message::Told {
            mem_total_kib: about.mem_total_kib,
            speed: about.speed,
            kind: build.kind,
            cores: build.cores,
            cpu: build.cpu,
            wire: build.wire,
            version: build.version,
        });
    }
    let before = Before {
        from: message.from,
        items: message.items,
    };
    // Additions of a future version are not facts.
    for more in [&b""[..], b"to come", &[0xff; 90], &[1; 40]] {
        let mut bytes = postcard::to_stdvec(&before).unwrap();
        bytes.extend_from_slice(more);
        let heard: Message = postcard::from_bytes(&bytes).unwrap();
        let mut me = Vector::new(name(50), 1);
        if heard.rest.about.is_empty() {
            assert_eq!(me.receive(heard, Tick(1)).newer, 4);
            let known = me.get(&name(2), Tick(1)).unwrap().entry;
            assert_eq!((known.speed, known.version.as_str()), (10_002, "0.1.0"));
        }
    }
}

#[test]
fn drained_nodes_are_known_as_such_and_to_the_previous_version_as_shut() {
    let mut vector = knows(2);
    let mut own = entry(0);
    (own.shut, own.drained) = (true, true);
    vector.set_own(own, Tick(1050));
    let message = vector.message_for(&name(99), Tick(1100));
    let bytes = postcard::to_stdvec(&message).unwrap();
    let mut me = Vector::new(name(50), 1);
    me.receive(postcard::from_bytes(&bytes).unwrap(), Tick(1));
    let state = |me: &Vector, n| {
        let entry = me.get(&name(n), Tick(1)).unwrap().entry;
        (entry.shut, entry.drained)
    };
    assert_eq!(state(&me, 0), (true, true));
    assert_eq!(state(&me, 1), (false, false));
    // The version before sends, and reads, no more than which nodes are shut.
    let before = (&message.from, &message.items, &message.rest, &message.shut);
    let bytes = postcard::to_stdvec(&before).unwrap();
    let mut me = Vector::new(name(51), 1);
    me.receive(postcard::from_bytes(&bytes).unwrap(), Tick(1));
    assert_eq!(state(&me, 0), (true, false));
}

#[test]
fn facts_of_missing_builds_are_ignored() {
    let mut vector = knows(3);
    let mut message = vector.message_for(&name(99), Tick(1100));
    message.rest.about[1].build = 77;
    message.rest.about[2].speed = 0;
    message.rest.about.truncate(3);
    let mut me = Vector::new(name(50), 1);
    let heard = me.receive(message, Tick(1));
    assert_eq!((heard.newer, heard.dropped), (2, 2));
    assert_eq!(
        me.view(Tick(1)).len(),
        1,
        "of the last the facts are to come"
    );
}

#[test]
fn urgent_updates_go_to_more_peers_at_once() {
    let mut vector = knows(3);
    let peers: Vec<NodeName> = (1..100).map(name).collect();
    let mut dice = crate::Dice::seeded(1);
    let mut sent = || vector.send(Tick(1100), &mut dice, &peers).len();
    assert_eq!(sent(), 1);
    vector.urge();
    let mut sent = || vector.send(Tick(1100), &mut dice, &peers).len();
    assert_eq!((sent(), sent()), (8, 1));
}

#[test]
fn table_clock_runs_for_years() {
    let mut me = Vector::new(name(0), 1);
    let mut n1 = Vector::new(name(1), 1);
    for day in 0..100 {
        let now = Tick(day * 86_400_000);
        me.set_own(entry(0), now);
        me.tick(now);
        n1.set_own(entry(1), now);
        assert_eq!(
            me.receive(n1.message_for(&name(0), now), now.plus(7)).newer,
            1
        );
        let age = |v: &Vector, i| v.get(&name(i), now.plus(1000)).map(|k| k.age_ms);
        assert_eq!(
            (age(&me, 0), age(&me, 1)),
            (Some(1000), Some(993)),
            "day {day}"
        );
        me.tick(now.plus(61_000));
        assert_eq!(age(&me, 1), None);
    }
}
