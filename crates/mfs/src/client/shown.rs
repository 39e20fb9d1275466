//! `.proc` below the mount point: a tree that the farm shows, to be read. It is not listed there, so that no search of
//! all files enters it.
//!
//! A file is known by its path. Its number is made from that; the table of them is as large as what the kernel knows.
//! Reads go past the kernel's cache: a file's content is what the farm shows at that time.

use crate::client::core::Core;
use crate::farm::Shown;
use crate::fuse::{self, Args, Attributes, Head, Listing, Times, attr_out, entry_out};
use crate::protocol::Attr;
use std::sync::Arc;
use std::time::Duration;

/// The name below the mount point.
pub const NAME: &[u8] = b".proc";
/// KERNEL: FOPEN_DIRECT_IO.
const DIRECT_IO: u32 = 1;
/// For how long the kernel keeps names: processes come and go.
const KEEP: Times = Times {
    name: Duration::from_millis(200),
    attr: Duration::ZERO,
};

fn attr(n: u64, shown: &Shown) -> Attr {
    let (mode, nlink, size) = match shown {
        Shown::Dir(_) => (libc::S_IFDIR | 0o555, 2, 0),
        Shown::File(text) => (libc::S_IFREG | 0o444, 1, text.len() as u64),
    };
    Attr {
        ino: n,
        mode,
        nlink,
        size,
        blksize: 4096,
        ..Attr::default()
    }
}

impl Core {
    /// Calls on a file of the tree.
    pub fn shown(self: &Arc<Self>, h: &Head, mut a: Args<'_>) {
        let Some(path) = self.shown_paths.known(h.node) else {
            return self.error(h.unique, libc::ESTALE);
        };
        match h.op {
            fuse::LOOKUP => match std::str::from_utf8(a.name()) {
                Ok(name) => self.shown_lookup(h, format!("{path}/{name}")),
                Err(_) => self.error(h.unique, libc::ENOENT),
            },
            fuse::GETATTR => self.with_shown(h, path, |core, h, shown| {
                let attr = attr(h.node, &shown);
                let a = Attributes {
                    node: h.node,
                    ino: h.node,
                    attr: &attr,
                };
                core.device.reply(h.unique, 0, &[&attr_out(&a, KEEP.attr)]);
            }),
            fuse::OPEN => {
                let mut out = [0; 16];
                out[8..12].copy_from_slice(&DIRECT_IO.to_le_bytes());
                self.device.reply(h.unique, 0, &[&out]);
            }
            fuse::READ => {
                let (_, at, size) = (a.u64(), a.u64() as usize, a.u32() as usize);
                self.with_shown(h, path, move |core, h, shown| {
                    let Shown::File(text) = shown else {
                        return core.error(h.unique, libc::EISDIR);
                    };
                    let rest = text.as_bytes().get(at..).unwrap_or_default();
                    core.device
                        .reply(h.unique, 0, &[&rest[..rest.len().min(size)]]);
                });
            }
            fuse::READDIR | fuse::READDIRPLUS => {
                let plus = h.op == fuse::READDIRPLUS;
                let (_, at, size) = (a.u64(), a.u64() as usize, a.u32() as usize);
                self.with_shown(h, path, move |core, h, shown| {
                    let Shown::Dir(names) = shown else {
                        return core.error(h.unique, libc::ENOTDIR);
                    };
                    let all = [".", ".."]
                        .into_iter()
                        .chain(names.iter().map(String::as_str));
                    let mut out = Listing::new(size);
                    for (name, next) in all.zip(1u64..).skip(at) {
                        let none = [0; 128];
                        let kind = libc::DT_UNKNOWN;
                        if !out.add(plus.then_some(&none[..]), next, next, kind, name.as_bytes()) {
                            break;
                        }
                    }
                    core.device.reply(h.unique, 0, &[out.bytes()]);
                });
            }
            fuse::FLUSH | fuse::RELEASE | fuse::FSYNC => self.done(h.unique),
            _ => self.own_directory(h),
        }
    }

    /// The entry for a path of the tree; the kernel counts it as looked up.
    pub fn shown_lookup(self: &Arc<Self>, h: &Head, path: String) {
        let known = path.clone();
        self.with_shown(h, path, move |core, h, shown| {
            let n = core.shown_paths.looked_up(known);
            let attr = attr(n, &shown);
            let a = Attributes {
                node: n,
                ino: n,
                attr: &attr,
            };
            core.device.reply(h.unique, 0, &[&entry_out(&a, KEEP)]);
        });
    }

    /// Asks the farm in its own thread, with the rights of the calling user.
    fn with_shown(
        self: &Arc<Self>,
        h: &Head,
        path: String,
        then: impl FnOnce(&Arc<Core>, &Head, Shown) + Send + 'static,
    ) {
        let head = *h;
        let asked = self.ask(Box::new(move |core| {
            match core.farm.shown(head.uid, &path) {
                Some(shown) => then(core, &head, shown),
                None => core.error(head.unique, libc::ENOENT),
            }
        }));
        if !asked {
            self.error(h.unique, libc::EAGAIN);
        }
    }
}
