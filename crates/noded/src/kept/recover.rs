//! What is kept is listed, and programs are recovered from it.
//!
//! From: `noded/src/control/requests.rs`. Next: `cli/src/recover/start.rs`, which starts them.

use super::receive::lock;
use crate::clock::unix_ms;
use crate::error::{Result, refusal};
use crate::peer::{CallError, PeerAnswer, PeerAsk};
use crate::state::{Asker, Meta, Node, may};
use crate::sys;
use armento_client::api::{Answer, KeptInfo, PART_MAX, RecoverStep, Refusal};
use armento_client::hex::hex;
use armento_model::NodeName;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::Duration;

/// Another daemon's answer.
const ASKED: Duration = Duration::from_secs(3);

/// What is kept here, and on the other nodes with `all`.
pub fn list(asker: &Asker, all: bool) -> Answer {
    let node = &asker.node;
    let uid = (asker.uid != 0).then_some(asker.uid);
    let mut kept = kept_here(node, uid, None);
    let mut silent = Vec::new();
    let members: Vec<_> = match all {
        true => {
            let core = node.lock();
            let up = core.members.up();
            up.map(|m| (m.known.name.clone(), m.known.addr)).collect()
        }
        false => Vec::new(),
    };
    let name = uid.and_then(sys::name_of);
    for (other, addr) in members {
        let ask = PeerAsk::Kept {
            uid,
            name: name.clone(),
        };
        match node.call((&other, addr), &ask, ASKED) {
            Ok(PeerAnswer::Kept { kept: more }) => {
                kept.extend(more.into_iter().filter(|k| k.node == other));
            }
            Ok(_) | Err(CallError::Refused(_)) => {}
            Err(_) => silent.push(other),
        }
    }
    Answer::Kept { kept, silent }
}

/// Of one user, or of all. `name`: the user's name at the asking node.
pub fn kept_here(node: &Node, uid: Option<u32>, name: Option<&str>) -> Vec<KeptInfo> {
    let all: Vec<(String, Meta, Duration)> = {
        let kept = lock(node);
        let complete = |m: &Meta| m.bytes.is_some() || m.taken;
        let seen =
            |m: &Meta| uid.is_none_or(|uid| uid == m.uid) && name.is_none_or(|name| name == m.user);
        let all = kept.all.iter();
        all.filter(|(_, e)| complete(&e.meta) && seen(&e.meta))
            .map(|(id, e)| (id.clone(), e.meta.clone(), e.wait()))
            .collect()
    };
    let now = unix_ms();
    let info = |(id, meta, wait): (String, Meta, Duration)| {
        let home_alive = is_alive(node, &meta.home, &meta.boot);
        KeptInfo {
            refused: why_not(&meta, home_alive, wait).map(|no| no.message),
            id,
            node: node.farm.node.clone(),
            tree: meta.tree,
            uid: meta.uid,
            user: meta.user,
            command: meta.command,
            bytes: meta.bytes.unwrap_or(0),
            age_ms: now.saturating_sub(meta.made_ms),
            home_alive,
            wait_ms: wait.as_millis() as u64,
            taken: meta.taken,
            unsure: meta.unsure,
            home: meta.home,
        }
    };
    all.into_iter().map(info).collect()
}

/// Whether the kernel that ran the tree may still run. A home that has started again since runs nothing of it.
fn is_alive(node: &Node, home: &NodeName, boot: &str) -> bool {
    let addr = {
        let core = node.lock();
        let member = core.members.get(home).filter(|m| m.is_up());
        member.map(|m| m.known.addr)
    };
    let Some(addr) = addr else { return false };
    match node.call((home, addr), &PeerAsk::Boot, ASKED) {
        Ok(PeerAnswer::Boot { boot: now }) => now == boot || now.is_empty() || boot.is_empty(),
        // Members that are not known to be down are taken for alive.
        _ => true,
    }
}

/// Why it cannot be recovered now.
fn why_not(meta: &Meta, home_alive: bool, wait: Duration) -> Option<Refusal> {
    let home = &meta.home;
    if meta.bytes.is_none() {
        let what = match meta.taken {
            true => "it was recovered already",
            false => "no checkpoint of it is complete",
        };
        return Some(refusal("gone", what, "armento farm recover --list"));
    }
    if home_alive {
        let what = format!("{home} is alive: its programs run there");
        let hint = "it can be recovered when its home is lost";
        return Some(refusal("home-alive", what, hint));
    }
    if !wait.is_zero() && !meta.taken {
        let seconds = wait.as_millis().div_ceil(1000);
        let what = format!("{home} may still run it; in {seconds} s it does not");
        return Some(refusal("lease", what, "try again then"));
    }
    if meta.unsure {
        let what = format!("its keeper at {home} has ended, and it may run there without one");
        let hint = "be sure that its home is off, then add --home-is-off";
        return Some(refusal("unsure", what, hint));
    }
    None
}

