//! The progress of all machines.

use super::step::Step;
use armento_fabric::addr::Mac;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Machines on the board: a farm has at most 65,535 nodes; those that wait to be claimed are at most
/// [`Board::STRANGERS_MAX`].
pub const MACHINES_MAX: usize = 65_535 + Board::STRANGERS_MAX;
/// Bytes of a machine's own words that are kept.
const TEXT_MAX: usize = 600;

/// When a step was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark {
    pub step: Step,
    /// Milliseconds since 1970.
    pub at_ms: u64,
}

/// The last boot of one machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// By the inventory; none for a machine that waits to be claimed.
    pub node: Option<String>,
    /// In the order in which they were reached; never empty.
    pub marks: Vec<Mark>,
    /// What it said went wrong, in its own words.
    pub trouble: Option<String>,
    /// Image and generation that it boots: `base@3`.
    pub image: Option<String>,
    /// Boots that this board has seen.
    pub boots: u32,
}

impl Progress {
    /// The last step that it reached.
    pub fn step(&self) -> Step {
        self.marks.last().map_or(Step::Asked, |m| m.step)
    }

    /// When it was heard of last, ms since 1970.
    pub fn at_ms(&self) -> u64 {
        self.marks.last().map_or(0, |m| m.at_ms)
    }

    /// When this boot began, ms since 1970.
    pub fn began_ms(&self) -> u64 {
        self.marks.first().map_or(0, |m| m.at_ms)
    }
}

/// The progress of all machines, by hardware address.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Board {
    pub machines: BTreeMap<Mac, Progress>,
}

impl Board {
    /// Machines that wait to be claimed: the oldest make room for new ones.
    pub const STRANGERS_MAX: usize = 256;

    /// A machine reached a step. A step before the last one begins a new boot, but for those that firmware and loader repeat
    /// while they wait.
    pub fn reached(&mut self, mac: Mac, node: Option<&str>, step: Step, now_ms: u64) {
        let mark = Mark {
            step,
            at_ms: now_ms,
        };
        let Some(known) = self.machines.get_mut(&mac) else {
            self.make_room(node.is_none());
            let progress = Progress {
                node: node.map(str::to_owned),
                marks: vec![mark],
                trouble: None,
                image: None,
                boots: 1,
            };
            self.machines.insert(mac, progress);
            return;
        };
        known.node = node.map(str::to_owned);
        let last = known.step();
        // iPXE asks for an address again, after the firmware did.
        let repeated = step <= Step::Script && last <= Step::Script;
        if step > last {
            // It went on: what it said before is past.
            known.trouble = None;
            known.marks.push(mark);
        } else if step == last || repeated {
            if let Some(last) = known.marks.last_mut() {
                last.at_ms = now_ms;
            }
        } else {
            known.marks = vec![mark];
            known.trouble = None;
            known.boots = known.boots.saturating_add(1);
        }
    }

    /// What a machine said went wrong; its step stays.
    pub fn trouble(&mut self, mac: Mac, text: &str) {
        if let Some(known) = self.machines.get_mut(&mac) {
            let text: String = text
                .chars()
                .filter(|c| !c.is_control() || *c == '\n')
                .take(TEXT_MAX)
                .collect();
            known.trouble = (!text.is_empty()).then_some(text);
        }
    }

    /// The image that a machine boots.
    pub fn image(&mut self, mac: Mac, image: String) {
        if let Some(known) = self.machines.get_mut(&mac) {
            known.image = Some(image);
        }
    }

    /// Machines that no line of the inventory names, the latest first.
    pub fn strangers(&self) -> Vec<(Mac, &Progress)> {
        let mut all: Vec<_> = self
            .machines
            .iter()
            .filter(|(_, p)| p.node.is_none())
            .map(|(mac, p)| (*mac, p))
            .collect();
        all.sort_by_key(|(_, p)| std::cmp::Reverse(p.at_ms()));
        all
    }

