pub(crate) mod named_shm;
pub(crate) mod sharers;
