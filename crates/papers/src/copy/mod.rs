//! One large file copied from a host to the next through the cluster's file system. PAPER(P, copies).
//!
//! Start at [`measure`]: on any hosts, without a paper.

use crate::hosts::Hosts;
use anyhow::{Result, bail};

/// Begin of the file's name on its host, and where it is copied to.
const FILE: &str = "/var/tmp/armento-copy";

/// Copies so many random bytes from the first host to the second, through /mfs, and compares them there. Seconds of the
/// copy; the files are removed.
pub fn measure(hosts: &Hosts, bytes: u64) -> Result<f64> {
    let [_, to, ..] = &hosts.names[..] else {
        bail!("a copy needs two hosts\nhint: name two");
    };
    if hosts
        .said(0, &format!("test -d /mfs/{to}/var/tmp"))
        .is_err()
    {
        bail!(
            "MFS does not show {to} on {}\nhint: `armento mfs on` mounts it; a lab needs the file /dev/fuse (modprobe fuse)",
            hosts.names[0]
        );
    }
    // A name that no other process has, also on the second host; a copy that fails leaves nothing.
    let script = format!(
        "set -e; f=$(mktemp {FILE}.XXXXXX); trap 'test $? = 0 || rm -f $f /mfs/{to}$f' EXIT; \
         head -c {bytes} /dev/urandom > $f; begin=$(date +%s.%N); cp $f /mfs/{to}$f; sync /mfs/{to}$f; \
         echo $begin $(date +%s.%N) $f"
    );
    let said = hosts.said(0, &script)?;
    let words: Vec<&str> = said.split_whitespace().collect();
    let times: Vec<f64> = words.iter().flat_map(|w| w.parse()).collect();
    let (&[begin, end], [_, _, file]) = (times.as_slice(), &words[..]) else {
        bail!("the copy said {said:?} instead of two times and a name");
    };
    let sum = format!("sha256sum < {file} && rm {file}");
    if hosts.said(0, &sum)? != hosts.said(1, &sum)? {
        bail!(
            "the copy is not the file\nhint: `armento mfs stat` shows errors of the link between the two nodes"
        );
    }
    Ok(end - begin)
}
