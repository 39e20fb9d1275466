//! Whether a node can be the target of a move, as far as this home knows.

use crate::error::{Result, refusal, stays};
use crate::state::{Node, command, no_such_node};
use armento_balance::barred;
use armento_client::api::CpuSet;
use armento_model::{KERNEL_MIN, NodeName, Stay, kernel_version};

/// Refuses a node that does not exist, is down, or is closed to this user.
pub fn check_target(
    node: &Node,
    subject: &str,
    (uid, needs): (u32, Option<&CpuSet>),
    to: &NodeName,
) -> Result<()> {
    let mut core = node.lock();
    if core.leaving {
        return Err(refusal(
            "leaving",
            "this node is leaving the farm",
            "use another node",
        ));
    }
    if !core.members.get(to).is_some_and(|m| m.is_up()) {
        drop(core);
        return Err(no_such_node(node, to));
    }
    let (trust, me) = (node.trust(), &node.farm.node);
    if let Some(what) = core.switches.holds_home() {
        let why = format!("{me} keeps its own ({})", command(what));
        return Err(stays(subject, Stay::SwitchedOff, &why));
    }
    if uid == 0 && !trust.allow_root {
        return Err(stays(subject, Stay::Privileged, "uid 0"));
    }
    if core.draining.contains_key(to) {
        let why = format!("{to} is being removed from the farm");
        return Err(stays(subject, Stay::NotTrusted, &why));
    }
    if !trust.sends_to(to).has(uid) {
        let why = format!("send_to of {me} leaves out {to} for user {uid}");
        return Err(stays(subject, Stay::NotTrusted, &why));
    }
    check_kernel(subject, &node.farm.node)?;
    let view = node.view(&mut core);
    match barred(&view, to, needs) {
        Some((stay, missing)) => Err(stays(subject, stay, &lacking(to, &missing))),
        None => Ok(()),
    }
}

/// Both ends need a kernel that the engine can use.
pub fn check_kernel(subject: &str, me: &NodeName) -> Result<()> {
    let release = crate::sys::kernel_release();
    if kernel_version(&release) >= KERNEL_MIN {
        return Ok(());
    }
    let which = format!("{me} has {release}");
    Err(stays(subject, Stay::KernelTooOld, &which))
}

/// For people: which CPU features a node lacks.
pub fn lacking(node: &NodeName, missing: &[String]) -> String {
    format!("{node} lacks {}", missing.join(" "))
}
