//! How a node's paths look below the mount.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Where the mount shows this node: absolute targets of links lead below it, and stay on the node.
#[derive(Clone, Debug)]
pub struct Shown {
    pub point: Vec<u8>,
    pub below: Vec<u8>,
}

impl Shown {
    /// A link's target as the mount shows it. One that leads to the mount point itself is left as it is.
    pub fn target(&self, target: Vec<u8>) -> Vec<u8> {
        let path = Path::new(std::ffi::OsStr::from_bytes(&target));
        let point = Path::new(std::ffi::OsStr::from_bytes(&self.point));
        if !path.is_absolute() || self.point.is_empty() || path.starts_with(point) {
            return target;
        }
        [&self.below[..], &target].concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absolute_targets_stay_on_the_node() {
        let s = Shown {
            point: b"/mfs".into(),
            below: b"/mfs/n2".into(),
        };
        let check = |t: &str, want: &str| {
            assert_eq!(s.target(t.into()), want.as_bytes(), "{t}");
        };
        check("/etc/passwd", "/mfs/n2/etc/passwd");
        check("/", "/mfs/n2/");
        check("../etc", "../etc");
        check("", "");
        check("/mfs/n3/x", "/mfs/n3/x");
        check("/mfs", "/mfs");
        check("/mfsx", "/mfs/n2/mfsx");
    }
}
