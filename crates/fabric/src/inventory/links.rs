//! The links of a profile or a node, as they are written.

use super::farm::{Bond, BondMode, Root};
use super::names::check_link;
use super::reader::{Table, Value};

/// A link before its nets are looked up.
#[derive(Clone, Debug)]
pub(super) struct Draft {
    pub(super) name: String,
    pub(super) nets: Vec<String>,
    pub(super) bond: Option<Bond>,
    pub(super) mtu: Option<u32>,
    pub(super) mtu_max: Option<u32>,
    /// The switch adds and removes the VLAN's number.
    pub(super) access: bool,
    pub(super) line: usize,
}

/// What nodes have in common.
#[derive(Clone, Debug, Default)]
pub(super) struct Profile {
    pub(super) root: Root,
    pub(super) image: Option<String>,
    pub(super) persist: Option<Vec<String>>,
    pub(super) slots: Option<u32>,
    pub(super) links: Vec<Draft>,
}

/// Bytes. KERNEL: IPv6 needs 1280 (RFC 8200), IPv4 68; drivers refuse more than 65535.
pub(super) const MTU: (u32, u32) = (68, 65_535);
/// Milliseconds: what the papers' farm had, and what bonding.rst recommends.
const MIIMON_MS: u32 = 100;
/// Slots of a node: far above what a machine has.
pub(super) const SLOTS_MAX: u32 = 65_536;
/// Links of a node: a server of a P2P farm has a card for each other node.
const LINKS_MAX: usize = 1024;
const HASHES: [&str; 5] = ["layer2", "layer2+3", "layer3+4", "encap2+3", "encap3+4"];

/// The root and all links of a table whose other keys have been asked for.
pub(super) fn profile(table: &Table) -> Profile {
    let root = match table.text("root") {
        None | Some("disk") => Root::Disk,
        Some("live") => Root::Live,
        Some("ram") => Root::Ram,
        Some(other) => {
            let what = format!("`{other}` is no kind of root");
            table.source.complain(table.line, what, "disk, live or ram");
            Root::Disk
        }
    };
    let slots = table.number("slots", 1, SLOTS_MAX);
    let image = table.text("image").map(str::to_owned);
    let persist = table.texts("persist").map(|all| {
        all.iter()
            .filter_map(|path| persistent(table, path))
            .collect()
    });
    let mut links = Vec::new();
    for (key, value) in table.others() {
        links.extend(link(table, key, &value));
    }
    if links.len() > LINKS_MAX {
        let what = format!("{} has more than {LINKS_MAX} links", table.what);
        table.source.complain(table.line, what, "divide it");
        links.truncate(LINKS_MAX);
    }
    Profile {
        root,
        image,
        persist,
        slots,
        links,
    }
}

/// An absolute path without `.`, `..` and empty parts, or a complaint.
fn persistent(table: &Table, path: &str) -> Option<String> {
    let plain = |part: &str| !matches!(part, "" | "." | "..");
    let good = path
        .strip_prefix('/')
        .is_some_and(|rest| rest.split('/').all(plain));
    if !good {
        let what = format!("`{path}` in persist is no directory of a node");
        let remedy = "write it as the node does: persist = [\"/var/log\"]";
        table.source.complain(table.line, what, remedy);
    }
    good.then(|| path.to_owned())
}

fn link(owner: &Table, key: &str, value: &Value) -> Option<Draft> {
    if let Err(what) = check_link(key) {
        let what = format!("{what}, in {}", owner.what);
        let remedy = "links are named as lan0 or bond0; other keys: root, image, persist, slots, profile, id, first_id, mac, macs, address";
        owner.source.complain(value.line, what, remedy);
        return None;
    }
    let mut draft = Draft {
        name: key.to_owned(),
        nets: Vec::new(),
        bond: None,
        mtu: None,
        mtu_max: None,
        access: false,
        line: value.line,
    };
    if !value.is_table() {
        draft.nets = value.texts(key)?.into_iter().map(str::to_owned).collect();
        return Some(draft);
    }
    let table = value.table(&format!("{}.{key}", owner.what))?;
    let nets = table.texts("net").unwrap_or_default();
    draft.nets = nets.into_iter().map(str::to_owned).collect();
    draft.mtu = table.number("mtu", MTU.0, MTU.1);
    draft.mtu_max = table.number("mtu_max", MTU.0, MTU.1);
    draft.access = table.flag("access");
    draft.bond = bond(&table);
    table.finish();
    Some(draft)
}

fn bond(table: &Table) -> Option<Bond> {
    let of = table.texts("of");
    let word = table.text("mode");
    let miimon = table.number("miimon_ms", 0, 60_000);
    let rate = table.text("lacp_rate");
    let hash = table.text("hash");
    let Some(of) = of else {
        if word.or(rate).or(hash).is_some() || miimon.is_some() {
            let what = format!("{} has settings of a bond and no members", table.what);
            table
                .source
                .complain(table.line, what, "add `of = [\"lan1\", \"lan2\"]`");
        }
        return None;
    };
    let complain = |what: String, remedy: String| table.source.complain(table.line, what, remedy);
    let mode = word
        .map_or(Some(BondMode::Lacp), BondMode::from_word)
        .unwrap_or_else(|| {
            let words: Vec<&str> = BondMode::ALL.iter().map(|m| m.word()).collect();
            complain(
                format!("`{}` is no mode of a bond", word.unwrap_or_default()),
                format!("one of {}", words.join(", ")),
            );
            BondMode::Lacp
        });
    if miimon == Some(0) {
        complain(
            format!(
                "{} never looks whether a member has a carrier (miimon_ms = 0)",
                table.what
            ),
            "a dead cable would lose its share of all frames for ever: leave miimon_ms out (100)"
                .into(),
        );
    }
    if !matches!(rate, None | Some("fast" | "slow")) {
        complain(
            "`lacp_rate` should be fast or slow".into(),
            "fast finds a dead link in 3 s".into(),
        );
    }
    let hash = hash.unwrap_or("layer3+4");
    if !HASHES.contains(&hash) {
        complain(
            format!("`{hash}` is no hash of a bond"),
            format!("one of {}", HASHES.join(", ")),
        );
    }
    for name in &of {
        if let Err(what) = check_link(name) {
            complain(what, "name cards as lan1, lan2".into());
        }
    }
    match of.as_slice() {
        [] => complain(
            format!("{} is a bond of nothing", table.what),
            "name two cards or more in `of`".into(),
        ),
        [one] => complain(
            format!("{} is a bond of one card, {one}", table.what),
            "name two cards or more in `of`, or use the card alone".into(),
        ),
        _ => {}
    }
    Some(Bond {
        of: of.into_iter().map(str::to_owned).collect(),
        mode,
        miimon_ms: miimon.unwrap_or(MIIMON_MS),
        lacp_fast: mode == BondMode::Lacp && rate != Some("slow"),
        hash: hash.to_owned(),
    })
}
