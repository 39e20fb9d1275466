//! Commands that start programs and move them.

use super::form::{Command, Form, no_effect, refused, works};

const MIGRATE_FORMS: &[Form] = &[
    works(
        "pid ID",
        "`armento migrate PID NODE`; ID, name, address or host name",
        &["1", "2"],
    ),
    works("pid home", "`armento migrate PID home`", &["1", "home"]),
    works(
        "pid balance",
        "`armento migrate PID balance`: the farm chooses again",
        &["1", "balance"],
    ),
    works(
        "pid freeze",
        "SIGSTOP to the process; its memory stays where it is",
        &["1", "freeze"],
    ),
    works("pid continue", "SIGCONT to the process", &["1", "continue"]),
    refused(
        "pid out",
        "a guest is sent away by its home, or all guests at once",
        "on this node: `mosctl expel`; at the process's home: `migrate PID home`",
        &["1", "out"],
    ),
    refused(
        "pid checkpoint",
        NO_CHECKPOINTS,
        CHECKPOINT_HINT,
        &["1", "checkpoint"],
    ),
    refused("pid chkstop", NO_CHECKPOINTS, STOP_HINT, &["1", "chkstop"]),
    refused("pid chkexit", NO_CHECKPOINTS, STOP_HINT, &["1", "chkexit"]),
    refused(
        "-jJOB",
        NO_JOBS,
        "name each process: `armento ps --json` lists pids",
        &["-j7", "home"],
    ),
];

const NO_CHECKPOINTS: &str = "a checkpoint is written into a file that its command names";
const CHECKPOINT_HINT: &str = "`armento checkpoint PID FILE`, with --every SECONDS again and again";
const RESTART_HINT: &str =
    "`armento restart FILE`; `armento checkpoint --inspect FILE` shows what is in it";
const STOP_HINT: &str = "`armento checkpoint PID FILE`, then `kill -STOP PID` or `kill PID`";
const NO_JOBS: &str = "Armento numbers processes, not jobs";
const NO_QUEUE: &str = "Armento has no queue: a program starts when it is called";
const QUEUE_HINT: &str = "`parallel -j N` of GNU parallel holds back what is more than N";

pub const MIGRATE: Command = Command {
    name: "migrate",
    system: "openMosix",
    about: "move a running process",
    synopsis: &[
        "migrate pid {ID|home|balance}",
        "migrate pid {freeze|continue}",
    ],
    forms: MIGRATE_FORMS,
    notes: &[
        "It returns when the process runs there, and prints the move, or says why it stays; openMosix only sent the request.",
        "The process needs no start by mosrun.",
    ],
};

pub const MOSMIGRATE: Command = Command {
    name: "mosmigrate",
    system: "MOSIX",
    synopsis: &[
        "mosmigrate pid {ID|home|balance}",
        "mosmigrate pid {freeze|continue}",
    ],
    ..MIGRATE
};

const DECAY: &str = "loads are measured, not guessed from decaying statistics";
const SERVED: &str = "every system call is served, or made at home";

