//! The keeping node's side: checkpoints arrive, and each question of their home renews its lease.
//!
//! From: `noded/src/peer_server.rs`. Next: `noded/src/state/kept.rs` (what is kept), `recover.rs`.

use crate::clock::unix_ms;
use crate::error::{FarmError, Result, refusal};
use crate::state::{Arriving, Entry, Kept, Meta, Node, id_of};
use crate::sys;
use armento_client::api::{KEPT_COMMAND_MAX, KeepAnswer, KeepStep, PART_MAX, Refusal};
use armento_client::hex::{hex, unhex};
use armento_model::{NodeName, TreeId, clean};
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, fchown};
use std::sync::{MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Trees of which something is kept.
const TREES_MAX: usize = 64;
/// One checkpoint takes at most this part of the disk's free space.
const FREE_PART: u64 = 2;
/// That a tree was recovered is remembered for so long if its home does not come back.
const REMEMBERED: Duration = Duration::from_secs(90 * 24 * 3600);

/// Whose checkpoint it is.
pub struct Owner<'a> {
    pub home: &'a NodeName,
    pub tree: TreeId,
    pub uid: u32,
    /// The user's name at the home; said when a checkpoint begins.
    pub name: &'a str,
}

pub fn lock(node: &Node) -> MutexGuard<'_, Kept> {
    node.kept.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Takes one step of the tree's keeper.
pub fn step(node: &Node, owner: &Owner, step: KeepStep) -> Result<KeepAnswer> {
    let id = id_of(owner.home, owner.tree);
    if let KeepStep::Begin { .. } = &step {
        // It asks the machine's user database: not under the lock.
        admit(node, owner)?;
    }
    let mut kept = lock(node);
    if let Some(entry) = kept.all.get_mut(&id) {
        if entry.meta.uid != owner.uid {
            return Err(refused("another-user", "it is another user's tree".into()));
        }
        if entry.meta.taken {
            return Ok(of_taken(&mut kept, &id, &step));
        }
        let unsure = step == KeepStep::KeeperGone;
        if !unsure {
            entry.renewed = Instant::now();
        }
        if std::mem::replace(&mut entry.meta.unsure, unsure) != unsure {
            let meta = entry.meta.clone();
            kept.write(&id, &meta).map_err(|e| cannot_keep(&e))?;
        }
    }
    match step {
        KeepStep::Begin {
            size,
            sha256,
            command,
            boot,
            dead_ms,
        } => {
            let meta = Meta {
                home: owner.home.clone(),
                tree: owner.tree,
                uid: owner.uid,
                user: owner.name.to_owned(),
                command: shortened(&command),
                boot: clean(&boot),
                dead_ms: dead_ms.max(node.config.dead_ms),
                bytes: None,
                made_ms: 0,
                taken: false,
                unsure: false,
            };
            begin(&mut kept, &id, meta, (size, sha256))?;
        }
        KeepStep::Part { offset, data } => part(&mut kept, &id, offset, &data)?,
        KeepStep::End => end(&mut kept, &id)?,
        KeepStep::Renew | KeepStep::KeeperGone => {}
        KeepStep::Forget => kept.forget(&id),
    }
    Ok(KeepAnswer {
        known: kept.all.contains_key(&id),
        taken: false,
    })
}

/// The home must not run it any more. Once it has ended it there, that need not be remembered.
fn of_taken(kept: &mut Kept, id: &str, step: &KeepStep) -> KeepAnswer {
    if *step == KeepStep::Forget
        && let Some(entry) = kept.all.get_mut(id)
    {
        entry.told = true;
        // Else it is being read.
        if entry.meta.bytes.is_none() {
            kept.forget(id);
        }
    }
    KeepAnswer {
        known: true,
        taken: true,
    }
}

fn shortened(command: &str) -> String {
    clean(command).chars().take(KEPT_COMMAND_MAX).collect()
}

fn refused(code: &str, why: String) -> Refusal {
    let hint = "the program runs on; what was kept before is kept";
    refusal(code, format!("nothing was kept: {why}"), hint)
}

/// Whether this node keeps anything for that user of that home.
fn admit(node: &Node, owner: &Owner) -> Result<()> {
    let me = &node.farm.node;
    if !node.trust().accepts_from(owner.home).has(owner.uid) {
        let why = format!("{me} takes nothing of user {} of {}", owner.uid, owner.home);
        return Err(refused("not-trusted", why));
    }
    if owner.name.is_empty() || sys::name_of(owner.uid).as_deref() != Some(owner.name) {
        let why = format!(
            "user {} of {} is not user {} of {me}",
            owner.uid, owner.home, owner.uid
        );
        return Err(refused("another-user", why));
    }
    let own = sys::euid();
    if own != 0 && own != owner.uid {
        let why = format!("the daemon of {me} keeps files of its own user only");
        return Err(refused("another-user", why));
    }
    Ok(())
}

