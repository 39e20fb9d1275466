//! `armento farm trust`, and the configuration read again.

use super::enforce::{astray, enforce_settings};
use crate::config::{Config, Rules};
use crate::error::{FarmError, refusal};
use crate::state::{Changes, Node, Trust, kill_server};
use armento_client::api::{Refusal, TrustChange, TrustInfo};
use std::sync::{Arc, PoisonError};

/// Reads the configuration again. After `Err` what held before holds.
pub fn reload(node: &Node) -> Result<TrustInfo, FarmError> {
    let fresh = match &node.config.file {
        Some(file) => Config::load(Some(file))?,
        None => node.config.clone(),
    };
    let changes = Changes::read(&node.state)?;
    let trust = Trust::new(&fresh, &changes).map_err(|why| FarmError::Config {
        path: fresh
            .file
            .as_ref()
            .map_or("trust".into(), |f| f.display().to_string()),
        why,
    })?;
    {
        let mut given = node.given.lock().unwrap_or_else(PoisonError::into_inner);
        let same = given.mfs_export == fresh.mfs_export && given.mfs == fresh.mfs;
        *given = fresh.clone();
        if !same {
            // Their mounts connect again, to others.
            node.mfs.servers().all().for_each(kill_server);
        }
    }
    node.lock().switches.follow(&fresh);
    node.mfs.may_have_changed();
    holds(node, trust);
    Ok(trust_info(node, &fresh, &changes))
}

/// `armento farm trust`.
pub fn change_trust(node: &Node, change: Option<&TrustChange>) -> Result<TrustInfo, Refusal> {
    let failed = |e: FarmError| refusal("failed", format!("{e}; nothing was changed"), e.hint());
    let given = node.settings();
    let mut changes = Changes::read(&node.state).map_err(failed)?;
    let Some(change) = change else {
        return Ok(trust_info(node, &given, &changes));
    };
    if change.reset {
        changes = Changes::default();
    }
    let bad = |why: String| {
        let hint = "a rule is NODE, USER@NODE, USER@* or one of them behind a !";
        refusal("bad-rule", format!("{why}; nothing was changed"), hint)
    };
    let rules = |texts: &Option<Vec<String>>| {
        let rules = texts.clone().map(Rules::try_from).transpose();
        rules.map_err(bad)
    };
    changes.send_to = rules(&change.send_to)?.or(changes.send_to);
    changes.accept_from = rules(&change.accept_from)?.or(changes.accept_from);
    changes.allow_root = change.allow_root.or(changes.allow_root);
    let trust = Trust::new(&given, &changes).map_err(bad)?;
    if !change.dry_run {
        changes.write(&node.state).map_err(failed)?;
        holds(node, trust);
    }
    Ok(trust_info(node, &given, &changes))
}

fn holds(node: &Node, trust: Trust) {
    *node.trust.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(trust);
    // Nodes that refused us may be asked again: people change both sides at once.
    node.lock().refused.clear();
    enforce_settings(node);
}

fn trust_info(node: &Node, given: &Config, changes: &Changes) -> TrustInfo {
    let texts = |changed: &Option<Rules>, given: &Option<Rules>| {
        let rules = changed.clone().or_else(|| given.clone());
        rules.map(Vec::from)
    };
    let changed = [
        ("send_to", changes.send_to.is_some()),
        ("accept_from", changes.accept_from.is_some()),
        ("allow_root", changes.allow_root.is_some()),
    ];
    let core = node.lock();
    TrustInfo {
        node: node.farm.node.clone(),
        send_to: texts(&changes.send_to, &given.send_to),
        accept_from: texts(&changes.accept_from, &given.accept_from),
        allow_root: changes.allow_root.unwrap_or(given.allow_root),
        changed: changed
            .iter()
            .filter(|(_, yes)| *yes)
            .map(|(name, _)| (*name).to_owned())
            .collect(),
        homeward: astray(node, &core).len() as u64,
        expelled: core.hosts.expelled_guests(),
    }
}
