pub(crate) mod call_storm;
pub(crate) mod keeper;
pub(crate) mod thread_directed;
pub(crate) mod tree;
pub(crate) mod usage;
