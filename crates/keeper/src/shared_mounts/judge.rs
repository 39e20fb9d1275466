//! Whether two nodes see one file system, from what both say of it. Pure.

use armento_dfsa::{Coherence, Proof, kind};
use armento_model::{FileIdentity, NodeName};
use armento_wire::talk::MountSeen;

/// What home knows of one of its mounts.
pub struct Own<'a> {
    pub magic: i64,
    pub relaxed: bool,
    pub kernel: &'a str,
    pub proof: &'a Proof,
}

/// Whether this node may share a mount of that kind at all; else why not.
pub fn may_share(magic: i64, relaxed: bool) -> Result<(), String> {
    match kind(magic) {
        Some(k) if k.coherence == Coherence::CloseToOpen && !relaxed => Err(format!(
            "{} shows another node's writes only after a close and an open; name the mount in dfsa_relaxed if programs bear that",
            k.name
        )),
        None if !relaxed => Err(format!(
            "what nodes see of each other's writes is not known of this kind of file system ({magic:#x}); name the mount in dfsa_relaxed if programs bear late writes"
        )),
        _ => Ok(()),
    }
}

/// What `host` says it sees against what home wrote. Nothing that it says is more than a claim: one that lies harms only the
/// guests that it has.
pub fn judge(own: &Own<'_>, host: &NodeName, seen: &MountSeen) -> Result<(), String> {
    if seen.found.content != own.proof.content {
        return Err(format!(
            "what this node wrote has other bytes on {host}: another file system is mounted there"
        ));
    }
    if !same(&seen.found.identity, &own.proof.identity) {
        return Err(format!(
            "a file of this node has another inode, owner, size or handle on {host}"
        ));
    }
    if seen.magic != own.magic {
        return Err(format!(
            "{host} mounts it as another kind of file system ({:#x}, here {:#x})",
            seen.magic, own.magic
        ));
    }
    if own.relaxed != seen.relaxed {
        return Err(format!(
            "only one of this node and {host} names it in dfsa_relaxed"
        ));
    }
    let one_kernel = kind(own.magic).is_some_and(|k| k.coherence == Coherence::OneKernel);
    if one_kernel && (own.kernel.is_empty() || own.kernel != seen.kernel) {
        return Err(format!(
            "no file system of this kind can be mounted by {host} and this node at once: it has a kernel of its own"
        ));
    }
    Ok(())
}

/// Whether two identities of a file that nobody writes are one. Times may be told late by a node that caches them.
pub fn same(a: &FileIdentity, b: &FileIdentity) -> bool {
    let still = |i: &FileIdentity| FileIdentity {
        mtime: (0, 0),
        ..i.clone()
    };
    still(a) == still(b)
}

#[cfg(test)]
mod tests {
    use super::*;
    use armento_wire::talk::ProofFile;

    const EXT4: i64 = 0xef53;
    const GFS2: i64 = 0x0116_1970;
    const NFS: i64 = 0x6969;

    fn proof() -> Proof {
        Proof {
            name: "0".repeat(32),
            content: vec![7; 32],
            identity: FileIdentity {
                ino: 12,
                size: 32,
                uid: 1000,
                handle: vec![1, 0, 0, 0, 9],
                ..FileIdentity::default()
            },
        }
    }

    fn seen(magic: i64) -> MountSeen {
        let p = proof();
        let found = ProofFile {
            name: p.name,
            content: p.content,
            identity: p.identity,
        };
        MountSeen {
            magic,
            relaxed: false,
            kernel: "k".into(),
            written: found.clone(),
            found,
        }
    }

    fn verdict(magic: i64, change: impl Fn(&mut MountSeen)) -> Result<(), String> {
        let (mut seen, proof) = (seen(magic), proof());
        change(&mut seen);
        let own = Own {
            magic,
            relaxed: false,
            kernel: "k",
            proof: &proof,
        };
        judge(&own, &"n2".parse().expect("name"), &seen)
    }

    #[test]
    fn every_difference_is_a_refusal() {
        assert_eq!(verdict(EXT4, |_| ()), Ok(()));
        assert_eq!(verdict(GFS2, |s| s.kernel = "other".into()), Ok(()));
        let check = |change: &dyn Fn(&mut MountSeen), part: &str| {
            let why = verdict(EXT4, change).expect_err(part);
            assert!(why.contains(part), "{why}");
        };
        check(&|s| s.found.content[0] = 8, "other bytes");
        check(&|s| s.found.identity.ino = 13, "another inode");
        check(&|s| s.found.identity.uid = 0, "another inode");
        check(&|s| s.found.identity.handle.push(0), "another inode");
        check(&|s| s.magic = GFS2, "another kind");
        check(&|s| s.relaxed = true, "dfsa_relaxed");
        check(&|s| s.kernel = "other".into(), "kernel of its own");
        check(&|s| s.kernel.clear(), "kernel of its own");
    }

    #[test]
    fn late_writes_have_to_be_allowed() {
        assert_eq!(may_share(GFS2, false), Ok(()));
        assert_eq!(may_share(NFS, true), Ok(()));
        assert!(may_share(NFS, false).is_err_and(|why| why.contains("NFS")));
        assert!(may_share(77, false).is_err() && may_share(77, true).is_ok());
    }
}
