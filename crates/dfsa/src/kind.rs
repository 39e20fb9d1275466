//! File systems by what two nodes that mount them see of each other's writes.

/// What a node sees of another's writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coherence {
    /// Only nodes that are parts of one machine, with one kernel, have it in common.
    OneKernel,
    /// All nodes see each write at once, as processes of one machine do.
    Cluster,
    /// A node may see what another wrote only when that has closed the file and it has opened it again.
    CloseToOpen,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    pub name: &'static str,
    pub coherence: Coherence,
}

/// KERNEL: statfs(2), include/uapi/linux/magic.h; Lustre: lustre_user.h; GPFS: its own f_type, "GPFS".
const KINDS: [(i64, &str, Coherence); 18] = [
    (0xef53, "ext4", Coherence::OneKernel),
    (0x5846_5342, "xfs", Coherence::OneKernel),
    (0x9123_683e, "btrfs", Coherence::OneKernel),
    (0x0102_1994, "tmpfs", Coherence::OneKernel),
    (0xf2f5_2010, "f2fs", Coherence::OneKernel),
    (0x2fc1_2fc1, "zfs", Coherence::OneKernel),
    (0x0bd0_0bd0, "Lustre", Coherence::Cluster),
    (0x00c3_6400, "CephFS", Coherence::Cluster),
    (0x4750_4653, "GPFS", Coherence::Cluster),
    (0x0116_1970, "GFS2", Coherence::Cluster),
    (0x7461_636f, "OCFS2", Coherence::Cluster),
    (0x6969, "NFS", Coherence::CloseToOpen),
    (0xff53_4d42, "CIFS", Coherence::CloseToOpen),
    (0xfe53_4d42, "SMB2", Coherence::CloseToOpen),
    (0x517b, "SMB", Coherence::CloseToOpen),
    (0x0102_1997, "9p", Coherence::CloseToOpen),
    (0x6573_5546, "FUSE", Coherence::CloseToOpen),
    (0x5346_414f, "AFS", Coherence::CloseToOpen),
];

/// The kind with this magic number (`f_type` of statfs(2)). `None`: nothing is known of it.
pub fn kind(magic: i64) -> Option<Kind> {
    let found = KINDS.iter().find(|(m, ..)| *m == magic)?;
    let (_, name, coherence) = *found;
    Some(Kind { name, coherence })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_own_file_systems_are_known() {
        let of = |path: &str| {
            let dir = std::fs::File::open(path).expect("a directory");
            kind(rustix::fs::fstatfs(&dir).expect("statfs").f_type)
        };
        let shm = of("/dev/shm").map(|k| (k.name, k.coherence));
        assert_eq!(shm, Some(("tmpfs", Coherence::OneKernel)));
        assert_eq!(of("/proc"), None);
    }
}
