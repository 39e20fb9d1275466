//! State of one thread for observation, measurement and accounting by others, and the kernel's own bookkeeping.

use crate::Name::{Call, Prctl, Proc};
use crate::Owner::Thread;
use crate::{Row, at_home, invisible, manual, names, row, stays};

const INTERNAL: &str = "bookkeeping of the kernel that holds the thread";
const TRACING: &str =
    "tracers of the whole kernel (ftrace, kprobes, BPF): state of the kernel that runs the code";

pub const ROWS: &[Row] = &[
    row(
        "thread-uprobes",
        Thread,
        "uprobes that root has set on the program's text, their breakpoints and the mapping [uprobes]",
        names![
            task_struct: utask;
            mm_struct: uprobes_state
            => Call("uprobe"), Call("uretprobe")
        ],
        stays("KernelState", "crates/migrate/src/image/breakpoints.rs"),
        &["every_stay_reason_is_reported_with_remedy"],
    ),
    row(
        "thread-perf-events",
        Thread,
        "perf events of another process on this one (perf stat -p), inherited ones, those it opened itself",
        names![
            task_struct: perf_recursion perf_event_ctxp perf_event_mutex perf_event_list
                perf_ctx_data
            => Call("perf_event_open"), Prctl(31, "PR_TASK_PERF_EVENTS_DISABLE"),
                Prctl(32, "PR_TASK_PERF_EVENTS_ENABLE")
        ],
        manual(
            "docs/manual/differences.md",
            "an event of its tree keeps it home; one from outside counts nothing while it is away",
        ),
        &[],
    ),
    row(
        "thread-kept-at-home",
        Thread,
        "plug, bio, reclaim, IO context, page fragment, splice pipe, delay of dirty pages: of calls under way",
        names![
            task_struct: journal_info bio_list plug reclaim_state io_context capture_control
                splice_pipe task_frag nr_dirtied nr_dirtied_pause dirty_paused_when
                backing_dev_info nameidata cached_requested_key task_works in_nf_duplicate
                faults_disabled_mapping
            => Call("ioprio_set"), Call("ioprio_get")
        ],
        at_home("crates/abi/src/x86_64/process.rs"),
        &["schedule"],
    ),
    row(
        "thread-audit",
        Thread,
        "audit context of the call under way",
        names![task_struct: audit_context],
        at_home("crates/abi/src/x86_64/process.rs"),
        &["selflinks"],
    ),
    row(
        "thread-tracers-of-the-kernel",
        Thread,
        "ftrace, kprobes, BPF, live patches, unwinder",
        names![
            task_struct: trace_recursion curr_ret_stack curr_ret_depth ret_stack
                ftrace_timestamp trace_overrun tracing_graph_pause kretprobe_instances rethooks
                patch_state bpf_storage bpf_ctx bpf_net_context unwind_info kcov_mode kcov_size
                kcov_area kcov kcov_handle kcov_sequence kcov_softirq rv user_event_mm
            => Proc("patch_state")
        ],
        invisible(TRACING),
        &[],
    ),
    row(
        "thread-fault-injection",
        Thread,
        "fault injection of kernels that are built for tests",
        names![
            task_struct: make_it_fail fail_nth
            => Proc("make-it-fail"), Proc("fail-nth")
        ],
        invisible("kernels for tests only (CONFIG_FAULT_INJECTION)"),
        &[],
    ),
    row(
        "thread-core-scheduling",
        Thread,
        "cookie of core scheduling: threads that may share a core",
        names![
            task_struct: core_node core_cookie core_occupation
            => Prctl(62, "PR_SCHED_CORE")
        ],
        manual(
            "docs/manual/differences.md",
            "set at home; a body shares a core with any process of its node",
        ),
        &["rarecalls"],
    ),
    row(
        "thread-internal",
        Thread,
        "states, locks, reference counts, lists and debug aids",
        names![
            task_struct: __state saved_state usage flags jobctl exit_state exit_code in_execve
                in_iowait in_user_fault in_lru_fault no_cgroup_migration frozen use_memdelay
                in_memstall in_eventfd reported_split_lock in_thrashing pasid_activated
                worker_private tasks thread_node mm active_mm alloc_lock wake_q user_dumpable // KERNEL: its field
                init_private_fork_class tlb_ubc pagefault_disabled oom_reaper_list
                oom_reaper_timer memcg_in_oom memcg_oom_gfp_mask memcg_oom_order
                memcg_nr_pages_over_high active_memcg objcg throttle_disk throttle_queue
                kmap_ctrl rcu rcu_users stack_vm_area stack_refcount kstack_offset sequential_io
                sequential_io_avg rss_stat self_exec_id parent_exec_id brk_randomized in_ubsan
                lockdep_depth lockdep_recursion held_locks curr_chain_key hardirq_threaded
                hardirq_chain_key hardirq_context softirq_chain_key softirq_context
                softirqs_enabled irqtrace irq_config softirq_disable_cnt kasan_depth kcsan_ctx
                kcsan_save_irqtrace kcsan_stack_depth kmsan_ctx kunit_test task_state_change
                non_block_count prev_lowest_stack lowest_stack alloc_tag tick_dep_mask
        ],
        invisible(INTERNAL),
        &[],
    ),
    row(
        "thread-stack-of-the-kernel",
        Thread,
        "where the thread stands in the kernel",
        names![=> Proc("stack"), Proc("wchan")],
        stays("UnsupportedCall", "crates/abi/src/procfs.rs"),
        &["procself"],
    ),
];
