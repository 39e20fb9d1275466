pub mod daemon;
pub mod link;
pub mod messages;
