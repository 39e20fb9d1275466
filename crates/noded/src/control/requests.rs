//! Answers to what commands, keepers and hosts ask.
//!
//! From: `noded/src/control/session.rs`. Next: the room that can answer.

use super::client::Client;
use super::hello::{host, identity, keep};
use super::history::{history, history_of_farm};
use super::processes::{everywhere, rows, seen_by};
use crate::dfsa;
use crate::error::{FarmError, Result, refusal};
use crate::keepers::Which;
use crate::kept;
use crate::lease_holder;
use crate::membership::{
    drain_node, leave_farm, remove_node, restart_this, rotate_secret, upgrade_node, versions_at,
};
use crate::mfs;
use crate::policy::{change_trust, reload, switch};
use crate::remote;
use crate::state::{Asker, Node, may};
use crate::sys::euid;
use crate::version::shown_version;
use crate::web;
use crate::work::{
    Wants, allow_keeper, explain, find_route, let_trace, make_safe, move_process, write_checkpoint,
};
use armento_balance::common;
use armento_client::api::{Answer, Ask};

/// Answers that this daemon has; `None` for the others.
pub fn at_once(client: &Client, ask: &Ask) -> Option<Result<Answer>> {
    let node = &client.node;
    Some(match ask {
        Ask::Nodes => Ok(Answer::Nodes {
            nodes: node.nodes(),
        }),
        Ask::Ps { all: false } => Ok(Answer::Ps {
            procs: node.lock().procs(seen_by(client.uid)),
        }),
        Ask::Why { pid } => explain(node, client.uid, *pid),
        Ask::Status => Ok(Answer::Status {
            node: node.farm.node.clone(),
            farm: node.farm.farm.clone(),
            version: shown_version(),
            joined: true,
            direct_sockets: node.settings().direct_sockets,
        }),
        Ask::Log {
            after,
            count,
            since_ms,
            pid,
        } => {
            let which = Which {
                after: *after,
                since_ms: *since_ms,
                pid: *pid,
                uid: seen_by(client.uid),
            };
            let core = node.lock();
            let entries = core.keepers.decisions.newest(&which, *count as usize);
            Ok(Answer::Log { entries })
        }
        Ask::Common => Ok(in_common(node)),
        Ask::Keep(hello) => keep(client, hello),
        Ask::Host(hello) => host(client, hello),
        Ask::Identity => identity(client),
        Ask::Address { node: name } => {
            let addr = node.lock().members.addr_of(name);
            Ok(Answer::Address {
                ip: addr.map(|a| a.ip()),
                port: addr.map(|a| a.port()),
            })
        }
        Ask::Trust { change } => {
            let changes = change.as_ref().is_some_and(|c| !c.dry_run);
            if changes && !may(client.uid, euid()) {
                let who = "only root, or the daemon's own user, changes whom a node trusts";
                return Some(Err(refusal("not-trusted", who, "use sudo")));
            }
            change_trust(node, change.as_ref()).map(Answer::Trust)
        }
        Ask::Switch { change } => {
            if change.is_some() && !may(client.uid, euid()) {
                let who = "only root, or the daemon's own user, switches a node on and off";
                return Some(Err(refusal("not-trusted", who, "use sudo")));
            }
            switch(node, change.as_ref()).map(Answer::Switches)
        }
        Ask::Reload => {
            if !may(client.uid, euid()) {
                let who = "only root, or the daemon's own user, has the configuration read again";
                return Some(Err(refusal("not-trusted", who, "use sudo")));
            }
            let failed = |e: FarmError| {
                let what = format!("{e}; what held before holds");
                refusal("bad-configuration", what, e.hint())
            };
            reload(node).map(Answer::Trust).map_err(failed)
        }
        Ask::Ps { all: true }
        | Ask::Migrate { .. }
        | Ask::Checkpoint(_)
        | Ask::Safe { .. }
        | Ask::KeepAway { .. }
        | Ask::Kept { .. }
        | Ask::Recover { .. }
        | Ask::Leave
        | Ask::Drain { .. }
        | Ask::Versions { .. }
        | Ask::Restart
        | Ask::Upgrade { .. }
        | Ask::Remove { .. }
        | Ask::Rotate => {
            return None;
        }
        Ask::AllowKeeper { keeper } => allow_keeper(node, client.uid, client.peer(), *keeper),
        Ask::MfsSelect { pid, node: to } => mfs::select(node, client.uid, *pid, to.clone()),
        Ask::MfsIdentity => mfs::new_identity(node, client.peer()),
        Ask::MfsRoute { .. } | Ask::MfsPlaces { .. } | Ask::MfsMade { .. }
            if !node.mfs.is_mount(client.peer()) =>
        {
            let who = "only the mount process asks this";
            Err(refusal(
                "not-trusted",
                who,
                "armento mfs stat shows the mount",
            ))
        }
        Ask::MfsPlaces { pid } => Ok(Answer::MfsPlaces(mfs::places(node, *pid))),
        Ask::MfsMade { pid, node: on } => {
            mfs::made(node, *pid, on.clone());
            Ok(Answer::Done)
        }
        Ask::MfsRoute { .. } | Ask::Mfs | Ask::Dfsa | Ask::LeaseHolder => return None,
        Ask::WebToken { .. }
        | Ask::Invite { .. }
        | Ask::WebEnd { .. }
        | Ask::WebSignIn { .. }
        | Ask::WebSignOut { .. }
        | Ask::Rows
        | Ask::Do { .. } => return None,
        // Answered by the session itself.
        Ask::Act { .. } => return None,
        Ask::History { .. } => return None,
        Ask::Place { .. } | Ask::Route { .. } | Ask::LetTrace { .. } | Ask::ToCome => return None,
    })
}

