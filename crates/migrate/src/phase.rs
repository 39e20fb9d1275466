//! The phases of a move, and the failpoints in them.
//!
//! Both sides run these phases, in this order. The table of failpoints is the only one: the code passes them
//! (`failpoint.rs`), the fault campaign chooses among them (`conform/src/faults/plan.rs`), the manual lists them
//! (`docs/manual/phases.md`).
//!
//! ```text
//!          source                                target
//! Prepare  looks at it, connects                 admits it, starts a host
//! Offer    Head ───────────────────────────────► accepts or declines, makes an empty process
//! Precopy  pages, in rounds, while it runs ────► writes them
//! Freeze   stops all threads, reads their state
//! Dirty    Layout, the pages that are left ────► maps, writes
//! State    State, End ─────────────────────────► complete, stopped; Ready to home
//! Flip     home decides: Thaw to a target that is a host, Drop to a source that is one
//! Thaw     its threads are deputies, or gone     its threads run
//! Postcopy pages that were left for later ─────► writes them as they come
//! ```
//! A checkpoint of a body is a move up to the flip; the steps around it ([`Step`]) have failpoints of their own.

macro_rules! phases {
    ($($phase:ident $name:literal source: $source:literal target: $target:literal left: $left:literal;)*) => {
        /// A phase of a move. Both sides run all phases in this order.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Phase { $(
            #[doc = concat!("Source: ", $source, ". Target: ", $target, ". If the target or the link fails: ", $left, ".")]
            $phase,
        )* }

        impl Phase {
            /// From the first to the last.
            pub const ALL: &'static [Phase] = &[$(Phase::$phase),*];
            pub fn name(self) -> &'static str { match self { $(Phase::$phase => $name),* } }
            /// What the source does.
            pub fn source(self) -> &'static str { match self { $(Phase::$phase => $source),* } }
            /// What the target does.
            pub fn target(self) -> &'static str { match self { $(Phase::$phase => $target),* } }
            /// What is left if the target, or the link to it, fails in this phase.
            pub fn left(self) -> &'static str { match self { $(Phase::$phase => $left),* } }
        }
    };
}

phases! {
    Prepare "prepare"
        source: "asks the target for room and connects to it; a process at home is stopped, its mappings, files and threads are listed, and it runs on if it is large"
        target: "a node other than home admits the process and starts a host for it, which accepts the connection"
        left: "the process goes on at the source";
    Offer "offer"
        source: "sends what the process is: its layout, its threads, the processor features it needs; then the mapped files that the target lacks"
        target: "declines with a reason; or accepts, names the files that it lacks, and makes an empty process with that layout"
        left: "the process goes on at the source; the target removes what it has made";
    Precopy "pre-copy"
        source: "sends the memory in rounds while the process runs, each round what was written since the last; a small process is not copied before the freeze"
        target: "writes the pages, and reports the end of each round"
        left: "the process goes on at the source; if only a round fails, the move continues and sends all memory after the freeze";
    Freeze "freeze"
        source: "stops all threads and reads the state of the process: the pause begins"
        target: "waits"
        left: "the threads are resumed at the source";
    Dirty "dirty"
        source: "sends the last layout, then the pages that were not sent or were written since"
        target: "changes its mappings to that layout and writes the pages"
        left: "the threads are resumed at the source";
    State "state"
        source: "sends the state of threads, signals, timers and memory map"
        target: "sets it, without letting a thread run, and reports to home that it is ready"
        left: "the threads are resumed at the source";
    Flip "flip"
        source: "home decides, whichever side it is: it sends Thaw to a target that is a host, and Drop to a source that is a host"
        target: "waits for Thaw; if it is home, its deputies become the program again"
        left: "until home has sent its message, the process goes on at the source; from then on only at the target";
    Thaw "thaw"
        source: "if it is home, its threads become deputies and its memory is given up; if it is a host, it removes its body"
        target: "lets the threads run: the pause ends"
        left: "the process goes on at the target; a process whose target is lost ends (status 137)";
    Postcopy "post-copy"
        source: "sends the pages that were left for later, those that the program waits for first; only for a program that writes faster than the link transmits"
        target: "a thread that accesses such a page waits until it has come"
        left: "a process that loses one of the two nodes, or the link between them, ends (status 137)";
}

