//! Programs that another launcher has placed already: it has chosen their nodes, or all are on one and share it.

/// Variables that a launcher sets for each process which it starts, and its name. Sources: Open MPI 4.1, mpirun(1),
/// "Exported environment variables"; PMIx 4, PMIX_RANK; MPICH 4, Hydra, PMI-1 (also Intel MPI, MVAPICH); Slurm 22.05,
/// srun(1), "Output environment variables"; PVM 3.4, lpvm.c: the daemon exports the id by which a task registers.
const LAUNCHERS: &[(&str, &str)] = &[
    ("OMPI_COMM_WORLD_RANK", "Open MPI"),
    ("PMIX_RANK", "PMIx"),
    ("PMI_RANK", "MPICH"),
    ("SLURM_PROCID", "Slurm"),
    ("PVMEPID", "PVM"),
];

/// The launcher that started this process, or one above it.
pub fn launcher() -> Option<&'static str> {
    let set = |(name, _): &&(&str, &str)| std::env::var_os(name).is_some();
    LAUNCHERS.iter().find(set).map(|(_, launcher)| *launcher)
}
