//! The file of this node's program: replaced whole, or not at all, with the one of before kept beside it.

use crate::error::{FarmError, refusal};
use armento_client::api::{Build, PROGRAM_MAX, ProgramVersions};
use armento_client::hex::hex;
use armento_link::ca_hash;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// What the kernel appends to the name of a file that is there no more (proc_pid_exe(5)).
const DELETED: &str = " (deleted)";
/// A program says its versions in milliseconds.
const SAYS: Duration = Duration::from_secs(10);
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// Most that a program says of itself, bytes.
const SAID_MAX: u64 = 4096;

/// Where this process was started from, whatever is there by now.
pub fn own_program() -> io::Result<PathBuf> {
    let link = fs::read_link("/proc/self/exe")?;
    let text = link.to_string_lossy();
    Ok(match text.strip_suffix(DELETED) {
        Some(path) => path.into(),
        None => link,
    })
}

/// SHA-256 of the program of this process, which is read once.
pub fn own_hash() -> Option<&'static str> {
    static HASH: OnceLock<Option<String>> = OnceLock::new();
    let read = || Some(hex(&ca_hash(&fs::read("/proc/self/exe").ok()?)));
    HASH.get_or_init(read).as_deref()
}

/// Whether process `pid` runs this program: its file, or a copy of it, which is compared once. `None`: it cannot be looked
/// at, or has ended.
pub fn runs_own_program(pid: i32) -> Option<bool> {
    static COMPARED: Mutex<Vec<(Look, bool)>> = Mutex::new(Vec::new());
    let own = look(Path::new("/proc/self/exe"))?;
    let path = PathBuf::from(format!("/proc/{pid}/exe"));
    let its = look(&path)?;
    if its == own {
        return Some(true);
    }
    let mut compared = COMPARED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, same)) = compared.iter().find(|(look, _)| *look == its) {
        return Some(*same);
    }
    let same = its.size == own.size && program_hash(&path).ok()?.0 == own_hash()?;
    if compared.len() >= COMPARED_MAX {
        compared.remove(0);
    }
    compared.push((its, same));
    Some(same)
}

/// Copies of which it is remembered whether they are this program.
const COMPARED_MAX: usize = 16;

/// One state of a file.
#[derive(PartialEq, Eq)]
struct Look {
    file: (u64, u64),
    size: u64,
    changed: (i64, i64),
}

fn look(path: &Path) -> Option<Look> {
    let it = fs::metadata(path).ok()?;
    Some(Look {
        file: (it.dev(), it.ino()),
        size: it.size(),
        changed: (it.ctime(), it.ctime_nsec()),
    })
}

/// SHA-256 of a program's file, hexadecimal, and its size.
pub fn program_hash(path: &Path) -> Result<(String, u64), FarmError> {
    let what = format!("cannot read {}", path.display());
    let file = File::open(path).map_err(FarmError::state(what.clone()))?;
    let bytes = bounded(file).map_err(FarmError::state(what))?;
    Ok((hex(&ca_hash(&bytes)), bytes.len() as u64))
}

fn bounded(from: impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(PROGRAM_MAX + 1).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > PROGRAM_MAX {
        true => Err(io::Error::other(format!(
            "it is larger than {} MiB",
            PROGRAM_MAX >> 20
        ))),
        false => Ok(bytes),
    }
}

/// Where the program of before is kept.
pub fn previous(path: &Path) -> PathBuf {
    beside(path, "previous")
}

fn beside(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(end);
    name.into()
}

