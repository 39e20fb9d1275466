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

/// The implementation that has started a process, from its environment: Open MPI's orted and MPICH's Hydra each set a variable of
/// every process.
fn started_by(environ: &[&[u8]]) -> Option<Kind> {
    let has = |name: &[u8]| environ.iter().any(|v| v.starts_with(name));
    if has(b"OMPI_COMM_WORLD_RANK=") {
        return Some(Kind::OpenMpi);
    }
    has(b"PMI_RANK=").then_some(Kind::Mpich)
}

/// The settings with which a process of MPI would move that shares memory: those it needs and does not have. `environ`:
/// `NAME=value` separated by zero bytes; `detail`: what it shares.
pub fn advice(environ: &[u8], detail: &str) -> Option<String> {
    const MARKS: [(&str, Kind); 4] = [
        ("pmix_dstor", Kind::OpenMpi),
        ("vader_segment", Kind::OpenMpi),
        ("mpich_shm", Kind::Mpich),
        ("ucx_shm", Kind::Mpich),
    ];
    let environ: Vec<&[u8]> = environ.split(|b| *b == 0).collect();
    let named = MARKS.iter().find(|(mark, _)| detail.contains(mark));
    let kind = started_by(&environ).or(named.map(|(_, kind)| *kind))?;
    let set = |s: &&Setting| format!("{}={}", s.name, s.value);
    let missing = settings(kind).iter().filter(|s| s.needed);
    let missing = missing.map(|s| set(&s));
    let missing: Vec<String> = missing
        .filter(|m| !environ.contains(&m.as_bytes()))
        .collect();
    (!missing.is_empty()).then(|| {
        format!(
            "it is a process of {}: start it with {} (`armento mpi-env --{}` explains)",
            kind.name(),
            missing.join(" "),
            kind.word()
        )
    })
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
    fn what_keeps_a_process_names_the_settings() {
        let dstor =
            "/tmp/ompi.n1.0/pid.7/0/pmix_dstor_ds21_7/smlockseg-1 (mapped shared and writable)";
        let says = |environ: &[u8], detail: &str| advice(environ, detail).unwrap_or_default();
        let open_mpi = says(
            b"A=1\0OMPI_COMM_WORLD_RANK=0\0OMPI_MCA_btl=tcp,self\0OMPI_MCA_pml=ob1\0",
            "it shares memory",
        );
        assert!(open_mpi.contains("with PMIX_MCA_gds=hash ("), "{open_mpi}");
        assert!(says(b"", dstor).contains("PMIX_MCA_gds=hash OMPI_MCA_btl=tcp,self"));
        let mpich = says(
            b"PMI_RANK=1\0",
            "others may attach System V segment 557107 (mode 660)",
        );
        assert!(
            mpich.contains("UCX_TLS=tcp,self") && mpich.contains("--mpich"),
            "{mpich}"
        );
        assert_eq!(
            says(
                b"PATH=/\0",
                "others may attach System V segment 557107 (mode 660)"
            ),
            ""
        );
        assert_eq!(
            says(
                b"PMI_RANK=1\0UCX_TLS=tcp,self\0MPIR_CVAR_NOLOCAL=1\0",
                "a memfd"
            ),
            ""
        );
    }
}
