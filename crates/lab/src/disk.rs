//! Throttles disks for the programs of a node. KERNEL: cgroup-v1/blkio-controller.rst; cgroup-v2.rst, "IO Interface
//! Files".
//!
//! In version 1 only reads and writes with O_DIRECT, and reads that miss the page cache, are charged to their program's
//! group: buffered writes are written by the kernel on its own account. A node's own files are in memory, so that this is
//! about shared directories and files of the machine.

use anyhow::{Context, Result, bail};
use std::fs;

/// Disks of a machine that are throttled; more are an error, not left out in silence.
const DISKS_MAX: usize = 256;

/// What to write to the files of a control group, by name, so that it reads and writes at most `rate` bytes a second on each
/// disk.
pub fn throttle(v1: bool, rate: u64) -> Result<Vec<(&'static str, String)>> {
    let disks = disks()?;
    if disks.is_empty() {
        bail!("this machine has no disk to throttle\nhint: leave --disk out");
    }
    let of = |disk: String| match v1 {
        true => [
            "blkio.throttle.read_bps_device",
            "blkio.throttle.write_bps_device",
        ]
        .map(|file| (file, format!("{disk} {rate}")))
        .to_vec(),
        false => vec![("io.max", format!("{disk} rbps={rate} wbps={rate}"))],
    };
    Ok(disks.into_iter().flat_map(of).collect())
}

/// Whole disks that have a size, as `major:minor`. Partitions are throttled with their disk.
fn disks() -> Result<Vec<String>> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/sys/block").context("/sys has no list of disks")? {
        let dir = entry?.path();
        let read = |file: &str| fs::read_to_string(dir.join(file)).unwrap_or_default();
        let (device, size) = (read("dev"), read("size"));
        if !device.is_empty() && size.trim() != "0" {
            found.push(device.trim().to_owned());
        }
    }
    if found.len() > DISKS_MAX {
        bail!(
            "{} disks are too many to throttle\nhint: leave --disk out",
            found.len()
        );
    }
    Ok(found)
}
