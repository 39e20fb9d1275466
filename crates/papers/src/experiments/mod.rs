//! The registry: one file for an experiment, or for two that show the same on different grounds.
//!
//! Each file says what is shown, what it needs, what is run, and which table it makes; `papers/relations.csv` has what
//! should come of it. An experiment that cannot be run yet is absent. Start at [`ALL`].

mod compile;
mod conversions;
mod copy;
mod costs;
mod deferred;
mod erlang;
mod exchange;
mod farm;
mod flops;
mod fork;
mod growth;
mod halo;
mod hpl;
mod integral;
mod lammps;
mod mpitest;
mod naples;
mod nettest;
mod play;
mod power;
mod ranks;
mod riello;
mod riello_mpi;
mod riello_sizes;
mod shared_files;
mod storage;
mod test1;
mod test3;
mod tests23;
mod topology;
mod transfer;

use crate::runner::Experiment;

/// All experiments, in the order in which they are listed and run.
pub static ALL: &[&Experiment] = &[
    &power::EXPERIMENT,
    &costs::EXPERIMENT,
    &growth::SIMULATED,
    &test1::SIMULATED,
    &tests23::TEST2,
    &tests23::TEST3,
    &topology::STEREO,
    &topology::MONO,
    &copy::EXPERIMENT,
    &growth::LIVE,
    &fork::EXPERIMENT,
    &naples::EXPERIMENT,
    &test1::LIVE,
    &test3::EXPERIMENT,
    &exchange::EXPERIMENT,
    &riello::TABLE1,
    &integral::EXPERIMENT,
    &halo::EXPERIMENT,
    &lammps::EXPERIMENT,
    &flops::EXPERIMENT,
    &transfer::EXPERIMENT,
    &nettest::EXPERIMENT,
    &mpitest::EXPERIMENT,
    &shared_files::EXPERIMENT,
    &hpl::EXPERIMENT,
    &riello_mpi::TABLE2,
    &riello_sizes::EXPERIMENT,
    &deferred::EXPERIMENT,
    &compile::EXPERIMENT,
    &erlang::EXPERIMENT,
    &farm::TEST1,
];

/// Experiments that `all` leaves out unless `--full` is given: another one shows the same in less time, or they need large packages.
pub static ONLY_FULL: &[&str] = &["growth-lab", "lammps", "hpl"];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formula::Values;
    use crate::relations::relation;
    use crate::runner::{Found, On, Setting};
    use std::collections::{BTreeMap, BTreeSet};

    #[test]
    fn experiments_are_complete() {
        let ids: BTreeSet<&str> = ALL.iter().map(|e| e.id).collect();
        assert_eq!(ids.len(), ALL.len());
        for e in ALL {
            assert!(
                ["P", "S", "M", "K", "R", "N"].contains(&e.paper),
                "{}",
                e.id
            );
            assert!(
                !e.requirements.is_empty() && !e.shows.is_empty(),
                "{}",
                e.id
            );
            for id in e.relations {
                assert!(relation(id).is_some(), "{}: {id}", e.id);
            }
            let setting = Setting {
                scale: e.scale,
                on: e.on,
                nodes: e.nodes,
                full: false,
            };
            assert!(e.scale_range.contains(&e.scale) && e.nodes_range.contains(&e.nodes));
            let runs = (e.runs)(&setting);
            let names: BTreeSet<&str> = runs.iter().map(|r| &*r.name).collect();
            assert!(!runs.is_empty() && names.len() == runs.len(), "{}", e.id);
        }
        assert!(ONLY_FULL.iter().all(|id| ids.contains(id)));
        let of_all = ALL
            .iter()
            .filter(|e| e.on != On::Farm && !ONLY_FULL.contains(&e.id));
        let minutes: f64 = of_all.map(|e| e.minutes).sum();
        assert!(minutes <= 40.0, "{minutes}");
    }

    /// Tables have a column for each head, also where nothing was run.
    #[test]
    fn chapters_can_be_empty() {
        for e in ALL {
            let found = Found {
                results: None,
                means: BTreeMap::new(),
                values: Values::default(),
            };
            let chapter = (e.chapter)(&found);
            assert!(!chapter.tables.is_empty(), "{}", e.id);
            for table in chapter.tables {
                assert!(!table.rows.is_empty(), "{}: {}", e.id, table.title);
                for row in &table.rows {
                    assert_eq!(row.len(), table.heads.len(), "{}: {}", e.id, table.title);
                }
            }
        }
    }
}