/// One step of recovering.
pub fn recover(asker: &Asker, id: &str, step: &RecoverStep) -> Result<Answer> {
    let node = &asker.node;
    let meta = find(asker, id)?;
    match step {
        RecoverStep::Take { home_is_off } => take(node, id, &meta, *home_is_off),
        RecoverStep::Read { offset } => read(node, id, *offset),
        RecoverStep::Done => {
            let mut kept = lock(node);
            let path = kept.file(id);
            // Once: of two that recover it one alone starts it.
            let entry = kept.all.get_mut(id);
            let entry = entry.filter(|e| e.meta.taken && e.meta.bytes.is_some());
            let entry = entry.ok_or_else(|| unknown(node, id))?;
            if entry.told {
                kept.forget(id);
                return Ok(Answer::Done);
            }
            entry.meta.bytes = None;
            let meta = entry.meta.clone();
            kept.write(id, &meta).map_err(|e| failed(&e))?;
            let _ = std::fs::remove_file(path);
            Ok(Answer::Done)
        }
        RecoverStep::Forget => {
            let home_alive = is_alive(node, &meta.home, &meta.boot);
            let mut kept = lock(node);
            let wait = kept.all.get(id).map_or(Duration::ZERO, |e| e.wait());
            // Of one that was recovered the home may still have to be told.
            if let Some(no) = why_not(&meta, home_alive, wait) {
                return Err(no);
            }
            kept.forget(id);
            Ok(Answer::Done)
        }
    }
}

fn failed(e: &dyn std::fmt::Display) -> Refusal {
    let what = format!("{e}; nothing was started");
    refusal("failed", what, "see the daemon's log")
}

fn unknown(node: &Node, id: &str) -> Refusal {
    let what = format!(
        "{} keeps no checkpoint `{id}` of yours; nothing was started",
        node.farm.node
    );
    let hint = "`armento farm recover --list` shows what is kept, and on which node";
    refusal("no-such-checkpoint", what, hint)
}

/// Another user's are not shown.
fn find(asker: &Asker, id: &str) -> Result<Meta> {
    let kept = lock(&asker.node);
    let found = kept.all.get(id).filter(|e| may(asker.uid, e.meta.uid));
    let meta = found.map(|e| e.meta.clone());
    meta.ok_or_else(|| unknown(&asker.node, id))
}

/// From now on the home is told that it must not run the tree.
fn take(node: &Node, id: &str, meta: &Meta, home_is_off: bool) -> Result<Answer> {
    let home_alive = is_alive(node, &meta.home, &meta.boot);
    let mut kept = lock(node);
    let entry = kept.all.get_mut(id).ok_or_else(|| unknown(node, id))?;
    // It may have been renewed meanwhile.
    let wait = entry.wait();
    let known = Meta {
        unsure: entry.meta.unsure && !home_is_off,
        ..entry.meta.clone()
    };
    if let Some(mut no) = why_not(&known, home_alive, wait) {
        no.message = format!("{id}: {}; nothing was started", no.message);
        return Err(no);
    }
    entry.meta.taken = true;
    let meta = entry.meta.clone();
    kept.write(id, &meta).map_err(|e| {
        if let Some(entry) = kept.all.get_mut(id) {
            entry.meta.taken = false;
        }
        failed(&e)
    })?;
    tracing::info!("{id} ({}) is recovered here", meta.command);
    Ok(Answer::Done)
}

fn read(node: &Node, id: &str, offset: u64) -> Result<Answer> {
    let path = {
        let kept = lock(node);
        let taken = kept.all.get(id).is_some_and(|e| e.meta.taken);
        taken
            .then(|| kept.file(id))
            .ok_or_else(|| unknown(node, id))?
    };
    let file = File::open(path).map_err(|e| failed(&e))?;
    let size = file.metadata().map_err(|e| failed(&e))?.len();
    let left = size.saturating_sub(offset).min(PART_MAX as u64);
    let mut bytes = vec![0; left as usize];
    file.read_exact_at(&mut bytes, offset)
        .map_err(|e| failed(&e))?;
    Ok(Answer::KeptPart {
        size,
        data: hex(&bytes),
    })
}
