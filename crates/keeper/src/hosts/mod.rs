pub(crate) mod connect;
pub(crate) mod door;
pub(crate) mod lost;
pub(crate) mod monitor;
pub(crate) mod reconnect;
