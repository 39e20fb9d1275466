pub(crate) mod cmdline;
pub(crate) mod dispatch;
pub(crate) mod execute;
pub(crate) mod exit;
pub(crate) mod fork_and_map;
pub(crate) mod proc_access;
pub(crate) mod readahead;
pub(crate) mod timer_settime;
