//! The list of nodes, as `armento nodes` shows it.

use super::core::Core;
use super::node::Node;
use crate::clock::Known;
use armento_client::api::NodeInfo;
use armento_gossip::Tick;
use armento_model::NodeName;

impl Node {
    /// What `armento nodes` shows.
    pub fn nodes(&self) -> Vec<NodeInfo> {
        let now = self.now();
        let core = self.lock();
        let state = if core.leaving { "leaving" } else { "alive" };
        let mut nodes = vec![self.node_info(&core, &core.me, self.addr().to_string(), state, now)];
        for m in core.members.iter() {
            let name = &m.known.name;
            let addr = m.known.addr.to_string();
            nodes.push(self.node_info(&core, name, addr, m.state.name(), now));
        }
        nodes
    }

    fn node_info(
        &self,
        core: &Core,
        name: &NodeName,
        addr: String,
        state: &str,
        now: Tick,
    ) -> NodeInfo {
        let known = core.vector.get(name, now);
        let entry = known.as_ref().map(|k| &k.entry);
        NodeInfo {
            name: name.clone(),
            addr,
            state: state.into(),
            here: *name == core.me,
            load: entry.map_or(0.0, |e| e.load_over_power()),
            speed: entry.map_or(0, |e| e.speed),
            cores: entry.map_or(0, |e| e.cores),
            mem_total_kib: entry.map_or(0, |e| e.mem_total_kib),
            mem_free_kib: entry.map_or(0, |e| e.mem_free_kib),
            guests: entry.map_or(0, |e| e.guests),
            frozen: match *name == core.me {
                true => core.hosts.guests().filter(|g| g.frozen).count() as u32,
                false => 0,
            },
            shut: entry.is_some_and(|e| e.shut),
            drained: entry.is_some_and(|e| e.drained),
            // Never reported in this daemon's life.
            age_ms: known.as_ref().map_or(now.0, |k| k.age_ms),
            wire: entry.map_or(String::new(), |e| e.wire.name().into()),
            version: entry.map_or(String::new(), |e| e.version.clone()),
            clock_us: match *name == core.me {
                true => Some(0),
                false => core.clocks.get(name).and_then(Known::ahead_us),
            },
            clock_apart: core.clocks.get(name).is_some_and(Known::is_apart),
        }
    }
}
