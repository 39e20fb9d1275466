//! Settings with which the processes of an MPI program can move.

use crate::installed::Kind;
use serde::Serialize;

/// One environment variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Setting {
    pub name: &'static str,
    pub value: &'static str,
    /// Needed for a move, or only better.
    pub needed: bool,
    pub why: &'static str,
}

const OPEN_MPI: &[Setting] = &[
    Setting {
        name: "PMIX_MCA_gds",
        value: "hash",
        needed: true,
        why: "data of mpirun in memory of each process; by default in pmix_dstor files that all map shared and writable",
    },
    Setting {
        name: "OMPI_MCA_btl",
        value: "tcp,self",
        needed: true,
        why: "messages over sockets, which follow a process; by default vader maps memory that processes of one node share",
    },
    Setting {
        name: "OMPI_MCA_pml",
        value: "ob1",
        needed: true,
        why: "messages through the btl above, not through UCX, which would use shared memory again",
    },
    Setting {
        name: "OMPI_MCA_mpi_yield_when_idle",
        value: "1",
        needed: false,
        why: "a process that waits gives its processor to others; by default it polls, and looks busy",
    },
    Setting {
        name: "OMPI_MCA_hwloc_base_binding_policy",
        value: "none",
        needed: false,
        why: "no process is bound to a processor of the node where it began",
    },
];

const MPICH: &[Setting] = &[
    Setting {
        name: "UCX_TLS",
        value: "tcp,self",
        needed: true,
        why: "messages over sockets, which follow a process; by default UCX makes System V segments that others may attach (MPICH with ch4:ucx)",
    },
    Setting {
        name: "MPIR_CVAR_NOLOCAL",
        value: "1",
        needed: true,
        why: "processes of one node speak as those of two do, without /dev/shm/mpich_shm files",
    },
    Setting {
        name: "HYDRA_BINDING",
        value: "none",
        needed: false,
        why: "no process is bound to a processor of the node where it began",
    },
];

/// The implementation that has started a process, from its environment (`NAME=value` separated by zero bytes): Open MPI's
/// orted and MPICH's Hydra each set a variable of every process.
pub fn started_by(environ: &[u8]) -> Option<Kind> {
    let has = |name: &[u8]| environ.split(|b| *b == 0).any(|v| v.starts_with(name));
    if has(b"OMPI_COMM_WORLD_RANK=") {
        return Some(Kind::OpenMpi);
    }
    has(b"PMI_RANK=").then_some(Kind::Mpich)
}

/// The setting with which such a process would move, by what keeps it: the name of a file or segment that it shares.
pub fn advice(kind: Option<Kind>, detail: &str) -> Option<String> {
    const MARKS: [(&str, Kind, &str); 5] = [
        ("pmix_dstor", Kind::OpenMpi, "PMIX_MCA_gds"),
        ("vader_segment", Kind::OpenMpi, "OMPI_MCA_btl"),
        ("sm_segment", Kind::OpenMpi, "OMPI_MCA_btl"),
        ("mpich_shm", Kind::Mpich, "MPIR_CVAR_NOLOCAL"),
        ("ucx_shm", Kind::Mpich, "UCX_TLS"),
    ];
    let named = MARKS.iter().find(|(mark, ..)| detail.contains(mark));
    let named = named.map(|(_, kind, name)| (*kind, *name));
    // A segment has no name: it is MPICH's where Hydra has started the process.
    let segment = || match kind? {
        Kind::Mpich if detail.contains("System V") => Some((Kind::Mpich, "UCX_TLS")),
        _ => None,
    };
    let (kind, name) = named.or_else(segment)?;
    let s = settings(kind).iter().find(|s| s.name == name)?;
    Some(format!(
        "{} process: start it with {}={} (all settings: `armento mpi-env --{}`)",
        kind.name(),
        s.name,
        s.value,
        kind.word()
    ))
}

/// All settings of an implementation.
pub fn settings(kind: Kind) -> &'static [Setting] {
    match kind {
        Kind::OpenMpi => OPEN_MPI,
        Kind::Mpich => MPICH,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_keeps_a_process_names_the_setting() {
        let check = |environ: &[u8], detail: &str, want: Option<&str>| {
            let got = advice(started_by(environ), detail);
            assert_eq!(
                got.as_deref().map(|t| t.contains(want.unwrap_or("?"))),
                want.map(|_| true),
                "{got:?}"
            );
        };
        let (open_mpi, mpich) = (b"A=1\0OMPI_COMM_WORLD_RANK=0\0", b"PMI_RANK=1\0B=2\0");
        let dstor = "/tmp/ompi.n1.0/pid.7/0/pmix_dstor_ds21_7/smlockseg-1 (mapped shared and writable)";
        check(open_mpi, dstor, Some("PMIX_MCA_gds=hash"));
        check(b"", dstor, Some("PMIX_MCA_gds=hash"));
        check(mpich, "others may attach System V segment 557107 (mode 660)", Some("UCX_TLS=tcp,self"));
        check(b"PATH=/\0", "others may attach System V segment 557107 (mode 660)", None);
        check(mpich, "/dev/shm/mpich_shm_ab", Some("MPIR_CVAR_NOLOCAL=1"));
        check(open_mpi, "it has /tmp/x open", None);
    }
}
