//! Keepers that run another program than this daemon, and no copy of it, are told to become its program, one after the other.
//!
//! From: `noded/src/daemon/start.rs`. Next: `keeper/src/handover/give.rs`.
//!
//! One at a time: the bodies of a tree are at home meanwhile. A keeper of a version that does not know the order passes over
//! it, and is not told again.

use super::program::{own_program, runs_own_program};
use super::versions::file_of;
use crate::keepers::{Keeper, KeeperProgram};
use crate::state::Node;
use armento_client::api::{Body, Order};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Between two looks.
const LOOK: Duration = Duration::from_secs(1);
/// A keeper answers sooner, or does not know the order: its bodies have two minutes to come home.
const ANSWER_MAX: Duration = Duration::from_secs(150);
/// One that could not is told again.
const AGAIN: Duration = Duration::from_secs(300);

pub async fn upgrade_keepers(node: Arc<Node>) {
    // A part of another process has that one's program.
    if !node.own_process.load(Ordering::Relaxed) {
        return;
    }
    loop {
        tokio::time::sleep(LOOK).await;
        if node.settings().upgrade_keepers {
            let node = node.clone();
            // It may read a program's file.
            let told = tokio::task::spawn_blocking(move || tell_next(&node));
            if let Err(e) = told.await {
                tracing::warn!("keepers are not told to become this program: {e}");
            }
        }
    }
}

/// Tells the next one, if there is one and none is at it.
fn tell_next(node: &Node) {
    let Some(own) = file_of(Path::new("/proc/self/exe")) else {
        return;
    };
    let unknown = |k: &&Keeper| k.program == KeeperProgram::Unknown;
    let mut unknown: Vec<i32> = {
        let core = node.lock();
        let all = core.keepers.all().filter(unknown);
        all.map(|k| k.hello.keeper).collect()
    };
    // One that cannot be looked at counts as the same: it may have ended.
    unknown.retain(|pid| runs_own_program(*pid) != Some(false));
    let mut core = node.lock();
    for keeper in core.keepers.all_mut() {
        if keeper.program == KeeperProgram::Unknown && unknown.contains(&keeper.hello.keeper) {
            keeper.program = KeeperProgram::Same;
        }
    }
    let at_it =
        |k: &Keeper| matches!(k.program, KeeperProgram::Told(at) if at.elapsed() < ANSWER_MAX);
    if core.keepers.all().any(at_it) {
        return;
    }
    let Some(path) = own_program().ok().filter(|path| file_of(path) == Some(own)) else {
        // The file at its path is the next program already.
        return;
    };
    let waits = |k: &&mut Keeper| match k.program {
        KeeperProgram::Unknown => true,
        KeeperProgram::Stays(at, _) => at.elapsed() >= AGAIN,
        KeeperProgram::Same | KeeperProgram::Told(_) => false,
    };
    let Some(keeper) = core.keepers.all_mut().find(waits) else {
        return;
    };
    keeper.program = KeeperProgram::Told(Instant::now());
    tracing::info!(
        "the keeper of process {} is to become this program",
        keeper.hello.root
    );
    let (dev, ino) = own;
    let order = Order::BecomeProgram {
        path: path.display().to_string(),
        dev,
        ino,
    };
    keeper.out.send(0, Body::Order(order));
}
