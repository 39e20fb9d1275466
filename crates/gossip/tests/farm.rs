//! Vectors of whole farms in virtual time: the age of their data, and its cost.

use armento_gossip::{Dice, Entry, MESSAGE_BYTES_MAX, Message, Tick, Vector};
use armento_model::NodeName;

const PERIOD_MS: u64 = 1000;

/// A farm with messages that arrive at once or not at all.
struct Farm {
    nodes: Vec<Vector>,
    names: Vec<NodeName>,
    dice: Dice,
    now: Tick,
    /// Thousandths of all messages that get lost.
    lost_permille: usize,
    /// Bytes and messages sent, all nodes together.
    sent: (usize, usize),
}

fn name(i: usize) -> NodeName {
    format!("n{i}").parse().unwrap()
}

/// An entry as large as real ones.
fn entry(node: NodeName, boot: u64, load: u32) -> Entry {
    let mut entry = Entry::new(node, boot);
    entry.load = load;
    entry.mem_total_kib = 24_684_092;
    entry.mem_free_kib = 23_951_568;
    entry.cpu.vendor = "AuthenticAMD".into();
    entry.cpu.flags = [0x7ed8_3203; 9];
    entry.version = "0.1.0".into();
    entry
}

impl Farm {
    fn new(n: usize, seed: u64) -> Farm {
        let names: Vec<NodeName> = (1..=n).map(name).collect();
        Farm {
            nodes: names
                .iter()
                .map(|me| Vector::new(me.clone(), 1_795_300_000_000))
                .collect(),
            names,
            dice: Dice::seeded(seed),
            now: Tick(1_000_000),
            lost_permille: 0,
            sent: (0, 0),
        }
    }

    fn period(&mut self) {
        self.now = self.now.plus(PERIOD_MS);
        // All nodes send before any receives: no update makes two hops in one period.
        let mut under_way = Vec::new();
        for i in 0..self.nodes.len() {
            let me = self.names[i].clone();
            self.nodes[i].set_own(entry(me.clone(), 0, 100 + i as u32), self.now);
            self.nodes[i].tick(self.now);
            let peers: Vec<NodeName> = self
                .names
                .iter()
                .filter(|peer| **peer != me)
                .cloned()
                .collect();
            under_way.extend(self.nodes[i].send(self.now, &mut self.dice, &peers));
        }
        under_way
            .iter()
            .for_each(|(to, message)| self.deliver(to, message));
    }

    fn deliver(&mut self, to: &NodeName, message: &Message) {
        let bytes = postcard::to_stdvec(message).unwrap();
        self.sent = (self.sent.0 + bytes.len(), self.sent.1 + 1);
        if self.dice.below(1000) < self.lost_permille {
            return;
        }
        let at = self.names.iter().position(|n| n == to).unwrap();
        self.nodes[at].receive(postcard::from_bytes(&bytes).unwrap(), self.now);
    }

    fn periods(&mut self, n: usize) {
        (0..n).for_each(|_| self.period());
    }

    /// Mean age, in periods, of each node's data about the others over `n` periods, and the average number of others
    /// that a node has data about.
    fn measure(&mut self, n: usize) -> (f64, f64) {
        let (mut age, mut known) = (0.0, 0.0);
        for _ in 0..n {
            self.period();
            for node in &self.nodes {
                let others = node.view(self.now).into_iter().skip(1);
                others.for_each(|k| {
                    age += k.age_ms as f64 / PERIOD_MS as f64;
                    known += 1.0;
                });
            }
        }
        (age / known, known / (n * self.nodes.len()) as f64)
    }
}

#[test]
fn data_age_grows_with_the_logarithm_of_the_farm() {
    for (n, seed) in [(16, 1), (16, 2), (64, 3)] {
        let mut farm = Farm::new(n, seed);
        farm.periods(40);
        let (age, known) = farm.measure(if n < 64 { 100 } else { 25 });
        // Expected: about 1.3 ln n.
        let ratio = age / (n as f64).ln();
        assert!(
            (0.9..=1.6).contains(&ratio),
            "{n} nodes, seed {seed}: {ratio:.2} ln n"
        );
        assert!(
            known > (n - 1) as f64 * 0.999,
            "{n} nodes, seed {seed}: {known} known"
        );
    }
}

#[test]
fn lost_messages_only_increase_age() {
    let mut farm = Farm::new(32, 5);
    farm.lost_permille = 300;
    farm.periods(80);
    let (age, known) = farm.measure(50);
    assert!(age < 3.0 * 32f64.ln(), "mean age {age:.1} periods");
    assert!(known > 30.9, "{known} of 31 known");
}

#[test]
fn traffic_per_node_is_bounded_in_every_farm() {
    for n in [4, 16, 64] {
        let mut farm = Farm::new(n, 6);
        farm.periods(60);
        farm.sent = (0, 0);
        farm.periods(10);
        assert_eq!(farm.sent.1, 10 * n, "one message per node and period");
        // Goal: at most 4 KB/s per node at 64 nodes; a tenth of it left for framing.
        let each = farm.sent.0 / (10 * n);
        assert!(each <= 3600, "{n} nodes: {each} bytes a period");
    }
}

#[test]
fn messages_stay_bounded_with_long_names() {
    let long = |i: usize| -> NodeName { format!("{i:0>63}").parse().unwrap() };
    let mut vector = Vector::new(long(0), 1);
    let now = Tick(5);
    for i in 0..1500 {
        let mut other = Vector::new(long(i + 1), u64::MAX);
        other.set_own(entry(long(i + 1), 0, u32::MAX), now);
        let heard = vector.receive(other.message_for(&long(0), now), now);
        assert_eq!(heard.newer, 1);
    }
    vector.set_own(entry(long(0), 0, 0), now);
    for peer in ["x", "y"] {
        let message = vector.message_for(&peer.parse().unwrap(), now);
        let bytes = postcard::to_stdvec(&message).unwrap();
        assert!(bytes.len() <= MESSAGE_BYTES_MAX, "{} bytes", bytes.len());
        assert!(message.len() > 100, "{} entries", message.len());
    }
}

#[test]
fn joining_node_has_the_farm_after_one_message() {
    let mut farm = Farm::new(16, 7);
    farm.periods(80);
    let mut late = Vector::new("late".parse().unwrap(), 1);
    let message = farm.nodes[3].message_for(&"late".parse().unwrap(), farm.now);
    assert_eq!(late.receive(message, farm.now).newer, 16);
    assert_eq!(late.view(farm.now).len(), 16);
}