macro_rules! steps {
    ($($step:ident $name:literal home: $home:literal node: $node:literal left: $left:literal;)*) => {
        /// A step by which a process is kept safe (`armento run --safe`).
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Step { $(
            #[doc = concat!("Home: ", $home, ". The other node: ", $node, ". If that node or the link fails: ", $left, ".")]
            $step,
        )* }

        impl Step {
            /// In the order of a life.
            pub const ALL: &'static [Step] = &[$(Step::$step),*];
            pub fn name(self) -> &'static str { match self { $(Step::$step => $name),* } }
            /// What home does.
            pub fn home(self) -> &'static str { match self { $(Step::$step => $home),* } }
            /// What the node of the body does; of a checkpoint of the tree, the node that keeps it.
            pub fn node(self) -> &'static str { match self { $(Step::$step => $node),* } }
            /// What is left if the other node, or the link to it, fails in this step.
            pub fn left(self) -> &'static str { match self { $(Step::$step => $left),* } }
        }
    };
}

steps! {
    Checkpoint "checkpoint"
        home: "asks the host for a copy of the body and puts what comes beside the checkpoint before"
        node: "sends it as in a move, up to the flip: the body stands still from the freeze on"
        left: "the body is built from the checkpoint before; if only the link failed, the body goes on";
    Commit "commit"
        home: "replaces the checkpoint before by this one, begins the record of calls anew, and lets the body go on"
        node: "waits, then lets the body go on"
        left: "the body is built from this checkpoint, or from the one before with the calls since";
    Rebuild "rebuild"
        home: "ends the calls of the lost body, sends what was kept to a host on another node, or on its own"
        node: "builds a body of it as in a move"
        left: "another node is tried and then home, for 30 s; if none can build it, the process ends with the reason (status 137)";
    Replay "replay"
        home: "compares the calls of the new body with the record and answers them from it"
        node: "runs the body"
        left: "the body is built again from the same checkpoint and the same record";
    Keep "keep"
        home: "writes a checkpoint of the whole tree and sends it to another node"
        node: "its daemon replaces the checkpoint before when all of this one has come"
        left: "the checkpoint before is kept; without an answer for 8 s the tree is stopped";
}

/// The end of a move at which a failpoint is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Source,
    Target,
    /// Home when it is neither end: a move between two hosts, or no move at all.
    Home,
}

/// The program that passes a failpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    Keeper,
    Host,
    /// Whichever of the two is that side of the move.
    Either,
}

impl Program {
    pub fn is_keeper(self) -> bool {
        self != Program::Host
    }

    pub fn is_host(self) -> bool {
        self != Program::Keeper
    }
}

/// When a failpoint is passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Moment {
    Move(Phase),
    Safe(Step),
    /// In neither.
    Other,
}

macro_rules! failpoints {
    ($($point:ident $name:literal $side:ident $program:ident $phase:expr, $what:literal;)*) => {
        /// A place in the code of a move, or of a step, at which a test kills, freezes or delays one side. Sorted by phase
        /// and step.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Failpoint { $(#[doc = $what] $point,)* }

        impl Failpoint {
            pub const ALL: &'static [Failpoint] = &[$(Failpoint::$point),*];
            /// When it is passed.
            pub fn moment(self) -> Moment { match self { $(Failpoint::$point => $phase),* } }
            /// The name of the file that sets a fault here.
            pub fn name(self) -> &'static str { match self { $(Failpoint::$point => $name),* } }
            pub fn side(self) -> Side { match self { $(Failpoint::$point => Side::$side),* } }
            pub fn program(self) -> Program { match self { $(Failpoint::$point => Program::$program),* } }
            /// What is the case when it is passed.
            pub fn what(self) -> &'static str { match self { $(Failpoint::$point => $what),* } }
        }
    };
}

