//! Polls `armento ps` for the location of a run's tree.

use std::collections::HashMap;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::Value;

use crate::task::{Mode, Task};

/// Several times a keeper's reporting period, so that short guests are seen too.
const EVERY: Duration = Duration::from_millis(120);

type Seen = (Option<u64>, Option<bool>);

pub struct Watch {
    asker: Option<(Sender<()>, JoinHandle<Seen>)>,
}

impl Watch {
    /// Starts to watch the tree with the first process `pid`, if moves are possible in this mode.
    pub fn start(task: &Task, pid: u32) -> Watch {
        let asker = match (&task.armento, task.mode) {
            (Some(armento), mode) if mode != Mode::Native => {
                let (stop, stopped) = mpsc::channel();
                let armento = armento.clone();
                let thread = std::thread::spawn(move || {
                    let mut log = Log::default();
                    while stopped.recv_timeout(EVERY) == Err(RecvTimeoutError::Timeout) {
                        if let Some(list) = ask(&armento) {
                            log.take(&list, pid);
                        }
                    }
                    log.seen()
                });
                Some((stop, thread))
            }
            _ => None,
        };
        Watch { asker }
    }

    pub fn finish(self) -> Seen {
        let Some((stop, thread)) = self.asker else {
            return (None, None);
        };
        drop(stop);
        thread.join().unwrap_or((None, None))
    }
}

fn ask(armento: &PathBuf) -> Option<Value> {
    let mut ps = Command::new(armento);
    ps.args(["ps", "--json"])
        .stdin(Stdio::null())
        .stderr(Stdio::null());
    serde_json::from_slice(&ps.output().ok()?.stdout).ok()
}

/// Observations of one tree.
#[derive(Default)]
struct Log {
    moves: HashMap<u64, u64>,
    away: Option<bool>,
}

impl Log {
    fn take(&mut self, list: &Value, root: u32) {
        let Some(procs) = procs(list) else { return };
        let pid_of = |p: &Value| p["pid"].as_u64();
        let Some(tree) = procs
            .iter()
            .find(|p| pid_of(p) == Some(root.into()))
            .map(|p| &p["tree"])
        else {
            return;
        };
        for process in procs.iter().filter(|p| &p["tree"] == tree) {
            let Some(pid) = pid_of(process) else { continue };
            let moves = process["moves"].as_u64().unwrap_or(0);
            let most = self.moves.entry(pid).or_default();
            *most = moves.max(*most);
            let away = process["place"] != process["home"] || moves > 0;
            self.away = Some(self.away.unwrap_or(false) || away);
        }
    }

    fn seen(&self) -> Seen {
        (self.away.map(|_| self.moves.values().sum()), self.away)
    }
}

/// The list of processes, at any place of the schema.
fn procs(list: &Value) -> Option<&Vec<Value>> {
    ["procs", "processes"]
        .iter()
        .find_map(|key| list[*key].as_array())
        .or(list.as_array())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn moves_of_the_tree_add_up() {
        let mut log = Log::default();
        let at = |moves: u64, place: &str| {
            json!({"procs": [
                {"pid": 7, "tree": "a", "home": "n1", "place": place, "moves": moves},
                {"pid": 8, "tree": "a", "home": "n1", "place": "n1", "moves": 2},
                {"pid": 9, "tree": "b", "home": "n1", "place": "n3", "moves": 50}]})
        };
        log.take(&at(0, "n1"), 7);
        log.take(&at(4, "n2"), 7);
        assert_eq!(log.seen(), (Some(6), Some(true)));
    }

    #[test]
    fn nothing_seen_is_unknown() {
        let mut log = Log::default();
        log.take(&json!({"procs": []}), 7);
        assert_eq!(log.seen(), (None, None));
    }
}
