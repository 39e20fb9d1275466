use super::*;

fn name(text: &str) -> NodeName {
    text.parse().unwrap()
}

fn speaks(node: &str, boot: u64, load: u32, now: Tick) -> Vector {
    let mut vector = Vector::new(name(node), boot);
    let mut entry = Entry::new(name(node), 0);
    entry.load = load;
    vector.set_own(entry, now);
    vector
}

fn load_of(vector: &Vector, node: &str, now: Tick) -> Option<(u32, u64)> {
    vector
        .get(&name(node), now)
        .map(|known| (known.entry.load, known.age_ms))
}

#[test]
fn ages_are_sent_instead_of_clock_values() {
    let mut far = speaks("far", 1, 7, Tick(900_000));
    let mut between = Vector::new(name("between"), 1);
    let mut me = Vector::new(name("me"), 1);
    between.receive(far.message_for(&name("between"), Tick(900_100)), Tick(50));
    me.receive(
        between.message_for(&name("me"), Tick(1050)),
        Tick(7_000_000),
    );
    assert_eq!(load_of(&me, "far", Tick(7_000_200)), Some((7, 1300)));
}

#[test]
fn newer_entry_is_kept_in_any_order() {
    let mut n2 = speaks("n2", 1, 10, Tick(0));
    let old = n2.message_for(&name("me"), Tick(0));
    n2.set_own(
        Entry {
            load: 20,
            ..Entry::new(name("n2"), 0)
        },
        Tick(1000),
    );
    let new = n2.message_for(&name("me"), Tick(1000));
    let mut me = Vector::new(name("me"), 1);
    assert_eq!(me.receive(new.clone(), Tick(5)).newer, 1);
    assert_eq!(
        me.receive(old, Tick(6)),
        Heard {
            dropped: 1,
            ..Heard::default()
        }
    );
    assert_eq!(me.receive(new, Tick(7)).dropped, 1);
    assert_eq!(load_of(&me, "n2", Tick(5)), Some((20, 0)));
}

#[test]
fn dead_incarnation_never_returns() {
    let mut me = Vector::new(name("me"), 1);
    let mut old = speaks("n2", 5, 10, Tick(0));
    (0..9).for_each(|_| old.set_own(Entry::new(name("n2"), 0), Tick(0)));
    let mut young = speaks("n2", 6, 20, Tick(0));
    me.receive(young.message_for(&name("me"), Tick(0)), Tick(0));
    assert_eq!(
        me.receive(old.message_for(&name("me"), Tick(0)), Tick(0))
            .newer,
        0
    );
    assert_eq!(load_of(&me, "n2", Tick(0)), Some((20, 0)));
}

#[test]
fn forgotten_node_returns_only_by_its_own_message() {
    let mut me = Vector::new(name("me"), 1);
    let mut n2 = speaks("n2", 5, 10, Tick(0));
    let mut n3 = speaks("n3", 5, 30, Tick(0));
    n3.receive(n2.message_for(&name("n3"), Tick(0)), Tick(0));
    me.receive(n3.message_for(&name("me"), Tick(0)), Tick(0));
    assert_eq!(me.view(Tick(0)).len(), 2);
    me.forget(&name("n2"));
    me.receive(n3.message_for(&name("me"), Tick(0)), Tick(0));
    assert_eq!(
        load_of(&me, "n2", Tick(0)),
        None,
        "an echo is no sign of life"
    );
    me.receive(n2.message_for(&name("me"), Tick(0)), Tick(0));
    assert_eq!(load_of(&me, "n2", Tick(0)), Some((10, 0)));
    // … or as a later incarnation, from any node.
    me.forget(&name("n2"));
    let mut again = speaks("n2", 6, 50, Tick(0));
    n3.receive(again.message_for(&name("n3"), Tick(0)), Tick(0));
    me.receive(n3.message_for(&name("me"), Tick(0)), Tick(0));
    assert_eq!(load_of(&me, "n2", Tick(0)), Some((50, 0)));
}

#[test]
fn too_old_entries_are_neither_shown_nor_passed_on() {
    let mut me = speaks("me", 1, 0, Tick(0));
    let mut n2 = speaks("n2", 5, 10, Tick(0));
    me.receive(n2.message_for(&name("me"), Tick(0)), Tick(0));
    let late = Tick(AGE_MS_MAX + 1);
    me.set_own(Entry::new(name("me"), 0), late);
    assert_eq!(me.view(late).len(), 1);
    assert_eq!(me.message_for(&name("n3"), late).len(), 1);
    me.tick(late);
    assert_eq!(me.get(&name("n2"), late), None);
}

#[test]
fn changed_facts_replace_earlier_ones() {
    let mut n2 = speaks("n2", 5, 10, Tick(0));
    let mut me = Vector::new(name("me"), 1);
    me.receive(n2.message_for(&name("me"), Tick(0)), Tick(0));
    n2.set_own(
        Entry {
            speed: 4000,
            ..Entry::new(name("n2"), 0)
        },
        Tick(1),
    );
    me.receive(n2.message_for(&name("me"), Tick(1)), Tick(1));
    assert_eq!(me.get(&name("n2"), Tick(1)).unwrap().entry.speed, 4000);
}

#[test]
fn invalid_or_foreign_messages_change_nothing() {
    let mut me = speaks("me", 5, 1, Tick(0));
    let mut liar = speaks("me", 9, 99, Tick(0));
    assert!(
        me.receive(liar.message_for(&name("x"), Tick(0)), Tick(0))
            .double
    );
    assert_eq!(load_of(&me, "me", Tick(0)), Some((1, 0)));
    let mut zero = speaks("n2", 1, 5, Tick(0));
    zero.set_own(
        Entry {
            speed: 0,
            ..Entry::new(name("n2"), 0)
        },
        Tick(0),
    );
    assert_eq!(
        me.receive(zero.message_for(&name("me"), Tick(0)), Tick(0))
            .newer,
        0
    );
    let huge = Entry {
        version: "9".repeat(1000),
        ..Entry::new(name("n3"), 0)
    };
    let mut long = Vector::new(name("n3"), 1);
    long.set_own(huge, Tick(0));
    me.receive(long.message_for(&name("me"), Tick(0)), Tick(0));
    let known = me.get(&name("n3"), Tick(0)).unwrap();
    assert_eq!(known.entry.version.len(), VERSION_BYTES_MAX);
}
