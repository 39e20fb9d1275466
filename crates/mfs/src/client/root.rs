//! The directory at the mount point: nodes, and names that mean one of them.
//!
//! Whatever asks the daemon runs in a thread of its own ([`Core::ask`]); lists of nodes are a second old at most.

use crate::client::caller::process_of;
use crate::client::core::Core;
use crate::client::shown;
use crate::client::shown_paths::is_shown;
use crate::farm::{FarmNode, Places};
use crate::fuse::{self, Args, Attributes, Head, Listing, Times, attr_out, entry_out, statfs_out};
use crate::protocol::{Attr, Space};
use crate::sync::lock;
use armento_model::NodeName;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Names of openMosix (mfs.txt). Each is a link, and means another node for another process.
const NAMES: [&str; 5] = ["here", "home", "magic", "lastexec", "selected"];
/// Their numbers as files, from here on.
const FIRST_NAME: u64 = 2;
/// The link to this node's own root.
const OWN: u64 = 7;
/// Links that name a node by its number: this plus the number.
const NUMBERS: u64 = 16;
/// For how long a node is known by its name without asking again.
pub const KEEP_NODE: Duration = Duration::from_secs(10);
/// For how long a list of nodes is good.
const FRESH: Duration = Duration::from_secs(1);
/// What is told of made files: a process and its node once in this time.
const MADE_AGAIN: Duration = Duration::from_secs(1);
const MADE_MAX: usize = 4096;

/// Whether a file is one of the mount's own.
pub fn is_own(n: u64) -> bool {
    n < crate::client::table::FIRST || is_shown(n)
}

fn attr(n: u64, len: usize) -> Attr {
    let dir = n == fuse::ROOT;
    Attr {
        ino: n,
        mode: if dir {
            libc::S_IFDIR | 0o555
        } else {
            libc::S_IFLNK | 0o777
        },
        nlink: if dir { 2 } else { 1 },
        size: len as u64,
        blksize: 4096,
        ..Attr::default()
    }
}

impl Core {
    fn known(&self) -> (Vec<FarmNode>, bool) {
        let k = lock(&self.known);
        let fresh = k.1.is_some_and(|t| t.elapsed() < FRESH);
        (k.0.clone(), fresh)
    }

    fn refresh(&self) -> Vec<FarmNode> {
        let nodes = self.farm.nodes();
        *lock(&self.known) = (nodes.clone(), Some(Instant::now()));
        nodes
    }

    fn own(&self, name: &NodeName) -> bool {
        lock(&self.known).0.iter().any(|n| n.own && n.name == *name)
    }

    pub fn root_lookup(self: &Arc<Self>, h: &Head, mut a: Args<'_>) {
        let name = a.name();
        if let Some(i) = NAMES.iter().position(|n| n.as_bytes() == name) {
            return self.own_entry(h.unique, FIRST_NAME + i as u64, KEEP_NODE);
        }
        if name == shown::NAME {
            return self.shown_lookup(h, String::new());
        }
        let Ok(name) = std::str::from_utf8(name).map(str::to_owned) else {
            return self.error(h.unique, libc::ENOENT);
        };
        let (nodes, fresh) = self.known();
        let (unique, uid) = (h.unique, h.uid);
        if find(&nodes, &name).is_some() {
            if !fresh {
                self.ask(Box::new(|core| drop(core.refresh())));
            }
            return self.node_entry(unique, uid, &nodes, &name);
        }
        if fresh {
            return self.error(unique, libc::ENOENT);
        }
        let asked = self.ask(Box::new(move |core| {
            let nodes = core.refresh();
            core.node_entry(unique, uid, &nodes, &name);
        }));
        if !asked {
            self.error(unique, libc::EAGAIN);
        }
    }

    fn own_entry(&self, unique: u64, n: u64, keep: Duration) {
        let attr = attr(n, 0);
        let a = Attributes {
            node: n,
            ino: n,
            attr: &attr,
        };
        let keep = Times {
            name: keep,
            attr: keep,
        };
        self.device.reply(unique, 0, &[&entry_out(&a, keep)]);
    }

    fn node_entry(self: &Arc<Self>, unique: u64, uid: u32, nodes: &[FarmNode], name: &str) {
        let Some(found) = find(nodes, name) else {
            return self.error(unique, libc::ENOENT);
        };
        if found.name.as_str() != name {
            let n = NUMBERS + u64::from(found.number.unwrap_or(0));
            return self.own_entry(unique, n, KEEP_NODE);
        }
        let own = found.own;
        let node = self.node_index(&found.name);
        let Some(link) = self.link(node, uid) else {
            return self.error(unique, libc::EAGAIN);
        };
        let me = link.clone();
        link.when_up(
            self,
            Box::new(move |core, end| match end {
                // All of this node: its own paths are the faster way.
                Ok(()) if own && me.root().is_some_and(|(_, _, whole)| whole) => {
                    core.own_entry(unique, OWN, KEEP_NODE);
                }
                Ok(()) => core.answer_root(&me, unique),
                Err(e) => core.error(unique, e),
            }),
        );
    }

    pub fn root_getattr(&self, h: &Head) {
        let attr = attr(h.node, 0);
        let a = Attributes {
            node: h.node,
            ino: h.node,
            attr: &attr,
        };
        self.device.reply(h.unique, 0, &[&attr_out(&a, KEEP_NODE)]);
    }

