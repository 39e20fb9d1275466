//! Scheduling of a thread, and its counters.

const PROCESS: &str = "crates/abi/src/x86_64/process.rs";
const CALLS: &str = "docs/manual/calls.md";

use crate::Name::{Call, Prctl, Proc, Status};
use crate::Owner::{Process, Thread};
use crate::{Row, at_home, carried, invisible, manual, names, row};

pub const ROWS: &[Row] = &[
    row(
        "sched-nice",
        Thread,
        "niceness",
        names![
            task_struct: static_prio prio normal_prio
            => Call("nice"), Call("setpriority"), Call("getpriority")
        ],
        carried("crates/keeper/src/traced/external_limits.rs"),
        &["schedule", "givens"],
    ),
    row(
        "sched-policy",
        Thread,
        "policy, real-time priority, deadline, utilisation clamps, reset on fork",
        names![
            task_struct: policy rt_priority rt dl dl_server sched_reset_on_fork uclamp_req
                uclamp scx
            => Call("sched_setscheduler"), Call("sched_setattr"), Call("sched_setparam")
        ],
        manual(
            CALLS,
            "holds for the deputy; the body is scheduled by the farm",
        ),
        &["schedule"],
    ),
    row(
        "sched-affinity",
        Thread,
        "processors that it may use",
        names![
            task_struct: cpus_ptr cpus_mask user_cpus_ptr nr_cpus_allowed
            => Call("sched_setaffinity"), Call("sched_getaffinity"), Status("Cpus_allowed"),
                Status("Cpus_allowed_list")
        ],
        manual(CALLS, "holds for the deputy; getaffinity answers for home"),
        &["schedule", "statfiles"],
    ),
    row(
        "sched-cpuset",
        Process,
        "control groups, cpusets and memory nodes that it may use",
        names![
            task_struct: cgroups cg_list mems_allowed mems_allowed_seq cpuset_mem_spread_rotor
                cpuset_slab_spread_rotor sched_task_group;
            signal_struct: cgroup_threadgroup_rwsem
            => Proc("cgroup"), Proc("cpuset"), Status("Mems_allowed"), Status("Mems_allowed_list")
        ],
        at_home("crates/abi/src/procfs.rs"),
        &["selflinks"],
    ),
    row(
        "sched-cgroup-account",
        Process,
        "CPU time and memory that its control group at home is charged, and limits of that group",
        names![task_struct: psi_flags],
        manual(
            "docs/manual/differences.md",
            "a body is charged to its node's group for guests: home's cpu.stat, memory.current, memory.max and PSI do not count it",
        ),
        &[],
    ),
    row(
        "sched-autogroup",
        Process,
        "autogroup and its niceness",
        names![signal_struct: autogroup => Proc("autogroup")],
        at_home(PROCESS),
        &["raremodes"],
    ),
    row(
        "sched-io-priority",
        Thread,
        "I/O priority, and permission to flush (PR_SET_IO_FLUSHER)",
        names![=> Prctl(57, "PR_SET_IO_FLUSHER"), Prctl(58, "PR_GET_IO_FLUSHER")],
        at_home(PROCESS),
        &["schedule"],
    ),
    row(
        "sched-timer-slack",
        Thread,
        "timer slack: sleeps are at home",
        names![
            task_struct: timer_slack_ns default_timer_slack_ns
            => Proc("timerslack_ns"), Prctl(29, "PR_SET_TIMERSLACK"), Prctl(30, "PR_GET_TIMERSLACK")
        ],
        at_home("crates/abi/src/x86_64/sub.rs"),
        &["prctls"],
    ),
    row(
        "sched-cpu-time",
        Thread,
        "CPU time of a thread",
        names![
            task_struct: utime stime gtime prev_cputime vtime se
            => Proc("schedstat"), Proc("sched")
        ],
        carried("crates/migrate/src/image/cpu.rs"),
        &["cputime", "clocks"],
    ),
    row(
        "sched-cpu-time-of-process",
        Process,
        "CPU time of a process and of its children",
        names![
            signal_struct: utime stime cutime cstime gtime cgtime prev_cputime sum_sched_runtime
                stats_lock
            => Call("times"), Call("getrusage")
        ],
        manual(
            "docs/manual/run.md",
            "at home its parent, and /proc/PID/stat, read what was used at home",
        ),
        &["cputime"],
    ),
    row(
        "sched-switches",
        Thread,
        "voluntary and involuntary context switches",
        names![
            task_struct: nvcsw nivcsw last_switch_count last_switch_time;
            signal_struct: nvcsw nivcsw cnvcsw cnivcsw
            => Status("voluntary_ctxt_switches"), Status("nonvoluntary_ctxt_switches")
        ],
        manual(
            "docs/manual/differences.md",
            "home answers with its deputy's: what a body did away is not added, and the waits of its deputy are",
        ),
        &[],
    ),
    row(
        "sched-faults",
        Thread,
        "page faults",
        names![
            task_struct: min_flt maj_flt;
            signal_struct: min_flt maj_flt cmin_flt cmaj_flt
        ],
        manual(
            "docs/manual/differences.md",
            "those of a body are added while it is there, and missing at home and for its parent; pages that a move puts in place are no faults",
        ),
        &["usage"],
    ),
    row(
        "sched-maxrss",
        Process,
        "largest resident size, of itself and of children that were waited for",
        names![
            signal_struct: maxrss cmaxrss;
            mm_struct: hiwater_rss hiwater_vm
            => Status("VmHWM"), Status("VmPeak")
        ],
        manual(
            "docs/manual/differences.md",
            "ru_maxrss counts what is resident away while the process is there, and not afterwards; it is not reported to the parent",
        ),
        &["usage"],
    ),
    row(
        "sched-io-account",
        Process,
        "bytes and calls of I/O",
        names![
            task_struct: ioac;
            signal_struct: ioac inblock oublock cinblock coublock
            => Proc("io")
        ],
        manual(
            "docs/manual/differences.md",
            "reads that are answered from what was read ahead away are not counted at home",
        ),
        &[],
    ),
    row(
        "sched-delay-account",
        Thread,
        "delay accounting, taskstats, BSD process accounting",
        names![
            task_struct: delays sched_info acct_rss_mem1 acct_vm_mem1 acct_timexpd
                latency_record_count latency_record;
            signal_struct: pacct stats
            => Proc("latency")
        ],
        manual(
            "docs/manual/differences.md",
            "home's records (acct, taskstats) hold the deputy's times and memory",
        ),
        &[],
    ),
    row(
        "sched-start",
        Process,
        "when it began",
        names![task_struct: start_time start_boottime],
        at_home("crates/migrate/src/image/mm.rs"),
        &["statfiles"],
    ),
    row(
        "sched-numa-balancing",
        Thread,
        "automatic NUMA balancing",
        names![
            task_struct: numa_scan_seq numa_scan_period numa_scan_period_max numa_preferred_nid
                numa_migrate_retry node_stamp last_task_numa_placement last_sum_exec_runtime
                numa_work numa_group numa_faults total_numa_faults numa_faults_locality
                numa_pages_migrated pref_node_fork;
            mm_struct: numa_next_scan numa_scan_offset numa_scan_seq;
            vm_area_struct: numab_state
            => Status("Ngid")
        ],
        invisible("each kernel balances its own memory; Ngid is a number of that bookkeeping"),
        &[],
    ),
    row(
        "sched-internal",
        Thread,
        "run queues, load tracking, RCU, migration between processors of one machine",
        names![
            task_struct: ptrace_entry on_cpu wake_entry wakee_flips wakee_flip_decay_ts
                last_wakee on_rq sched_class sched_throttle_work throttle_node throttled stats
                preempt_notifiers btrace_seq max_allowed_capacity migration_pending
                migration_disabled migration_flags rcu_read_lock_nesting rcu_read_unlock_special
                rcu_node_entry rcu_blocked_node rcu_tasks_nvcsw rcu_tasks_holdout rcu_tasks_idx
                rcu_tasks_idle_cpu rcu_tasks_holdout_list rcu_tasks_exit_cpu rcu_tasks_exit_list
                trc_reader_nesting trc_ipi_to_cpu trc_reader_special trc_holdout_list
                trc_blkd_node trc_blkd_cpu pushable_tasks pushable_dl_tasks
                sched_contributes_to_load sched_migrated sched_task_hot sched_remote_wakeup
                sched_rt_mutex sched_psi_wake_requeue
        ],
        invisible("each kernel schedules what it runs"),
        &[],
    ),
];
