//! Listings: fetched in large batches, given to the kernel in the small pieces that it asks for.

use crate::client::core::{Batch, Core, Open};
use crate::fuse::{Args, Head, Listing, entry_out};
use crate::protocol::{Lane, Reply, Request};
use crate::sync::lock;
use std::sync::Arc;

/// struct fuse_entry_out of an entry that is not looked up: node 0.
const NONE: [u8; 128] = [0; 128];

impl Core {
    pub fn readdir(self: &Arc<Self>, h: &Head, mut a: Args<'_>, plus: bool) {
        let (fh, at, size) = (a.u64(), a.u64(), a.u32() as usize);
        let unique = h.unique;
        self.on_file(unique, fh, move |core, open, file| {
            core.list(unique, open, file, at, size, plus);
        });
    }

    fn list(
        self: &Arc<Self>,
        unique: u64,
        open: &Arc<Open>,
        file: u64,
        at: u64,
        size: usize,
        plus: bool,
    ) {
        let fetch = {
            let mut b = lock(&open.batch);
            let here = b.filled && b.at == at && at != 0;
            if here && (b.end || !b.entries.is_empty()) {
                self.give(unique, open, &mut b, size, plus);
                None
            } else {
                let unused = b.drain_ids();
                let from = if here { b.next } else { at };
                Some((from, unused))
            }
        };
        let Some((from, unused)) = fetch else { return };
        if let Some(of) = open.link.up().filter(|_| !unused.is_empty()) {
            open.link.forget(of, unused);
        }
        let r = Request::Readdir {
            file,
            at: from,
            plus,
        };
        let me = open.clone();
        open.link.call(
            self,
            Lane::Names,
            unique,
            &r,
            b"",
            move |core, end| match end {
                Ok((Reply::Dir { entries, next, end }, _)) => {
                    let none = entries.is_empty() && !end;
                    let mut b = lock(&me.batch);
                    *b = Batch {
                        entries: entries.into(),
                        at,
                        next,
                        end,
                        filled: true,
                    };
                    if none && next != from {
                        // All of them were hidden.
                        b.at = next;
                        drop(b);
                        return core.list(unique, &me, file, next, size, plus);
                    }
                    core.give(unique, &me, &mut b, size, plus);
                }
                Ok(_) => core.error(unique, libc::EIO),
                Err(e) => core.error(unique, e),
            },
        );
    }

    fn give(&self, unique: u64, open: &Open, b: &mut Batch, size: usize, plus: bool) {
        let link = &open.link;
        let mut out = Listing::new(size);
        let mut unused = Vec::new();
        let dev = lock(&self.table).get(open.n).map_or(0, |i| i.who.dev);
        while let Some(e) = b.entries.front() {
            let mut entry = NONE.to_vec();
            let mut given = None;
            let of = link.up();
            if let (true, Some(x), Some(of)) = (plus, &e.entry, of) {
                // The reference is the table's from now on; whether the kernel gets it is seen below.
                let n = self.enter(link, of, x, Some((open.n, &e.name)), false);
                if !lock(&self.table).is_posting(n) {
                    entry = entry_out(&self.attributes(link.node, n, &x.attr), self.times(x));
                    given = Some(n);
                }
            }
            let dev = e.entry.as_ref().map_or(dev, |x| x.attr.dev);
            let ino = lock(&self.table).ino(link.node, dev, e.ino);
            let fits = out.add(plus.then_some(&entry[..]), ino, e.next, e.kind, &e.name);
            if !fits {
                // It was entered for nothing, and comes again with the next piece.
                if given.is_some() {
                    let back = e.entry.as_ref().zip(of).map(|(x, of)| (of, x.id));
                    lock(&self.table).unenter(given, back);
                }
                break;
            }
            if let Some(n) = given {
                lock(&self.table).given(n);
            }
            let Some(e) = b.entries.pop_front() else {
                break;
            };
            b.at = e.next;
            if let Some(x) = e.entry.filter(|_| !plus) {
                unused.push((x.id, 1));
            }
        }
        if let Some(of) = link.up().filter(|_| !unused.is_empty()) {
            link.forget(of, unused);
        }
        self.device.reply(unique, 0, &[out.bytes()]);
    }
}
