//! Lets a keeper trace the processes of its tree where Yama forbids it (`kernel.yama.ptrace_scope` 1).
//!
//! From: `noded/src/control/requests.rs`. Next: `migrate/src/permit.rs`, which has the process name its keeper.
//!
//! The program that `armento run` starts names its keeper itself, which holds for it and for none of its children. For
//! those the daemon, where it is root's, has each of them name the same keeper, when the keeper asks for it. Yama lets
//! an ancestor trace what descends from it; this gives that right of the program to the keeper that the program
//! named, and to no other: through this no user attaches to a process that they could not start under a debugger.
//! `keepers/consents.rs` has which program named which keeper, and what descends from it; `traceable.rs` says which
//! processes are left alone.

use super::traceable;
use crate::error::{Result, refusal, stays};
use crate::keepers::{Consent, PER_SECOND_MAX};
use crate::process::Process;
use crate::state::{Asker, Node};
use armento_client::api::{Answer, Refusal};
use armento_migrate::permit::name_tracer;
use armento_model::{Pid, Stay};
use armento_tracee::yama::{scope, why};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// A thread that has not stopped by then is let go (`migrate/src/permit.rs`), on a loaded machine later.
const NAMED_MAX: Duration = Duration::from_secs(5);

/// Held while consents are written.
static SAVING: Mutex<()> = Mutex::new(());

/// `Ask::AllowKeeper`: a program that has not begun yet consents for itself and for what it will start.
/// `root` is the process that asks, with the rights of `uid`.
pub fn allow_keeper(node: &Node, uid: u32, root: Option<Process>, keeper: Pid) -> Result<Answer> {
    let no = |why: &str| Err(refusal("not-trusted", why, "start it again"));
    let Some(root) = root else {
        return no("it is not known which process asks");
    };
    let mut core = node.lock();
    let entry = core
        .keepers
        .all()
        .find(|k| k.hello.keeper == keeper && k.hello.root == root.pid && k.hello.uid == uid);
    let Some(tree) = entry.map(|k| k.hello.tree) else {
        return no("no keeper has said hello for this process");
    };
    let Some(keeper) = Process::of(keeper) else {
        return no("its keeper has ended");
    };
    if !traceable::same_program(root.pid, keeper.pid) {
        return no("its keeper is not the one that `armento run` started");
    }
    core.consents.add(Consent::new(tree, uid, root, keeper));
    drop(core);
    // One after the other: the last one written has what all before it have.
    let _turn = SAVING.lock().unwrap_or_else(PoisonError::into_inner);
    let saved = node.lock().consents.saved();
    saved.write(&node.state);
    Ok(Answer::Done)
}

/// `Ask::LetTrace`, of a keeper.
pub async fn let_trace(asker: &Asker, pid: Pid) -> Result<Answer> {
    let node = &asker.node;
    let subject = format!("process {pid}");
    let forbidden = |why: &str| stays(&subject, Stay::NotPermitted, why);
    match scope() {
        Some(1) => {}
        other => return Err(forbidden(why(other))),
    }
    if crate::sys::euid() != 0 {
        let rootless = format!(
            "{}; this node's daemon is not root's and cannot help",
            why(Some(1))
        );
        return Err(forbidden(&rootless));
    }
    let (meant, one) = meant(node, asker.session, pid)?;
    // A keeper that ended waits for nothing.
    let _only = one.lock().await;
    let (sender, receiver) = oneshot::channel();
    // A thread of its own: when it ends nothing is traced by us any more.
    let work = std::thread::Builder::new().name("yama".into());
    let started = work.spawn(move || {
        let named = name_tracer(meant.process.pid, meant.keeper.pid, || meant.holds());
        let _ = sender.send(named);
    });
    started.map_err(|e| stays(&subject, Stay::Busy, &e.to_string()))?;
    match tokio::time::timeout(NAMED_MAX, receiver).await {
        Ok(Ok(Ok(slept))) => Ok(Answer::Named { slept }),
        Ok(Ok(Err(e))) => Err(stays(&subject, e.stay(), &e.detail())),
        _ => Err(stays(&subject, Stay::Busy, "it did not stop in time")),
    }
}

/// A process, the keeper that it is to name, and the user of both.
struct Meant {
    process: Process,
    keeper: Process,
    uid: u32,
}

impl Meant {
    /// Both are still the ones that were looked at, and nothing has become of them that we may not touch.
    fn holds(&self) -> bool {
        self.process.lives()
            && self.keeper.lives()
            && traceable::check(self.process.pid, self.keeper.pid, self.uid).is_ok()
    }
}

/// The process, if it is of that keeper's tree and may be touched.
fn meant(
    node: &Node,
    session: u64,
    pid: Pid,
) -> std::result::Result<(Meant, Arc<tokio::sync::Mutex<()>>), Refusal> {
    let subject = format!("process {pid}");
    let forbidden = |why: &str| stays(&subject, Stay::NotPermitted, why);
    let mut core = node.lock();
    let core = &mut *core;
    let hello = core.keepers.of_session(session).map(|k| &k.hello);
    let (tree, uid) = hello.map(|h| (h.tree, h.uid)).ok_or_else(|| {
        let what = "a keeper asks for its own tree only";
        refusal("not-trusted", what, "say hello first")
    })?;
    let Some(keeper) = core.consents.keeper_of(tree, uid) else {
        let adopted = format!(
            "{}; it was not started by `armento run` of this version",
            why(Some(1))
        );
        return Err(forbidden(&adopted));
    };
    let Some(process) = core.consents.member(tree, pid) else {
        return Err(forbidden(
            "it does not descend from the program of its tree",
        ));
    };
    traceable::check(pid, keeper.pid, uid).map_err(|(stay, why)| stays(&subject, stay, &why))?;
    if !core.trace_rate.take(Instant::now()) {
        let why = format!("more than {PER_SECOND_MAX} of this node were to leave within a second");
        return Err(stays(&subject, Stay::Busy, &why));
    }
    let meant = Meant {
        process,
        keeper,
        uid,
    };
    Ok((meant, core.trace_rate.one.clone()))
}
