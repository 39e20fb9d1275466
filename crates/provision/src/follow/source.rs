//! Answers another boot server.

use super::items::{hex, is_below};
use super::items::{items, sign};
use super::wire::{
    Ask, Begins, Ends, GenerationThere, Have, ITEMS, ImageThere, PIECE, Place, Stream,
};
use crate::image::{Generation, Store, Wanted, check_name};
use crate::problem::{At, BootError};
use ring::digest::{Context, SHA256};
use rustix::fs::{Mode, OFlags, ResolveFlags};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::MetadataExt as _;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How old the sign of a root may be when it is told.
const SIGN_AGE: Duration = Duration::from_millis(1500);
/// … or so many times as long as it took to make it.
const SIGN_TIMES: u32 = 20;
/// A stream is opened anew after so long: with certificates, and removals of nodes, of that time.
const STREAM_LIFE: Duration = Duration::from_secs(600);
/// Files beside a root that are given away.
const BESIDE: [&str; 4] = ["vmlinuz", "initrd", "root.erofs", "manifest.json"];

/// What this server offers to others.
pub struct Source {
    store: Store,
    own: String,
    signs: Mutex<BTreeMap<String, Signed>>,
}

struct Signed {
    at: Instant,
    took: Duration,
    sign: String,
}

impl Source {
    /// `own`: this boot server, as the inventory calls it.
    pub fn new(store: Store, own: &str) -> Source {
        Source {
            store,
            own: own.to_owned(),
            signs: Mutex::default(),
        }
    }

    /// Answers questions until the stream ends.
    pub fn serve<R: Read, W: Write>(&self, mut stream: Stream<R, W>) -> io::Result<()> {
        let until = Instant::now() + STREAM_LIFE;
        while Instant::now() < until {
            match stream.hear()? {
                Ask::Have => match self.have() {
                    Ok(have) => stream.say(&have)?,
                    Err(e) => return Err(io::Error::other(e.to_string())),
                },
                Ask::Items { image, number } => self.items(&mut stream, image, number)?,
                Ask::File {
                    image,
                    number,
                    place,
                    from,
                } => self.file(&mut stream, image, number, &place, from)?,
            }
        }
        Ok(())
    }

    /// What there is here.
    pub fn have(&self) -> Result<Have, BootError> {
        let mut images: Vec<ImageThere> = Vec::new();
        for listed in self.store.list()? {
            let generation = listed.generation;
            let lead = self.store.lead(&generation, &self.own);
            let sign = match lead.server == self.own {
                true => Some(self.sign(&generation)?),
                false => None,
            };
            let there = GenerationThere {
                number: generation.number,
                made: self.store.made(&generation)?,
                lead,
                sign,
            };
            match images.last_mut().filter(|i| i.name == generation.image) {
                Some(image) => image.generations.push(there),
                None => images.push(ImageThere {
                    last: self.store.last(&generation.image)?,
                    choice: self.store.choice(&generation.image),
                    name: generation.image,
                    generations: vec![there],
                }),
            }
        }
        Ok(Have { images })
    }

    fn sign(&self, generation: &Generation) -> Result<String, BootError> {
        let name = generation.to_string();
        let mut signs = self.signs.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(s) = signs.get(&name)
            && s.at.elapsed() < SIGN_AGE.max(s.took * SIGN_TIMES)
        {
            return Ok(s.sign.clone());
        }
        let begun = Instant::now();
        let sign = sign(&generation.root())?;
        let signed = Signed {
            at: Instant::now(),
            took: begun.elapsed(),
            sign: sign.clone(),
        };
        signs.insert(name, signed);
        Ok(sign)
    }

    fn find(&self, image: String, number: u32) -> Result<Generation, String> {
        check_name(&image)?;
        let wanted = Wanted {
            image,
            number: Some(number),
        };
        self.store.find(&wanted).map_err(|e| e.to_string())
    }

    fn items<R: Read, W: Write>(
        &self,
        stream: &mut Stream<R, W>,
        image: String,
        number: u32,
    ) -> io::Result<()> {
        let found = self.find(image, number);
        let all = found.and_then(|g| items(&g.root()).map_err(|e| e.to_string()));
        match all {
            Err(why) => stream.say(&Begins::Refused { why }),
            Ok(all) => {
                stream.say(&Begins::Now { bytes: 0 })?;
                for some in all.chunks(ITEMS) {
                    stream.say(&some)?;
                }
                stream.say(&[(); 0])
            }
        }
    }

    fn file<R: Read, W: Write>(
        &self,
        stream: &mut Stream<R, W>,
        image: String,
        number: u32,
        place: &Place,
        from: u64,
    ) -> io::Result<()> {
        let opened = self
            .find(image, number)
            .and_then(|g| open(&g, place).map_err(|e| format!("{place:?}: {e}")));
        let mut file = match opened {
            Ok(file) => file,
            Err(why) => return stream.say(&Begins::Refused { why }),
        };
        let before = file.metadata()?;
        stream.say(&Begins::Now {
            bytes: before.len(),
        })?;
        let mut context = Context::new(&SHA256);
        let mut buffer = vec![0; PIECE];
        let mut at = 0;
        loop {
            let n = file.read(&mut buffer)?;
            if n == 0 {
                break;
            }
            context.update(&buffer[..n]);
            // What the other one has already is added up, and not sent.
            let skip = usize::try_from(from.saturating_sub(at)).unwrap_or(n).min(n);
            if skip < n {
                stream.piece(&buffer[skip..n])?;
            }
            at += n as u64;
        }
        stream.piece(&[])?;
        let after = file.metadata()?;
        let stamp = |m: &std::fs::Metadata| (m.len(), m.mtime(), m.mtime_nsec());
        stream.say(&Ends {
            sha256: hex(context.finish().as_ref()),
            whole: stamp(&before) == stamp(&after) && at == after.len(),
        })
    }
}

/// Opens a file of a generation, without following any link.
fn open(generation: &Generation, place: &Place) -> io::Result<File> {
    let none = || io::Error::from(io::ErrorKind::NotFound);
    let (dir, name) = match place {
        Place::Beside(name) if BESIDE.contains(&name.as_str()) => (generation.dir.clone(), name),
        Place::Root(path) if is_below(path) => (generation.root(), path),
        _ => return Err(none()),
    };
    let dir = File::open(dir)?;
    // KERNEL: openat2(2), Linux 5.6. A pipe in the root must not hold this up.
    let file = File::from(rustix::fs::openat2(
        &dir,
        name.as_str(),
        OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK,
        Mode::empty(),
        ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS,
    )?);
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(none()),
    }
}

/// For messages about a stream.
pub(super) fn of_stream<T>(server: &str, said: io::Result<T>) -> Result<T, BootError> {
    said.at(std::path::Path::new(&format!("boot server {server}")))
}
