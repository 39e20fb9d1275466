//! Whether MFS is mounted here, and what it needs.

use super::check::{Check, Need, State};
use armento_client::api::{Answer, Ask, MfsInfo};
use armento_client::{ANSWER, Session};
use std::fs::File;
use std::io;

/// KERNEL: the device of fuse.ko.
const FUSE: &str = "/dev/fuse";

pub(super) fn check() -> Check {
    let asked = Session::connect().map(|mut s| s.ask(Ask::Mfs, ANSWER));
    let info = match asked {
        Ok(Ok(Answer::Mfs(info))) => Some(info),
        _ => None,
    };
    let (state, found, remedy) = judge(info.as_ref(), File::open(FUSE).map(drop));
    Check::new("mfs", Need::Nothing, state, found, remedy)
}

fn judge(info: Option<&MfsInfo>, fuse: io::Result<()>) -> (State, String, &'static str) {
    const MODULE: &str = "modprobe fuse; in a container give it the device /dev/fuse";
    match info {
        Some(i) if i.on && i.mounted && i.why.is_empty() => (
            State::Ok,
            format!("files of all nodes are below {}", i.point.display()),
            "",
        ),
        Some(i) if i.on => {
            let why = match i.why.as_str() {
                "" => "it is being mounted",
                why => why,
            };
            let found = format!("not mounted at {}: {why}", i.point.display());
            (
                State::Limited,
                found,
                "mend the cause; the daemon tries again by itself",
            )
        }
        _ => match fuse {
            Ok(()) => (State::Ok, "it can be mounted (armento mfs on)".into(), ""),
            Err(e) => (
                State::Limited,
                format!("it cannot be mounted: {FUSE}: {e}"),
                MODULE,
            ),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_mounted_has_a_reason() {
        let mut info = MfsInfo {
            node: "n1".parse().expect("name"),
            on: true,
            point: "/mfs".into(),
            mounted: true,
            why: String::new(),
            streams: Vec::new(),
            servers: Vec::new(),
            exports: Vec::new(),
        };
        let (state, found, _) = judge(Some(&info), Ok(()));
        assert!(state == State::Ok && found.contains("/mfs"), "{found}");
        (info.mounted, info.why) = (false, "/mfs is not empty".into());
        let (state, found, _) = judge(Some(&info), Ok(()));
        assert!(
            state == State::Limited && found.contains("not empty"),
            "{found}"
        );
        info.on = false;
        assert!(judge(Some(&info), Ok(())).0 == State::Ok);
        let none = || Err(io::Error::from(io::ErrorKind::NotFound));
        assert!(judge(None, none()).0 == State::Limited);
    }
}
