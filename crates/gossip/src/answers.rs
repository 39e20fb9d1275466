//! Which peers send messages themselves. Where nodes are joined by direct links, or a firewall lies between some, a
//! message to a peer out of reach is lost without a sign, and one sent to another peer instead is not.

use crate::Dice;
use armento_model::NodeName;
use std::collections::{HashMap, HashSet};

/// Messages to a peer without one from it before it counts as silent. In a farm of any size a peer sends as often as it
/// is sent to, so that one in 256 is taken for silent by mistake, and it is still sent to. (With 3 messages, one in eight,
/// farms of eight nodes became even later.)
const UNANSWERED_MAX: u8 = 8;
/// Of so many messages one may go to a silent peer.
const ONE_OF: usize = 4;

/// Messages to each peer since its last one to this node.
#[derive(Clone, Debug, Default)]
pub struct Answers(HashMap<NodeName, u8>);

impl Answers {
    pub fn sent_to(&mut self, peer: &NodeName) {
        let n = self.0.entry(peer.clone()).or_default();
        *n = n.saturating_add(1);
    }

    pub fn heard_from(&mut self, peer: &NodeName) {
        self.0.remove(peer);
    }

    /// Once a period: counts of nodes that are no peers any more are dropped.
    fn keep(&mut self, peers: &[NodeName]) {
        if self.0.len() > peers.len() {
            let peers: HashSet<&NodeName> = peers.iter().collect();
            self.0.retain(|name, _| peers.contains(name));
        }
    }

    /// Indexes of the peers to choose from this time.
    pub fn candidates(&mut self, dice: &mut Dice, peers: &[NodeName]) -> Vec<usize> {
        self.keep(peers);
        let silent = |peer: &NodeName| self.0.get(peer).is_some_and(|n| *n >= UNANSWERED_MAX);
        let all = 0..peers.len();
        let speaking: Vec<usize> = all.clone().filter(|i| !silent(&peers[*i])).collect();
        let some_silent = speaking.len() < peers.len();
        if speaking.is_empty() || some_silent && dice.below(ONE_OF) == 0 {
            return all.collect();
        }
        speaking
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silent_peers_are_chosen_less_often_and_never_left_out() {
        let peers: Vec<NodeName> = ["n2", "n3"].map(|n| n.parse().expect("a name")).to_vec();
        let (mut answers, mut dice) = (Answers::default(), Dice::seeded(1));
        let whole = |answers: &mut Answers, dice: &mut Dice| {
            let each = (0..1000).map(|_| answers.candidates(dice, &peers).len());
            each.filter(|n| *n == 2).count()
        };
        (0..UNANSWERED_MAX).for_each(|_| answers.sent_to(&peers[1]));
        // 250 expected; six standard deviations are 82.
        let times = whole(&mut answers, &mut dice);
        assert!((168..=332).contains(&times), "{times}");
        answers.heard_from(&peers[1]);
        assert_eq!(whole(&mut answers, &mut dice), 1000);
        for _ in 0..UNANSWERED_MAX {
            peers.iter().for_each(|p| answers.sent_to(p));
        }
        assert_eq!(whole(&mut answers, &mut dice), 1000, "all are silent");
        answers.candidates(&mut dice, &peers[..1]);
        assert_eq!(answers.0.len(), 1, "of a node that left nothing is kept");
    }
}