/// Puts the program that `from` holds at `path`. Before it is put there it was started once, and said its versions, which are
/// returned. After `Err` the program at `path` is the one of before.
pub fn install(
    from: impl Read,
    path: &Path,
    sha256: Option<&str>,
) -> Result<ProgramVersions, FarmError> {
    let bytes = bounded(from).map_err(FarmError::state("cannot read the new program"))?;
    let hash = hex(&ca_hash(&bytes));
    if sha256.is_some_and(|wanted| wanted != hash) {
        let what = "the program did not arrive as it was sent (SHA-256); nothing was changed";
        let no = refusal("garbled", what, "send it again");
        return Err(FarmError::Refused(no));
    }
    let new = beside(path, "new");
    let put = write(&new, path, &bytes)
        .map_err(FarmError::state(format!("cannot write {}", new.display())))
        .and_then(|()| versions_of(&new))
        .and_then(|versions| {
            keep(path).map_err(FarmError::state(format!(
                "cannot keep the program of before as {}; nothing was changed",
                previous(path).display()
            )))?;
            exchange(&new, path)?;
            Ok(versions)
        });
    if put.is_err() {
        let _ = fs::remove_file(&new);
    }
    put
}

/// With owner and rights of the program at `path`.
fn write(new: &Path, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let before = fs::metadata(path)?;
    match fs::remove_file(new) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
        _ => {}
    }
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o700)
        .open(new)?;
    file.write_all(bytes)?;
    fchown(&file, Some(before.uid()), Some(before.gid()))?;
    file.set_permissions(Permissions::from_mode(before.mode() & 0o777))?;
    file.sync_all()
}

/// Keeps the program at `path` for a rollback.
fn keep(path: &Path) -> io::Result<()> {
    let link = beside(path, "keep");
    match fs::remove_file(&link) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
        _ => {}
    }
    fs::hard_link(path, &link)?;
    fs::rename(&link, previous(path))
}

/// `new` takes the place of `path`, and the directory is on the disk.
fn exchange(new: &Path, path: &Path) -> Result<(), FarmError> {
    let what = format!("cannot replace {}; nothing was changed", path.display());
    fs::rename(new, path).map_err(FarmError::state(what))?;
    if let Some(dir) = path.parent().and_then(|dir| File::open(dir).ok()) {
        // Some file systems cannot; the rename holds all the same.
        let _ = dir.sync_all();
    }
    Ok(())
}

/// Puts the program of before at `path` again. It stays kept, too.
pub fn rollback(path: &Path) -> Result<ProgramVersions, FarmError> {
    let kept = previous(path);
    if !kept.exists() {
        let what = format!("there is no {}; nothing was changed", kept.display());
        let hint = "only `armento farm upgrade` keeps the program of before";
        return Err(FarmError::Refused(refusal("no-previous", what, hint)));
    }
    let versions = versions_of(&kept)?;
    let new = beside(path, "new");
    let what = format!("cannot put {} back", kept.display());
    let _ = fs::remove_file(&new);
    fs::hard_link(&kept, &new).map_err(FarmError::state(what))?;
    exchange(&new, path)?;
    Ok(versions)
}

/// What the program says of itself. One from before that verb says its version only.
pub fn versions_of(path: &Path) -> Result<ProgramVersions, FarmError> {
    if let Some(said) = says(path, &["service", "versions"])
        && let Ok(versions) = serde_json::from_str(&said)
    {
        return Ok(versions);
    }
    let said = says(path, &["--version"]);
    let version = said.as_deref().and_then(|s| s.strip_prefix("armento "));
    match version {
        Some(version) => Ok(ProgramVersions {
            build: Build {
                version: version.trim().to_owned(),
                engine: 0,
            },
            control: 0,
        }),
        None => {
            let what = format!(
                "{} does not run here, or is not armento; nothing was changed",
                path.display()
            );
            let hint = "is it built for this processor and its C library, and does its file system allow programs (noexec)? start \
                        it with --version; --package unpacks below TMPDIR";
            Err(FarmError::Refused(refusal("bad-program", what, hint)))
        }
    }
}

