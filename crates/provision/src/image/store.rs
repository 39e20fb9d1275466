//! The images of a boot directory, and which generation nodes boot.

use super::draft::Draft;
use super::manifest::Manifest;
use crate::layout::BootDir;
use crate::problem::{At, BootError};
use std::collections::HashMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

/// Letters of an image's name: it is part of paths, of URLs and of kernel command lines.
const NAME_MAX: usize = 64;
const CURRENT: &str = "current";
const PREVIOUS: &str = "previous";

/// The images of one boot directory.
#[derive(Clone, Debug)]
pub struct Store {
    dir: PathBuf,
    /// When generations were made, by their manifests: these are long.
    pub(super) known: Arc<Mutex<HashMap<PathBuf, (SystemTime, u64)>>>,
}

/// A complete generation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Generation {
    pub image: String,
    pub number: u32,
    pub dir: PathBuf,
}

impl Generation {
    /// The root's directory.
    pub fn root(&self) -> PathBuf {
        self.dir.join("root")
    }

    /// A file beside the root: `vmlinuz`, `initrd`, `root.erofs`, `manifest.json`.
    pub fn file(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    pub fn manifest(&self) -> Result<Manifest, BootError> {
        Manifest::load(&self.file("manifest.json"))
    }
}

impl std::fmt::Display for Generation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}@{}", self.image, self.number)
    }
}

/// An image as a command names it: `NAME`, or `NAME@GEN`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    pub image: String,
    pub number: Option<u32>,
}

impl FromStr for Wanted {
    type Err = String;

    fn from_str(text: &str) -> Result<Wanted, String> {
        let (image, number) = match text.split_once('@') {
            None => (text, None),
            Some((image, number)) => match number.parse::<u32>() {
                Ok(n) if n > 0 => (image, Some(n)),
                _ => {
                    return Err(format!(
                        "`{number}` is no generation: write {image}@1, as `armento boot image list` shows it"
                    ));
                }
            },
        };
        check_name(image)?;
        Ok(Wanted {
            image: image.to_owned(),
            number,
        })
    }
}

/// Refuses names that could be read as a path, an option or two words.
pub fn check_name(name: &str) -> Result<(), String> {
    let letters = |b: u8| b.is_ascii_alphanumeric() || b"._-".contains(&b);
    let good = name.len() <= NAME_MAX
        && name.bytes().all(letters)
        && name
            .bytes()
            .next()
            .is_some_and(|b| b.is_ascii_alphanumeric());
    match good {
        true => Ok(()),
        false => Err(format!(
            "`{name}` is no name of an image: letters, digits, `.`, `_` and `-`, {NAME_MAX} at most"
        )),
    }
}

/// One line of `list`.
#[derive(Clone, Debug)]
pub struct Listed {
    pub generation: Generation,
    pub current: bool,
    pub previous: bool,
}

impl Store {
    pub fn new(boot: &BootDir) -> Store {
        Store {
            dir: boot.images(),
            known: Arc::default(),
        }
    }

    /// All complete generations, by name and number. Drafts are not listed.
    pub fn list(&self) -> Result<Vec<Listed>, BootError> {
        let mut all = Vec::new();
        for image in self.images()? {
            let (current, previous) = (self.link(&image, CURRENT), self.link(&image, PREVIOUS));
            for number in self.numbers(&image)? {
                all.push(Listed {
                    current: current == Some(number),
                    previous: previous == Some(number),
                    generation: self.generation(&image, number),
                });
            }
        }
        Ok(all)
    }

    /// Names of images with a generation, sorted.
    pub fn images(&self) -> Result<Vec<String>, BootError> {
        let mut names = Vec::new();
        for name in names_in(&self.dir)? {
            if check_name(&name).is_ok() && !self.numbers(&name)?.is_empty() {
                names.push(name);
            }
        }
        names.sort();
        Ok(names)
    }

