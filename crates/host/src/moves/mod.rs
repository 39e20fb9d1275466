pub mod arrive;
pub mod depart;
pub mod freeze;
pub mod postcopy;
pub mod throttle;
