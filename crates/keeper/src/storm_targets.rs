//! Where a storm sends a process: a random generator that a seed repeats, and the choice of a destination.

use armento_client::api::Dest;
use armento_model::NodeName;

/// KERNEL-independent small generator (splitmix64), so that a seed repeats a storm.
pub struct Dice(pub u64);

impl Dice {
    pub fn roll(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % n.max(1) as u64) as usize
    }
}

/// `node` as a destination of a tree whose home is `home`.
pub fn destination(home: &NodeName, node: NodeName) -> Dest {
    if node == *home {
        Dest::Home
    } else {
        Dest::Node(node)
    }
}
