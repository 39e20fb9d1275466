//! MPI programs in labs, for all experiments that run some.

use crate::formula::Values;
use crate::runner::{Measured, Setting, Tool};
use anyhow::Result;
use armento_lab::{Link, Spec};
use armento_mpi::{Ground, Installed, Kind, LINK_BIT_S, Program, Wait};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// What all of them need.
pub const TOOLS: &[Tool] = &[
    Tool {
        program: "mpirun.openmpi",
        package: "openmpi-bin libopenmpi-dev",
    },
    Tool {
        program: "cc",
        package: "gcc libc6-dev",
    },
    Tool {
        program: "ip",
        package: "iproute2",
    },
];

/// Processors of this machine.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// The implementation that is used unless an experiment says otherwise.
pub fn open_mpi() -> Result<Installed> {
    Kind::OpenMpi.find()
}

/// Compiles these programs, so that what is missing is said before the first run.
pub fn compile(programs: &[Program]) -> Result<Value> {
    let mpi = open_mpi()?;
    let folder = armento_mpi::folder()?;
    for program in programs {
        armento_mpi::build(&mpi, *program, &folder)?;
    }
    Ok(json!({ "mpi": mpi.version() }))
}

/// A lab as Transfer and Nettest need it: a switch of 100 Mbit/s, nodes that are as fast as the machine lets them.
pub fn fast_ethernet(what: &str, nodes: usize) -> Spec {
    Spec {
        name: name(what),
        nodes,
        speeds: vec![1.0],
        link: Link::Switch { bits: LINK_BIT_S },
        farm: false,
        ..Spec::default()
    }
}

/// A lab's name that no other process of ours has.
pub fn name(what: &str) -> String {
    format!("{what}-{}", std::process::id())
}

/// Raises a lab, measures in it, and takes it down.
pub fn in_lab(
    spec: Spec,
    work: impl FnOnce(&Ground) -> Result<(Values, Value)>,
) -> Result<Measured> {
    let ground = Ground::lab(spec)?;
    let done = work(&ground);
    let (problem, traffic) = (ground.problem(), ground.traffic());
    ground.down()?;
    if problem.is_some() {
        return Ok(Measured {
            problem,
            ..Measured::default()
        });
    }
    let (values, raw) = done?;
    Ok(Measured {
        values,
        raw,
        traffic: traffic?,
        problem: None,
    })
}

/// One of our programs on the first `np` nodes, whose processes sleep while they wait: nodes of a lab share processors, and one that
/// polls takes the time of the one that it waits for.
pub fn patiently<T: DeserializeOwned>(
    ground: &Ground,
    mpi: &Installed,
    program: Program,
    np: usize,
    args: &[String],
) -> Result<T> {
    let mut job = ground.job(mpi, program, np, args)?;
    job.wait = Wait::Sleep;
    ground.run(mpi, &job)?.json()
}

/// Words of numbers.
pub fn words(all: &[f64]) -> Vec<String> {
    all.iter().map(f64::to_string).collect()
}

/// So many, but one at least.
pub fn scaled(n: f64, setting: &Setting) -> f64 {
    (n * setting.scale).round().max(1.0)
}
