//! Loads the modules of the initramfs: file systems, and drivers of the devices that are there.

use crate::initrd::{LIST, MODULES};
use rustix::io::Errno;
use rustix::system::finit_module;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::CStr;
use std::fs;
use std::path::Path;

/// Rounds of looking for devices: a bus's driver brings its devices, whose drivers are loaded in the next round.
const ROUNDS: u32 = 5;
/// KERNEL: finit_module(2), MODULE_INIT_COMPRESSED_FILE, since Linux 5.17.
const COMPRESSED: i32 = 4;
const NO_PARAMETERS: &CStr = c"";

struct Module {
    file: String,
    always: bool,
    needs: Vec<String>,
    aliases: Vec<String>,
}

/// Loads what this machine needs. Returns what could not be loaded, one line each: some of it is not needed.
pub fn load() -> Vec<String> {
    let modules = read(&fs::read_to_string(LIST).unwrap_or_default());
    let mut loaded = BTreeSet::new();
    let mut failed = Vec::new();
    for (name, module) in &modules {
        if module.always {
            one(name, &modules, &mut loaded, &mut failed);
        }
    }
    for _ in 0..ROUNDS {
        let devices = devices();
        let before = loaded.len();
        for (name, module) in &modules {
            let fits = |alias: &String| devices.iter().any(|d| matches(alias, d));
            if !loaded.contains(name) && module.aliases.iter().any(fits) {
                one(name, &modules, &mut loaded, &mut failed);
            }
        }
        if loaded.len() == before {
            break;
        }
        // The kernel looks at a new bus in the background.
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    failed
}

fn read(text: &str) -> BTreeMap<String, Module> {
    let list = |word: &str| match word {
        "-" => Vec::new(),
        words => words.split(',').map(str::to_owned).collect(),
    };
    let line = |line: &str| {
        let mut words = line.split(' ');
        let name = words.next()?.to_owned();
        let module = Module {
            file: words.next()?.to_owned(),
            always: words.next()? == "1",
            needs: list(words.next()?),
            aliases: list(words.next()?),
        };
        Some((name, module))
    };
    text.lines().filter_map(line).collect()
}

fn one(
    name: &str,
    modules: &BTreeMap<String, Module>,
    loaded: &mut BTreeSet<String>,
    failed: &mut Vec<String>,
) {
    let Some(module) = modules.get(name) else {
        return;
    };
    for before in module.needs.iter().chain([&name.to_owned()]) {
        let Some(module) = modules.get(before) else {
            continue;
        };
        if !loaded.insert(before.clone()) {
            continue;
        }
        let path = Path::new(MODULES).join(&module.file);
        let flags = match module.file.ends_with(".ko") {
            true => 0,
            false => COMPRESSED,
        };
        let done = fs::File::open(&path)
            .map_err(|e| e.to_string())
            .and_then(|file| match finit_module(&file, NO_PARAMETERS, flags) {
                Ok(()) | Err(Errno::EXIST) => Ok(()),
                Err(e) => Err(e.to_string()),
            });
        if let Err(e) = done {
            failed.push(format!("{before}: {e}"));
        }
    }
}

/// What the devices of this machine say they are. KERNEL: Documentation/ABI/testing/sysfs-bus-*, modalias
fn devices() -> Vec<String> {
    let mut all = Vec::new();
    for bus in fs::read_dir("/sys/bus").into_iter().flatten().flatten() {
        let devices = fs::read_dir(bus.path().join("devices"));
        for device in devices.into_iter().flatten().flatten() {
            if let Ok(alias) = fs::read_to_string(device.path().join("modalias")) {
                all.push(alias.trim().to_owned());
            }
        }
    }
    all
}

/// Patterns of modules.alias: `*`, `?` and `[…]`, as fnmatch(3).
fn matches(pattern: &str, text: &str) -> bool {
    let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
    let (mut p, mut t) = (0, 0);
    // Where the last `*` was, and how much of the text it has taken.
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        let step = match pattern.get(p) {
            Some(b'*') => {
                star = Some((p, t));
                p += 1;
                continue;
            }
            Some(b'?') => Some(1),
            Some(b'[') => set(&pattern[p..], text[t]),
            Some(c) if *c == text[t] => Some(1),
            _ => None,
        };
        match (step, star) {
            (Some(n), _) => {
                p += n;
                t += 1;
            }
            (None, Some((at, taken))) => {
                star = Some((at, taken + 1));
                p = at + 1;
                t = taken + 1;
            }
            (None, None) => return false,
        }
    }
    pattern[p..].iter().all(|c| *c == b'*')
}

/// The length of a set such as `[0-9a]` at the beginning of `pattern`, if `c` is in it.
fn set(pattern: &[u8], c: u8) -> Option<usize> {
    let end = pattern.iter().position(|b| *b == b']')?;
    let inner = &pattern[1..end];
    let mut i = 0;
    let mut found = false;
    while i < inner.len() {
        match inner.get(i..i + 3) {
            Some([low, b'-', high]) => {
                found |= (*low..=*high).contains(&c);
                i += 3;
            }
            _ => {
                found |= inner[i] == c;
                i += 1;
            }
        }
    }
    found.then_some(end + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_find_their_drivers() {
        let device = "pci:v00008086d0000100Esv00001AF4sd00001100bc02sc00i00";
        let cases = [
            ("pci:v00008086d0000100Esv*sd*bc*sc*i*", device, true),
            ("pci:v00008086d0000100Fsv*sd*bc*sc*i*", device, false),
            ("virtio:d00000001v*", "virtio:d00000001v00001AF4", true),
            ("virtio:d00000002v*", "virtio:d00000001v00001AF4", false),
            ("usb:v0B95p[0-9]???d*", "usb:v0B95p1234d0000", true),
            ("usb:v0B95p[0-9]???d*", "usb:v0B95pA234d0000", false),
            ("*", "", true),
            ("a*b", "aXbXc", false),
            ("a*b*c", "aXbXc", true),
        ];
        for (pattern, text, expected) in cases {
            assert_eq!(matches(pattern, text), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn the_list_is_what_the_archive_wrote() {
        let modules = read(
            "nfs nfs.ko 1 - -\nvirtio_net virtio_net.ko.xz 0 failover,net_failover virtio:d1v*,x\nhalf\n",
        );
        assert_eq!(modules.len(), 2);
        assert!(modules["nfs"].always && modules["nfs"].needs.is_empty());
        assert_eq!(modules["virtio_net"].needs, ["failover", "net_failover"]);
        assert_eq!(modules["virtio_net"].aliases.len(), 2);
    }
}
