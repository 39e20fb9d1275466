//! Directories of home that are known here, and what lookups in them lead to. Pure.
//!
//! Home sends a directory's entries by its path without symbolic links, and takes its word back before it says anything that
//! could follow from a change. A lookup that needs a directory or a link that is not known is forwarded.

use armento_abi::attributes::Attributes;
use std::collections::HashMap;

/// Longest path that is looked up here. KERNEL: PATH_MAX, with its zero byte.
const PATH_MAX: usize = 4096;
/// KERNEL: NAME_MAX; a longer one is ENAMETOOLONG.
const NAME_MAX: usize = 255;
/// KERNEL: path_resolution(7): symbolic links in one lookup.
const LINKS_MAX: usize = 40;
/// Bytes of names and links that are kept; home keeps fewer.
const BYTES_MAX: usize = 16 << 20;

#[derive(Default)]
pub struct Names {
    known: HashMap<Vec<u8>, Directory>,
    links: HashMap<Vec<u8>, Vec<u8>>,
    bytes: usize,
    /// How often directories were forgotten.
    forgotten: u64,
}

struct Directory {
    id: Id,
    guarded: bool,
    entries: HashMap<Vec<u8>, u8>,
    /// What home has told of entries, and of the directory itself under the empty name; nothing where it will not.
    attributes: HashMap<Vec<u8>, Vec<u8>>,
    birth: bool,
}

/// Device and inode.
pub type Id = (u64, u64);

/// Where a lookup begins that is not from the root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Base {
    /// Without symbolic links; `/` for the root.
    pub path: Vec<u8>,
    pub id: Id,
}

