//! What is looked at once in several periods: lost members, logs, ended hosts, removed nodes.

use super::swim::{Swim, dice};
use crate::hosts::{clean_up, kill, trim_logs};
use crate::membership::ask_for_statement;
use crate::peer::{CallError, PeerAsk, call};
use crate::state::{Life, Node};
use crate::state_dir::Member;
use armento_client::version;
use rand::Rng;
use std::time::Duration;

/// Members are asked for the farm's newest statement in one of so many turns, and each time when a member does not
/// answer, or uses another seal: a member that uses ours knows what we know.
const ASK_TURNS: u64 = 12;
/// Lost members called again at once.
const CALLED_MAX: usize = 16;
/// An answer to a question that no daemon understands.
const TO_COME: Duration = Duration::from_secs(3);

pub struct Slow {
    /// Which member to ask next, in turn.
    asked: u64,
}

impl Slow {
    pub fn new(node: &Node) -> Slow {
        Slow {
            // A farm that is switched on would ask its first node all at once, then its second.
            asked: dice(node).next_u32().into(),
        }
    }

    /// Once in several periods; `turn` counts how often.
    pub fn run(&mut self, swim: &mut Swim, turn: u64) {
        let node = swim.node.clone();
        node.connections.trim();
        let mut lost: Vec<Member> = Vec::new();
        let patience = Duration::from_millis(node.config.dead_ms);
        let (ended, unconnected) = {
            let mut core = node.lock();
            let down = core.members.iter().filter(|m| !m.is_up());
            lost.extend(down.map(|m| m.known.clone()));
            (core.hosts.take_ended(), core.hosts.unconnected(patience))
        };
        unconnected.iter().for_each(kill);
        for record in &ended {
            clean_up(&node.state, record);
        }
        // In turn, so that each is called within a few rounds however many there are.
        let from = turn as usize * CALLED_MAX;
        let n = lost.len();
        for m in lost
            .iter()
            .cycle()
            .skip(from.checked_rem(n).unwrap_or(0))
            .take(n.min(CALLED_MAX))
        {
            // Announcements are taken by the node of that name, whatever its life.
            let life = Life {
                name: m.name.clone(),
                boot: 0,
                addr: m.addr,
            };
            swim.call(life);
        }
        self.ask_for_revocation(swim, turn, n > 0);
        if let Err(e) = trim_logs(&node.state) {
            tracing::warn!("{e}");
        }
    }

    fn ask_for_revocation(&mut self, swim: &mut Swim, turn: u64, some_are_lost: bool) {
        let node = swim.node.clone();
        let strange = swim.take_foreign() || some_are_lost;
        let to_come = version::is_to_come();
        if !strange && !to_come && !turn.is_multiple_of(ASK_TURNS) {
            return;
        }
        let asked = self.asked;
        self.asked += 1;
        tokio::task::spawn_blocking(move || {
            ask_for_statement(&node, asked);
            if to_come {
                ask_to_come(&node);
            }
        });
    }
}

/// What a member of today must refuse, at no cost. Logs which did.
fn ask_to_come(node: &Node) {
    let members: Vec<_> = {
        let core = node.lock();
        let up = core.members.up();
        up.map(|m| (m.known.name.clone(), m.known.addr)).collect()
    };
    for (name, addr) in members {
        match call(&node.identity(), &name, addr, &PeerAsk::ToCome, TO_COME) {
            Err(CallError::Refused(no)) => tracing::info!("{name}: {}: {}", no.code, no.message),
            other => tracing::warn!("{name} should not understand this: {other:?}"),
        }
    }
}