const PREPARE: Moment = Moment::Move(Phase::Prepare);
const OFFER: Moment = Moment::Move(Phase::Offer);
const PRECOPY: Moment = Moment::Move(Phase::Precopy);
const FREEZE: Moment = Moment::Move(Phase::Freeze);
const DIRTY: Moment = Moment::Move(Phase::Dirty);
const STATE: Moment = Moment::Move(Phase::State);
const FLIP: Moment = Moment::Move(Phase::Flip);
const THAW: Moment = Moment::Move(Phase::Thaw);
const POSTCOPY: Moment = Moment::Move(Phase::Postcopy);
const CHECKPOINT: Moment = Moment::Safe(Step::Checkpoint);
const COMMIT: Moment = Moment::Safe(Step::Commit);
const REBUILD: Moment = Moment::Safe(Step::Rebuild);
const REPLAY: Moment = Moment::Safe(Step::Replay);
const KEEP: Moment = Moment::Safe(Step::Keep);

failpoints! {
    HomeLeaving "home.leaving" Source Keeper PREPARE, "a process is to leave home";
    HomeLinked "home.linked" Source Keeper PREPARE, "the host of the target is connected";
    HomePrepared "home.prepared" Source Keeper PREPARE, "the process has been looked at; it runs on if it is large";
    SourceOffered "source.offered" Source Either OFFER, "the offer is sent";
    TargetOffered "target.offered" Target Either OFFER, "the offer has come";
    SourceCopying "source.copying" Source Either PRECOPY, "the target has accepted; pre-copy begins";
    SourceRound "source.round" Source Either PRECOPY, "the target has written the pages of a round";
    SourceGivenUp "source.given-up" Source Either PRECOPY, "the target has dropped pages that are left for post-copy";
    HomeFreezing "home.freezing" Source Keeper FREEZE, "the process at home is about to be frozen";
    HomeLooked "home.looked" Source Keeper FREEZE, "the threads that are in a call are known";
    HomeHalting "home.halting" Source Keeper FREEZE, "the threads that are in a call are stopped";
    HomeHalted "home.halted" Source Keeper FREEZE, "all threads are stopped";
    HomeSurveyed "home.surveyed" Source Keeper FREEZE, "mappings and files of the stopped process are read";
    HomeRead "home.read" Source Keeper FREEZE, "its threads, signals and timers are read";
    HostFreezing "host.freezing" Source Host FREEZE, "the body is about to be frozen";
    HostFrozen "host.frozen" Source Host FREEZE, "all threads of the body are stopped";
    HostCaptured "host.captured" Source Host FREEZE, "the state of the body is read";
    SourceCopied "source.copied" Source Either DIRTY, "which pages are left to send is not known yet";
    SourceFrozen "source.frozen" Source Either DIRTY, "the last layout is about to be sent";
    SourceLaidOut "source.laid-out" Source Either DIRTY, "the last layout is sent";
    TargetLaidOut "target.laid-out" Target Either DIRTY, "the mappings are those of the last layout";
    SourceSent "source.sent" Source Either STATE, "everything is sent";
    TargetFilled "target.filled" Target Either STATE, "all pages and the state have come";
    HostSet "host.set" Target Host STATE, "memory, signal dispositions and timers of the body are set";
    HostThreads "host.threads" Target Host STATE, "the body has all its threads";
    TargetBuilt "target.built" Target Either STATE, "the process is complete and stopped";
    HomeReady "home.ready" Source Keeper STATE, "the target is ready, or has failed";
    OnwardReady "onward.ready" Home Keeper STATE, "the target of a move between two hosts is ready, or the move has failed";
    HomeHollow "home.hollow" Source Keeper FLIP, "the threads are listed as deputies; Thaw is not sent yet";
    ReturnBuilt "return.built" Target Keeper FLIP, "the threads at home have the state of the body; Drop is not sent yet";
    HomeThawed "home.thawed" Source Keeper THAW, "Thaw is sent; the threads at home are not deputies yet";
    HomeServed "home.served" Source Keeper THAW, "the deputies wait for calls";
    OnwardThawed "onward.thawed" Home Keeper THAW, "Thaw is sent to one host; Drop is not sent to the other yet";
    HostThawing "host.thawing" Target Host THAW, "Thaw has come; the body does not run yet";
    ReturnDropped "return.dropped" Target Keeper THAW, "Drop is sent; the process does not run at home yet";
    SourceSweeping "source.sweeping" Source Either POSTCOPY, "pages are about to be sent after the flip";
    SafeDue "safe.due" Home Keeper CHECKPOINT, "a checkpoint is to be made; the host of the body is not asked yet";
    SafeAsked "safe.asked" Home Keeper CHECKPOINT, "the host is asked and connected; nothing has come";
    SafeHeld "safe.held" Home Keeper CHECKPOINT, "a call waits for a checkpoint that covers it (`--safe=exact`)";
    SafeCame "safe.came" Home Keeper COMMIT, "all of the checkpoint has come; the one before still counts";
    SafeCommitted "safe.committed" Home Keeper COMMIT, "the checkpoint counts, the record begins anew; the body stands still";
    SafeReleased "safe.released" Home Keeper COMMIT, "the host is told to let the body go on";
    HostReleased "host.released" Home Host COMMIT, "home lets a body go on, whose checkpoint is complete or whose move has failed; it stands still";
    SafeCovered "safe.covered" Home Keeper COMMIT, "a call that a checkpoint covers is about to be made (`--safe=exact`)";
    SafeLost "safe.lost" Home Keeper REBUILD, "the body is lost; calls that home makes for it may be under way";
    SafeEnded "safe.ended" Home Keeper REBUILD, "the calls of the lost body have ended; a node is chosen next";
    SafeSent "safe.sent" Home Keeper REBUILD, "what was kept is sent; the new body is not complete yet";
    SafeReady "safe.ready" Home Keeper REBUILD, "the new body is complete and stands still";
    SafeThawed "safe.thawed" Home Keeper REBUILD, "Thaw is sent to the host of the new body";
    SafeRecorded "safe.recorded" Home Keeper REPLAY, "a call is equal to the recorded one and is about to be answered";
    SafeLast "safe.last" Home Keeper REPLAY, "the last recorded call of a thread is about to be answered";
    KeepWritten "keep.written" Home Keeper KEEP, "the checkpoint of the tree is written; nothing is sent";
    KeepSent "keep.sent" Home Keeper KEEP, "the checkpoint of the tree is sent; the other node does not count it yet";
    KeepDone "keep.done" Home Keeper KEEP, "the other node keeps the checkpoint of the tree";
    HomeBorn "home.born" Home Keeper Moment::Other, "a deputy has forked for its body, which does not know the child yet";
}

