//! Names, rights and limits of the process that this one becomes.

use super::error::Step;
use super::sys;
use crate::home::Process;
use rustix::fs::Mode;
use rustix::process::{chdir, getuid, umask};
use std::fs;
use std::io;

type Failed = (Step, io::Error);

/// Everything that does not hinder the steps behind it. What [`super::check`] warned of is left as it is.
pub fn set(p: &Process) -> Result<(), Failed> {
    umask(Mode::from_raw_mode(p.umask & 0o777));
    chdir(p.cwd.path()).map_err(|e| (Step::Directory, e.into()))?;
    drop(fs::write(
        "/proc/self/oom_score_adj",
        p.oom_score_adj.to_string(),
    ));
    drop(sys::set_nice(p.nice));
    if let Some(persona) = p.personality {
        sys::set_personality(persona);
    }
    raise_limits(p);
    let rights = |e| (Step::Rights, e);
    if getuid().is_root() {
        let three = |ids: &[u32; 4]| [ids[0], ids[1], ids[2]];
        sys::become_user(three(&p.uids), three(&p.gids), &p.groups).map_err(rights)?;
    }
    if p.no_new_privs {
        sys::set_no_new_privs().map_err(rights)?;
    }
    Ok(())
}

/// Hard limits that are too low, while this process may still raise them.
fn raise_limits(p: &Process) {
    for (resource, limit) in p.limits.iter().enumerate() {
        let resource = resource as u32;
        if let Ok((soft, hard)) = sys::limit(resource)
            && hard < limit.hard
        {
            drop(sys::set_limit(resource, soft, limit.hard));
        }
    }
}

/// Last of all: they would hinder the making of descriptors.
pub fn set_limits(p: &Process) -> Result<(), Failed> {
    for (resource, limit) in p.limits.iter().enumerate() {
        let resource = resource as u32;
        let set = sys::set_limit(resource, limit.soft, limit.hard);
        let set = set.or_else(|_| {
            let (_, hard) = sys::limit(resource)?;
            let hard = limit.hard.min(hard);
            sys::set_limit(resource, limit.soft.min(hard), hard)
        });
        set.map_err(|e| (Step::Limits, e))?;
    }
    Ok(())
}
