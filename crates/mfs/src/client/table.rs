//! Files that the kernel knows, and what each is on the streams of each user. Plain data: no I/O.

use crate::protocol::{Acls, Attr, Entry, Identity, Time};
use std::collections::{HashMap, HashSet};

/// Numbers below are those of the mount's own root directory; see `root.rs`.
pub const FIRST: u64 = 1 << 20;

/// A user's connection to a node, and which of its sessions: numbers of another one mean nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Of {
    pub uid: u32,
    pub session: u64,
}

struct Id {
    of: Of,
    id: u64,
    refs: u64,
}

/// State of a file's content, as far as its attributes show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version {
    size: u64,
    mtime: Time,
    ctime: Time,
}

impl Version {
    pub fn of(a: &Attr) -> Version {
        Version {
            size: a.size,
            mtime: a.mtime,
            ctime: a.ctime,
        }
    }
}

/// The node of a file that is not used any more, and what each of its servers is to forget: number and times.
pub type Forgotten = (usize, Vec<(Of, u64, u64)>);

pub struct Inode {
    pub node: usize,
    pub who: Identity,
    pub parent: u64,
    pub name: Vec<u8>,
    pub acls: Acls,
    /// How often the kernel was given it.
    lookups: u64,
    ids: Vec<Id>,
    /// The content of which the kernel may have pages.
    pub seen: Option<Version>,
    /// Writes that were answered and are not yet made.
    pub posts: usize,
    /// Owners of range locks.
    pub owners: HashSet<u64>,
    /// Users of open files, who need it though the kernel may have forgotten it.
    pub opens: usize,
}

#[derive(Default)]
pub struct Table {
    by_id: HashMap<u64, Inode>,
    by_who: HashMap<(usize, Identity), u64>,
    next: u64,
    devices: HashMap<(usize, u64, u64), u64>,
    /// Files with posted writes.
    posting: HashSet<u64>,
}

impl Table {
    pub fn get(&self, n: u64) -> Option<&Inode> {
        self.by_id.get(&n)
    }

    pub fn get_mut(&mut self, n: u64) -> Option<&mut Inode> {
        self.by_id.get_mut(&n)
    }

    /// A file that a server named: its number here. The kernel is given it once if `known`.
    pub fn enter(
        &mut self,
        node: usize,
        of: Of,
        e: &Entry,
        at: Option<(u64, &[u8])>,
        known: bool,
    ) -> u64 {
        let who = e.attr.identity();
        let n = match self.by_who.get(&(node, who)) {
            Some(n) => *n,
            None => {
                let n = FIRST + self.next;
                self.next += 1;
                self.by_who.insert((node, who), n);
                let inode = Inode {
                    node,
                    who,
                    parent: 0,
                    name: Vec::new(),
                    acls: e.acls,
                    lookups: 0,
                    ids: Vec::new(),
                    seen: None,
                    posts: 0,
                    owners: HashSet::new(),
                    opens: 0,
                };
                self.by_id.insert(n, inode);
                n
            }
        };
        if let Some(i) = self.by_id.get_mut(&n) {
            i.lookups += u64::from(known);
            if let Some((parent, name)) = at.filter(|(p, _)| *p != n) {
                (i.parent, i.name) = (parent, name.to_vec());
            }
            i.acls = e.acls;
            i.ids
                .retain(|x| x.of.uid != of.uid || x.of.session == of.session);
            match i.ids.iter_mut().find(|x| x.of == of) {
                Some(x) => x.refs += 1,
                None => i.ids.push(Id {
                    of,
                    id: e.id,
                    refs: 1,
                }),
            }
        }
        n
    }

    /// The kernel was given what was entered without it.
    pub fn given(&mut self, n: u64) {
        if let Some(i) = self.by_id.get_mut(&n) {
            i.lookups += 1;
        }
    }

    /// Takes an entry back whose reference is entered again later.
    pub fn unenter(&mut self, n: Option<u64>, of: Option<(Of, u64)>) {
        let (Some(n), Some((of, _))) = (n, of) else {
            return;
        };
        let Some(i) = self.by_id.get_mut(&n) else {
            return;
        };
        if let Some(x) = i.ids.iter_mut().find(|x| x.of == of) {
            x.refs -= 1;
        }
        // The server may forget it before it is entered again: its number there means nothing then.
        i.ids.retain(|x| x.refs > 0);
        if i.ids.is_empty() {
            self.drop_unused(n);
        }
    }

    /// What a user's server calls it.
    pub fn id(&self, n: u64, of: Of) -> Option<u64> {
        let i = self.by_id.get(&n)?;
        i.ids.iter().find(|x| x.of == of).map(|x| x.id)
    }

    /// The way to it from its node's root.
    pub fn path(&self, n: u64) -> Option<Vec<Vec<u8>>> {
        let mut names = Vec::new();
        let mut at = self.by_id.get(&n)?;
        while at.parent != 0 {
            if names.len() > crate::protocol::PATH_MAX {
                return None;
            }
            names.push(at.name.clone());
            at = self.by_id.get(&at.parent)?;
        }
        // A file without a name is no root.
        if !at.name.is_empty() {
            return None;
        }
        names.reverse();
        Some(names)
    }

    pub fn renamed(&mut self, node: usize, who: &Identity, parent: u64, name: &[u8]) {
        let n = self.by_who.get(&(node, *who));
        if let Some(i) = n.and_then(|n| self.by_id.get_mut(n)) {
            (i.parent, i.name) = (parent, name.to_vec());
        }
    }

