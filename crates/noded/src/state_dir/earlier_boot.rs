//! What an earlier boot left in the state directory.
//!
//! After a power cut a file may have its name and its length and none of its bytes (ext4 delays allocation, and what is
//! reserved reads as zeros). Copies of guests' files and records of hosts are written without waiting for the disk; they
//! are of no use to another boot, so none of them is looked at: they are removed before anything else is done.

use super::dir::StateDir;
use crate::error::FarmError;
use std::fs;
use std::io;

/// KERNEL: random(4), "boot_id": another at each boot, the same in every namespace.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";
/// In the state directory: the boot that the rest belongs to.
const WRITTEN: &str = "boot.json";
/// What belongs to one boot: copies of files, and the records and logs of hosts and of MFS.
const COPIES: &str = "files";
const HOSTS: &str = "hosts";
const MFS: &str = "mfs";

/// Removes what an earlier boot left. Before: this daemon has the lock, and no host was started.
pub fn forget_earlier(state: &StateDir) -> Result<(), FarmError> {
    let now =
        fs::read_to_string(BOOT_ID).map_err(FarmError::state("cannot read the boot's number"))?;
    forget_unless(state, now.trim())
}

fn forget_unless(state: &StateDir, now: &str) -> Result<(), FarmError> {
    let stale: &[&str] = match state.read_json::<String>(WRITTEN) {
        Ok(Some(written)) if written == now => return Ok(()),
        // A version before this one wrote none, and its hosts may be there. Each record tells when its host was started.
        Ok(None) => &[COPIES],
        // One that cannot be read was cut off with the power.
        Ok(Some(_)) | Err(_) => &[COPIES, HOSTS, MFS],
    };
    for name in stale {
        let dir = state.path().join(name);
        match fs::remove_dir_all(&dir) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => {
                let what = format!("cannot remove {} of an earlier boot", dir.display());
                return Err(FarmError::state(what)(e));
            }
            _ => {}
        }
    }
    // The next start of this boot must not believe that its own hosts are another's.
    let _ = fs::remove_file(state.path().join(WRITTEN));
    state.write_if_possible(WRITTEN, &now, "the next start removes copies again")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_boot_removes_copies_and_hosts() {
        let dir = std::env::temp_dir().join(format!("armento-boot-{}", std::process::id()));
        let state = StateDir::new(dir.clone());
        state.create().expect("a state directory");
        let copy = dir.join("files/n1-1000/lib");
        let put = || {
            fs::create_dir_all(dir.join("files/n1-1000")).expect("made");
            fs::create_dir_all(dir.join("hosts")).expect("made");
            fs::write(&copy, [0; 64]).expect("written");
            fs::write(dir.join("hosts/n1-7.json"), "").expect("written");
        };
        let left = || (copy.exists(), dir.join("hosts/n1-7.json").exists());
        put();
        forget_unless(&state, "a").expect("forgotten");
        let first = left();
        put();
        forget_unless(&state, "a").expect("kept");
        let same = left();
        // As a power cut leaves it.
        fs::write(dir.join(WRITTEN), "").expect("written");
        forget_unless(&state, "a").expect("forgotten");
        let cut = left();
        put();
        forget_unless(&state, "b").expect("forgotten");
        let other = left();
        fs::remove_dir_all(&dir).expect("gone");
        assert_eq!((first, same), ((false, true), (true, true)));
        assert_eq!((cut, other), ((false, false), (false, false)));
    }
}