    pub fn root_statfs(&self, h: &Head) {
        let none = Space {
            block: 4096,
            fragment: 4096,
            name_max: 63,
            ..Space::default()
        };
        self.device.reply(h.unique, 0, &[&statfs_out(&none)]);
    }

    pub fn root_readlink(self: &Arc<Self>, h: &Head) {
        let (n, unique, tid) = (h.node, h.unique, h.pid);
        if n == OWN {
            return self.device.reply(unique, 0, &[b"/"]);
        }
        if n >= NUMBERS {
            let nodes = self.known().0;
            let number = (n - NUMBERS) as u32;
            return match nodes.iter().find(|x| x.number == Some(number)) {
                Some(x) => self.device.reply(unique, 0, &[x.name.as_str().as_bytes()]),
                None => self.error(unique, libc::ENOENT),
            };
        }
        let which = (n - FIRST_NAME) as usize;
        let asked = self.ask(Box::new(move |core| {
            let p = core.farm.places(process_of(tid));
            let Some(name) = choose(&p, which) else {
                return core.error(unique, libc::ENOENT);
            };
            if core.known().0.is_empty() {
                core.refresh();
            }
            // This node's own name is a link to its root, where all of it is exported.
            let links = lock(&core.links);
            let whole = core.own(name)
                && links
                    .values()
                    .any(|l| l.name == *name && l.root().is_some_and(|(_, _, whole)| whole));
            drop(links);
            let target = if whole { "/" } else { name.as_str() };
            core.device.reply(unique, 0, &[target.as_bytes()]);
        }));
        if !asked {
            self.error(unique, libc::EAGAIN);
        }
    }

    pub fn root_readdir(self: &Arc<Self>, h: &Head, mut a: Args<'_>, plus: bool) {
        let (_, at, size) = (a.u64(), a.u64(), a.u32() as usize);
        let unique = h.unique;
        let (nodes, fresh) = self.known();
        if fresh {
            return self.root_list(unique, &nodes, at, size, plus);
        }
        let asked = self.ask(Box::new(move |core| {
            let nodes = core.refresh();
            core.root_list(unique, &nodes, at, size, plus);
        }));
        if !asked {
            self.error(unique, libc::EAGAIN);
        }
    }

    fn root_list(&self, unique: u64, nodes: &[FarmNode], at: u64, size: usize, plus: bool) {
        let mut nodes: Vec<_> = nodes.iter().collect();
        nodes.sort_by(|a, b| a.name.as_str().cmp(b.name.as_str()));
        let dots = [".", ".."].into_iter().map(|n| (n, libc::DT_DIR));
        let links = NAMES.into_iter().map(|n| (n, libc::DT_LNK));
        // Whether this node's own name is a link is known when it is looked up.
        let farm = nodes.iter().map(|n| {
            let kind = if n.own {
                libc::DT_UNKNOWN
            } else {
                libc::DT_DIR
            };
            (n.name.as_str(), kind)
        });
        let mut out = Listing::new(size);
        let all = dots.chain(links).chain(farm).zip(1u64..);
        for ((name, kind), next) in all.skip(at as usize) {
            let none = [0; 128];
            if !out.add(plus.then_some(&none[..]), next, next, kind, name.as_bytes()) {
                break;
            }
        }
        self.device.reply(unique, 0, &[out.bytes()]);
    }

    /// A process has made a file on a node.
    pub fn made(self: &Arc<Self>, tid: u32, node: usize) {
        let now = Instant::now();
        {
            let mut m = lock(&self.made_lately.0);
            if m.get(&tid)
                .is_some_and(|(n, t)| *n == node && now.duration_since(*t) < MADE_AGAIN)
            {
                return;
            }
            if m.len() >= MADE_MAX {
                m.clear();
            }
            m.insert(tid, (node, now));
        }
        let Some(name) = lock(&self.nodes).get(node).cloned() else {
            return;
        };
        // If the daemon is that busy, it is not told: `magic` stays where it was.
        self.ask(Box::new(move |core| core.farm.made(process_of(tid), &name)));
    }
}

fn find<'a>(nodes: &'a [FarmNode], name: &str) -> Option<&'a FarmNode> {
    let number = name.parse::<u32>().ok().filter(|n| n.to_string() == name);
    nodes.iter().find(|n| n.name.as_str() == name).or_else(|| {
        nodes
            .iter()
            .find(|n| n.number.is_some() && n.number == number)
    })
}

fn choose(p: &Places, which: usize) -> Option<&NodeName> {
    [&p.here, &p.home, &p.magic, &p.last_exec, &p.selected]
        .get(which)
        .copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_found_by_name_and_by_number() {
        let node = |name: &str, number| FarmNode {
            name: name.parse().expect("a name"),
            number,
            own: false,
            alive: true,
        };
        let nodes = [
            node("n1", Some(1)),
            node("n2", Some(2)),
            node("3", Some(9)),
            node("x", Some(3)),
        ];
        let check = |name: &str, want: Option<&str>| {
            assert_eq!(find(&nodes, name).map(|n| n.name.as_str()), want, "{name}");
        };
        check("n2", Some("n2"));
        check("2", Some("n2"));
        check("3", Some("3"));
        check("02", None);
        check("7", None);
        check("", None);
    }
}