/// What a path leads to.
#[derive(Debug, PartialEq, Eq)]
pub enum Found<'a> {
    /// Home has to be asked.
    Unknown,
    /// Nothing: ENOENT.
    Missing,
    /// It goes on behind something that is no directory: ENOTDIR.
    NoDirectory,
    /// A symbolic link, where it leads.
    Link(&'a [u8]),
    /// Something that is no symbolic link. What statx(2) says of it, if that is known (`Some` of nothing: home will not
    /// tell), and whether its file system tells the time of birth unasked.
    Other(Option<(Attributes<'a>, bool)>),
}

impl Names {
    /// `names`: for each entry the byte of its type, its name, a zero byte.
    pub fn learn(&mut self, path: Vec<u8>, id: Id, guarded: bool, names: &[u8]) {
        if self.bytes + names.len() > BYTES_MAX {
            self.forget_all();
        }
        self.bytes += names.len();
        let entry = |e: &[u8]| e.split_first().map(|(kind, name)| (name.to_vec(), *kind));
        let entries = names.split(|c| *c == 0).filter_map(entry).collect();
        let directory = Directory {
            id,
            guarded,
            entries,
            attributes: HashMap::new(),
            birth: false,
        };
        self.known.insert(path, directory);
    }

    pub fn learn_link(&mut self, path: Vec<u8>, target: Vec<u8>) {
        let (parent, _) = split(&path);
        // Home watches the link's directory for as long as that is known.
        if self.known.contains_key(parent) && self.bytes + target.len() <= BYTES_MAX {
            self.bytes += target.len();
            self.links.insert(path, target);
        }
    }

    /// What home tells of entries of a directory that is known, and of itself.
    pub fn learn_attributes(&mut self, path: &[u8], birth: bool, list: Vec<(Vec<u8>, Vec<u8>)>) {
        let Some(d) = self.known.get_mut(path) else {
            return;
        };
        d.birth = birth;
        for (name, told) in list {
            self.bytes += name.len() + told.len();
            if self.bytes <= BYTES_MAX {
                d.attributes.insert(name, told);
            }
        }
    }

    /// The attributes of the file at this path may have changed.
    pub fn forget_file(&mut self, path: &[u8]) {
        let (dir, name) = split(path);
        if let Some(d) = self.known.get_mut(dir) {
            d.attributes.remove(name);
        }
    }

    pub fn forget_all(&mut self) {
        *self = Names {
            forgotten: self.forgotten + 1,
            ..Names::default()
        };
    }

    /// Stays the same for a directory as long as its entries have not changed, and it is known that they have not. `None`: it
    /// is not known.
    pub fn unchanged(&self, id: Id) -> Option<u64> {
        let known = self.known.values().any(|d| d.id == id);
        known.then_some(self.forgotten)
    }

    /// Forgets what lies at or below this path.
    pub fn forget_below(&mut self, top: &[u8]) {
        self.forgotten += 1;
        let below = |path: &[u8]| {
            top == b"/"
                || path
                    .strip_prefix(top)
                    .is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
        };
        self.known.retain(|path, _| !below(path));
        self.links.retain(|path, _| !below(path));
        if self.known.is_empty() {
            self.bytes = 0;
        }
    }

    /// Follows a path. `base`: where a relative one begins; `follows`: whether a symbolic link at its end is followed.
    pub fn look_up(&self, base: &Base, path: &[u8], follows: bool) -> Found<'_> {
        if path.is_empty() || path.len() >= PATH_MAX || path.ends_with(b"/") {
            return Found::Unknown;
        }
        let mut at = match (path[0], self.known.get(&base.path)) {
            (b'/', _) => Vec::new(),
            (_, Some(d)) if d.id == base.id && base.path == b"/" => Vec::new(),
            (_, Some(d)) if d.id == base.id => base.path.clone(),
            _ => return Found::Unknown,
        };
        let (mut links, mut rest) = (0, components(path));
        while let Some(name) = rest.pop() {
            match name {
                b"." => continue,
                b".." => {
                    at.truncate(at.iter().rposition(|c| *c == b'/').unwrap_or(0));
                    continue;
                }
                name if name.len() > NAME_MAX => return Found::Unknown,
                _ => {}
            }
            let dir: &[u8] = if at.is_empty() { b"/" } else { &at };
            let Some(dir) = self.known.get(dir) else {
                return Found::Unknown;
            };
            let last = rest.is_empty();
            let Some(kind) = dir.entries.get(name) else {
                return Found::Missing;
            };
            at.push(b'/');
            at.extend_from_slice(name);
            match *kind {
                libc::DT_DIR => {}
                libc::DT_LNK => {
                    let Some(target) = self.links.get(&at) else {
                        return Found::Unknown;
                    };
                    if last && !follows {
                        return Found::Link(target);
                    }
                    links += 1;
                    if links > LINKS_MAX || dir.guarded || target.ends_with(b"/") {
                        return Found::Unknown;
                    }
                    match target.first() {
                        Some(b'/') => at.clear(),
                        _ => at.truncate(at.len() - name.len() - 1),
                    }
                    rest.extend(components(target));
                }
                libc::DT_REG | libc::DT_FIFO | libc::DT_SOCK | libc::DT_CHR | libc::DT_BLK => {
                    return if last {
                        Found::Other(dir.told(name))
                    } else {
                        Found::NoDirectory
                    };
                }
                _ => return Found::Unknown,
            }
        }
        let at: &[u8] = if at.is_empty() { b"/" } else { &at };
        Found::Other(self.known.get(at).and_then(|d| d.told(b"")))
    }
}

impl Directory {
    fn told(&self, name: &[u8]) -> Option<(Attributes<'_>, bool)> {
        let told = self.attributes.get(name)?;
        Some((Attributes(told), self.birth))
    }
}

/// Names of a path, the last first.
fn components(path: &[u8]) -> Vec<&[u8]> {
    let names = path.split(|c| *c == b'/').filter(|c| !c.is_empty());
    names.rev().collect()
}

/// The directory and the name of a path without symbolic links.
fn split(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().rposition(|c| *c == b'/') {
        Some(0) | None => (b"/", path.strip_prefix(b"/").unwrap_or(path)),
        Some(at) => (&path[..at], &path[at + 1..]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOT: &[(u8, &str)] = &[(libc::DT_DIR, "usr"), (libc::DT_LNK, "lib")];
    const USR: &[(u8, &str)] = &[
        (libc::DT_DIR, "lib"),
        (libc::DT_REG, "file"),
        (libc::DT_LNK, "dangling"),
        (libc::DT_LNK, "loop"),
        (b'?', "odd"),
    ];

    fn list(entries: &[(u8, &str)]) -> Vec<u8> {
        let one = |(kind, name): &(u8, &str)| {
            let mut e = vec![*kind];
            e.extend_from_slice(name.as_bytes());
            e.push(0);
            e
        };
        entries.iter().flat_map(one).collect()
    }

    fn names() -> Names {
        let mut n = Names::default();
        n.learn(b"/".to_vec(), (1, 1), false, &list(ROOT));
        n.learn(b"/usr".to_vec(), (1, 2), false, &list(USR));
        n.learn(
            b"/usr/lib".to_vec(),
            (1, 3),
            false,
            &list(&[(libc::DT_REG, "x.so")]),
        );
        n.learn_link(b"/lib".to_vec(), b"usr/lib".to_vec());
        n.learn_link(b"/usr/dangling".to_vec(), b"/nowhere".to_vec());
        n.learn_link(b"/usr/loop".to_vec(), b"loop".to_vec());
        n
    }

    fn base(path: &str, id: Id) -> Base {
        Base {
            path: path.as_bytes().to_vec(),
            id,
        }
    }

    fn look<'a>(n: &'a Names, path: &str) -> Found<'a> {
        n.look_up(&base("/none", (0, 0)), path.as_bytes(), true)
    }

    #[test]
    fn paths_are_followed_as_the_kernel_does() {
        let n = names();
        assert_eq!(look(&n, "/usr/file"), Found::Other(None));
        assert_eq!(look(&n, "/usr/./lib//x.so"), Found::Other(None));
        assert_eq!(
            look(&n, "/lib/../file"),
            Found::Other(None),
            ".. of where a link leads"
        );
        assert_eq!(look(&n, "/lib/y.so"), Found::Missing);
        assert_eq!(look(&n, "/usr/none/deeper"), Found::Missing);
        assert_eq!(look(&n, "/usr/file/x"), Found::NoDirectory);
        assert_eq!(look(&n, "/usr/dangling"), Found::Missing);
        assert_eq!(look(&n, "/usr/loop"), Found::Unknown, "ELOOP is home's");
        assert_eq!(
            look(&n, "/../usr/file"),
            Found::Other(None),
            "the root has no parent"
        );
        assert_eq!(
            n.look_up(&base("/", (1, 1)), b"/lib", false),
            Found::Link(b"usr/lib")
        );
        assert_eq!(
            n.look_up(&base("/", (1, 1)), b"/usr/lib", false),
            Found::Other(None)
        );
    }

    #[test]
    fn what_is_not_known_is_home_s() {
        let mut n = names();
        for path in ["", "usr", "/usr/odd", "/usr/lib/", "/usr/odd/x"] {
            assert_eq!(look(&n, path), Found::Unknown, "{path}");
        }
        let long = format!("/usr/{}", "n".repeat(NAME_MAX + 1));
        assert_eq!(look(&n, &long), Found::Unknown);
        n.forget_below(b"/usr/lib");
        assert_eq!(look(&n, "/lib/y.so"), Found::Unknown);
        assert_eq!(look(&n, "/usr/none"), Found::Missing, "it lies above");
        n.forget_below(b"/usr");
        assert_eq!(look(&n, "/usr/dangling"), Found::Unknown);
        n.learn_link(b"/usr/new".to_vec(), b"x".to_vec());
        assert!(!n.links.contains_key(b"/usr/new".as_slice()), "unwatched");
    }

    #[test]
    fn attributes_are_known_until_the_file_or_its_directory_changes() {
        let mut n = names();
        let list = |l: &[(&str, &str)]| -> Vec<(Vec<u8>, Vec<u8>)> {
            let pair = |(n, a): &(&str, &str)| (n.as_bytes().to_vec(), a.as_bytes().to_vec());
            l.iter().map(pair).collect()
        };
        n.learn_attributes(
            b"/usr",
            true,
            list(&[("file", "f"), ("", "d"), ("dir", "")]),
        );
        n.learn_attributes(b"/none", true, list(&[("file", "f")]));
        let is = |told: &'static str| Found::Other(Some((Attributes(told.as_bytes()), true)));
        assert_eq!(look(&n, "/usr/file"), is("f"));
        assert_eq!(look(&n, "/usr"), is("d"));
        assert_eq!(look(&n, "/lib/.."), is("d"), "the directory where it ends");
        assert_eq!(look(&n, "/usr/lib"), Found::Other(None));
        n.forget_file(b"/usr/file");
        assert_eq!(look(&n, "/usr/file"), Found::Other(None));
        assert_eq!(look(&n, "/usr"), is("d"));
        n.forget_below(b"/usr");
        n.learn_attributes(b"/usr", true, list(&[("", "d")]));
        assert_eq!(look(&n, "/usr"), Found::Other(None));
    }

    #[test]
    fn a_working_directory_is_known_by_path_and_identity() {
        let n = names();
        let look = |base: &Base, path: &str| n.look_up(base, path.as_bytes(), true);
        assert_eq!(look(&base("/usr", (1, 2)), "none"), Found::Missing);
        assert_eq!(
            look(&base("/usr", (1, 2)), "../lib/x.so"),
            Found::Other(None)
        );
        assert_eq!(look(&base("/", (1, 1)), "none"), Found::Missing);
        assert_eq!(look(&base("/usr", (1, 9)), "none"), Found::Unknown);
    }

    #[test]
    fn links_that_may_be_refused_are_home_s() {
        let mut n = names();
        n.learn(
            b"/tmp".to_vec(),
            (1, 4),
            true,
            &list(&[(libc::DT_LNK, "l")]),
        );
        n.learn_link(b"/tmp/l".to_vec(), b"/usr/none".to_vec());
        let base = base("/tmp", (1, 4));
        assert_eq!(n.look_up(&base, b"l", true), Found::Unknown);
        assert_eq!(n.look_up(&base, b"l", false), Found::Link(b"/usr/none"));
    }
}
