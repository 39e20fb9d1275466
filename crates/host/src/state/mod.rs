pub mod drain;
pub mod guests;
pub mod outgoing_moves;
pub mod shared;
pub mod siginfo_cookies;
pub mod stack_growth;
