//! The command line of a launcher.

use crate::hostfile::Host;
use crate::installed::{Installed, Kind};
use std::path::PathBuf;

/// How processes are dealt to hosts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Map {
    /// The next process is the next host's.
    #[default]
    Node,
    /// A host is filled to its slots before the next one.
    Slot,
}

/// How a process waits for messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wait {
    /// As the implementation does by default.
    Poll,
    /// It polls, and gives its processor to others in between. MPICH has no such setting.
    #[default]
    Yield,
    /// It sleeps for moments: Open MPI only, by a library of ours ([`crate::patient`]).
    Sleep,
}

/// A program that is to be started.
#[derive(Clone, Debug, Default)]
pub struct Job {
    pub program: PathBuf,
    pub args: Vec<String>,
    pub np: usize,
    pub hosts: Vec<Host>,
    pub map: Map,
    pub wait: Wait,
    /// Begin of each process's command line: `armento run`.
    pub under: Vec<String>,
    /// Variables of every process.
    pub env: Vec<(String, String)>,
    /// Only the transports of which connections move, over these interfaces, separated by commas.
    pub interfaces: Option<String>,
    /// Program that starts another on a host, as ssh does.
    pub rsh: Option<String>,
    /// Longest time, seconds.
    pub limit_s: f64,
}

/// What is run: variables of the launcher, and its words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    pub env: Vec<(String, String)>,
    pub words: Vec<String>,
}

impl Job {
    /// The words of the launcher, itself first.
    pub fn line(&self, mpi: &Installed, root: bool) -> Line {
        let mut line = Line {
            env: Vec::new(),
            words: vec![mpi.launcher.to_string_lossy().into_owned()],
        };
        match mpi.kind {
            Kind::OpenMpi => self.open_mpi(&mut line, root),
            Kind::Mpich => self.mpich(&mut line),
        }
        line.words.extend(self.under.iter().cloned());
        line.words.push(self.program.to_string_lossy().into_owned());
        line.words.extend(self.args.iter().cloned());
        line
    }

    fn hosts(&self) -> String {
        let one = |h: &Host| format!("{}:{}", h.name, h.slots);
        let all: Vec<String> = self.hosts.iter().map(one).collect();
        all.join(",")
    }

    fn open_mpi(&self, line: &mut Line, root: bool) {
        let mut add = |words: &[&str]| line.words.extend(words.iter().map(|w| (*w).to_owned()));
        if root {
            add(&["--allow-run-as-root"]);
        }
        add(&["--oversubscribe", "--bind-to", "none"]);
        if let Some(rsh) = &self.rsh {
            add(&["--mca", "plm_rsh_agent", rsh]);
        }
        if self.wait != Wait::Poll {
            add(&["--mca", "mpi_yield_when_idle", "1"]);
        }
        if let Some(interfaces) = &self.interfaces {
            add(&["--mca", "pml", "ob1", "--mca", "btl", "tcp,self"]);
            add(&["--mca", "btl_tcp_if_include", interfaces]);
            line.env.push(("PMIX_MCA_gds".into(), "hash".into()));
            add(&["-x", "PMIX_MCA_gds"]);
        }
        let map = match self.map {
            Map::Node => "node",
            Map::Slot => "slot",
        };
        add(&["--map-by", map, "--host", &self.hosts()]);
        add(&["-np", &self.np.to_string()]);
        for (name, value) in &self.env {
            add(&["-x", &format!("{name}={value}")]);
        }
    }

    fn mpich(&self, line: &mut Line) {
        let mut add = |words: &[&str]| line.words.extend(words.iter().map(|w| (*w).to_owned()));
        if let Some(rsh) = &self.rsh {
            add(&["-launcher", "ssh", "-launcher-exec", rsh]);
        }
        // Without numbers Hydra deals one process to each host in turn.
        let hosts = match self.map {
            Map::Slot => self.hosts(),
            Map::Node => {
                let names: Vec<&str> = self.hosts.iter().map(|h| &*h.name).collect();
                names.join(",")
            }
        };
        add(&["-hosts", &hosts, "-n", &self.np.to_string()]);
        if let Some(interfaces) = &self.interfaces {
            let first = interfaces.split(',').next().unwrap_or_default();
            add(&["-iface", first, "-genv", "UCX_TLS", "tcp,self"]);
            add(&["-genv", "UCX_NET_DEVICES", interfaces]);
            add(&["-genv", "MPIR_CVAR_NOLOCAL", "1"]);
        }
        for (name, value) in &self.env {
            add(&["-genv", name, value]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(kind: Kind, job: &Job) -> String {
        let mpi = Installed {
            kind,
            launcher: "mpirun".into(),
            compiler: "mpicc".into(),
        };
        job.line(&mpi, false).words.join(" ")
    }

    #[test]
    fn launchers_get_their_own_words() {
        let job = Job {
            program: "/x/flops".into(),
            args: vec!["7".into()],
            np: 3,
            hosts: vec![Host::new("n1", 2), Host::new("n2", 1)],
            map: Map::Slot,
            under: vec!["armento".into(), "run".into()],
            env: vec![("A".into(), "b".into())],
            ..Job::default()
        };
        assert_eq!(
            line(Kind::OpenMpi, &job),
            "mpirun --oversubscribe --bind-to none --mca mpi_yield_when_idle 1 --map-by slot --host n1:2,n2:1 -np 3 -x A=b armento run /x/flops 7"
        );
        assert_eq!(
            line(Kind::Mpich, &job),
            "mpirun -hosts n1:2,n2:1 -n 3 -genv A b armento run /x/flops 7"
        );
    }
}