    /// The kernel forgets it: what the servers are to forget, as user and (session's number, times).
    pub fn forget(&mut self, n: u64, times: u64) -> Option<Forgotten> {
        let i = self.by_id.get_mut(&n)?;
        i.lookups = i.lookups.saturating_sub(times);
        self.drop_unused(n)
    }

    /// An open file of it was closed.
    pub fn closed(&mut self, n: u64) -> Option<Forgotten> {
        let i = self.by_id.get_mut(&n)?;
        i.opens = i.opens.saturating_sub(1);
        self.drop_unused(n)
    }

    fn drop_unused(&mut self, n: u64) -> Option<Forgotten> {
        let i = self.by_id.get(&n)?;
        if i.lookups > 0 || i.opens > 0 || i.posts > 0 {
            return None;
        }
        let i = self.by_id.remove(&n)?;
        self.by_who.remove(&(i.node, i.who));
        self.posting.remove(&n);
        let ids = i.ids.iter().map(|x| (x.of, x.id, x.refs)).collect();
        Some((i.node, ids))
    }

    /// st_ino: equal for links of a file, different for others. Numbers of a file system are kept as they are, below one
    /// for the node and file system.
    pub fn ino(&mut self, node: usize, dev: u64, ino: u64) -> u64 {
        let next = self.devices.len() as u64;
        let device = *self.devices.entry((node, dev, ino >> 48)).or_insert(next);
        (device << 48) | (ino & ((1 << 48) - 1))
    }

    pub fn posted(&mut self, n: u64) {
        if let Some(i) = self.by_id.get_mut(&n) {
            i.posts += 1;
            i.seen = None;
            self.posting.insert(n);
        }
    }

    /// A posted write is made.
    pub fn made(&mut self, n: u64) -> Option<Forgotten> {
        let i = self.by_id.get_mut(&n)?;
        i.posts = i.posts.saturating_sub(1);
        if i.posts > 0 {
            return None;
        }
        self.posting.remove(&n);
        self.drop_unused(n)
    }

    pub fn is_posting(&self, n: u64) -> bool {
        self.posting.contains(&n)
    }

    /// Whether a file with posted writes may have this name.
    pub fn is_name_posting(&self, parent: u64, name: &[u8]) -> bool {
        self.posting
            .iter()
            .filter_map(|n| self.by_id.get(n))
            .any(|i| i.parent == parent && i.name == name)
    }

    pub fn of_node(&self, node: usize) -> Vec<(u64, u64, Vec<u8>)> {
        self.by_id
            .iter()
            .filter(|(_, i)| i.node == node)
            .map(|(n, i)| (*n, i.parent, i.name.clone()))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(id: u64, ino: u64) -> Entry {
        Entry {
            id,
            attr: Attr {
                dev: 1,
                ino,
                nlink: 1,
                ..Attr::default()
            },
            acls: Acls::default(),
            name_kept: false,
            attr_kept: false,
        }
    }

    #[test]
    fn users_share_a_number_and_forget_their_own() {
        let mut t = Table::default();
        let (a, b) = (Of { uid: 1, session: 7 }, Of { uid: 2, session: 9 });
        let root = t.enter(0, a, &entry(1, 2), None, true);
        let dir = t.enter(0, a, &entry(5, 20), Some((root, b"d")), true);
        let n = t.enter(0, a, &entry(6, 21), Some((dir, b"f")), true);
        assert_eq!(t.enter(0, b, &entry(3, 21), Some((dir, b"f")), true), n);
        assert_eq!(
            t.enter(0, a, &entry(6, 21), Some((dir, b"g")), true),
            n,
            "a hard link"
        );
        assert_eq!(t.path(n), Some(vec![b"d".to_vec(), b"g".to_vec()]));
        assert_eq!(
            (t.id(n, a), t.id(n, b), t.id(n, Of { uid: 1, session: 8 })),
            (Some(6), Some(3), None)
        );
        assert!(t.forget(n, 2).is_none());
        let (_, ids) = t.forget(n, 1).expect("the last");
        assert_eq!(ids, [(a, 6, 2), (b, 3, 1)]);
        assert!(t.get(n).is_none());
        assert_ne!(
            t.enter(0, a, &entry(6, 21), Some((dir, b"f")), true),
            n,
            "never given again"
        );
    }

    #[test]
    fn what_is_taken_back_leaves_no_number() {
        let mut t = Table::default();
        let a = Of { uid: 1, session: 7 };
        let root = t.enter(0, a, &entry(1, 2), None, true);
        let n = t.enter(0, a, &entry(6, 21), Some((root, b"f")), false);
        t.unenter(Some(n), Some((a, 6)));
        assert!(t.get(n).is_none() && t.id(n, a).is_none());
        // The kernel has it from before.
        let n = t.enter(0, a, &entry(8, 21), Some((root, b"f")), true);
        t.enter(0, a, &entry(8, 21), Some((root, b"f")), false);
        t.unenter(Some(n), Some((a, 8)));
        assert_eq!(t.id(n, a), Some(8));
    }

    #[test]
    fn inode_numbers_differ_between_nodes_and_file_systems() {
        let mut t = Table::default();
        let all = [
            t.ino(0, 1, 5),
            t.ino(0, 2, 5),
            t.ino(1, 1, 5),
            t.ino(0, 1, 5 | 1 << 60),
        ];
        assert_eq!(t.ino(0, 1, 5), all[0]);
        assert_eq!(all[0], 5);
        let mut sorted = all.to_vec();
        sorted.sort_unstable();
        sorted.dedup();
        assert_eq!(sorted.len(), 4);
    }
}
