//! Files that name hosts for launchers.

use crate::inventory::Farm;

/// Whose hostfile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// `host:N`
    Mpich,
    /// `host slots=N`
    OpenMpi,
    /// `host sp=N`: relative speed, not processes; 1000 a slot.
    Pvm,
    /// `N/host`, as GNU parallel's --sshloginfile
    Parallel,
}

/// PVM's scale: 1 to 1,000,000, 1000 by default (pvm_intro(1)).
const PVM_SPEED: u32 = 1000;

/// All nodes in the order of their numbers.
pub fn hostfile(farm: &Farm, form: Form) -> String {
    let line = |name: &str, slots: u32| match form {
        Form::Mpich => format!("{name}:{slots}\n"),
        Form::OpenMpi => format!("{name} slots={slots}\n"),
        Form::Pvm => format!(
            "{name} sp={}\n",
            slots.saturating_mul(PVM_SPEED).min(1_000_000)
        ),
        Form::Parallel => format!("{slots}/{name}\n"),
    };
    farm.nodes.iter().map(|n| line(&n.name, n.slots)).collect()
}

/// mpd.hosts of MPICH2: one host a line.
pub fn mpd_hosts(farm: &Farm) -> String {
    farm.nodes.iter().map(|n| format!("{}\n", n.name)).collect()
}
