//! A generation in the making. It becomes one whole generation, or nothing.

use super::manifest::{Kind, Manifest, scan, sha256};
use super::run::run;
use super::{elf, farm_part};
use crate::initrd;
use crate::problem::{At, BootError};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

/// Is told what is being done now.
pub type Progressed<'a> = &'a mut dyn FnMut(&str);

/// A directory that is removed unless it becomes a generation.
#[derive(Debug)]
pub struct Draft {
    image: String,
    dir: PathBuf,
}

impl Drop for Draft {
    fn drop(&mut self) {
        // After a commit it is not there any more.
        let _ = fs::remove_dir_all(&self.dir);
    }
}

impl Draft {
    pub(super) fn new(image: &str, dir: PathBuf) -> Result<Draft, BootError> {
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir(&dir).at(&dir)?;
        Ok(Draft {
            image: image.to_owned(),
            dir,
        })
    }

    /// Where the root is made.
    pub fn root(&self) -> PathBuf {
        self.dir.join("root")
    }

    /// A file for the output of a program.
    pub fn log(&self) -> PathBuf {
        self.dir.join("log")
    }

    /// Adds the farm's part, kernel, initramfs, image and manifest; `commit` makes it the image's next generation.
    ///
    /// `armento`: the program that nodes run. `from`: what the root was made of.
    pub fn finish<T>(
        self,
        armento: &Path,
        from: &str,
        said: Progressed,
        commit: impl FnOnce(&str, &Path) -> Result<T, BootError>,
    ) -> Result<T, BootError> {
        let root = self.root();
        no_links(&root)?;
        let arch = elf::architecture(&root)?;
        if arch != elf::OWN {
            return Err(BootError::refused(
                format!(
                    "its programs are for {arch}, this farm's are for {}",
                    elf::OWN
                ),
                "take an image of the same architecture",
            ));
        }
        let kernel = kernel(&root)?;
        farm_part::add(&root, armento)?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let mut manifest = Manifest::new(&self.image, now.map_or(0, |d| d.as_secs()), from);
        manifest.arch = arch;
        let vmlinuz = self.dir.join("vmlinuz");
        let named = format!("boot/vmlinuz-{kernel}");
        let inside = elf::inside(&root, Path::new(&named)).unwrap_or_else(|| root.join(&named));
        fs::copy(inside, &vmlinuz).at(&vmlinuz)?;
        said("packing the initramfs");
        let initrd = self.dir.join("initrd");
        initrd::make(&root, &kernel, armento, &initrd)?;
        said("packing the root for nodes that keep it in memory");
        manifest.erofs = self.erofs()?;
        said("adding up its files");
        manifest.kernel = kernel;
        manifest.vmlinuz = sha256(&vmlinuz)?;
        manifest.initrd = sha256(&initrd)?;
        manifest.files = scan(&root)?;
        let bytes = manifest.files.iter().map(|f| match f.kind {
            Kind::File { bytes, .. } => bytes,
            _ => 0,
        });
        manifest.bytes = bytes.sum();
        let _ = fs::remove_file(self.log());
        manifest.save(&self.dir.join("manifest.json"))?;
        commit(&self.image, &self.dir)
    }

    /// A compressed image of the root; none where the program for it is missing.
    fn erofs(&self) -> Result<Option<String>, BootError> {
        let to = self.dir.join("root.erofs");
        let mut make = Command::new("mkfs.erofs");
        make.args(["-zlz4", "-U00000000-0000-0000-0000-000000000000"])
            .arg(&to)
            .arg(self.root());
        match run(&mut make, "erofs-utils", &self.log()) {
            Ok(()) => Ok(Some(sha256(&to)?)),
            Err(BootError::Missing { .. }) => Ok(None),
            Err(e) => Err(e),
        }
    }
}

/// Directories of a root that are written here. A link in their place would lead out of it, to files of this machine.
const WRITTEN: [&str; 7] = [
    "boot",
    "etc/armento",
    "etc/systemd/system/multi-user.target.wants",
    "usr/bin",
    "usr/lib/systemd/system",
    "usr/lib/tmpfiles.d",
    "usr/lib/modules",
];

/// Before anything is written into a root that came from elsewhere.
pub(super) fn no_links(root: &Path) -> Result<(), BootError> {
    for below in WRITTEN {
        let mut path = root.to_owned();
        for part in Path::new(below) {
            path.push(part);
            if path.is_symlink() {
                return Err(BootError::refused(
                    format!("{} is a link, where a directory is needed", path.display()),
                    "replace the link by a directory in the image",
                ));
            }
        }
    }
    Ok(())
}

/// The release of the newest kernel that has its modules too.
fn kernel(root: &Path) -> Result<String, BootError> {
    let missing = || {
        BootError::refused(
            "it has no kernel: boot/vmlinuz-RELEASE with lib/modules/RELEASE",
            "install a kernel package in it (linux-image-amd64), or take another image's: --kernel-of NAME",
        )
    };
    let modules = elf::inside(root, Path::new("lib/modules")).ok_or_else(missing)?;
    let entries = fs::read_dir(&modules).at(&modules)?;
    let names = entries
        .flatten()
        .map(|e| e.file_name().to_string_lossy().into_owned());
    let bootable = |r: &String| root.join("boot").join(format!("vmlinuz-{r}")).is_file();
    names
        .filter(bootable)
        .max_by_key(|r| numbers(r))
        .ok_or_else(missing)
}

/// The numbers in a release, so that 6.12 is above 6.1.
pub(super) fn numbers(release: &str) -> Vec<u64> {
    let digits = |c: char| !c.is_ascii_digit();
    release
        .split(digits)
        .filter_map(|n| n.parse().ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::numbers;

    #[test]
    fn newer_kernels_are_greater() {
        assert!(numbers("6.12.9+deb12-amd64") > numbers("6.1.0-40-amd64"));
        assert!(numbers("6.1.0-40-amd64") > numbers("6.1.0-9-amd64"));
    }
}
