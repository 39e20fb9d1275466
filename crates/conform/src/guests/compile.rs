//! Compiles guests in C, C++ and Go, once for each source text, into a cache from which any user can run them.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::guests::sources::headers;
use crate::sys;
use crate::tree::sha256;
use crate::user::PATH;

/// Low optimisation, with threads.
const FLAGS: &[&str] = &["-O1", "-pthread", "-w"];
const C: (&str, &str) = ("gcc", "-std=gnu11");
const CXX: (&str, &str) = ("g++", "-std=gnu++17");
const LIBRARIES: &[&str] = &["-lm", "-lrt"];

/// Programs of other sources are kept this long, so that the cache does not grow forever.
const KEEP: Duration = Duration::from_secs(24 * 3600);

/// The cache; guests run as another user, so it cannot be below a home directory.
fn cache() -> PathBuf {
    PathBuf::from(format!("/var/tmp/armento-guests-{}", sys::user()))
}

/// Creates a cache, and refuses one that another user created.
pub fn own_folder(cache: &Path) -> Result<()> {
    if let Err(cause) = fs::create_dir(cache)
        && cause.kind() != ErrorKind::AlreadyExists
    {
        return Err(cause).with_context(|| format!("cannot make {}", cache.display()));
    }
    let meta = fs::symlink_metadata(cache)?;
    if !meta.is_dir() || meta.uid() != sys::user() {
        bail!(
            "{0} is not ours; nothing was run\nhint: remove {0}",
            cache.display()
        );
    }
    fs::set_permissions(cache, fs::Permissions::from_mode(0o755))?;
    Ok(())
}

pub fn forget_old(cache: &Path) {
    let entries = fs::read_dir(cache).into_iter().flatten().flatten();
    for path in entries.map(|entry| entry.path()) {
        let age = fs::metadata(&path).and_then(|meta| meta.modified()).ok();
        if age
            .and_then(|time| time.elapsed().ok())
            .is_some_and(|age| age > KEEP)
        {
            // Another session may be removing it too.
            let _ = fs::remove_dir_all(path);
        }
    }
}

/// Compiles `source` unless the cache has it, and returns the program's path.
pub fn compiled(name: &str, file: &str, source: &str) -> Result<PathBuf> {
    let everything: String = headers()
        .map(|(_, text)| text)
        .chain([source])
        .chain(FLAGS.iter().copied())
        .collect();
    let cache = cache();
    own_folder(&cache)?;
    let folder = cache.join(&sha256(everything.as_bytes())[..16]);
    let program = folder.join(name);
    if program.is_file() {
        return Ok(program);
    }
    if !folder.is_dir() {
        forget_old(&cache);
        fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o755))?;
    }
    // Two runners may compile the same guest: each writes its own file, the last rename wins.
    let own = folder.join(format!("{name}.{}", std::process::id()));
    compile(file, source, &folder, &own)?;
    fs::rename(&own, &program)?;
    Ok(program)
}

/// Compiler and command for `file`, which is written already.
fn compiler(file: &str, folder: &Path, program: &Path) -> (&'static str, Command) {
    let go = file.ends_with(".go");
    let (name, standard) = match go {
        true => ("go", "build"),
        false if file.ends_with(".cc") => CXX,
        false => C,
    };
    let mut command = Command::new(name);
    command.arg(standard).arg("-o").arg(program);
    if go {
        // Without network access and user settings.
        command
            .env("PATH", PATH)
            .env("GOCACHE", folder.join("go-build"))
            .env("GOTOOLCHAIN", "local")
            .env("GO111MODULE", "off")
            .env("CGO_ENABLED", "0")
            .arg(folder.join(file));
    } else {
        command.args(FLAGS).arg(folder.join(file)).args(LIBRARIES);
    }
    (name, command)
}

fn compile(file: &str, source: &str, folder: &Path, program: &Path) -> Result<()> {
    for (header, text) in headers() {
        fs::write(folder.join(header), text)?;
    }
    fs::write(folder.join(file), source)?;
    let (compiler, mut command) = compiler(file, folder, program);
    let done = command.output().with_context(|| {
        format!("cannot start {compiler}\nhint: install the package {compiler}")
    })?;
    if !done.status.success() {
        bail!(
            "{file} does not compile:\n{}",
            String::from_utf8_lossy(&done.stderr)
        );
    }
    Ok(())
}
