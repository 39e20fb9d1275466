//! Which server's copy of a generation is edited, and which generation nodes boot, as boot servers tell each other.

use super::store::{Generation, Store, names_in};
use crate::problem::{At, BootError};
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::PathBuf;

const LEAD: &str = "lead";
const CHOICE: &str = "choice";
const COPY: &str = ".copy-";

/// Whose root is edited; the others follow it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lead {
    /// Grows each time another server takes it over.
    pub turn: u64,
    /// A boot server, as the inventory calls it.
    pub server: String,
}

/// Which generation nodes boot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Choice {
    /// Grows with each choice. 0: none was made, it is the image's first.
    pub turn: u64,
    pub number: u32,
    pub previous: Option<u32>,
}

impl Choice {
    /// Whether this was chosen after `other`; of two that were chosen apart the higher number counts. The generation before may be
    /// missing on one server, and says nothing.
    pub fn is_after(&self, other: &Choice) -> bool {
        (self.turn, self.number) > (other.turn, other.number)
    }
}

impl Store {
    /// The lead of a generation. `own`: this server, which leads what was made here.
    pub fn lead(&self, generation: &Generation, own: &str) -> Lead {
        let written = fs::read(generation.file(LEAD)).ok();
        let written = written.and_then(|bytes| serde_json::from_slice(&bytes).ok());
        written.unwrap_or_else(|| Lead {
            turn: 0,
            server: own.to_owned(),
        })
    }

    pub fn set_lead(&self, generation: &Generation, lead: &Lead) -> Result<(), BootError> {
        write(&generation.file(LEAD), lead)
    }

    /// Makes this server the one whose root is edited.
    pub fn take_lead(&self, generation: &Generation, own: &str) -> Result<Lead, BootError> {
        let before = self.lead(generation, own);
        if before.server == own && before.turn > 0 {
            return Ok(before);
        }
        let lead = Lead {
            turn: before.turn + 1,
            server: own.to_owned(),
        };
        self.set_lead(generation, &lead)?;
        Ok(lead)
    }

    /// When a generation was made: with its number it says which one it is.
    pub fn made(&self, generation: &Generation) -> Result<u64, BootError> {
        let path = generation.file("manifest.json");
        let changed = fs::metadata(&path).at(&path)?.modified().at(&path)?;
        let mut known = self
            .known
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some((at, made)) = known.get(&path).filter(|(at, _)| *at == changed) {
            let _ = at;
            return Ok(*made);
        }
        let made = generation.manifest()?.made;
        known.insert(path, (changed, made));
        Ok(made)
    }

    /// A generation that is complete.
    pub fn get(&self, image: &str, number: u32) -> Option<Generation> {
        let generation = self.generation(image, number);
        let whole = generation.file("manifest.json").is_file();
        whole.then_some(generation)
    }

    /// All complete generations of an image.
    pub fn of_image(&self, image: &str) -> Result<Vec<Generation>, BootError> {
        let numbers = self.numbers(image)?;
        Ok(numbers
            .into_iter()
            .map(|n| self.generation(image, n))
            .collect())
    }

    /// Which generation nodes boot; none of an image without one.
    pub fn choice(&self, image: &str) -> Option<Choice> {
        let (number, previous) = self.links(image);
        let number = number?;
        let written = fs::read(self.dir_of(image).join(CHOICE)).ok();
        let written: Option<Choice> = written.and_then(|b| serde_json::from_slice(&b).ok());
        Some(Choice {
            turn: written.map_or(0, |c| c.turn),
            number,
            previous,
        })
    }

