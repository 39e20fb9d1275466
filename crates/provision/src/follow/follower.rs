//! Brings what another boot server has: generations that are missing here, edits of live roots, and the choice of what nodes
//! boot.

use super::apply::apply;
use super::items::{ITEMS_MAX, Item};
use super::progress::{Peers, Progress};
use super::source::of_stream;
use super::wire::{
    Ask, Begins, Ends, GenerationThere, Have, ImageThere, PIECE, Place, Stream, hear_items,
};
use crate::image::{Generation, Lead, Manifest, Store, check_name};
use crate::problem::{At, BootError};
use ring::digest::{Context, SHA256};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::Path;
use std::sync::Arc;

/// Images and generations of another server that are looked at.
const THERE_MAX: usize = 10_000;

/// Follows one other boot server.
pub struct Follower {
    store: Store,
    own: String,
    peer: String,
    peers: Arc<Peers>,
    /// The sign of each root that is as the other server's.
    equal: BTreeMap<(String, u32), String>,
}

impl Follower {
    pub fn new(store: Store, own: &str, peer: &str, peers: Arc<Peers>) -> Follower {
        Follower {
            store,
            own: own.to_owned(),
            peer: peer.to_owned(),
            peers,
            equal: BTreeMap::new(),
        }
    }

    /// Looks once, and brings what differs. After an error the next call goes on where this one stopped.
    pub fn look<R: Read, W: Write>(&mut self, stream: &mut Stream<R, W>) -> Result<(), BootError> {
        self.bring(stream).map_err(|e| match e {
            BootError::Full(path) => BootError::NoRoom(path),
            e => e,
        })
    }

    fn bring<R: Read, W: Write>(&mut self, stream: &mut Stream<R, W>) -> Result<(), BootError> {
        self.said(stream.say(&Ask::Have))?;
        let have: Have = self.said(stream.hear())?;
        let mut progress = Progress::reached();
        for image in have.images.iter().take(THERE_MAX) {
            if check_name(&image.name).is_err() {
                continue;
            }
            self.store.note_last(&image.name, image.last)?;
            self.leads(image, &mut progress)?;
            for there in image.generations.iter().take(THERE_MAX) {
                self.generation(stream, image, there)?;
            }
            self.forget(image)?;
            self.choice(image)?;
        }
        self.peers.set(&self.peer, progress);
        Ok(())
    }

    fn said<T>(&self, said: std::io::Result<T>) -> Result<T, BootError> {
        of_stream(&self.peer, said)
    }

    /// Which server's root is edited: the later word counts.
    fn leads(&self, image: &ImageThere, progress: &mut Progress) -> Result<(), BootError> {
        for there in &image.generations {
            let Some(mine) = self.store.get(&image.name, there.number) else {
                continue;
            };
            if self.store.made(&mine)? != there.made {
                progress.notes.push(format!(
                    "{mine} here and on {} are different images: remove one of them",
                    self.peer
                ));
                continue;
            }
            let lead = self.store.lead(&mine, &self.own);
            if there.lead.turn > lead.turn {
                self.store.set_lead(&mine, &there.lead)?;
            } else if there.lead.turn == lead.turn && there.lead.server != lead.server {
                progress.notes.push(format!(
                    "{mine} is edited here and on {}: run `armento boot image lead {mine}` on one of them",
                    self.peer
                ));
            }
        }
        Ok(())
    }

    fn generation<R: Read, W: Write>(
        &mut self,
        stream: &mut Stream<R, W>,
        image: &ImageThere,
        there: &GenerationThere,
    ) -> Result<(), BootError> {
        let Some(sign) = there
            .sign
            .as_ref()
            .filter(|_| there.lead.server == self.peer)
        else {
            return Ok(());
        };
        let key = (image.name.clone(), there.number);
        let mine = self.store.get(&image.name, there.number);
        let copied = match &mine {
            None => self.copy(stream, image, there)?,
            Some(mine) => {
                let follows = self.store.lead(mine, &self.own) == there.lead
                    && self.store.made(mine)? == there.made;
                if !follows || self.equal.get(&key) == Some(sign) {
                    return Ok(());
                }
                self.root(stream, mine, &mine.dir, &mine.file(".incoming"), 0)?
            }
        };
        if copied {
            self.equal.insert(key, sign.clone());
        }
        Ok(())
    }

    /// A generation that is not here. `false`: something in it changed meanwhile.
    fn copy<R: Read, W: Write>(
        &mut self,
        stream: &mut Stream<R, W>,
        image: &ImageThere,
        there: &GenerationThere,
    ) -> Result<bool, BootError> {
        let draft = self.store.copying(&image.name, there.number, &there.lead)?;
        let generation = Generation {
            image: image.name.clone(),
            number: there.number,
            dir: draft.clone(),
        };
        let described = draft.join("described.json");
        if !self.file(stream, &generation, "manifest.json", &described, None)? {
            return Ok(false);
        }
        let manifest = Manifest::load(&described)?;
        if manifest.made != there.made {
            return Ok(false);
        }
        let root = draft.join("root");
        fs::create_dir_all(&root).at(&root)?;
        let incoming = draft.join(".incoming");
        let whole = self.root(stream, &generation, &draft, &incoming, manifest.bytes)?;
        let mut beside = vec![("vmlinuz", &manifest.vmlinuz), ("initrd", &manifest.initrd)];
        beside.extend(manifest.erofs.as_ref().map(|sum| ("root.erofs", sum)));
        for (name, sum) in beside {
            self.doing(&generation, name);
            if !self.file(stream, &generation, name, &draft.join(name), Some(sum))? {
                return Ok(false);
            }
        }
        if !whole {
            return Ok(false);
        }
        // Last: what has a manifest is complete.
        let manifest = draft.join("manifest.json");
        fs::rename(&described, &manifest).at(&manifest)?;
        self.store.copied(&generation)?;
        tracing::info!("{generation} was copied from {}", self.peer);
        Ok(true)
    }

