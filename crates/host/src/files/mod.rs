pub mod cache;
pub mod incoming;
pub mod local_copies;
