pub(crate) mod connect;
pub(crate) mod reconnect;