/// Its standard output, if it ends well and soon.
fn says(path: &Path, args: &[&str]) -> Option<String> {
    let mut child = Command::new(path)
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    let until = Instant::now() + SAYS;
    loop {
        match child.try_wait() {
            Ok(Some(status)) if status.success() => break,
            Ok(None) if Instant::now() < until => sleep(LOOK_EVERY),
            _ => {
                // It is our child and not reaped, so the pid is its own.
                let _ = child.kill();
                let _ = child.wait();
                return None;
            }
        }
    }
    let mut said = String::new();
    let out = child.stdout.take()?;
    out.take(SAID_MAX).read_to_string(&mut said).ok()?;
    Some(said)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory of its own, removed at the end.
    struct Dir(PathBuf);

    impl Dir {
        fn new(what: &str) -> Dir {
            let name = format!("armento-program-{}-{what}", std::process::id());
            let dir = std::env::temp_dir().join(name);
            fs::create_dir_all(&dir).expect("a directory");
            Dir(dir)
        }

        /// A program that says this version.
        fn program(&self, version: &str) -> PathBuf {
            let path = self.0.join("armento");
            let text = script(version);
            fs::write(&path, text).expect("a program");
            fs::set_permissions(&path, Permissions::from_mode(0o755)).expect("rights");
            path
        }
    }

    impl Drop for Dir {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn script(version: &str) -> String {
        format!("#!/bin/sh\ntest \"$1\" = --version && echo armento {version}\n")
    }

    fn version(path: &Path) -> String {
        versions_of(path).expect("it says").build.version
    }

    #[test]
    fn a_program_is_replaced_and_put_back() {
        let dir = Dir::new("replaced");
        let path = dir.program("1.0");
        let new = script("2.0");
        let hash = hex(&ca_hash(new.as_bytes()));
        let versions = install(new.as_bytes(), &path, Some(&hash)).expect("it is put there");
        assert_eq!(
            (versions.build.version.as_str(), version(&path).as_str()),
            ("2.0", "2.0")
        );
        assert_eq!(fs::metadata(&path).expect("it").mode() & 0o777, 0o755);
        assert_eq!(
            rollback(&path).expect("it is put back").build.version,
            "1.0"
        );
        assert_eq!(version(&path), "1.0");
        assert_eq!(fs::read_dir(&dir.0).expect("files").count(), 2);
    }

    #[test]
    fn a_copy_of_this_program_is_the_same_program() {
        let dir = Dir::new("copy");
        let copy = dir.0.join("copy");
        fs::copy("/proc/self/exe", &copy).expect("a copy");
        let runs = |program: &str| {
            // A full pipe: it stands at its first write. KERNEL: pipe(7): 64 KiB.
            let (_reader, mut writer) = io::pipe().expect("a pipe");
            writer.write_all(&[0; 64 << 10]).expect("room");
            let mut child = Command::new(program);
            child.arg("--help").stdin(Stdio::null()).stdout(writer);
            let mut child = child.spawn().expect("a process");
            let same = runs_own_program(child.id() as i32);
            let _ = child.kill();
            let _ = child.wait();
            same
        };
        assert_eq!(runs("/bin/cat"), Some(false));
        assert_eq!(runs_own_program(std::process::id() as i32), Some(true));
        assert_eq!(runs(&copy.to_string_lossy()), Some(true));
        assert_eq!(runs_own_program(i32::MAX), None);
    }

    #[test]
    fn what_is_no_program_replaces_nothing() {
        let dir = Dir::new("bad");
        let path = dir.program("1.0");
        let wrong = install(&b"#!/bin/sh\nexit 1\n"[..], &path, None);
        assert!(
            wrong
                .expect_err("refused")
                .to_string()
                .contains("does not run here")
        );
        let wrong = install(script("2.0").as_bytes(), &path, Some("00"));
        assert!(wrong.expect_err("refused").to_string().contains("SHA-256"));
        assert_eq!(version(&path), "1.0");
        assert!(
            rollback(&path)
                .expect_err("nothing kept")
                .to_string()
                .contains("previous")
        );
        assert_eq!(fs::read_dir(&dir.0).expect("files").count(), 1);
    }
}
