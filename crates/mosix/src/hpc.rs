//! `/proc/hpc` and the files of openMosix below `/proc/PID`, as a tree that can be read.
//!
//! [`entry`] is pure: texts from one [`View`], which is asked of the daemon.

use crate::failed::Failed;
use crate::farm::{Farm, Member, processes, switches};
use armento_client::Session;
use armento_client::api::{ProcInfo, SwitchInfo};
use armento_model::Pid;

/// The files, for the manual.
pub const FILES: &[(&str, &str)] = &[
    (
        "hpc/admin/block, stay, lstay, quiet, nomfs, expel, bring",
        "1 if it is switched on, else 0",
    ),
    ("hpc/admin/mospe", "the own ID"),
    ("hpc/admin/speed", "of one core; 10000 is the standard core"),
    (
        "hpc/admin/config",
        "the map of the nodes, as `setpe -r` writes it",
    ),
    (
        "hpc/nodes/ID/CPUs, load, speed, mem, rmem, tmem, status",
        "as mosctl shows them; memory in bytes: free, free, all; status 3 if the node is up, else 1",
    ),
    ("hpc/remote/from, identity", "the number of guests here"),
    (
        "PID/where",
        "the ID of the node where the process runs, 0: home",
    ),
    ("PID/nmigs", "how often it moved"),
    ("PID/lock", "1 if its user keeps it where it is, else 0"),
    (
        "PID/cantmove",
        "the code of the reason why it stays (`armento why`); empty if there is none",
    ),
];

/// What the tree is made of: one snapshot.
#[derive(Clone, Debug, Default)]
pub struct View {
    pub farm: Farm,
    pub switches: Option<SwitchInfo>,
    /// Processes of this home that the reader may see.
    pub procs: Vec<ProcInfo>,
}

impl View {
    /// From this node's daemon, with the rights of the asking user.
    pub fn ask(session: &mut Session) -> Result<View, Failed> {
        Ok(View {
            farm: Farm::ask(session)?,
            switches: Some(switches(session, None)?),
            procs: processes(session, false)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// Names, in order.
    Dir(Vec<String>),
    File(String),
}

const ADMIN: [&str; 10] = [
    "block", "bring", "config", "expel", "lstay", "mospe", "nomfs", "quiet", "speed", "stay",
];
const NODE: [&str; 7] = ["CPUs", "load", "mem", "rmem", "speed", "status", "tmem"];
const PROCESS: [&str; 4] = ["cantmove", "lock", "nmigs", "where"];

/// What is at a path, `hpc/nodes/2/load`; `None`: nothing.
pub fn entry(view: &View, path: &str) -> Option<Entry> {
    let words: Vec<&str> = path.split('/').filter(|w| !w.is_empty()).collect();
    let dir = |names: &[&str]| Some(Entry::Dir(names.iter().map(|n| (*n).to_owned()).collect()));
    match words.as_slice() {
        [] => {
            let pids = view.procs.iter().map(|p| p.pid.to_string());
            Some(Entry::Dir(
                ["hpc".to_owned()].into_iter().chain(pids).collect(),
            ))
        }
        ["hpc"] => dir(&["admin", "nodes", "remote"]),
        ["hpc", "admin"] => dir(&ADMIN),
        ["hpc", "admin", name] => admin(view, name).map(Entry::File),
        ["hpc", "nodes"] => {
            let ids = view.farm.members.iter().map(|m| m.id.to_string());
            Some(Entry::Dir(ids.collect()))
        }
        ["hpc", "nodes", id] => member(view, id).and_then(|_| dir(&NODE)),
        ["hpc", "nodes", id, name] => node(member(view, id)?, name).map(Entry::File),
        ["hpc", "remote"] => dir(&["from", "identity"]),
        ["hpc", "remote", "from" | "identity"] => {
            let guests = view.switches.as_ref().map_or(0, |s| s.guests);
            Some(Entry::File(format!("{guests}\n")))
        }
        [pid] => process(view, pid).and_then(|_| dir(&PROCESS)),
        [pid, name] => of_process(view, process(view, pid)?, name).map(Entry::File),
        _ => None,
    }
}

fn admin(view: &View, name: &str) -> Option<String> {
    let s = view.switches.as_ref();
    let on = |set: fn(&SwitchInfo) -> bool| Some(format!("{}\n", u8::from(s.is_some_and(set))));
    let here = view.farm.here();
    match name {
        "block" => on(|s| s.block || s.drain || s.stopped),
        "stay" | "lstay" => on(|s| s.stay || s.stopped),
        "quiet" => on(|s| s.quiet || s.stopped),
        "nomfs" => on(|s| !s.mfs),
        "expel" => on(|s| s.expels || s.drain),
        "bring" => on(|s| s.brings > 0),
        "mospe" => Some(format!("{}\n", here.map_or(0, |m| m.id))),
        "speed" => Some(format!("{}\n", here.map_or(0, |m| m.info.speed))),
        "config" => {
            let hosts = view.farm.members.iter().map(|m| (m.id, m.address()));
            Some(hosts.map(|(id, host)| format!("{id} {host} 1\n")).collect())
        }
        _ => None,
    }
}

fn member<'a>(view: &'a View, id: &str) -> Option<&'a Member> {
    view.farm.by_id(id.parse().ok()?)
}

fn node(m: &Member, name: &str) -> Option<String> {
    let number = match name {
        "CPUs" => u64::from(m.info.cores),
        "load" => m.load(),
        "mem" | "rmem" => m.mem_free_bytes(),
        "tmem" => m.mem_total_bytes(),
        "speed" => u64::from(m.info.speed),
        "status" => {
            if m.is_up() {
                3
            } else {
                1
            }
        }
        _ => return None,
    };
    Some(format!("{number}\n"))
}

fn process<'a>(view: &'a View, pid: &str) -> Option<&'a ProcInfo> {
    let pid: Pid = pid.parse().ok()?;
    view.procs.iter().find(|p| p.pid == pid)
}