fn cannot_keep(e: &dyn std::fmt::Display) -> Refusal {
    refused("failed", format!("the file cannot be written: {e}"))
}

fn begin(kept: &mut Kept, id: &str, meta: Meta, (size, sha256): (u64, String)) -> Result<()> {
    prune(kept);
    if !kept.all.contains_key(id) && kept.all.len() >= TREES_MAX {
        let why = format!("checkpoints of {TREES_MAX} trees are kept there already");
        return Err(refused("full", why));
    }
    let dir = kept.dir();
    let made = fs::DirBuilder::new().mode(0o700).create(&dir);
    if let Err(e) = made
        && e.kind() != std::io::ErrorKind::AlreadyExists
    {
        return Err(cannot_keep(&e));
    }
    let free = sys::free_bytes(&dir).map_err(|e| cannot_keep(&e))?;
    if size > free / FREE_PART {
        let why = format!("{size} bytes are more than half of the {free} that are free there");
        return Err(refused("full", why));
    }
    let path = kept.part(id);
    let _ = fs::remove_file(&path);
    let mut open = OpenOptions::new();
    let file = open.write(true).create_new(true).mode(0o600).open(&path);
    let file = file.map_err(|e| cannot_keep(&e))?;
    if sys::euid() == 0 {
        fchown(&file, Some(meta.uid), None).map_err(|e| cannot_keep(&e))?;
    }
    let arriving = Arriving {
        size,
        sha256,
        received: 0,
        digest: ring::digest::Context::new(&ring::digest::SHA256),
        file,
    };
    let entry = kept.all.entry(id.to_owned()).or_insert_with(|| Entry {
        meta,
        renewed: Instant::now(),
        arriving: None,
        told: false,
    });
    entry.arriving = Some(arriving);
    Ok(())
}

/// Forgets what was recovered long ago, and first checkpoints that never became complete.
fn prune(kept: &mut Kept) {
    let now = unix_ms();
    let old = |e: &Entry| {
        let taken = e.meta.taken && now > e.meta.made_ms + REMEMBERED.as_millis() as u64;
        let begun = e.meta.bytes.is_none() && !e.meta.taken;
        taken || (begun && e.renewed.elapsed() > Duration::from_secs(3600))
    };
    let ids: Vec<String> = kept
        .all
        .iter()
        .filter(|(_, e)| old(e))
        .map(|(id, _)| id.clone())
        .collect();
    ids.iter().for_each(|id| kept.forget(id));
}

fn garbled() -> Refusal {
    refused("garbled", "the parts do not make the file".into())
}

/// One that came before is passed over: every question may be asked twice.
fn part(kept: &mut Kept, id: &str, offset: u64, data: &str) -> Result<()> {
    let it = kept.all.get_mut(id).and_then(|e| e.arriving.as_mut());
    let it = it.ok_or_else(garbled)?;
    let bytes = unhex(data).filter(|b| b.len() <= PART_MAX);
    let bytes = bytes.ok_or_else(garbled)?;
    let end = offset.saturating_add(bytes.len() as u64);
    if end <= it.received {
        return Ok(());
    }
    if offset != it.received || end > it.size {
        return Err(garbled());
    }
    it.file.write_all(&bytes).map_err(|e| cannot_keep(&e))?;
    it.digest.update(&bytes);
    it.received = end;
    Ok(())
}

/// All of it is there: it takes the place of the one before.
fn end(kept: &mut Kept, id: &str) -> Result<()> {
    let (part, path) = (kept.part(id), kept.file(id));
    let entry = kept.all.get_mut(id).ok_or_else(garbled)?;
    let Some(it) = entry.arriving.take() else {
        // Asked twice.
        return entry.meta.bytes.map(drop).ok_or_else(garbled);
    };
    let whole = it.received == it.size && hex(it.digest.finish().as_ref()) == it.sha256;
    if !whole {
        let _ = fs::remove_file(&part);
        return Err(garbled());
    }
    let put = it.file.sync_data().and_then(|()| fs::rename(&part, &path));
    put.map_err(|e| cannot_keep(&e))?;
    entry.meta.bytes = Some(it.size);
    entry.meta.made_ms = unix_ms();
    let meta = entry.meta.clone();
    kept.write(id, &meta)
        .map_err(|e: FarmError| cannot_keep(&e))
}

#[cfg(test)]
mod tests;
