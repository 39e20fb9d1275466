//! Commands of administrators.

use super::form::{Command, Form, no_effect, refused, works};

const MEASURED: &str = "speed is measured when the daemon starts";
const NO_DECAY: &str = "Armento has no decaying statistics";

const SETPE_FORMS: &[Form] = &[
    works(
        "-w",
        "reads the map, compares it with the farm and says what differs; takes part again after -off",
        &["-w", "-f", "-"],
    ),
    works("-W", "as -w", &["-W", "-f", "-"]),
    works(
        "-c",
        "with -w: checks the map's consistency only",
        &["-w", "-c", "-f", "-"],
    ),
    works(
        "-f file|-",
        "reads or writes that file instead of standard input or output",
        &["-r", "-f", "-"],
    ),
    works(
        "-p ID",
        "with -w: this node's ID in the map has to be that",
        &["-w", "-p", "1"],
    ),
    no_effect(
        "-n inet",
        "`armento join --address` chose the address",
        &["-w", "-n", "10.0.0.0"],
    ),
    no_effect(
        "-g 0|1|2",
        "there are no gateways: nodes pass through home where they cannot reach each other",
        &["-w", "-g", "1"],
    ),
    works("-r", "writes the farm as a map", &["-r"]),
    works(
        "-off",
        "`armento farm stop`: processes come home, guests leave",
        &["-off"],
    ),
];

pub const SETPE: Command = Command {
    name: "setpe",
    system: "openMosix",
    about: "read, check and write the map of the nodes, /etc/openmosix.map",
    synopsis: &[
        "setpe -{w|W} [-n inet] [-c] [-p ID] [-g {0|1|2}] [-f {file|-}]",
        "setpe -r [-f {file|-}]",
        "setpe -off",
    ],
    forms: SETPE_FORMS,
    notes: &[
        "A map makes no machine a member: nodes join with a token and prove their identity. Each missing node is listed with the command for it; the exit status is then 125.",
        "-off keeps the node a member; `armento leave` ends that.",
    ],
};

pub const MOSSETPE: Command = Command {
    name: "mossetpe",
    system: "MOSIX",
    synopsis: &[
        "mossetpe -{w|W} [-c] [-p ID] [-f {file|-}]",
        "mossetpe -r [-f {file|-}]",
        "mossetpe -off",
    ],
    ..SETPE
};

pub const SHOWMAP: Command = Command {
    name: "showmap",
    system: "openMosix",
    about: "show the farm's nodes with their IDs and addresses",
    synopsis: &["showmap"],
    forms: &[],
    notes: &["Node-IDs are hexadecimal, as they were."],
};

pub const OMDISCD: Command = Command {
    name: "omdiscd",
    system: "openMosix",
    about: "find nodes by multicast",
    synopsis: &["omdiscd"],
    forms: &[refused(
        "omdiscd",
        "members prove their identity; `armento farm discover` finds farms that are announced",
        "`armento farm invite` on a member prints the command with which a node joins",
        &["-i", "eth0"],
    )],
    notes: &["IDs are still the low 16 bits of the address where a node's name has no number."],
};

pub const MOSBESTNODE: Command = Command {
    name: "mosbestnode",
    system: "MOSIX",
    about: "print the ID of the node with most room",
    synopsis: &["mosbestnode"],
    forms: &[],
    notes: &["Most room is the most processor power for one process more."],
};

pub const MOSCTL: Command = Command {
    name: "mosctl",
    system: "openMosix",
    about: "administrate this node, and ask about others",
    synopsis: &[
        "mosctl {stay|nostay|lstay|nolstay|block|noblock|quiet|noquiet|nomfs|mfs|expel|bring|gettune|getyard|getdecay}",
        "mosctl whois [ID|IP|host]",
        "mosctl {getload|getspeed|status|isup|getmem|getfree|getutil} [ID]",
        "mosctl {setyard|setspeed|setdecay} ...",
    ],
    forms: &[
        works(
            "stay",
            "`armento farm stay`; guests go by their homes' decisions",
            &["stay"],
        ),
        works("nostay", "`armento farm stay --off`", &["nostay"]),
        works("-stay", "as nostay", &["-stay"]),
        works("lstay", "`armento farm stay`", &["lstay"]),
        works("nolstay", "`armento farm stay --off`", &["nolstay"]),
        works("-lstay", "as nolstay", &["-lstay"]),
        works("block", "`armento farm block`", &["block"]),
        works("noblock", "`armento farm block --off`", &["noblock"]),
        works("-block", "as noblock", &["-block"]),
        works("quiet", "`armento farm quiet`", &["quiet"]),
        works("noquiet", "`armento farm quiet --off`", &["noquiet"]),
        works("-quiet", "as noquiet", &["-quiet"]),
        works("mfs", "`armento mfs on`", &["mfs"]),
        works("nomfs", "`armento mfs off`", &["nomfs"]),
        works("-mfs", "as nomfs", &["-mfs"]),
        works(
            "expel",
            "block, then guests leave; returns when none is left",
            &["expel"],
        ),
        works(
            "bring",
            "lstay, then own processes come home; returns when all are here",
            &["bring"],
        ),
        works(
            "whois [ID|IP|host]",
            "the address of an ID, the ID of an address or name, the own ID",
            &["whois", "2"],
        ),
        works(
            "getload [ID]",
            "100 is one process for each standard processor",
            &["getload", "2"],
        ),
        works(
            "getspeed [ID]",
            "of one core; 10000 is the standard core, which computes more than openMosix' 400 MHz Pentium II",
            &["getspeed"],
        ),
        works(
            "status [ID]",
            "up or not, and what is switched off",
            &["status", "n2"],
        ),
        works("isup [ID]", "yes or no; exit status 0 or 1", &["isup", "2"]),
        works("getmem [ID]", "memory, bytes", &["getmem", "2"]),
        works("getfree [ID]", "free memory, bytes", &["getfree", "2"]),
        works("getyard", "10000: the standard core", &["getyard"]),
        refused(
            "getutil [ID]",
            "Armento measures no utilizability",
            "`mosctl getload` has the load, `armento why PID` what files cost",
            &["getutil"],
        ),
        refused(
            "gettune",
            "the price of a call is measured for each process",
            "`armento why PID` shows it",
            &["gettune"],
        ),
        refused(
            "getdecay",
            NO_DECAY,
            "the manual of `armento node` has the period of load messages",
            &["getdecay"],
        ),
        refused(
            "setdecay interval slow fast",
            NO_DECAY,
            "the manual of `armento node` has the period of load messages",
            &["setdecay", "1", "975", "926"],
        ),
        refused(
            "setyard",
            MEASURED,
            "`mosctl getspeed` shows it",
            &["setyard", "P4"],
        ),
        refused(
            "setspeed N",
            MEASURED,
            "`mosctl getspeed` shows it",
            &["setspeed", "20000"],
        ),
    ],
    notes: &[
        "Switches are stored: they hold after a restart of the daemon.",
        "stay and lstay are one switch: a home decides about its own processes only.",
    ],
};