    /// The generation that is meant: without a number the one in use.
    pub fn find(&self, wanted: &Wanted) -> Result<Generation, BootError> {
        let numbers = self.numbers(&wanted.image)?;
        let number = match wanted.number {
            Some(number) => Some(number),
            None => self
                .link(&wanted.image, CURRENT)
                .or(numbers.last().copied()),
        };
        match number.filter(|n| numbers.contains(n)) {
            Some(number) => Ok(self.generation(&wanted.image, number)),
            None if numbers.is_empty() => Err(BootError::refused(
                format!("there is no image `{}`", wanted.image),
                "armento boot image list shows those that there are; build or import one",
            )),
            None => Err(BootError::refused(
                format!(
                    "{} has no generation {}",
                    wanted.image,
                    number.unwrap_or_default()
                ),
                format!(
                    "it has {}",
                    numbers
                        .iter()
                        .map(u32::to_string)
                        .collect::<Vec<_>>()
                        .join(", ")
                ),
            )),
        }
    }

    /// The image of a node: the one that its profile names, or the only one.
    pub fn of_node(&self, image: Option<&str>) -> Result<Generation, BootError> {
        let images = self.images()?;
        let name = match (image, images.as_slice()) {
            (Some(name), _) => name.to_owned(),
            (None, [only]) => only.clone(),
            (None, []) => {
                return Err(BootError::refused(
                    "there is no image yet",
                    "armento boot image build NAME makes one of Debian's packages",
                ));
            }
            (None, several) => {
                return Err(BootError::refused(
                    format!("there are several images: {}", several.join(", ")),
                    "choose one in the node's profile: image = \"NAME\"",
                ));
            }
        };
        self.find(&Wanted {
            image: name,
            number: None,
        })
    }

    /// Makes nodes boot this generation from now on. Returns the one before, if there was one.
    pub fn use_generation(&self, wanted: &Wanted) -> Result<(Generation, Option<u32>), BootError> {
        let generation = self.find(wanted)?;
        let _lock = self.lock(&generation.image)?;
        let before = self.link(&generation.image, CURRENT);
        if before != Some(generation.number) {
            if let Some(before) = before {
                self.point(&generation.image, PREVIOUS, before)?;
            }
            self.point(&generation.image, CURRENT, generation.number)?;
            self.chosen(&generation.image)?;
        }
        Ok((generation, before))
    }

    /// Makes nodes boot the generation that they booted before the last `use`.
    pub fn back(&self, image: &str) -> Result<Generation, BootError> {
        let number = self.before(image)?;
        let (generation, _) = self.use_generation(&Wanted {
            image: image.to_owned(),
            number: Some(number),
        })?;
        Ok(generation)
    }

    /// The generation to which `back` returns.
    pub fn before(&self, image: &str) -> Result<u32, BootError> {
        let there = self.numbers(image)?;
        let number = self.link(image, PREVIOUS).filter(|n| there.contains(n));
        number.ok_or_else(|| {
            BootError::refused(
                format!("no generation of `{image}` was in use before this one"),
                "armento boot image list shows them; `armento boot image use NAME@GEN` chooses one",
            )
        })
    }

    /// Whether nodes boot this generation.
    pub fn is_current(&self, generation: &Generation) -> bool {
        self.link(&generation.image, CURRENT) == Some(generation.number)
    }

    /// Removes a generation. `users`: nodes that run from it.
    pub fn remove(&self, generation: &Generation, users: &[String]) -> Result<(), BootError> {
        let _lock = self.lock(&generation.image)?;
        if self.is_current(generation) {
            return Err(BootError::refused(
                format!("{generation} is the one that nodes boot"),
                "choose another one with `armento boot image use` first",
            ));
        }
        if !users.is_empty() {
            return Err(BootError::refused(
                format!("{generation} is the root of {}", users.join(", ")),
                "restart these nodes from another generation first: armento boot reboot",
            ));
        }
        // Not listed from here on, also if the removal is interrupted.
        let gone = self.dir.join(&generation.image).join(format!(
            ".gone-{}-{}",
            generation.number,
            std::process::id()
        ));
        fs::rename(&generation.dir, &gone).at(&generation.dir)?;
        fs::remove_dir_all(&gone).at(&gone)
    }

