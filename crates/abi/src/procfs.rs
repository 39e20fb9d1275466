//! Files of /proc that speak of the memory or the state of the process itself.

/// Files whose answer is wrong when it comes from a hollow deputy.
const OF_THE_BODY: &[&str] = &[
    "arch_status",
    "auxv",
    "clear_refs",
    "ksm_merging_pages",
    "ksm_stat",
    "map_files",
    "maps",
    "mem",
    "numa_maps",
    "oom_score",
    "pagemap",
    "sched",
    "schedstat",
    "smaps",
    "smaps_rollup",
    "stack",
    "stat",
    "statm",
    "status",
    "syscall",
    "timers",
    "wchan",
];

/// Whether opening `path` needs the process at home: its own /proc files about memory,
/// registers and CPU time. Paths relative to a directory in /proc are not recognised.
pub fn proc_self_needs_home(path: &[u8], pid: u32) -> bool {
    if !path.starts_with(b"/") {
        return false;
    }
    let mut parts: Vec<&[u8]> = Vec::new();
    for part in path.split(|&b| b == b'/') {
        match part {
            b"" | b"." => {}
            b".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    let [b"proc", who, rest @ ..] = parts.as_slice() else {
        return false;
    };
    let own = match *who {
        b"self" | b"thread-self" => true,
        number => number == pid.to_string().as_bytes(),
    };
    let file = match *rest {
        [b"task", _, file, ..] | [file, ..] => file,
        [] => return false,
    };
    own && OF_THE_BODY.iter().any(|name| name.as_bytes() == file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_memory_needs_home() {
        let check = |path: &str, want| {
            assert_eq!(proc_self_needs_home(path.as_bytes(), 42), want, "{path}");
        };
        for file in ["maps", "smaps", "stat", "statm", "status", "mem", "pagemap"] {
            check(&format!("/proc/self/{file}"), true);
            check(&format!("/proc/thread-self/{file}"), true);
            check(&format!("/proc/42/{file}"), true);
            check(&format!("/proc/42/task/43/{file}"), true);
            check(&format!("//proc/./self/../42//{file}"), true);
            check(&format!("/proc/43/{file}"), false);
        }
        check("/proc/self/map_files/400000-401000", true);
        for file in [
            "fd",
            "fd/3",
            "fdinfo/1",
            "exe",
            "cwd",
            "root",
            "cmdline",
            "environ",
            "comm",
            "limits",
            "cgroup",
            "mounts",
            "mountinfo",
            "oom_score_adj",
            "uid_map",
            "ns/pid",
            "task",
        ] {
            check(&format!("/proc/self/{file}"), false);
        }
        check("/proc/stat", false);
        check("/proc/self", false);
        check("/proc", false);
        check("proc/self/maps", false);
        check("/tmp/proc/self/maps", false);
        check("", false);
    }
}