    fn doing(&self, generation: &Generation, what: &str) {
        let text = format!("copies {generation} ({what})");
        self.peers.set(&self.peer, Progress::doing(text));
    }

    /// Makes the root below `dir` as the other server's.
    fn root<R: Read, W: Write>(
        &mut self,
        stream: &mut Stream<R, W>,
        generation: &Generation,
        dir: &Path,
        incoming: &Path,
        bytes: u64,
    ) -> Result<bool, BootError> {
        let (image, number) = (generation.image.clone(), generation.number);
        self.said(stream.say(&Ask::Items { image, number }))?;
        if let Begins::Refused { why } = self.said(stream.hear())? {
            return Err(refused(&self.peer, &why));
        }
        let want = self.said(hear_items(stream, ITEMS_MAX))?;
        let mut came = 0;
        let this = &*self;
        let mut fetch = |item: &Item, to: &Path| {
            let place = Place::Root(item.path.clone());
            let n = this.pieces(stream, generation, place, to, 0)?;
            if let Some((n, _)) = n {
                came += n;
                if bytes > 0 {
                    let text = format!("{} of {} MB", came >> 20, bytes >> 20);
                    this.doing(generation, &text);
                }
            }
            Ok(n.is_some())
        };
        let done = apply(&dir.join("root"), incoming, &want, &mut fetch)?;
        if bytes == 0 && done.changed > 0 {
            tracing::info!(
                "{} files of {generation} changed on {}",
                done.changed,
                self.peer
            );
        }
        Ok(done.missed == 0)
    }

    /// A file beside the root. What came before an interruption is kept. `sum`: of the whole file.
    fn file<R: Read, W: Write>(
        &self,
        stream: &mut Stream<R, W>,
        generation: &Generation,
        name: &str,
        to: &Path,
        sum: Option<&String>,
    ) -> Result<bool, BootError> {
        if to.exists() && sum.is_some_and(|s| crate::image::sha256(to).is_ok_and(|o| o == *s)) {
            return Ok(true);
        }
        let part = to.with_extension("part");
        let from = match sum {
            Some(_) => fs::metadata(&part).map_or(0, |m| m.len()),
            None => 0,
        };
        let place = Place::Beside(name.to_owned());
        let Some((_, whole)) = self.pieces(stream, generation, place, &part, from)? else {
            return Ok(false);
        };
        let good = crate::image::sha256(&part)? == whole && sum.is_none_or(|s| *s == whole);
        if !good {
            // What was kept of an earlier attempt does not fit: from the beginning, next time.
            let _ = fs::remove_file(&part);
            return Ok(false);
        }
        fs::rename(&part, to).at(to)?;
        Ok(true)
    }

    /// The bytes of a file, written to `to` from the byte `from` on: how many came, and the sum of the whole file. None: it
    /// changed meanwhile or is gone.
    fn pieces<R: Read, W: Write>(
        &self,
        stream: &mut Stream<R, W>,
        generation: &Generation,
        place: Place,
        to: &Path,
        from: u64,
    ) -> Result<Option<(u64, String)>, BootError> {
        self.said(stream.say(&Ask::File {
            image: generation.image.clone(),
            number: generation.number,
            place,
            from,
        }))?;
        if let Begins::Refused { .. } = self.said(stream.hear())? {
            return Ok(None);
        }
        let mut file = match from {
            0 => File::create(to).at(to)?,
            _ => File::options().append(true).open(to).at(to)?,
        };
        let mut context = Context::new(&SHA256);
        let mut buffer = vec![0; PIECE];
        let mut came = 0;
        loop {
            let n = self.said(stream.next_piece(&mut buffer))?;
            if n == 0 {
                break;
            }
            file.write_all(&buffer[..n]).at(to)?;
            context.update(&buffer[..n]);
            came += n as u64;
        }
        let ends: Ends = self.said(stream.hear())?;
        let own = super::items::hex(context.finish().as_ref());
        let good = ends.whole && (from > 0 || own == ends.sha256);
        Ok(good.then_some((came, ends.sha256)))
    }

    /// What the other server has removed, and drafts of it.
    fn forget(&mut self, image: &ImageThere) -> Result<(), BootError> {
        let gone = |number: u32, lead: &Lead| {
            lead.server == self.peer
                && number <= image.last
                && !image.generations.iter().any(|g| g.number == number)
        };
        for mine in self.store.of_image(&image.name)? {
            let lead = self.store.lead(&mine, &self.own);
            if gone(mine.number, &lead) && !self.store.is_current(&mine) {
                tracing::info!("{mine} was removed on {}", self.peer);
                self.store.remove(&mine, &[])?;
            }
        }
        self.store.drop_copies(&image.name, &gone)
    }

    fn choice(&self, image: &ImageThere) -> Result<(), BootError> {
        let Some(theirs) = &image.choice else {
            return Ok(());
        };
        // Once it is the same, there is nothing to lock.
        let mine = self.store.choice(&image.name);
        let later = mine.is_none_or(|m| theirs.is_after(&m));
        if later && self.store.adopt(&image.name, theirs)? {
            tracing::info!(
                "nodes boot {}@{} now, as {} says",
                image.name,
                theirs.number,
                self.peer
            );
        }
        Ok(())
    }
}

fn refused(peer: &str, why: &str) -> BootError {
    BootError::refused(
        format!("boot server {peer}: {why}"),
        "look at its messages: journalctl -u armento-boot-server",
    )
}