    /// A place for a new generation; what killed commands left there is removed.
    pub fn draft(&self, image: &str) -> Result<Draft, BootError> {
        check_name(image).map_err(|what| BootError::refused(what, "for example: base"))?;
        let dir = self.dir.join(image);
        fs::create_dir_all(&dir).at(&dir)?;
        for name in names_in(&dir)? {
            let pid = name.strip_prefix(".new-").or(name
                .strip_prefix(".gone-")
                .and_then(|n| n.split('-').nth(1)));
            if let Some(pid) = pid
                && !Path::new("/proc").join(pid).exists()
            {
                let left = dir.join(&name);
                fs::remove_dir_all(&left).at(&left)?;
            }
        }
        Draft::new(image, dir.join(format!(".new-{}", std::process::id())))
    }

    /// Makes a complete draft the next generation. After: it is listed, and in use if it is the image's first.
    pub(super) fn commit(&self, image: &str, draft: &Path) -> Result<Generation, BootError> {
        let _lock = self.lock(image)?;
        // Numbers are not used twice, also when the last one was removed: handles of files contain them.
        let counter = self.dir.join(image).join("last");
        let number = self.last(image)?.saturating_add(1);
        crate::layout::replace(&counter, format!("{number}\n").as_bytes())?;
        let generation = self.generation(image, number);
        // A power cut must not leave a name without its files.
        let whole = fs::File::open(draft).at(draft)?;
        rustix::fs::syncfs(&whole)
            .map_err(std::io::Error::from)
            .at(draft)?;
        fs::rename(draft, &generation.dir).at(&generation.dir)?;
        if self.link(image, CURRENT).is_none() {
            self.point(image, CURRENT, number)?;
        }
        Ok(generation)
    }

    pub(super) fn dir_of(&self, image: &str) -> PathBuf {
        self.dir.join(image)
    }

    /// The numbers of the generations in use, and in use before.
    pub(super) fn links(&self, image: &str) -> (Option<u32>, Option<u32>) {
        (self.link(image, CURRENT), self.link(image, PREVIOUS))
    }

    pub(super) fn point_current(&self, image: &str, number: u32) -> Result<(), BootError> {
        self.point(image, CURRENT, number)
    }

    pub(super) fn point_previous(&self, image: &str, number: u32) -> Result<(), BootError> {
        self.point(image, PREVIOUS, number)
    }

    pub(super) fn generation(&self, image: &str, number: u32) -> Generation {
        Generation {
            image: image.to_owned(),
            number,
            dir: self.dir.join(image).join(number.to_string()),
        }
    }

    pub(super) fn numbers(&self, image: &str) -> Result<Vec<u32>, BootError> {
        let dir = self.dir.join(image);
        let names = names_in(&dir)?;
        let whole = |n: &u32| dir.join(n.to_string()).join("manifest.json").is_file();
        let mut numbers: Vec<u32> = names
            .iter()
            .filter_map(|n| n.parse().ok())
            .filter(whole)
            .collect();
        numbers.sort_unstable();
        Ok(numbers)
    }

    fn link(&self, image: &str, name: &str) -> Option<u32> {
        let to = fs::read_link(self.dir.join(image).join(name)).ok()?;
        to.to_str()?.parse().ok()
    }

    /// Replaces a link at once: a reader sees the old or the new one.
    fn point(&self, image: &str, name: &str, number: u32) -> Result<(), BootError> {
        let link = self.dir.join(image).join(name);
        let new = self
            .dir
            .join(image)
            .join(format!(".{name}-{}", std::process::id()));
        let _ = fs::remove_file(&new);
        std::os::unix::fs::symlink(number.to_string(), &new).at(&new)?;
        fs::rename(&new, &link).at(&link)
    }

    /// One command at a time changes an image.
    pub(super) fn lock(&self, image: &str) -> Result<File, BootError> {
        let path = self.dir.join(image).join(".lock");
        let file = File::create(&path).at(&path)?;
        file.lock().at(&path)?;
        Ok(file)
    }
}

/// Names in a directory; none where it is not there.
pub(super) fn names_in(dir: &Path) -> Result<Vec<String>, BootError> {
    let entries = match fs::read_dir(dir) {
        Err(e)
            if matches!(
                e.kind(),
                std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory
            ) =>
        {
            return Ok(Vec::new());
        }
        entries => entries.at(dir)?,
    };
    let mut names = Vec::new();
    for entry in entries {
        names.push(entry.at(dir)?.file_name().to_string_lossy().into_owned());
    }
    Ok(names)
}
