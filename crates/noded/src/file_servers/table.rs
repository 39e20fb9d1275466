//! The file servers of this node: which there are, found again after a restart.

use super::record::{ServerRecord, dir, erase};
use crate::state_dir::StateDir;
use armento_model::NodeName;
use std::collections::BTreeMap;
use std::fs;

/// How far a file server is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stage {
    /// It is being started: wait for `Mfs::servers_changed`.
    Starting,
    Up(ServerRecord),
}

#[derive(Default)]
pub struct FileServers(BTreeMap<(NodeName, u32), Stage>);

impl FileServers {
    /// Those that an earlier daemon started and that still live. What it was starting when it ended has nobody to serve.
    pub fn recover(state: &StateDir) -> (FileServers, Vec<ServerRecord>) {
        let (mut table, mut unfinished) = (FileServers::default(), Vec::new());
        for file in fs::read_dir(dir(state)).into_iter().flatten().flatten() {
            let name = file.file_name().to_string_lossy().into_owned();
            if !(name.starts_with("serve-") && name.ends_with(".json")) {
                continue;
            }
            let Ok(Some(r)) = state.read_json::<ServerRecord>(&format!("mfs/{name}")) else {
                continue;
            };
            match r.process.lives() {
                true if r.port != 0 => table.up(r),
                lives => {
                    erase(state, &r);
                    unfinished.extend(lives.then_some(r));
                }
            }
        }
        (table, unfinished)
    }

    pub fn stage(&self, asker: &NodeName, uid: u32) -> Option<&Stage> {
        self.0.get(&(asker.clone(), uid))
    }

    pub fn starting(&mut self, asker: &NodeName, uid: u32) {
        self.0.insert((asker.clone(), uid), Stage::Starting);
    }

    pub fn up(&mut self, record: ServerRecord) {
        let key = (record.asker.clone(), record.uid);
        self.0.insert(key, Stage::Up(record));
    }

    pub fn remove(&mut self, asker: &NodeName, uid: u32) {
        self.0.remove(&(asker.clone(), uid));
    }

    /// This one has ended; another for the same user may have been started since.
    pub fn ended(&mut self, record: &ServerRecord) {
        let same = |s: &Stage| matches!(s, Stage::Up(r) if r.process == record.process);
        if self.stage(&record.asker, record.uid).is_some_and(same) {
            self.remove(&record.asker, record.uid);
        }
    }

    pub fn count(&self) -> usize {
        self.0.len()
    }

    pub fn all(&self) -> impl Iterator<Item = &ServerRecord> {
        self.0.values().filter_map(|s| match s {
            Stage::Up(r) => Some(r),
            Stage::Starting => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::record::server_file;
    use super::*;
    use crate::process::Process;

    #[test]
    fn servers_are_found_again_and_dead_ones_forgotten() {
        let path = std::env::temp_dir().join(format!("armento-servers-{}", std::process::id()));
        let state = StateDir::new(path.clone());
        state.create().expect("a state directory");
        fs::create_dir_all(dir(&state)).expect("made");
        let me = Process::of(std::process::id() as i32).expect("this process");
        let record = |name: &str, process, port| ServerRecord {
            asker: name.parse().expect("name"),
            uid: 1000,
            process,
            port,
        };
        let dead = Process {
            started: me.started + 1,
            ..me
        };
        let all = [
            record("n1", me, 7),
            record("n2", dead, 7),
            record("n3", me, 0),
        ];
        for r in &all {
            let file = server_file(&r.asker, r.uid);
            state.note_json(&file, r).expect("written");
        }
        let (mut table, unfinished) = FileServers::recover(&state);
        let left = fs::read_dir(dir(&state)).expect("a directory").count();
        fs::remove_dir_all(&path).expect("gone");
        assert_eq!(table.all().collect::<Vec<_>>(), [&all[0]]);
        assert_eq!((unfinished, left), (vec![all[2].clone()], 1));
        table.ended(&record("n1", dead, 7));
        assert_eq!(table.count(), 1);
        table.ended(&all[0]);
        assert_eq!(table.count(), 0);
    }
}
