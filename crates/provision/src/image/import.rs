//! A root of a directory or an archive.

use super::draft::{Progressed, no_links};
use super::run::run;
use super::store::{Generation, Store, Wanted};
use super::{elf, oci};
use crate::problem::{At, BootError};
use std::fs;
use std::path::Path;
use std::process::Command;

/// What is imported.
#[derive(Clone, Debug)]
pub struct ImportOptions<'a> {
    /// A directory; an archive of a root (tar, also gzip or zstd); or an archive of an OCI image.
    pub from: &'a Path,
    /// An image whose kernel is taken as well.
    pub kernel_of: Option<&'a Wanted>,
}

/// Makes the next generation of an image. What is imported is not changed.
pub fn import(
    store: &Store,
    image: &str,
    options: &ImportOptions,
    armento: &Path,
    said: Progressed,
) -> Result<Generation, BootError> {
    let kernel = options.kernel_of.map(|w| store.find(w)).transpose()?;
    let from = options.from;
    let meta = fs::metadata(from).at(from)?;
    if meta.is_dir() {
        // Before anything is copied.
        elf::architecture(from)?;
    }
    let draft = store.draft(image)?;
    let root = draft.root();
    said("copying files");
    if meta.is_dir() {
        fs::create_dir(&root).at(&root)?;
        copy(&from.join("."), &root, &draft.log())?;
    } else {
        fs::create_dir(&root).at(&root)?;
        oci::unpack(from, &root, &draft.log().with_file_name("layers"))?;
    }
    no_links(&root)?;
    if let Some(kernel) = kernel {
        take_kernel(&kernel.root(), &root, &draft.log())?;
    }
    let from = format!("{}", from.display());
    draft.finish(armento, &from, said, |image, dir| store.commit(image, dir))
}

fn take_kernel(from: &Path, to: &Path, log: &Path) -> Result<(), BootError> {
    for below in ["boot", "usr/lib/modules"] {
        let dir = to.join(below);
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir_all(&dir).at(&dir)?;
        let there = from.join(below);
        let there = match there.is_dir() {
            true => there,
            false => from.join("lib/modules"),
        };
        copy(&there.join("."), &dir, log)?;
    }
    // A root without merged /usr has its modules in /lib.
    let lib = to.join("lib");
    if lib.is_dir() && !lib.is_symlink() {
        let _ = fs::remove_dir_all(lib.join("modules"));
        std::os::unix::fs::symlink("/usr/lib/modules", lib.join("modules")).at(&lib)?;
    }
    Ok(())
}

/// Everything that a file system keeps: owners, links, devices, attributes, holes.
fn copy(from: &Path, to: &Path, log: &Path) -> Result<(), BootError> {
    let mut cp = Command::new("cp");
    cp.args(["--archive", "--reflink=auto", "--one-file-system", "--"]);
    run(cp.arg(from).arg(to), "coreutils", log)
}