fn of_process(view: &View, p: &ProcInfo, name: &str) -> Option<String> {
    match name {
        "where" if p.place == p.home => Some("0\n".into()),
        "where" => Some(format!(
            "{}\n",
            view.farm.by_name(&p.place).map_or(0, |m| m.id)
        )),
        "nmigs" => Some(format!("{}\n", p.moves)),
        "lock" => Some(format!("{}\n", u8::from(p.locked))),
        "cantmove" => Some(
            p.stay
                .map_or_else(String::new, |s| format!("{}\n", s.code())),
        ),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::farm::tests::node;

    #[test]
    fn every_name_of_a_directory_is_there() {
        let view = View {
            farm: Farm::of(vec![node("n1", "10.0.0.1:1"), node("n2", "10.0.0.2:1")]),
            ..View::default()
        };
        let mut open = vec![String::new()];
        let mut files = 0;
        while let Some(path) = open.pop() {
            match entry(&view, &path).unwrap_or_else(|| panic!("{path} is not there")) {
                Entry::Dir(names) => open.extend(names.iter().map(|n| format!("{path}/{n}"))),
                Entry::File(text) => {
                    assert!(text.ends_with('\n'), "{path}: {text:?}");
                    files += 1;
                }
            }
        }
        assert_eq!(files, ADMIN.len() + 2 * NODE.len() + 2);
        let file = |path: &str| entry(&view, path);
        assert_eq!(file("hpc/nodes/2/load"), Some(Entry::File("50\n".into())));
        assert_eq!(file("/hpc/admin/mospe"), Some(Entry::File("1\n".into())));
        for none in [
            "hpc/nodes/3",
            "hpc/nodes/2/x",
            "7",
            "hpc/admin/x",
            "x",
            "hpc/nodes/2/load/x",
        ] {
            assert_eq!(file(none), None, "{none}");
        }
    }
}
