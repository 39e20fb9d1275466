//! Signs of life, to hosts and from them.
//!
//! From: `keeper/src/events/dispatch.rs`, about twice a second. Next: `lost.rs`, for a host that gives none.

use super::door::SPARE_MAX;
use super::lost::dead;
use crate::state::Keep;
use crate::sync::lock;
use armento_tracee::sys;
use armento_wire::talk::ToHost;
use std::sync::Arc;

/// A sign of life to every host that had none lately, and the end of one that gives none.
pub fn watch_hosts(keep: &Arc<Keep>) {
    for link in keep.hosts.all() {
        if link.past() {
            dead(keep, &link);
            continue;
        }
        let silent = lock(&link.last_heard).elapsed();
        let (worries, answered) = link.silence();
        if silent > worries {
            // Its reader looks for a way round what keeps this connection from working.
            link.session.cut();
        } else if silent > answered && link.takes_more() {
            link.send(&ToHost::Alive);
        }
        lock(&link.spare).take_if(|(since, _)| since.elapsed() > SPARE_MAX);
    }
    sys::give_back_rest();
}