    /// Takes over a choice of another server, if it is a later one and its generation is here; true if it did.
    pub fn adopt(&self, image: &str, choice: &Choice) -> Result<bool, BootError> {
        let _lock = self.lock(image)?;
        // Under the lock: a command that chooses here has replaced the links before it writes its turn.
        let mine = self.choice(image);
        let later = mine.is_none_or(|m| choice.is_after(&m));
        if !later || self.get(image, choice.number).is_none() {
            return Ok(false);
        }
        if let Some(previous) = choice.previous.filter(|n| self.get(image, *n).is_some()) {
            self.point_previous(image, previous)?;
        }
        self.point_current(image, choice.number)?;
        write(&self.dir_of(image).join(CHOICE), choice)?;
        Ok(true)
    }

    /// Notes that a choice was made here. Before: the image's lock, and its links say the choice.
    pub(super) fn chosen(&self, image: &str) -> Result<(), BootError> {
        match self.choice(image) {
            None => Ok(()),
            Some(choice) => {
                let choice = Choice {
                    turn: choice.turn + 1,
                    ..choice
                };
                write(&self.dir_of(image).join(CHOICE), &choice)
            }
        }
    }

    /// A directory for a generation that is being copied, as an interrupted attempt left it.
    pub fn copying(&self, image: &str, number: u32, lead: &Lead) -> Result<PathBuf, BootError> {
        let dir = self.dir_of(image).join(format!("{COPY}{number}"));
        fs::create_dir_all(&dir).at(&dir)?;
        write(&dir.join(LEAD), lead)?;
        Ok(dir)
    }

    /// Makes a copy that is complete a generation; `copy.dir` is its directory so far.
    pub fn copied(&self, copy: &Generation) -> Result<Generation, BootError> {
        let _lock = self.lock(&copy.image)?;
        let generation = self.generation(&copy.image, copy.number);
        let _ = fs::remove_file(copy.dir.join(".incoming"));
        // A power cut must not leave a name without its files.
        let whole = fs::File::open(&copy.dir).at(&copy.dir)?;
        rustix::fs::syncfs(&whole)
            .map_err(std::io::Error::from)
            .at(&copy.dir)?;
        fs::rename(&copy.dir, &generation.dir).at(&generation.dir)?;
        Ok(generation)
    }

    /// Removes copies that are not complete, whose generation is `gone`.
    pub fn drop_copies(
        &self,
        image: &str,
        gone: &dyn Fn(u32, &Lead) -> bool,
    ) -> Result<(), BootError> {
        let dir = self.dir_of(image);
        for name in names_in(&dir)? {
            let Some(number) = name.strip_prefix(COPY).and_then(|n| n.parse().ok()) else {
                continue;
            };
            let copy = dir.join(&name);
            let lead = fs::read(copy.join(LEAD)).ok();
            let lead = lead.and_then(|bytes| serde_json::from_slice(&bytes).ok());
            if lead.is_none_or(|l| gone(number, &l)) {
                fs::remove_dir_all(&copy).at(&copy)?;
            }
        }
        Ok(())
    }

    /// The highest number that a generation ever had, here or on another server.
    pub fn last(&self, image: &str) -> Result<u32, BootError> {
        let used = self.numbers(image)?.into_iter().max().unwrap_or(0);
        let noted = fs::read_to_string(self.dir_of(image).join("last")).ok();
        let noted = noted.and_then(|n| n.trim().parse().ok()).unwrap_or(0);
        Ok(used.max(noted))
    }

    /// Generations that are made here get higher numbers than this from now on.
    pub fn note_last(&self, image: &str, last: u32) -> Result<(), BootError> {
        if self.last(image)? >= last {
            return Ok(());
        }
        let dir = self.dir_of(image);
        fs::create_dir_all(&dir).at(&dir)?;
        let _lock = self.lock(image)?;
        match self.last(image)? < last {
            true => crate::layout::replace(&dir.join("last"), format!("{last}\n").as_bytes()),
            false => Ok(()),
        }
    }
}

fn write(path: &std::path::Path, what: &impl Serialize) -> Result<(), BootError> {
    let bytes = serde_json::to_vec(what).map_err(|e| BootError::Damaged {
        path: path.to_owned(),
        what: e.to_string(),
    })?;
    crate::layout::replace(path, &bytes)
}