impl Failpoint {
    /// `None`: not in a move.
    pub fn phase(self) -> Option<Phase> {
        match self.moment() {
            Moment::Move(phase) => Some(phase),
            Moment::Safe(_) | Moment::Other => None,
        }
    }

    /// `None`: not in a step by which a process is kept safe.
    pub fn step(self) -> Option<Step> {
        match self.moment() {
            Moment::Safe(step) => Some(step),
            Moment::Move(_) | Moment::Other => None,
        }
    }

    /// Those that a keeper passes.
    pub fn of_keeper() -> impl Iterator<Item = Failpoint> {
        let all = Failpoint::ALL.iter().copied();
        all.filter(|p| p.program().is_keeper())
    }

    /// Those that a host passes.
    pub fn of_host() -> impl Iterator<Item = Failpoint> {
        let all = Failpoint::ALL.iter().copied();
        all.filter(|p| p.program().is_host())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_are_unique_and_can_be_file_names() {
        let plain = |c: char| c.is_ascii_lowercase() || c == '-' || c == '.';
        let mut seen = BTreeSet::new();
        for p in Failpoint::ALL {
            assert!(p.name().chars().all(plain), "{}", p.name());
            assert!(seen.insert(p.name()), "{} twice", p.name());
        }
        assert!(!seen.contains(crate::failpoint::ANY));
    }

    #[test]
    fn failpoints_are_sorted_by_moment_and_every_phase_and_step_has_some() {
        let moments: Vec<Moment> = Failpoint::ALL.iter().map(|p| p.moment()).collect();
        assert!(moments.is_sorted());
        for phase in Phase::ALL {
            assert!(moments.contains(&Moment::Move(*phase)), "{}", phase.name());
        }
        for step in Step::ALL {
            assert!(moments.contains(&Moment::Safe(*step)), "{}", step.name());
        }
    }
}
