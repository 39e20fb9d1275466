//! What decisions of the policy look at.

use super::core::Core;
use super::member::State;
use super::node::Node;
use crate::clock::Known;
use armento_balance::View;
use armento_gossip::Known as KnownLoad;
use armento_model::{NodeName, Users};

impl Node {
    /// Everything a decision may look at.
    pub fn view(&self, core: &mut Core) -> View {
        let known = core.vector.view(self.now());
        self.view_of(core, known)
    }

    /// What a decision of the policy looks at: in a large farm a window of the load vector.
    pub fn near(&self, core: &mut Core) -> View {
        let (now, ledger) = (self.now(), &core.ledger);
        let window = ledger.window(core.members.len() + 1);
        let known = core.vector.window(window, ledger.places(), now);
        self.view_of(core, known)
    }

    /// This node alone: what an admission looks at.
    pub fn alone(&self, core: &mut Core) -> View {
        let now = self.now();
        let own = core.vector.get(&core.me, now);
        let open = match core.leaving {
            true => Users::none(),
            false => Users::all(),
        };
        let Core {
            keepers, ledger, ..
        } = core;
        keepers.update_ledger(ledger, now);
        ledger.own_view(own, open, now)
    }

    fn view_of(&self, core: &mut Core, known: Vec<KnownLoad>) -> View {
        let now = self.now();
        let Core {
            keepers, ledger, ..
        } = core;
        keepers.update_ledger(ledger, now);
        let (members, me, leaving) = (&core.members, &core.me, core.leaving);
        let (draining, refused, clocks) = (&core.draining, &core.refused, &core.clocks);
        let trust = self.trust();
        let open = |name: &NodeName| {
            if name == me && !leaving {
                return Users::all();
            }
            let alive = members.get(name).is_some_and(|m| m.state == State::Alive);
            let apart = clocks.get(name).is_some_and(Known::is_apart);
            if !alive || apart || draining.contains_key(name) {
                return Users::none();
            }
            let mut users = trust.sends_to(name);
            let theirs = refused.keys().filter(|(node, _)| node == name);
            theirs.for_each(|(_, uid)| users.remove(*uid));
            users
        };
        core.ledger.view(known, open, now)
    }
}
