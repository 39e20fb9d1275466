//! For which machine the programs of a root are.

use crate::problem::BootError;
use std::fs::File;
use std::io::Read as _;
use std::path::{Component, Path, PathBuf};

/// Programs that every root has one of.
const PROGRAMS: [&str; 5] = [
    "usr/lib/systemd/systemd",
    "lib/systemd/systemd",
    "sbin/init",
    "bin/sh",
    "usr/bin/env",
];
/// Links followed for one path. KERNEL: path_resolution(7), MAXSYMLINKS.
const LINKS_MAX: u32 = 40;

/// The architecture of this machine, as ELF names it.
pub const OWN: &str = std::env::consts::ARCH;

/// The architecture of a root's programs: `x86_64`.
pub fn architecture(root: &Path) -> Result<String, BootError> {
    for program in PROGRAMS {
        if let Some(path) = inside(root, Path::new(program))
            && let Some(machine) = machine(&path)
        {
            return Ok(machine);
        }
    }
    Err(BootError::refused(
        format!(
            "{} is no root of a node: it has neither init nor sh",
            root.display()
        ),
        "give the directory that has bin, etc, lib and usr in it",
    ))
}

/// ELF header: e_machine, two bytes at 18. Source: elf(5), linux/elf-em.h.
fn machine(path: &Path) -> Option<String> {
    let mut head = [0; 20];
    File::open(path).ok()?.read_exact(&mut head).ok()?;
    if !head.starts_with(b"\x7fELF") {
        return None;
    }
    let two = [head[18], head[19]];
    let number = match head[5] {
        2 => u16::from_be_bytes(two),
        _ => u16::from_le_bytes(two),
    };
    Some(match number {
        3 => "x86".into(),
        40 => "arm".into(),
        62 => "x86_64".into(),
        183 => "aarch64".into(),
        243 => "riscv64".into(),
        other => format!("ELF machine {other}"),
    })
}

/// A path of a root on this machine, with links resolved inside the root.
pub fn inside(root: &Path, path: &Path) -> Option<PathBuf> {
    let mut links = 0;
    let mut done = PathBuf::new();
    let mut todo: Vec<PathBuf> = vec![path.to_owned()];
    while let Some(next) = todo.pop() {
        let mut parts = next.components();
        let Some(part) = parts.next() else { continue };
        let rest = parts.as_path().to_owned();
        if rest.components().next().is_some() {
            todo.push(rest);
        }
        match part {
            Component::Normal(name) => done.push(name),
            Component::ParentDir => {
                done.pop();
                continue;
            }
            Component::RootDir => {
                done = PathBuf::new();
                continue;
            }
            _ => continue,
        }
        let here = root.join(&done);
        if let Ok(to) = std::fs::read_link(&here) {
            links += 1;
            if links > LINKS_MAX {
                return None;
            }
            done.pop();
            todo.push(to);
        }
    }
    let found = root.join(done);
    found.exists().then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn links_of_a_root_stay_inside_it() {
        let root = std::env::temp_dir().join(format!("armento-elf-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&root);
        std::fs::create_dir_all(root.join("usr/bin")).expect("directories");
        std::fs::write(root.join("usr/bin/dash"), b"x").expect("file");
        symlink("usr/bin", root.join("bin")).expect("link");
        symlink("/usr/bin/dash", root.join("usr/bin/sh")).expect("link");
        symlink("../../../../usr/bin/sh", root.join("up")).expect("link");
        symlink("loop", root.join("loop")).expect("link");
        let dash = Some(root.join("usr/bin/dash"));
        assert_eq!(inside(&root, Path::new("bin/sh")), dash);
        assert_eq!(inside(&root, Path::new("up")), dash);
        assert_eq!(inside(&root, Path::new("loop")), None);
        assert_eq!(inside(&root, Path::new("etc/passwd")), None);
        assert!(architecture(&root).is_err());
        std::fs::remove_dir_all(&root).expect("removed");
    }
}
