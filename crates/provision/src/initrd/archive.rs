//! The archive itself: cpio (newc), compressed with zstd. KERNEL: buffer-format.rst (early userspace)

use super::modules::{self, Found};
use crate::problem::{At, BootError};
use cpio::newc::Builder;
use std::fs;
use std::io::{self, Write};
use std::path::Path;

/// Fast to unpack, and small enough: the program is most of it.
const LEVEL: i32 = 3;

/// What was packed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packed {
    pub modules: usize,
    pub bytes: u64,
}

/// Packs the initramfs for a kernel of `root`. `armento`: the program that becomes `/init`; static, since nothing else is
/// in the initramfs.
pub fn make(root: &Path, release: &str, armento: &Path, to: &Path) -> Result<Packed, BootError> {
    let dir = root.join("usr/lib/modules").join(release);
    let dir = match dir.is_dir() {
        true => dir,
        false => root.join("lib/modules").join(release),
    };
    let text = |name: &str| {
        let path = dir.join(name);
        fs::read_to_string(&path).at(&path)
    };
    let dep = text("modules.dep")?;
    let found = modules::choose(&dep, &text("modules.alias")?, &text("modules.builtin")?);
    if !found.missing.is_empty() {
        return Err(BootError::refused(
            format!(
                "the kernel {release} lacks modules that roots need: {}",
                found.missing.join(", ")
            ),
            "take a kernel of Debian: linux-image-amd64",
        ));
    }
    let program = fs::read(armento).at(armento)?;
    if program.windows(INTERPRETER.len()).any(|w| w == INTERPRETER) && !is_static(&program) {
        return Err(BootError::refused(
            format!(
                "{} needs shared libraries, which an initramfs has not",
                armento.display()
            ),
            "use the program of the package: it is static",
        ));
    }
    let read = |path: &str| {
        let path = dir.join(path);
        fs::read(&path).at(&path)
    };
    let file = fs::File::create(to).at(to)?;
    let mut zstd = zstd::stream::write::Encoder::new(io::BufWriter::new(file), LEVEL).at(to)?;
    pack(&found, &program, &read, &mut zstd, to)?;
    let file = zstd.finish().at(to)?;
    file.into_inner()
        .map_err(io::IntoInnerError::into_error)
        .at(to)?;
    Ok(Packed {
        modules: found.modules.len(),
        bytes: fs::metadata(to).at(to)?.len(),
    })
}

const INTERPRETER: &[u8] = b"/ld-linux";

/// Whether an ELF program asks for no interpreter. Source: elf(5), program headers of 64 bit.
fn is_static(program: &[u8]) -> bool {
    const PT_INTERP: [u8; 4] = 3u32.to_le_bytes();
    let number = |at: usize, len: usize| {
        let bytes = program.get(at..at + len)?;
        Some(
            bytes
                .iter()
                .rev()
                .fold(0usize, |n, b| n << 8 | usize::from(*b)),
        )
    };
    let headers = || Some((number(32, 8)?, number(54, 2)?, number(56, 2)?));
    let Some((start, size, count)) = headers() else {
        return false;
    };
    let kind = |i: usize| program.get(start.checked_add(i * size)?..)?.get(..4);
    (0..count).all(|i| kind(i).is_some_and(|k| k != PT_INTERP))
}

/// Writes the archive, uncompressed.
pub fn pack(
    found: &Found,
    program: &[u8],
    read: &dyn Fn(&str) -> Result<Vec<u8>, BootError>,
    out: &mut dyn Write,
    to: &Path,
) -> Result<(), BootError> {
    const DIRECTORY: u32 = 0o040_755;
    const FILE: u32 = 0o100_644;
    const PROGRAM: u32 = 0o100_755;
    const DEVICE: u32 = 0o020_600;
    let mut inode = 0;
    let mut add = |name: &str, mode: u32, device: (u32, u32), bytes: &[u8]| {
        inode += 1;
        let entry = Builder::new(name)
            .ino(inode)
            .nlink(1)
            .mode(mode)
            .rdev_major(device.0)
            .rdev_minor(device.1);
        let len = u32::try_from(bytes.len()).map_err(|_| io::ErrorKind::FileTooLarge.into());
        let written = len.and_then(|len| {
            let mut writer = entry.write(&mut *out, len);
            writer.write_all(bytes)?;
            writer.finish().map(drop)
        });
        written.at(to)
    };
    for dir in ["dev", "proc", "sys", "run", "newroot", "modules"] {
        add(dir, DIRECTORY, (0, 0), &[])?;
    }
    // Before devtmpfs is there. KERNEL: Documentation/admin-guide/devices.txt
    add("dev/console", DEVICE, (5, 1), &[])?;
    add("dev/null", DEVICE, (1, 3), &[])?;
    add("init", PROGRAM, (0, 0), program)?;
    let mut list = String::new();
    for module in &found.modules {
        let file = module.path.rsplit('/').next().unwrap_or(&module.path);
        add(
            &format!("modules/{file}"),
            FILE,
            (0, 0),
            &read(&module.path)?,
        )?;
        list += &format!(
            "{} {file} {} {} {}\n",
            module.name,
            u8::from(module.always),
            joined(&module.needs),
            joined(&module.aliases)
        );
    }
    add("modules/list", FILE, (0, 0), list.as_bytes())?;
    cpio::newc::trailer(&mut *out).map(drop).at(to)
}

/// A list as one word.
fn joined(words: &[String]) -> String {
    match words.is_empty() {
        true => "-".into(),
        false => words.join(","),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_archive_has_init_modules_and_their_list() {
        let dep = "kernel/fs/nfs/nfs.ko:\n";
        let found = modules::choose(dep, "", "");
        let mut bytes = Vec::new();
        let read = |path: &str| Ok(path.as_bytes().to_vec());
        pack(&found, b"program", &read, &mut bytes, Path::new("initrd")).expect("packed");
        let mut seen = Vec::new();
        let mut rest: &[u8] = &bytes;
        loop {
            let mut reader = cpio::newc::Reader::new(rest).expect("entry");
            if reader.entry().is_trailer() {
                break;
            }
            let name = reader.entry().name().to_owned();
            let mut content = String::new();
            io::Read::read_to_string(&mut reader, &mut content).expect("content");
            seen.push((name, reader.entry().mode(), content));
            rest = reader.finish().expect("next");
        }
        let names: Vec<&str> = seen.iter().map(|(n, _, _)| n.as_str()).collect();
        assert_eq!(
            names,
            [
                "dev",
                "proc",
                "sys",
                "run",
                "newroot",
                "modules",
                "dev/console",
                "dev/null",
                "init",
                "modules/nfs.ko",
                "modules/list"
            ]
        );
        assert_eq!(seen[8].1, 0o100_755);
        assert_eq!(seen[10].2, "nfs nfs.ko 1 - -\n");
    }
}
