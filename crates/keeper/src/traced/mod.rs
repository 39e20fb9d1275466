pub(crate) mod cpu_clock_fixup;
pub(crate) mod external_limits;
pub(crate) mod follow_forks;
pub(crate) mod run_to_entry;
pub(crate) mod setuid_exec;
pub(crate) mod user_hold;
