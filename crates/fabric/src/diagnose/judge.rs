//! All checks, and which findings explain others.

use super::code::Code;
use super::finding::{At, Finding};
use super::observation::Observation;
use super::{bonds, culprit, links, paths, wiring};
use crate::inventory::Farm;

/// All faults that the observations prove, causes before their effects: what is wrong at a link is named before what is
/// wrong on its paths. An empty list: nothing was found.
pub fn diagnose(farm: &Farm, seen: &[Observation]) -> Vec<Finding> {
    let mut found: Vec<(Code, Finding)> = Vec::new();
    let mut add = |code: Code, at: At, what: String, evidence: String| {
        let finding = Finding {
            code: code.word(),
            node: at.node.to_owned(),
            link: at.link.to_owned(),
            peer: at.peer.map(str::to_owned),
            what,
            evidence,
            remedy: code.remedy().to_owned(),
        };
        found.push((code, finding));
    };
    for one in seen {
        links::check(farm, one, seen, &mut add);
        bonds::check(farm, one, &mut add);
        paths::check(farm, one, seen, &mut add);
    }
    wiring::check(farm, seen, &mut add);
    let mut sorted = culprit::name(causes(found), seen);
    sorted.sort_by(|a, b| {
        (a.0, &a.1.node, &a.1.link, &a.1.peer).cmp(&(b.0, &b.1.node, &b.1.link, &b.1.peer))
    });
    sorted.dedup();
    sorted.into_iter().map(|(_, f)| f).collect()
}

/// Without those that another one explains: a link that is down has no path, and a swapped cable neither.
fn causes(found: Vec<(Code, Finding)>) -> Vec<(Code, Finding)> {
    let ends = |f: &Finding| [Some(f.node.clone()), f.peer.clone()];
    let explains = |code: Code| {
        matches!(
            code,
            Code::LinkMissing
                | Code::NoCarrier
                | Code::LinkDown
                | Code::Address
                | Code::DuplicateAddress
                | Code::ArpFlux
                | Code::Route
                | Code::Cable
                | Code::LacpPartner
        )
    };
    let broken: Vec<String> = found
        .iter()
        .filter(|(c, _)| explains(*c))
        .map(|(_, f)| f.node.clone())
        .collect();
    let mtu: Vec<String> = found
        .iter()
        .filter(|(c, _)| *c == Code::MtuSetting)
        .map(|(_, f)| f.node.clone())
        .collect();
    let doubles: Vec<String> = found
        .iter()
        .filter(|(c, _)| *c == Code::DuplicateAddress)
        .map(|(_, f)| f.node.clone())
        .collect();
    let kept = found.into_iter().filter(|(code, f)| {
        let among = |nodes: &[String]| ends(f).iter().flatten().any(|n| nodes.contains(n));
        match code {
            Code::Unreachable | Code::Asymmetric | Code::Loss => !among(&broken),
            Code::MtuPath | Code::MtuLocal => !among(&mtu) && !among(&broken),
            // Who has taken the peer's address sends to itself.
            Code::Route => !f.peer.as_ref().is_some_and(|p| doubles.contains(p)),
            _ => true,
        }
    });
    kept.collect()
}
