//! What nodes without a disk start from: until now which file of a shared root a node sees, by the tags of ClusterNFS.
//!
//! `view` is pure: names and a client in, a name and the reason out. Start at [`view::lookup`].

pub mod view;
