//! Which modules of a kernel go into the initramfs: cards, the file systems of roots, and what these depend on. Pure.

use std::collections::{BTreeMap, BTreeSet};

/// The directory of the modules in the initramfs.
pub const MODULES: &str = "/modules";
/// The file there that says what each depends on and which devices it is for.
pub const LIST: &str = "/modules/list";

/// Always loaded, where they are modules and not built in: file systems of live roots and of roots in memory, and what the
/// kernel asks for by other names (crc32c).
const ALWAYS: [&str; 8] = [
    "crc32c_generic",
    "crc32c_cryptoapi",
    "overlay",
    "sunrpc",
    "nfs",
    "nfsv3",
    "loop",
    "erofs",
];
/// Directories below `kernel/` whose modules drive cards, or buses with cards.
const CARDS: [&str; 6] = [
    "drivers/net/ethernet/",
    "drivers/net/phy/",
    "drivers/net/mdio/",
    "drivers/net/vmxnet3/",
    "drivers/net/hyperv/",
    "drivers/virtio/",
];
/// Drivers of cards outside these directories.
const MORE_CARDS: [&str; 4] = ["virtio_net", "xen_netfront", "hv_vmbus", "net_failover"];

/// A module in the initramfs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// As lsmod shows it.
    pub name: String,
    /// Below lib/modules/RELEASE.
    pub path: String,
    /// Names of modules that must be loaded before, the first first.
    pub needs: Vec<String>,
    /// Devices that it drives, as patterns of modules.alias.
    pub aliases: Vec<String>,
    /// Loaded without a device that asks for it.
    pub always: bool,
}

/// What was found in the files of depmod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    pub modules: Vec<Wanted>,
    /// Names of [`ALWAYS`] that are neither modules nor built in.
    pub missing: Vec<String>,
}

/// Chooses modules by the texts of modules.dep, modules.alias and modules.builtin.
///
/// KERNEL: modules.dep(5); the dependencies of a line are in the reverse order of loading.
pub fn choose(dep: &str, alias: &str, builtin: &str) -> Found {
    let mut paths = BTreeMap::new();
    let mut needs: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (path, rest) in dep.lines().filter_map(|l| l.split_once(':')) {
        let before: Vec<String> = rest.split_whitespace().rev().map(name).collect();
        needs.insert(name(path), before);
        paths.insert(name(path), path.to_owned());
    }
    let is_card = |path: &str, name: &str| {
        let below = path.strip_prefix("kernel/").unwrap_or(path);
        CARDS.iter().any(|d| below.starts_with(d)) || MORE_CARDS.contains(&name)
    };
    let mut wanted: BTreeSet<String> = paths
        .iter()
        .filter(|(name, path)| is_card(path, name) || ALWAYS.contains(&name.as_str()))
        .map(|(name, _)| name.clone())
        .collect();
    let below: Vec<String> = wanted
        .iter()
        .filter_map(|n| needs.get(n))
        .flatten()
        .cloned()
        .collect();
    wanted.extend(below);
    let mut aliases: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for line in alias.lines() {
        let mut words = line.split_whitespace();
        if let (Some("alias"), Some(pattern), Some(module)) =
            (words.next(), words.next(), words.next())
        {
            // Those of device trees have commas, which the list in the archive uses; PCs have no device trees.
            if !pattern.contains(',') {
                let list = aliases.entry(name(module)).or_default();
                list.push(pattern.to_owned());
            }
        }
    }
    let modules = wanted.iter().filter_map(|name| {
        let path = paths.get(name)?;
        Some(Wanted {
            path: path.clone(),
            needs: needs.get(name).cloned().unwrap_or_default(),
            // A file system is not loaded because a device looks like it.
            aliases: match is_card(path, name) {
                true => aliases.get(name).cloned().unwrap_or_default(),
                false => Vec::new(),
            },
            always: ALWAYS.contains(&name.as_str()),
            name: name.clone(),
        })
    });
    let builtin: BTreeSet<String> = builtin.lines().map(name).collect();
    let modules: Vec<Wanted> = modules.collect();
    // The crc32c of a kernel is one of several; the roots are what matters.
    let missing = ["overlay", "nfs", "nfsv3", "loop", "erofs"].into_iter();
    let missing = missing.filter(|n| !paths.contains_key(*n) && !builtin.contains(*n));
    Found {
        missing: missing.map(str::to_owned).collect(),
        modules,
    }
}

/// The name of a module by its path: `-` and `_` are the same, and a compressed file has two endings.
fn name(path: &str) -> String {
    let file = path.rsplit('/').next().unwrap_or(path);
    let file = file.split(".ko").next().unwrap_or(file);
    file.trim().replace('-', "_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drivers_come_with_what_they_need() {
        let dep = "kernel/drivers/net/virtio_net.ko.xz: kernel/drivers/net/net_failover.ko.xz kernel/net/core/failover.ko.xz\n\
                   kernel/drivers/net/net_failover.ko.xz: kernel/net/core/failover.ko.xz\n\
                   kernel/net/core/failover.ko.xz:\n\
                   kernel/fs/nfs/nfsv3.ko: kernel/fs/nfs/nfs.ko kernel/net/sunrpc/sunrpc.ko\n\
                   kernel/fs/nfs/nfs.ko: kernel/net/sunrpc/sunrpc.ko\n\
                   kernel/net/sunrpc/sunrpc.ko:\n\
                   kernel/sound/snd-hda.ko:\n\
                   kernel/drivers/net/ethernet/intel/e1000.ko:\n";
        let alias = "# a comment\nalias virtio:d00000001v* virtio_net\nalias pci:v00008086d0000100E* e1000\nalias fs-nfs nfs\n";
        let found = choose(dep, alias, "kernel/fs/overlayfs/overlay.ko\n");
        let names: Vec<&str> = found.modules.iter().map(|m| m.name.as_str()).collect();
        assert_eq!(
            names,
            [
                "e1000",
                "failover",
                "net_failover",
                "nfs",
                "nfsv3",
                "sunrpc",
                "virtio_net"
            ]
        );
        let of = |name: &str| {
            found
                .modules
                .iter()
                .find(|m| m.name == name)
                .expect("module")
        };
        assert_eq!(of("virtio_net").needs, ["failover", "net_failover"]);
        assert_eq!(of("nfsv3").needs, ["sunrpc", "nfs"]);
        assert_eq!(of("virtio_net").aliases, ["virtio:d00000001v*"]);
        assert!(of("nfs").aliases.is_empty() && of("nfs").always);
        assert_eq!(found.missing, ["loop", "erofs"]);
    }
}
