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

/// All settings of an implementation.
pub fn settings(kind: Kind) -> &'static [Setting] {
    match kind {
        Kind::OpenMpi => OPEN_MPI,
        Kind::Mpich => MPICH,
    }
}
