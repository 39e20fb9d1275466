//! Calls that only home's kernel can carry out: the process is to come home and makes them there.

use crate::state::{GuestThread, Host, Waiting};
use crate::sync::lock;
use armento_model::{HomePid, Stay};
use armento_wire::talk::ToHome;
use std::sync::Arc;

/// The call `id` waits until its process has come home.
pub fn come_home(host: &Arc<Host>, thread: &Arc<GuestThread>, id: u64, stay: Stay, why: &str) {
    come_home_about(host, thread, id, (stay, why), None);
}

/// The same for a call about another process.
pub fn come_home_about(
    host: &Arc<Host>,
    thread: &Arc<GuestThread>,
    id: u64,
    (stay, why): (Stay, &str),
    about: Option<HomePid>,
) {
    lock(&thread.call).waiting = Some(Waiting::Parked { id });
    host.home.send(&ToHome::ComeHome {
        pid: thread.pid,
        tid: thread.tid,
        stay,
        why: why.to_owned(),
        about,
    });
}
