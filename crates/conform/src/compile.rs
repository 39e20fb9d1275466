//! C guests become programs, once per source text, in a cache that any user can run from.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::catalog::headers;
use crate::tree::sha256;

/// Optimised as little as a distribution would, with threads.
const FLAGS: &[&str] = &["-std=gnu11", "-O1", "-pthread", "-w"];
const LIBRARIES: &[&str] = &["-lm", "-lrt"];

/// The cache; guests run as another user, so it cannot be below a home directory.
pub fn cache() -> PathBuf {
    let user = if crate::sys::is_root() {
        "root".to_string()
    } else {
        format!("{}", std::process::id())
    };
    PathBuf::from(format!("/var/tmp/armento-guests-{user}"))
}

/// Compiles `source` unless the cache has it, and returns the program's path.
pub fn ensure(name: &str, source: &str) -> Result<PathBuf> {
    let everything: String = headers()
        .map(|(_, text)| text)
        .chain([source])
        .chain(FLAGS.iter().copied())
        .collect();
    let folder = cache().join(&sha256(everything.as_bytes())[..16]);
    let program = folder.join(name);
    if program.is_file() {
        return Ok(program);
    }
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    for folder in [cache(), folder.clone()] {
        fs::set_permissions(folder, fs::Permissions::from_mode(0o755))?;
    }
    // Two workers may compile the same guest: each writes its own file, the last rename wins.
    let own = folder.join(format!("{name}.{}", std::process::id()));
    compile(name, source, &folder, &own)?;
    fs::rename(&own, &program)?;
    Ok(program)
}

fn compile(name: &str, source: &str, folder: &Path, program: &Path) -> Result<()> {
    for (header, text) in headers() {
        fs::write(folder.join(header), text)?;
    }
    let file = folder.join(format!("{name}.c"));
    fs::write(&file, source)?;
    let done = Command::new("gcc")
        .args(FLAGS)
        .arg("-o")
        .arg(program)
        .arg(&file)
        .args(LIBRARIES)
        .output()
        .context("cannot start gcc\nhint: install the package gcc")?;
    if !done.status.success() {
        bail!(
            "{name}.c does not compile:\n{}",
            String::from_utf8_lossy(&done.stderr)
        );
    }
    Ok(())
}
