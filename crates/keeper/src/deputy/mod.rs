pub(crate) mod region_setup;
pub(crate) mod thread;
pub(crate) mod wait_loop;
