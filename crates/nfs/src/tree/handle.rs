//! File handles as bytes (RFC 1813, 2.3.3: at most 64).
//!
//! ```text
//!   inode  1  export 8  kind 4  length 1  kernel's handle …  signature 16
//!   path   2  generation 8  path 16  kind 1
//! ```

use super::failed::Failed;
use super::sys::KernelHandle;
use nfs3_types::nfs3::{NFS3_FHSIZE, nfsstat3};
use ring::hmac;

const INODE: u8 = 1;
const PATH: u8 = 2;
const SIGNATURE: usize = 16;
/// The longest kernel's handle for which there is room. Known ones: ext4 8, xfs 12, tmpfs 12, btrfs 20.
const KERNEL_ROOM: usize = NFS3_FHSIZE - 1 - 8 - 4 - 1 - SIGNATURE;

/// What a handle says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Meaning {
    Inode {
        export: u64,
        file: KernelHandle,
    },
    Path {
        generation: u64,
        path: u128,
        kind: u8,
    },
}

/// Signs handles of inodes: else a client could name any file of the file system by guessing.
pub struct Signer(hmac::Key);

impl std::fmt::Debug for Signer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Signer")
    }
}

impl Signer {
    pub fn new(key: &[u8; 32]) -> Signer {
        Signer(hmac::Key::new(hmac::HMAC_SHA256, key))
    }

    /// `owner`: the node whose file it is alone, or nothing.
    fn sign(&self, bytes: &[u8], owner: &str) -> [u8; SIGNATURE] {
        let mut context = hmac::Context::with_key(&self.0);
        context.update(bytes);
        context.update(owner.as_bytes());
        let tag = context.sign();
        let mut short = [0; SIGNATURE];
        short.copy_from_slice(&tag.as_ref()[..SIGNATURE]);
        short
    }
}

/// The bytes of a handle; none if the kernel's is too long.
pub fn encode(meaning: &Meaning, signer: &Signer, owner: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(NFS3_FHSIZE);
    match meaning {
        Meaning::Inode { export, file } => {
            if file.data.len() > KERNEL_ROOM {
                return None;
            }
            bytes.push(INODE);
            bytes.extend(export.to_be_bytes());
            bytes.extend(file.kind.to_be_bytes());
            bytes.push(file.data.len() as u8);
            bytes.extend(&file.data);
            let signature = signer.sign(&bytes, owner);
            bytes.extend(signature);
        }
        Meaning::Path {
            generation,
            path,
            kind,
        } => {
            bytes.push(PATH);
            bytes.extend(generation.to_be_bytes());
            bytes.extend(path.to_be_bytes());
            bytes.push(*kind);
        }
    }
    Some(bytes)
}

/// What a client's bytes mean. The signature must be for one of these owners.
pub fn decode(bytes: &[u8], signer: &Signer, owners: &[&str]) -> Result<Meaning, Failed> {
    decode_shape(bytes)
        .ok_or(nfsstat3::NFS3ERR_BADHANDLE)
        .and_then(|(meaning, signed)| {
            let signature = &bytes[signed..];
            let good = |owner: &&str| signer.sign(&bytes[..signed], owner)[..] == *signature;
            match meaning {
                Meaning::Path { .. } => Ok(meaning),
                // Of a server with another key, or of another node.
                Meaning::Inode { .. } if !owners.iter().any(good) => Err(nfsstat3::NFS3ERR_STALE),
                Meaning::Inode { .. } => Ok(meaning),
            }
        })
}

fn decode_shape(bytes: &[u8]) -> Option<(Meaning, usize)> {
    let (kind, rest) = bytes.split_first()?;
    let (number, rest) = rest.split_first_chunk()?;
    let number = u64::from_be_bytes(*number);
    match *kind {
        INODE => {
            let (kind, rest) = rest.split_first_chunk()?;
            let (len, rest) = rest.split_first()?;
            let (data, signature) = rest.split_at_checked(usize::from(*len))?;
            let file = KernelHandle {
                kind: i32::from_be_bytes(*kind),
                data: data.to_vec(),
            };
            let meaning = Meaning::Inode {
                export: number,
                file,
            };
            (signature.len() == SIGNATURE).then_some((meaning, bytes.len() - SIGNATURE))
        }
        PATH => {
            let (path, kind) = rest.split_first_chunk()?;
            let [kind] = *kind else {
                return None;
            };
            let meaning = Meaning::Path {
                generation: number,
                path: u128::from_be_bytes(*path),
                kind,
            };
            Some((meaning, bytes.len()))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_come_back_and_forged_ones_do_not() {
        let signer = Signer::new(&[7; 32]);
        let file = KernelHandle {
            kind: 1,
            data: vec![2, 0, 0, 0, 9, 9, 9, 9],
        };
        let inode = Meaning::Inode { export: 5, file };
        let path = Meaning::Path {
            generation: 3,
            path: 1 << 100,
            kind: 8,
        };
        for meaning in [&inode, &path] {
            let bytes = encode(meaning, &signer, "n1").expect("room");
            assert!(bytes.len() <= NFS3_FHSIZE);
            assert_eq!(decode(&bytes, &signer, &["", "n1"]), Ok(meaning.clone()));
            for cut in 0..bytes.len() {
                let bad = Err(nfsstat3::NFS3ERR_BADHANDLE);
                assert_eq!(decode(&bytes[..cut], &signer, &["n1"]), bad, "{cut}");
            }
        }
        let stale = Err(nfsstat3::NFS3ERR_STALE);
        let mut bytes = encode(&inode, &signer, "n1").expect("room");
        assert_eq!(
            decode(&bytes, &signer, &["", "n2"]),
            stale,
            "of another node"
        );
        assert_eq!(
            decode(&bytes, &Signer::new(&[8; 32]), &["n1"]),
            stale,
            "another key"
        );
        bytes[16] ^= 1;
        assert_eq!(decode(&bytes, &signer, &["n1"]), stale, "another file");
        let file = KernelHandle {
            kind: 1,
            data: vec![0; KERNEL_ROOM + 1],
        };
        assert_eq!(
            encode(&Meaning::Inode { export: 5, file }, &signer, ""),
            None
        );
    }
}