    /// Gives machines the names of the inventory; machines that it does not name any more wait to be claimed.
    pub fn rename(&mut self, name_of: &dyn Fn(Mac) -> Option<String>) {
        for (mac, progress) in &mut self.machines {
            progress.node = name_of(*mac);
        }
    }

    /// The board of several servers as one: of each machine the one that heard of it last.
    pub fn merge(&mut self, other: Board) {
        for (mac, theirs) in other.machines {
            match self.machines.get(&mac) {
                Some(ours) if ours.at_ms() >= theirs.at_ms() => {}
                _ => {
                    self.machines.insert(mac, theirs);
                }
            }
        }
    }

    fn make_room(&mut self, stranger: bool) {
        let oldest = |board: &Board, only_strangers: bool| {
            board
                .machines
                .iter()
                .filter(|(_, p)| !only_strangers || p.node.is_none())
                .min_by_key(|(_, p)| p.at_ms())
                .map(|(mac, _)| *mac)
        };
        let strangers = self.machines.values().filter(|p| p.node.is_none()).count();
        let gone = match stranger {
            true if strangers >= Board::STRANGERS_MAX => oldest(self, true),
            _ if self.machines.len() >= MACHINES_MAX => oldest(self, false),
            _ => None,
        };
        if let Some(mac) = gone {
            self.machines.remove(&mac);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mac(last: u32) -> Mac {
        format!("52:54:00:00:{:02x}:{:02x}", last >> 8 & 255, last & 255)
            .parse()
            .expect("mac")
    }

    fn steps(board: &Board, last: u32) -> Vec<Step> {
        let progress = &board.machines[&mac(last)];
        progress.marks.iter().map(|m| m.step).collect()
    }

    #[test]
    fn steps_back_begin_a_new_boot() {
        let mut board = Board::default();
        let order = [
            Step::Address,
            Step::Loader,
            // iPXE asks again.
            Step::Address,
            Step::Script,
            Step::Kernel,
        ];
        for (at, step) in order.into_iter().enumerate() {
            board.reached(mac(1), Some("n1"), step, at as u64);
        }
        let first = [Step::Address, Step::Loader, Step::Script, Step::Kernel];
        assert_eq!(steps(&board, 1), first);
        board.trouble(mac(1), "no card\x1b[2J");
        let trouble = board.machines[&mac(1)].trouble.as_deref();
        assert_eq!(trouble, Some("no card[2J"));
        board.reached(mac(1), Some("n1"), Step::Address, 9);
        assert_eq!(steps(&board, 1), [Step::Address]);
        let again = &board.machines[&mac(1)];
        assert_eq!((again.boots, again.trouble.as_deref()), (2, None));
    }

    #[test]
    fn strangers_do_not_crowd_out_nodes() {
        let mut board = Board::default();
        board.reached(mac(1), Some("n1"), Step::Joined, 0);
        for i in 0..1000 {
            board.reached(mac(2 + i), None, Step::Asked, 1 + u64::from(i));
        }
        assert_eq!(board.machines.len(), Board::STRANGERS_MAX + 1);
        assert_eq!(steps(&board, 1), [Step::Joined]);
        assert_eq!(board.strangers()[0].0, mac(1001));
        board.rename(&|m| (m == mac(1001)).then(|| "n2".into()));
        assert_eq!(board.machines[&mac(1001)].node.as_deref(), Some("n2"));
    }

    #[test]
    fn boards_merge_to_the_latest() {
        let (mut a, mut b) = (Board::default(), Board::default());
        a.reached(mac(1), Some("n1"), Step::Script, 5);
        b.reached(mac(1), Some("n1"), Step::Root, 9);
        b.reached(mac(2), Some("n2"), Step::Root, 1);
        a.merge(b);
        assert_eq!(steps(&a, 1), [Step::Root]);
        assert_eq!(a.machines.len(), 2);
    }
}
