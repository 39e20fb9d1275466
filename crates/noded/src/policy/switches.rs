//! `armento farm block`, `stay`, `quiet`, `drain`, `stop`, `expel`, `bring`: what an administrator switches.

use super::enforce::enforce_settings;
use crate::error::refusal;
use crate::hosts::HELLO_MAX;
use crate::state::Node;
use armento_client::api::{Refusal, SwitchChange, SwitchInfo};
use std::sync::PoisonError;

/// `armento farm status`, and with a change the commands that make it.
pub fn switch(node: &Node, change: Option<&SwitchChange>) -> Result<SwitchInfo, Refusal> {
    if let Some(change) = change {
        let given = node.given.lock().unwrap_or_else(PoisonError::into_inner);
        let mut fresh = node.lock().switches.clone();
        fresh.change(change, &given);
        let written = fresh.write(&node.state);
        written.map_err(|e| refusal("failed", format!("{e}; nothing was changed"), e.hint()))?;
        let mut core = node.lock();
        let core = &mut *core;
        fresh.expel(&core.switches, change.expel);
        if change.bring {
            fresh.bring(core.away());
        }
        fresh.changed_now();
        core.switches = fresh;
        node.mfs.may_have_changed();
    }
    enforce_settings(node);
    Ok(info(node))
}

fn info(node: &Node) -> SwitchInfo {
    let core = node.lock();
    let s = &core.switches;
    SwitchInfo {
        away: core.away().len() as u64,
        guests: core.hosts.guests().count() as u64,
        unheard: s
            .since()
            .map_or(0, |at| core.hosts.unreported(at, HELLO_MAX)) as u64,
        ..s.info(&node.farm.node)
    }
}
