//! One large file copied from a host to the next through the cluster's file system. PAPER(P, copies).
//!
//! Start at [`measure`]: on any hosts, without a paper.

use crate::hosts::Hosts;
use anyhow::{Result, bail};

/// The file on its host, and where it is copied to.
const FILE: &str = "/var/tmp/armento-copy";

/// Copies so many random bytes from the first host to the second, through /mfs, and compares them there. Seconds of the
/// copy; the files are removed.
pub fn measure(hosts: &Hosts, bytes: u64) -> Result<f64> {
    let [_, to, ..] = &hosts.names[..] else {
        bail!("a copy needs two hosts\nhint: name two");
    };
    let there = format!("/mfs/{to}{FILE}");
    if hosts
        .said(0, &format!("test -d /mfs/{to}/var/tmp"))
        .is_err()
    {
        bail!(
            "MFS does not show {to} on {}\nhint: `armento mfs on` mounts it; a lab needs the file /dev/fuse (modprobe fuse)",
            hosts.names[0]
        );
    }
    let script = format!(
        "head -c {bytes} /dev/urandom > {FILE} && begin=$(date +%s.%N) && cp {FILE} {there} && sync {there} && \
         echo $begin $(date +%s.%N)"
    );
    let said = hosts.said(0, &script)?;
    let times: Vec<f64> = said.split_whitespace().flat_map(str::parse).collect();
    let &[begin, end] = times.as_slice() else {
        bail!("the copy said {said:?} instead of two times");
    };
    let sum = format!("sha256sum < {FILE} && rm {FILE}");
    if hosts.said(0, &sum)? != hosts.said(1, &sum)? {
        bail!("the copy is not the file");
    }
    Ok(end - begin)
}
