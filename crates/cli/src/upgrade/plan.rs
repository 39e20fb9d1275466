//! What an upgrade means for each node and for what runs there. Pure.

use armento_client::api::{Build, ProgramVersions, RunningBuild, VersionsInfo};
use armento_model::{NodeName, clean, common_engine};

/// The program that is to run everywhere.
pub struct Target {
    pub versions: ProgramVersions,
    pub sha256: String,
}

/// What is to be done with a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Its daemon runs that program.
    Nothing,
    /// Its program is replaced, and its daemon becomes the new one.
    Upgrade,
    /// It lets no other node do that.
    ByHand,
    /// Its daemon is more than one version of the control protocol away: neither understands the other.
    TooFar,
    /// It does not answer, or is of a version that cannot be asked.
    Silent,
}

impl Step {
    pub fn name(self) -> &'static str {
        match self {
            Step::Nothing => "nothing",
            Step::Upgrade => "upgrade",
            Step::ByHand => "by-hand",
            Step::TooFar => "too-far",
            Step::Silent => "silent",
        }
    }
}

/// A node of the farm, and what runs there, if it says so.
pub struct NodePlan {
    pub name: NodeName,
    pub here: bool,
    pub info: Result<VersionsInfo, String>,
    pub step: Step,
}

pub fn step(info: &VersionsInfo, here: bool, target: &Target) -> Step {
    let control = target.versions.control;
    match info {
        i if i.sha256 == target.sha256 => Step::Nothing,
        // 0: a program that does not say.
        i if control != 0 && control.abs_diff(i.control) > 1 => Step::TooFar,
        i if here || i.allow_upgrade => Step::Upgrade,
        _ => Step::ByHand,
    }
}

pub fn shown(build: &Build) -> String {
    let version = match build.version.as_str() {
        "" => "a version that does not say".to_owned(),
        version => clean(version),
    };
    match build.engine {
        0 => version,
        engine => format!("{version}, engine {engine}"),
    }
}

/// The lines of a node.
pub fn lines(plan: &NodePlan, target: &Target) -> Vec<String> {
    let name = &plan.name;
    let new = shown(&target.versions.build);
    let info = match &plan.info {
        Ok(info) => info,
        Err(why) => return vec![format!("stop at {name}: {why}")],
    };
    let now = shown(&info.build);
    let mut lines = vec![match plan.step {
        Step::Nothing => format!("leave {name} as it is: its daemon runs this program ({now})"),
        Step::Upgrade => format!(
            "replace {} on {name} ({now}) by {new}, and restart its daemon",
            clean(&info.program)
        ),
        Step::ByHand => format!(
            "leave {name} ({now}): it has no allow_upgrade; run `armento farm upgrade {name} --binary FILE` there"
        ),
        Step::TooFar => format!(
            "leave {name} ({now}): control version {} does not understand {}; upgrade in two steps",
            info.control, target.versions.control
        ),
        Step::Silent => format!("stop at {name}"),
    }];
    let engine = match plan.step {
        Step::Upgrade => target.versions.build.engine,
        _ => info.build.engine,
    };
    lines.extend(info.keepers.iter().map(|k| {
        let follows = info.upgrade_keepers && (plan.step == Step::Upgrade || !k.same_file);
        match follows {
            true => following(name, k),
            false => keeper(name, k, engine),
        }
    }));
    lines.extend(info.hosts.iter().map(|h| host(name, h, engine)));
    lines
}

fn following(node: &NodeName, k: &RunningBuild) -> String {
    format!(
        "have {} keepers of {node} ({}) become that program, one after the other: {} of their {} programs come home for it and go back",
        k.count,
        shown(&k.build),
        k.away,
        k.processes
    )
}

fn keeper(node: &NodeName, k: &RunningBuild, engine: u32) -> String {
    let what = format!(
        "leave {} keepers of {node} with {} programs, {} of them elsewhere, as they are ({})",
        k.count,
        k.processes,
        k.away,
        shown(&k.build)
    );
    match differs(&k.build, engine) {
        true => format!(
            "{what}: those programs move only home, and to nodes where they have been or that keep engine {}",
            k.build.engine
        ),
        false => format!("{what}: they move as before"),
    }
}

fn host(node: &NodeName, h: &RunningBuild, engine: u32) -> String {
    let what = format!(
        "leave {} hosts of {node} with {} guests as they are ({})",
        h.count,
        h.processes,
        shown(&h.build)
    );
    match differs(&h.build, engine) {
        true => format!("{what}: the guests' trees keep these hosts, new trees get other ones"),
        false => what,
    }
}

fn differs(build: &Build, engine: u32) -> bool {
    build.engine != 0 && engine != 0 && common_engine(build.engine, engine).is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn build(version: &str, engine: u32) -> Build {
        Build {
            version: version.into(),
            engine,
        }
    }

    fn target() -> Target {
        Target {
            versions: ProgramVersions {
                build: build("0.2.0", 7),
                control: 2,
            },
            sha256: "bb".into(),
        }
    }

    fn info() -> VersionsInfo {
        VersionsInfo {
            node: "n2".parse().expect("name"),
            build: build("0.1.0", 5),
            control: 1,
            boot: 3,
            sha256: "aa".into(),
            program: "/usr/bin/armento".into(),
            replaced: false,
            previous: false,
            allow_upgrade: true,
            upgrade_keepers: false,
            staying: Vec::new(),
            keepers: vec![RunningBuild {
                build: build("0.1.0", 5),
                same_file: true,
                count: 2,
                processes: 3,
                away: 1,
            }],
            hosts: vec![RunningBuild {
                build: Build::default(),
                same_file: false,
                count: 1,
                processes: 4,
                away: 0,
            }],
        }
    }

    #[test]
    fn each_node_has_its_step() {
        let check = |want, here, set: &dyn Fn(&mut VersionsInfo)| {
            let mut i = info();
            set(&mut i);
            assert_eq!(step(&i, here, &target()), want);
        };
        check(Step::Upgrade, false, &|_| {});
        check(Step::ByHand, false, &|i| i.allow_upgrade = false);
        check(Step::Upgrade, true, &|i| i.allow_upgrade = false);
        check(Step::Nothing, false, &|i| i.sha256 = "bb".into());
        check(Step::TooFar, true, &|i| i.control = 4);
    }

    #[test]
    fn what_goes_on_with_its_own_program_is_said() {
        let plan = NodePlan {
            name: "n2".parse().expect("name"),
            here: false,
            info: Ok(info()),
            step: Step::Upgrade,
        };
        let said = lines(&plan, &target());
        assert_eq!(said.len(), 3);
        assert!(
            said[0]
                .starts_with("replace /usr/bin/armento on n2 (0.1.0, engine 5) by 0.2.0, engine 7")
        );
        assert!(said[1].contains("2 keepers of n2 with 3 programs, 1 of them elsewhere"));
        assert!(said[1].contains("move only home") && said[1].ends_with("engine 5"));
        assert!(said[2].contains("4 guests as they are (a version that does not say)"));
    }
}
