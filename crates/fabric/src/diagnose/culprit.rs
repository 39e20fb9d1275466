//! Many paths with one fault and one node at an end of each: the fault is at that node.

use super::code::Code;
use super::finding::Finding;
use super::observation::Observation;
use std::collections::{BTreeMap, BTreeSet};

/// Findings about pairs that have one node in common become one finding about that node's link.
pub(super) fn name(found: Vec<(Code, Finding)>, seen: &[Observation]) -> Vec<(Code, Finding)> {
    let mut rest = found;
    for code in [Code::MtuPath, Code::Unreachable, Code::Loss] {
        while let Some(node) = in_all(&rest, code) {
            let touches = |f: &Finding| f.node == node || f.peer.as_ref() == Some(&node);
            let (its, others): (Vec<_>, Vec<_>) = rest
                .into_iter()
                .partition(|(c, f)| *c == code && touches(f));
            rest = others;
            rest.extend(join(code, &node, its, seen));
        }
    }
    rest
}

/// The node with the most partners among the pairs of a code: two at least, and more than any other has.
fn in_all(found: &[(Code, Finding)], code: Code) -> Option<String> {
    let mut partners: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (_, f) in found.iter().filter(|(c, _)| *c == code) {
        if let Some(peer) = &f.peer {
            partners.entry(&f.node).or_default().insert(peer);
            partners.entry(peer).or_default().insert(&f.node);
        }
    }
    let most = partners
        .values()
        .map(BTreeSet::len)
        .max()
        .filter(|n| *n >= 2)?;
    let mut first = partners
        .iter()
        .filter(|(_, p)| p.len() == most)
        .map(|(n, _)| n);
    let node = first.next()?;
    first.next().is_none().then(|| (*node).to_owned())
}

fn join(
    code: Code,
    node: &str,
    its: Vec<(Code, Finding)>,
    seen: &[Observation],
) -> Option<(Code, Finding)> {
    let other = |f: &Finding| {
        if f.node == node {
            f.peer.clone()
        } else {
            Some(f.node.clone())
        }
    };
    let others: BTreeSet<String> = its.iter().filter_map(|(_, f)| other(f)).collect();
    let others: Vec<&str> = others.iter().map(String::as_str).collect();
    // Its own link: as it says itself, or as a peer heard it.
    let own = its
        .iter()
        .find(|(_, f)| f.node == node)
        .map(|(_, f)| f.link.clone());
    let heard = || {
        let (_, f) = its.first()?;
        let one = seen.iter().find(|o| o.node == f.node)?;
        let heard = one
            .heard
            .iter()
            .find(|h| h.node == node && h.link == f.link)?;
        Some(heard.from.clone())
    };
    let link = own.or_else(heard).unwrap_or_default();
    let (_, first) = its.into_iter().next()?;
    let what = format!(
        "on all its ways (with {}); {}: {}",
        others.join(", "),
        first.node,
        first.what
    );
    let finding = Finding {
        node: node.to_owned(),
        link,
        peer: None,
        what,
        ..first
    };
    Some((code, finding))
}
