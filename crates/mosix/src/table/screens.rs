//! Commands that show nodes and processes.

use super::form::{Command, no_effect, refused, works};

pub const MOSMON: Command = Command {
    name: "mosmon",
    system: "openMosix",
    about: "show the nodes as bars",
    synopsis: &["mosmon [-{w|v|V|a}] [-{s|m|r|u|l|L}] [-d] [-t] [+NODE] [-h]"],
    forms: &[
        works("-w", "node numbers side by side; key w", &["-w"]),
        works("-v", "node numbers downwards; key v", &["-v"]),
        works(
            "-V",
            "node numbers downwards, bars close together; key V",
            &["-V"],
        ),
        works("-a", "as wide as fits; key a", &["-a"]),
        works("-s", "speeds; key s", &["-s"]),
        works("-m", "memory: used #, free +; key m", &["-m"]),
        works("-r", "as -m: there is one kind of memory; key r", &["-r"]),
        works("-l", "loads; key l", &["-l"]),
        works("-L", "loads by their logarithm; key L", &["-L"]),
        works("-d", "also nodes that are down; key d, D without", &["-d"]),
        works("-t", "counts the nodes that are up; key t", &["-t"]),
        works(
            "+NODE",
            "begins with that node; keys Left and Right move",
            &["+2"],
        ),
        works("-h", "shows the keys; key h", &["-h"]),
        works("-H", "as -h", &["-H"]),
        refused(
            "-u",
            "Armento measures no utilizability",
            "`mosmon -l` shows loads, `armento top` the reasons",
            &["-u"],
        ),
        refused(
            "-F KVER",
            "nodes with different kernels work together",
            "`armento nodes` shows all nodes",
            &["-F", "2.4.26"],
        ),
    ],
    notes: &[
        "Without a terminal it prints one frame and ends.",
        "`armento top` shows nodes, processes and moves on one screen, and moves processes.",
    ],
};

pub const MPS: Command = Command {
    name: "mps",
    system: "openMosix",
    about: "ps with the node of each process",
    synopsis: &["mps [options of ps] [--ominfo] [--ominfol]"],
    forms: &[
        works(
            "options of ps",
            "passed to ps; a column NODE follows PID, 0 for processes that are here",
            &["aux"],
        ),
        works(
            "--ominfo",
            "also NMIGS, LOCK and CANTMOVE",
            &["--ominfo", "aux"],
        ),
        works(
            "--ominfol",
            "also the home and the node by name",
            &["--ominfol"],
        ),
        no_effect("--sortX", "passed to ps, which has --sort", &["--sort=pid"]),
    ],
    notes: &[
        "It needs ps (Debian: procps). Without a column PID nothing is added.",
        "NODE is known of your own processes; root sees all.",
    ],
};

pub const MTOP: Command = Command {
    name: "mtop",
    system: "openMosix",
    about: "top with the node of each process",
    synopsis: &["mtop [-d seconds]", "mtop -b [options of top]"],
    forms: &[
        works("-d seconds", "`armento top --delay`", &["-d", "2"]),
        works(
            "-b",
            "passed to top with all other options; a column NODE follows PID",
            &["-b", "-n", "1"],
        ),
    ],
    notes: &["Without -b it is `armento top`, with its keys."],
};

pub const OMPSINFO: Command = Command {
    name: "ompsinfo",
    system: "openMosix",
    about: "show processes with where, nmigs, lock and cantmove",
    synopsis: &[
        "ompsinfo [-C command] [-p pid | pid] [-u user | -A] [-U] [-N] [-l] [-a INFO,...] [-h | -H]",
    ],
    forms: &[
        works("-A", "processes of all users that you may see", &["-A"]),
        works("-C command", "by the name of the program", &["-C", "lame"]),
        works("-p pid", "by pid", &["-p", "1"]),
        works("pid", "by pid", &["1"]),
        works("-u user", "by user, name or number", &["-u", "0"]),
        no_effect(
            "-U",
            "Armento moves no process whose effective user differs",
            &["-U"],
        ),
        works(
            "-N",
            "those that the other options do not choose",
            &["-N", "-C", "lame"],
        ),
        works("-l", "pids only", &["-l"]),
        works("-o pid=", "as -l", &["-o", "pid="]),
        works(
            "-a INFO,...",
            "further columns: where, nmigs, lock, cantmove, user, home, mem, time, name",
            &["-a", "home,user"],
        ),
        works("-h", "without the heading", &["-h"]),
        works("-H", "help", &["-H"]),
    ],
    notes: &[
        "It lists processes that Armento knows: started by `armento run` or mosrun, or moved once.",
        "cantmove has Armento's reasons (`armento why`), not the kernel's of openMosix.",
    ],
};

pub const MOSPS: Command = Command {
    name: "mosps",
    system: "MOSIX",
    about: "show processes and where they are",
    synopsis: &["mosps [-I|-h|-M] [-L|-O] [-n] [-N]"],
    forms: &[
        works("-I", "nodes by address", &["-I"]),
        works("-h", "nodes by name", &["-h"]),
        works("-M", "nodes by ID (default)", &["-M"]),
        works("-L", "only processes that are here", &["-L"]),
        works("-O", "only processes that are elsewhere", &["-O"]),
        works("-n", "also the number of moves", &["-n"]),
        no_effect("-N", "there is one farm", &["-N"]),
        refused(
            "-P",
            "processes have one pid, that of their home",
            "it is the column PID",
            &["-P"],
        ),
        refused(
            "-V",
            "there are no guests of other clusters",
            "`mosps` shows all",
            &["-V"],
        ),
        refused(
            "-D",
            "how long programs will run is not known",
            "`armento ps` shows how long they have",
            &["-D"],
        ),
        refused(
            "-S",
            "Armento has no queue",
            "`armento ps` shows what runs",
            &["-S"],
        ),
        refused(
            "-J{JobID}",
            "Armento numbers processes, not jobs",
            "`mosps` shows all",
            &["-J7"],
        ),
    ],
    notes: &["Columns: PID, WHERE (`here` or a node), FROM (its home), FRZ (frozen), TIME, CMD."],
};