pub const MOSRUN: Command = Command {
    name: "mosrun",
    system: "openMosix",
    about: "run a program, with wishes where",
    synopsis: &[
        "mosrun [-{h|ID|jID1-ID2[,ID3-ID4]...} [-F]] [-{l|L|k}] [-{c|i|n|s|f} [-t tt] [-d dec]] [-{e|E}] [-{r|R}] [-z] command [arg...]",
        "mosrun [-rHOST|-a.b.c.d|-b] [options of MOSIX] command [arg...]",
    ],
    forms: &[
        works(
            "-h",
            "`armento run --stay`; with -l `--begin here`",
            &["-h", "true"],
        ),
        works("-ID", "`armento run --on NODE`", &["-2", "true"]),
        works(
            "-jID1-ID2[,ID3-ID4]...",
            "a node that is up, chosen at random from the list; `--on`",
            &["-j1-2,4", "true"],
        ),
        works(
            "-F",
            "runs anywhere if the node is not up",
            &["-2", "-F", "true"],
        ),
        works(
            "-l",
            "may move; with -h, and without a place",
            &["-l", "true"],
        ),
        works(
            "-L",
            "stays at home, or with a place on that node",
            &["-L", "true"],
        ),
        works(
            "-k",
            "may move, as the calling shell's programs",
            &["-k", "true"],
        ),
        works("-c", "`armento run --cpu`", &["-c", "true"]),
        works("-i", "`armento run --io`", &["-i", "true"]),
        no_effect("-n", DECAY, &["-n", "true"]),
        no_effect("-s", DECAY, &["-s", "true"]),
        no_effect("-f", DECAY, &["-f", "true"]),
        no_effect("-t tt", DECAY, &["-t", "5", "true"]),
        no_effect("-d dec", DECAY, &["-d", "900", "true"]),
        no_effect("-e", SERVED, &["-e", "true"]),
        no_effect("-E", SERVED, &["-E", "true"]),
        no_effect("-r", DECAY, &["-r", "true"]),
        no_effect("-R", DECAY, &["-R", "true"]),
        no_effect("-z", DECAY, &["-z", "true"]),
        refused(
            "-ID -l",
            "a program that begins on another node stays there until it is let go",
            "`mosrun -ID command & migrate $! balance`",
            &["-2", "-l", "true"],
        ),
        works("-rHOST", "`armento run --on NODE`", &["-rn2", "true"]),
        works(
            "-a.b.c.d",
            "`armento run --on` the node with that address",
            &["-10.0.0.2", "true"],
        ),
        works(
            "-b",
            "begins where there is room, as any program",
            &["-b", "true"],
        ),
        no_effect(
            "-G[class]",
            "there is one farm, and no clusters beyond it",
            &["-G1", "true"],
        ),
        no_effect(
            "-m{mb}",
            "memory is reserved when a process moves, as much as it uses",
            &["-m100", "true"],
        ),
        no_effect(
            "-D{DD:HH:MM}",
            "the remaining time is judged by the age",
            &["-D1:00:00", "true"],
        ),
        no_effect("-u", SERVED, &["-u", "true"]),
        no_effect("-w", SERVED, &["-w", "true"]),
        no_effect(
            "-T",
            "the clocks of all nodes are kept alike",
            &["-T", "true"],
        ),
        refused("-q[pri]", NO_QUEUE, QUEUE_HINT, &["-q", "true"]),
        refused("-Q[pri]", NO_QUEUE, QUEUE_HINT, &["-Q50", "true"]),
        refused("-P{processes}", NO_QUEUE, QUEUE_HINT, &["-P4", "true"]),
        refused(
            "-S{maxjobs}",
            NO_QUEUE,
            "`parallel -j MAXJOBS armento run {} < commands-file`",
            &["-S4", "file"],
        ),
        refused(
            "-J{JobID}",
            NO_JOBS,
            "start it without; `armento ps` lists it",
            &["-J7", "true"],
        ),
        refused(
            "-A{minutes}",
            NO_CHECKPOINTS,
            CHECKPOINT_HINT,
            &["-A5", "true"],
        ),
        refused("-N{max}", NO_CHECKPOINTS, CHECKPOINT_HINT, &["-N5", "true"]),
        refused(
            "-C{filename}",
            NO_CHECKPOINTS,
            CHECKPOINT_HINT,
            &["-Cx", "true"],
        ),
        refused("-R{filename}", NO_CHECKPOINTS, RESTART_HINT, &["-Rx"]),
        refused("-I{filename}", NO_CHECKPOINTS, RESTART_HINT, &["-Ix"]),
        refused(
            "-O{fd=filename}",
            NO_CHECKPOINTS,
            RESTART_HINT,
            &["-O1=x", "true"],
        ),
        refused(
            "-X{/directory}",
            "files stay at home",
            "let the program use TMPDIR on a shared mount; `armento dfsa`",
            &["-X/tmp", "true"],
        ),
        refused(
            "-E{/cwd}",
            "there are no native jobs on other nodes",
            "`armento run --on NODE command` after `cd`",
            &["-E/tmp", "true"],
        ),
        refused(
            "-M[/{cwd}]",
            "there are no native jobs on other nodes",
            "`armento run --on NODE command` after `cd`",
            &["-M", "true"],
        ),
    ],
    notes: &[
        "Without options the program may move. openMosix locked it then, since there every program could move without mosrun.",
        "Exit status: the program's own; 125 if it was not started, 126 not executable, 127 not found.",
        "openMosix' meaning of -e, -E, -r, -R and -z is in no manual that is left; they are accepted.",
    ],
};

