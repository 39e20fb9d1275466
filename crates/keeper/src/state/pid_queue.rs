//! Processes that wait for a thread of the keeper, each at most once.

use crate::sync::lock;
use armento_model::Pid;
use std::collections::VecDeque;
use std::sync::{Condvar, Mutex};

#[derive(Default)]
pub struct PidQueue {
    queue: Mutex<VecDeque<Pid>>,
    more: Condvar,
}

impl PidQueue {
    pub fn push(&self, pid: Pid) {
        let mut queue = lock(&self.queue);
        if !queue.contains(&pid) {
            queue.push_back(pid);
            self.more.notify_one();
        }
    }

    pub fn pop(&self) -> Pid {
        let mut queue = lock(&self.queue);
        loop {
            if let Some(pid) = queue.pop_front() {
                return pid;
            }
            queue = self.more.wait(queue).unwrap_or_else(|e| e.into_inner());
        }
    }
}