/// Answers that need other nodes, keepers, or time.
pub async fn in_time(asker: &Asker, ask: Ask) -> Result<Answer> {
    match ask {
        Ask::Ps { .. } => everywhere(asker).await,
        Ask::Migrate { pid, to } => move_process(asker, pid, to).await,
        Ask::Checkpoint(order) => write_checkpoint(asker, order).await,
        Ask::Safe { pid, safe } => make_safe(asker, pid, safe).await,
        Ask::KeepAway { at, step } => aside(asker, move |a| kept::keep_away(a, at, step)).await,
        Ask::Kept { all } => aside(asker, move |a| Ok(kept::list(a, all))).await,
        Ask::Recover { id, recover } => {
            aside(asker, move |a| kept::recover(a, &id, &recover)).await
        }
        Ask::Route {
            tree,
            pid,
            node,
            need_kib,
            engine,
            portable,
        } => {
            let wants = Wants {
                tree,
                pid,
                need_kib,
                engine,
                portable,
            };
            find_route(asker, wants, node).await
        }
        Ask::LetTrace { pid } => let_trace(asker, pid).await,
        Ask::Leave => {
            if !may(asker.uid, euid()) {
                let who = "only root, or the daemon's own user, takes a node out of its farm";
                return Err(refusal("not-trusted", who, "use sudo"));
            }
            leave_farm(&asker.node).await
        }
        Ask::MfsRoute { node, uid } => mfs::route(&asker.node, node, uid).await,
        Ask::LeaseHolder => {
            let (node, uid) = (asker.node.clone(), asker.uid);
            let found = tokio::task::spawn_blocking(move || lease_holder::find(&node, uid)).await;
            let failed = |e: tokio::task::JoinError| refusal("failed", e.to_string(), "ask again");
            found.map_err(failed)?
        }
        Ask::Mfs => {
            let (node, uid) = (asker.node.clone(), asker.uid);
            let told = tokio::task::spawn_blocking(move || mfs::stat(&node, uid)).await;
            let failed = |e: tokio::task::JoinError| refusal("failed", e.to_string(), "ask again");
            told.map(Answer::Mfs).map_err(failed)
        }
        Ask::Dfsa => {
            let node = asker.node.clone();
            let told = tokio::task::spawn_blocking(move || dfsa::status(&node)).await;
            let failed = |e: tokio::task::JoinError| refusal("failed", e.to_string(), "ask again");
            told.map(Answer::Dfsa).map_err(failed)
        }
        Ask::History { query, farm: false } => history(asker, query).await,
        Ask::History { query, farm: true } => history_of_farm(asker, query).await,
        Ask::Drain { node, change } => drain_node(asker, node, change).await,
        Ask::Versions { node } => versions_at(asker, node).await,
        Ask::Restart => restart_this(asker),
        Ask::Upgrade { node, step } => upgrade_node(asker, node, step).await,
        Ask::Remove { node, now } => remove_node(asker, node, now).await,
        Ask::Rotate => rotate_secret(asker).await,
        Ask::Rows => rows(asker).await,
        Ask::Do { home, action } => web::act(asker, home, action).await,
        Ask::WebToken {
            uses,
            session_s,
            dry_run,
        } => aside(asker, move |a| web::token(a, uses, session_s, dry_run)).await,
        Ask::Invite { session_s } => aside(asker, move |a| remote::invite(a, session_s)).await,
        Ask::WebEnd { dry_run } => {
            aside(asker, move |a| Ok(web::end(&a.node, a.uid, dry_run))).await
        }
        Ask::WebSignIn { token } => aside(asker, move |a| web::sign_in(&a.node, &token)).await,
        Ask::WebSignOut { secret } => {
            aside(asker, move |a| Ok(web::sign_out(&a.node, &secret))).await
        }
        _ => Err(refusal(
            "unknown-question",
            "this cannot be answered",
            "update Armento on this node",
        )),
    }
}

/// What waits for a disk or a process, off the daemon's own thread.
async fn aside(
    asker: &Asker,
    work: impl FnOnce(&Asker) -> Result<Answer> + Send + 'static,
) -> Result<Answer> {
    let asker = asker.clone();
    let done = tokio::task::spawn_blocking(move || work(&asker)).await;
    done.map_err(|e| refusal("failed", e.to_string(), "ask again"))?
}

/// What `--portable` starts with.
fn in_common(node: &Node) -> Answer {
    let view = node.view(&mut node.lock());
    let own = view
        .own()
        .map(|own| own.entry.cpu.clone())
        .unwrap_or_default();
    let cpu = common(&view).unwrap_or_else(|| own.clone());
    let hwcaps = own.hwcaps_off(&cpu);
    let cpu = own.portable(&cpu);
    Answer::Common { cpu, hwcaps }
}