pub const MOSENV: Command = Command {
    name: "mosenv",
    system: "MOSIX",
    about: "run a program, as mosrun does: the environment is always kept",
    synopsis: &["mosenv [options of mosrun] command [arg...]"],
    ..MOSRUN
};

const PLAIN: &[Form] = &[no_effect("-z", DECAY, &["-z", "true"])];

pub const NOMIG: Command = Command {
    name: "nomig",
    system: "openMosix",
    about: "run a program at home",
    synopsis: &["nomig [-z] command [arg...]"],
    forms: PLAIN,
    notes: &["It is `armento run --stay`."],
};

pub const RUNHOME: Command = Command {
    name: "runhome",
    synopsis: &["runhome [-z] command [arg...]"],
    ..NOMIG
};

pub const RUNON: Command = Command {
    name: "runon",
    system: "openMosix",
    about: "run a program on a node",
    synopsis: &["runon ID [-z] command [arg...]"],
    forms: &[
        works(
            "ID",
            "`armento run --on NODE`; ID, name or address",
            &["2", "true"],
        ),
        no_effect("-z", DECAY, &["2", "-z", "true"]),
    ],
    notes: &["On the own ID it is `armento run --stay`."],
};

const JOB: &[Form] = &[
    works("-h", "stays at home: `armento run --stay`", &["-h", "true"]),
    works("-ID", "`armento run --on NODE`", &["-2", "true"]),
    no_effect("-z", DECAY, &["-z", "true"]),
];

pub const CPUJOB: Command = Command {
    name: "cpujob",
    system: "openMosix",
    about: "run a program that computes",
    synopsis: &["cpujob [-{h|ID}] [-z] command [arg...]"],
    forms: JOB,
    notes: &["It is `armento run --cpu`."],
};

pub const IOJOB: Command = Command {
    name: "iojob",
    system: "openMosix",
    about: "run a program that works with files",
    synopsis: &["iojob [-{h|ID}] [-z] command [arg...]"],
    forms: JOB,
    notes: &["It is `armento run --io`: it stays with its files as long as memory lasts."],
};

pub const NODECAY: Command = Command {
    name: "nodecay",
    system: "openMosix",
    about: "run a program; its statistics never decayed",
    synopsis: &["nodecay [-{h|ID}] [-z] command [arg...]"],
    forms: JOB,
    notes: &["It is `armento run`: loads are measured, not guessed from decaying statistics."],
};

pub const SLOWDECAY: Command = Command {
    name: "slowdecay",
    about: "run a program; its statistics decayed slowly",
    synopsis: &["slowdecay [-{h|ID}] [-z] command [arg...]"],
    ..NODECAY
};

pub const FASTDECAY: Command = Command {
    name: "fastdecay",
    about: "run a program; its statistics decayed fast",
    synopsis: &["fastdecay [-{h|ID}] [-z] command [arg...]"],
    ..NODECAY
};

pub const NATIVE: Command = Command {
    name: "native",
    system: "MOSIX",
    about: "run a program without Armento",
    synopsis: &["native command [arg...]"],
    forms: &[],
    notes: &[
        "Below `armento run --spread` a child is still followed; it stays if it is started by nomig.",
    ],
};

pub const MOSNATIVE: Command = Command {
    name: "mosnative",
    synopsis: &["mosnative command [arg...]"],
    ..NATIVE
};
