//! Copies of home's files that the hosts of one user share on this node.
//!
//! Two dozen trees of one program would otherwise each fetch its libraries, and keep them in memory. The
//! directory belongs to one home and user: a process that can write there could have sent other bytes anyway.
//! Names are keys ([`memfd_name`]), and a name appears only when its file is complete.

use crate::sys;
use armento_migrate::files::SIZES;
use armento_migrate::image::areas::memfd_name;
use armento_migrate::image::files::rescued;
use armento_migrate::{MigrateError, Result};
use armento_model::Stay;
use armento_tracee::sys as tsys;
use armento_wire::talk::FileKey;
use std::fs::{self, File, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

/// All files of one home and user together, bytes. The least recently used goes first.
const TOTAL_MAX: u64 = 512 << 20;
/// How long another host may take to fetch the same file before this one does it itself.
pub const OTHER_MAX: Duration = Duration::from_secs(5);
/// No library is larger than this, bytes.
const ONE_MAX: u64 = *SIZES.end();

pub struct Cache {
    /// `None`: nowhere to keep them; every host then has its own.
    dir: Option<File>,
    /// Bytes of this host's drafts in it: beyond [`TOTAL_MAX`] no more are begun there.
    drafts: Arc<AtomicU64>,
}

/// A copy that is being written: in the cache, or this host's alone.
pub struct Draft {
    pub file: File,
    in_cache: Option<InCache>,
}

struct InCache {
    name: String,
    size: u64,
    drafts: Arc<AtomicU64>,
}

impl InCache {
    /// `None`: there are too many already.
    fn begin(cache: &Cache, name: &str, size: u64) -> Option<InCache> {
        let drafts = cache.drafts.clone();
        // Subtracted when it is dropped, in any case.
        let before = drafts.fetch_add(size, Ordering::Relaxed);
        let one = InCache {
            name: name.to_owned(),
            size,
            drafts,
        };
        (before.saturating_add(size) <= TOTAL_MAX).then_some(one)
    }
}

impl Drop for InCache {
    fn drop(&mut self) {
        self.drafts.fetch_sub(self.size, Ordering::Relaxed);
    }
}

impl Cache {
    /// Before this process becomes the guests' user: only the directory itself is open to that one.
    pub fn open(dir: Option<&Path>) -> Cache {
        // A file on a noexec mount cannot be mapped to be executed either.
        let dir = dir.and_then(|d| File::open(d).ok());
        Cache {
            dir: dir.filter(sys::may_execute),
            drafts: Arc::default(),
        }
    }

    fn path(&self, name: &str) -> Option<PathBuf> {
        let dir = self.dir.as_ref()?;
        Some(format!("/proc/self/fd/{}/{name}", dir.as_raw_fd()).into())
    }

    /// The file, if it is in the cache.
    pub fn get(&self, key: &FileKey, shared: bool) -> Option<File> {
        let f = File::open(self.path(&memfd_name(key, shared))?).ok()?;
        // For `make_room`. Only its owner may set it; the uses of other hosts do not count.
        let _ = f.set_modified(SystemTime::now());
        (f.metadata().ok()?.len() == key.size).then_some(f)
    }

    /// A file to write it to; or the file itself, if another host writes it and is done within `wait`.
    pub fn draft(
        &self,
        key: &FileKey,
        shared: bool,
        wait: Duration,
    ) -> Result<std::result::Result<File, Draft>> {
        let name = memfd_name(key, shared);
        if key.size <= ONE_MAX
            && !rescued(key)
            && let Some(in_cache) = InCache::begin(self, &name, key.size)
            && let Some(file) = self.part(&name, wait)
        {
            if let Some(done) = self.get(key, shared) {
                self.drop_part(&name);
                return Ok(Ok(done));
            }
            self.make_room(key.size);
            // Allocated at once: a full disk is noticed here.
            if file.set_len(0).is_ok() && sys::reserve(&file, key.size).is_ok() {
                let in_cache = Some(in_cache);
                return Ok(Err(Draft { file, in_cache }));
            }
        }
        let file = new_copy(key, shared)?;
        let in_cache = None;
        Ok(Err(Draft { file, in_cache }))
    }

    /// The unfinished file of that name, locked.
    fn part(&self, name: &str, wait: Duration) -> Option<File> {
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .mode(0o666)
            .open(self.path(&format!("{name}.part"))?)
            .ok()?;
        // The host that began it may have ended: the next one goes on.
        let _ = file.set_permissions(fs::Permissions::from_mode(0o666));
        let until = Instant::now() + wait;
        while !sys::try_lock(&file) {
            if Instant::now() >= until {
                return None;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Some(file)
    }

    fn drop_part(&self, name: &str) {
        if let Some(path) = self.path(&format!("{name}.part")) {
            let _ = fs::remove_file(path);
        }
    }

    /// It is complete: other hosts may have it.
    pub fn publish(&self, draft: Draft) -> File {
        let Draft { file, in_cache } = draft;
        let done = in_cache.and_then(|c| {
            let to = self.path(&c.name)?;
            fs::rename(self.path(&format!("{}.part", c.name))?, &to).ok()?;
            File::open(to).ok()
        });
        done.unwrap_or(file)
    }

    fn make_room(&self, need: u64) {
        let Some(dir) = self.path("") else { return };
        let mut all: Vec<(SystemTime, u64, PathBuf)> = fs::read_dir(dir)
            .into_iter()
            .flatten()
            .flatten()
            .filter_map(|e| {
                let m = e.metadata().ok()?;
                Some((m.modified().ok()?, m.len(), e.path()))
            })
            .collect();
        all.sort();
        let mut total: u64 = all.iter().map(|a| a.1).sum::<u64>() + need;
        for (_, len, path) in all {
            if total <= TOTAL_MAX {
                return;
            }
            // A process that has it open keeps it.
            if fs::remove_file(path).is_ok() {
                total -= len;
            }
        }
    }
}

/// An empty memory file of a home file's size and name.
fn new_copy(key: &FileKey, shared: bool) -> Result<File> {
    tsys::memfd(&memfd_name(key, shared), key.size)
        .map_err(|e| MigrateError::Stays(Stay::NoRoom, e.to_string()))
}
