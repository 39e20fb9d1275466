pub(crate) mod common;
pub(crate) mod host_link;
pub(crate) mod limits;
pub(crate) mod region_setup;
pub(crate) mod thread;
pub(crate) mod wait_loop;
pub(crate) mod work;
