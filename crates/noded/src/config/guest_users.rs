//! Limits of guest users: what all trees of one user of one home may take here together.

use super::rules::Rules;
use armento_model::NodeName;
use serde::Deserialize;

/// KERNEL: cgroup-v2.rst, cpu.weight.
pub const WEIGHT_MIN: u64 = 1;
pub const WEIGHT_MAX: u64 = 10_000;
/// KERNEL: cgroup-v1/cpu, cfs_quota_us is a millisecond or more, here of a period of 100.
const CPU_PERCENT_MIN: u64 = 1;
/// A host's own threads count, and a guest is one process at least.
const PROCS_MIN: u64 = 32;
const LISTS_MAX: usize = 256;

/// `[[guest_users]]` of the configuration. The first that matches a user holds.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GuestUsers {
    /// As `accept_from` has them.
    pub users: Rules,
    mem_max_kib: Option<u64>,
    /// A process of this node has 100.
    cpu_weight: Option<u64>,
    /// Of one processor: 150 is one and a half.
    cpu_max_percent: Option<u64>,
    /// Processes and threads, those of hosts among them.
    procs_max: Option<u64>,
}

/// What each of them may use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    pub mem_max_kib: Option<u64>,
    pub cpu_weight: Option<u64>,
    pub cpu_max_percent: Option<u64>,
    pub procs_max: Option<u64>,
}

impl GuestUsers {
    fn limits(&self) -> Limits {
        Limits {
            mem_max_kib: self.mem_max_kib,
            cpu_weight: self.cpu_weight,
            cpu_max_percent: self.cpu_max_percent,
            procs_max: self.procs_max,
        }
    }
}

impl Limits {
    fn check(&self) -> Result<(), String> {
        let least = |value: Option<u64>, least: u64| value.is_none_or(|v| v >= least);
        if *self == Limits::default() {
            return Err(
                "it limits nothing: mem_max_kib, cpu_weight, cpu_max_percent or procs_max".into(),
            );
        }
        if !self
            .cpu_weight
            .is_none_or(|w| (WEIGHT_MIN..=WEIGHT_MAX).contains(&w))
        {
            return Err(format!(
                "cpu_weight lies between {WEIGHT_MIN} and {WEIGHT_MAX}"
            ));
        }
        if !least(self.cpu_max_percent, CPU_PERCENT_MIN) {
            return Err(format!("cpu_max_percent is {CPU_PERCENT_MIN} or more"));
        }
        if !least(self.procs_max, PROCS_MIN) {
            return Err(format!("procs_max is {PROCS_MIN} or more"));
        }
        Ok(())
    }
}

/// Refuses lists that cannot hold.
pub fn check(lists: &[GuestUsers]) -> Result<(), String> {
    if lists.len() > LISTS_MAX {
        return Err(format!("more than {LISTS_MAX} times guest_users"));
    }
    for list in lists {
        let of = |why: String| {
            let users: Vec<String> = list.users.clone().into();
            format!("guest_users of {}: {why}", users.join(", "))
        };
        list.users.by_number().map_err(of)?;
        list.limits().check().map_err(of)?;
    }
    Ok(())
}

/// The limits of that user of `home`.
pub fn limits(lists: &[GuestUsers], home: &NodeName, uid: u32) -> Option<Limits> {
    let fits = |list: &&GuestUsers| list.users.at(home).has(uid);
    lists.iter().find(fits).map(GuestUsers::limits)
}

#[cfg(test)]
mod tests {
    use super::super::settings::Config;

    #[test]
    fn the_first_match_holds() {
        let text = "[[guest_users]]\nusers = [\"1000@n1\"]\nprocs_max = 64\n\
            [[guest_users]]\nusers = [\"*\"]\nmem_max_kib = 4096\ncpu_max_percent = 50\n";
        let config = Config::parse(text).expect("good");
        let of = |home: &str, uid| {
            let home = home.parse().expect("name");
            let limits = super::limits(&config.guest_users, &home, uid).expect("limits");
            (limits.procs_max, limits.cpu_max_percent)
        };
        assert_eq!(of("n1", 1000), (Some(64), None));
        assert_eq!(of("n2", 1000), (None, Some(50)));
        assert_eq!(of("n1", 1001), (None, Some(50)));
    }

    #[test]
    fn impossible_limits_are_refused() {
        let check = |rest: &str, part: &str| {
            let text = format!("[[guest_users]]\nusers = [\"n2\"]\n{rest}");
            let e = Config::parse(&text).expect_err(rest);
            assert!(e.contains(part), "{e}");
        };
        check("", "limits nothing");
        check("cpu_weight = 0", "guest_users of n2: cpu_weight");
        check("cpu_max_percent = 0", "cpu_max_percent");
        check("procs_max = 2", "procs_max");
        check("mem = 2", "unknown field");
        let e = Config::parse("[[guest_users]]\nusers = [\"alice@n1\"]\nprocs_max = 64");
        assert!(e.expect_err("a name").contains("given by number"));
    }
}
