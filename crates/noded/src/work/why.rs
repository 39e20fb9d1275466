//! `armento why`: why a process is where it is.

use super::clocks::all_clocks_apart;
use super::migrate::{no_such, owner_of};
use super::target::lacking;
use crate::error::Result;
use crate::state::{Core, Node, command, may};

use armento_balance::{away, barred, why};
use armento_client::api::{Answer, AwayPrice, ProcInfo};
use armento_model::{NodeName, Pid, Stay};

pub fn explain(node: &Node, uid: u32, pid: Pid) -> Result<Answer> {
    let now = node.now();
    let mut core = node.lock();
    let view = node.view(&mut core);
    let me = core.me.clone();
    let held = core.keepers.holder(pid).filter(|k| may(uid, k.hello.uid));
    let Some(keeper) = held else {
        owner_of(pid)
            .filter(|o| may(uid, *o))
            .ok_or_else(|| no_such(pid))?;
        return Ok(Answer::Why {
            pid,
            place: Some(me),
            stay: None,
            explanation: "it was not started by `armento run`, so nothing moves it by itself"
                .into(),
            remedy: format!("armento migrate {pid} NODE moves it"),
            detail: String::new(),
            partner: None,
            away: None,
            safe: None,
            connections: None,
        });
    };
    let proc = keeper.holds(pid);
    let place = proc.map_or_else(|| me.clone(), |p| p.place.clone());
    let out = proc.and_then(|p| Some((p, p.lost_ms?)));
    let own = out
        .map(|_| Stay::LinkLost)
        .or_else(|| proc.and_then(|p| p.stay));
    let root = keeper.hello.uid == 0 && !node.trust().allow_root;
    let kept = core.switches.keeps_home().filter(|_| place == me);
    let stay = match own {
        Some(stay) => Some(stay),
        None if root => Some(Stay::Privileged),
        None if proc.is_some_and(|p| p.locked) => Some(Stay::Locked),
        None if kept.is_some() => Some(Stay::SwitchedOff),
        None => why(&view, &node.policy, pid, now),
    };
    // A node that takes no guests refuses as one does that does not trust us.
    let shut = shut_out(&core, keeper.hello.uid).filter(|_| stay == Some(Stay::NotTrusted));
    let stay = stay.map(|s| if shut.is_some() { Stay::SwitchedOff } else { s });
    // So do those whose clocks are apart from ours.
    let apart = all_clocks_apart(&core).filter(|_| own.is_none() && stay == Some(Stay::NotTrusted));
    let stay = stay.map(|s| {
        if apart.is_some() {
            Stay::ClocksApart
        } else {
            s
        }
    });
    let (explanation, remedy) = match stay {
        Some(stay) => (stay.explain().to_owned(), stay.remedy().to_owned()),
        None => (
            "it is about to move, or was just started".into(),
            "nothing is wrong: ask again".into(),
        ),
    };
    // What processors lack is known of all; what the keeper knows more of is its own reason.
    let lacks = |to: &NodeName| {
        let (_, missing) = barred(&view, to, keeper.needs(pid).as_ref())?;
        Some(lacking(to, &missing))
    };
    let others = view.nodes.iter().map(|node| &node.entry.node);
    let all_lack: Vec<String> = match stay {
        Some(Stay::CpuFeatures) => others.filter_map(lacks).collect(),
        _ => Vec::new(),
    };
    let (detail, partner) = match (out, proc.filter(|_| own.is_some())) {
        (Some((p, ms)), _) => (lost(p, ms, node.config.dead_ms), None),
        _ if !all_lack.is_empty() => (all_lack.join("; "), None),
        (None, Some(p)) => (p.detail.clone(), p.partner),
        (None, None) => {
            let kept = kept.map(|what| format!("{me} keeps its own ({})", command(what)));
            (kept.or(shut).or(apart).unwrap_or_default(), None)
        }
    };
    let safe = proc.and_then(|p| p.safe.clone());
    let price = away(&view, &node.policy, pid).map(|a| AwayPrice {
        node: a.node,
        calls_per_s: a.waits_per_s,
        bytes_per_s: a.bytes_per_s,
        lost_permille: a.lost_permille,
    });
    Ok(Answer::Why {
        pid,
        place: Some(place),
        stay,
        explanation,
        remedy,
        detail,
        partner,
        away: price,
        safe,
        connections: proc.and_then(|p| p.connections.clone().map(Box::new)),
    })
}

/// The nodes that take no guests, where that is the only reason that any node gave this user.
fn shut_out(core: &Core, uid: u32) -> Option<String> {
    let said = core.refused.iter().filter(|((_, who), _)| *who == uid);
    let names: Option<Vec<&str>> = said
        .map(|((node, _), (_, stay))| (*stay == Stay::SwitchedOff).then(|| node.as_str()))
        .collect();
    let names = names.filter(|names| !names.is_empty())?;
    Some(format!("no guests at {}", names.join(", ")))
}

fn lost(p: &ProcInfo, ms: u64, dead_ms: u64) -> String {
    let state = match p.frozen {
        true => "it is frozen there",
        false => "it goes on when the link does",
    };
    let (for_s, dead_s) = (ms / 1000, dead_ms / 1000);
    let node = &p.place;
    format!(
        "nothing was heard from {node} for {for_s} s: {state}; home declares it dead at {dead_s} s"
    )
}
