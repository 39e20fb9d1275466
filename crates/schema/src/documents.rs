//! What `--json` of each command prints, in a short notation (`notation.rs`). The manual page of a command says what its fields mean.

/// The name of a document, and its fields.
pub const DOCUMENTS: &[(&str, &str)] = &[
    (
        "armento-demo/1",
        "{machine:obj encoder:obj plan:obj options:str nodes:[str] single:[obj] farm:[obj] single_equal:int farm_equal:int \
         single_stolen_percent:num farm_stolen_percent:num usage:obj hops:[obj] samples:[obj] log:[str] figures:any}",
    ),
    ("armento.bench/1", "{bench:str mpi?:str traffic:any *}"),
    (
        "armento.boot.image.diff/1",
        "{changes:[{path:str what?:[str] *}]}",
    ),
    (
        "armento.boot.image/1",
        "{image?:str generation?:int current?:bool dir?:str lagging?:obj lead?:str before?:str removed?:str}",
    ),
    (
        "armento.boot.images/1",
        "{generations:[{image:str generation:int current:bool previous:bool made:int bytes:int kernel:str ram:bool from:str dir:str lead:str}] servers:obj}",
    ),
    (
        "armento.boot.init/1",
        "{dir:str server:str net:any proxy:bool dnsmasq:str}",
    ),
    (
        "armento.boot.node/1",
        "{waiting?:[{mac:str step:any at_ms:int}] node?:str mac?:str file?:str line?:str}",
    ),
    (
        "armento.boot.reboot/1",
        "{nodes:[str] passed_over?:[str] failed?:[{node:str why:str}] left?:[str]}",
    ),
    (
        "armento.boot.status/1",
        "{machines:[{node:str? mac:str? step:any marks:any image:str? boots:int? trouble:any well:bool text:str causes:any}] silent_servers:[any]}",
    ),
    (
        "armento.boot.view/1",
        "{views:[{node:str file:str exists:bool parts:[{name:str why:str exists:bool considered:[{name:str fits:bool readable:bool}]}]}] unknown_nodes:[any]}",
    ),
    (
        "armento.boot.why/1",
        "{node:str? mac:str? step:any marks:any image:str? boots:int? trouble:any well:bool text:str causes:any}",
    ),
    (
        "armento.calls/1",
        "{calls:[{nr:int name:str place:str when:str? otherwise:str? restart:str? posts:bool note:str?}] unlisted:any}",
    ),
    (
        "armento.checkpoint-file/1",
        "{header:obj processes:[obj] totals:obj memory_bytes:int distinct_bytes:int file_bytes:int changed:[str]}",
    ),
    ("armento.checkpoint/1", "Checkpointed"),
    (
        "armento.conform/1",
        "{passed:int failed:int skipped:int gaps:int interrupted:bool guests:[obj]}",
    ),
    (
        "armento.context-invitation/1",
        "{token:str address:str valid_s:int days:int command:str}",
    ),
    (
        "armento.contexts/1",
        "{contexts:[{name:str current:bool farm:str node:str address:str user:str expires:any}]}",
    ),
    ("armento.dfsa/1", "DfsaInfo"),
    (
        "armento.discovered/1",
        "{announcements:[{farm:str node:str address:any version:str ca_sha256:any admits:any}]}",
    ),
    (
        "armento.doctor/1",
        "{v:int tier:any farm:bool lab:bool? checks:[{id:str state:str need:str found:str remedy:str}]}",
    ),
    (
        "armento.dry-run/1",
        "{would:[str] nodes?:[obj] program?:{build:Build control:int sha256:str}}",
    ),
    ("armento.fabric.apply-all/1", "{dry_run:bool nodes:[str]}"),
    (
        "armento.fabric.apply/1",
        "{node:str dry_run:bool drift?:[{code:str link:str wanted:str found:str}] commands:[str] until_s?:int}",
    ),
    (
        "armento.fabric.check/1",
        "{node:str same:bool drift:[{code:str link:str wanted:str found:str}]}",
    ),
    (
        "armento.fabric.confirm/1",
        "{node:str dry_run:bool written:[str] removed:[str]}",
    ),
    (
        "armento.fabric.cost/1",
        "{nets:[{net:str declared:bool cost:obj}]}",
    ),
    (
        "armento.fabric.doctor/1",
        "{nodes:[str] findings:[{code:str node:str link:str peer:str? what:str evidence:str remedy:str}] not_looked_at:[str] wiring:any}",
    ),
    ("armento.fabric.import/1", "{toml:str losses:[str]}"),
    ("armento.fabric.observation/1", "{node:str *}"),
    (
        "armento.fabric.plan/1",
        "{plan?:obj files?:[{path:str text:str *}] file?:str text?:str node?:str drift?:[{code:str link:str wanted:str found:str}] commands?:[str]}",
    ),
    ("armento.farm-status/1", "SwitchInfo"),
    (
        "armento.farm-upgrade/1",
        "{upgraded:[str] left:[str] keepers:[{node:str process:int why:str}]}",
    ),
    (
        "armento.faults/1",
        "{seed:int moves:int lives:int died:int seconds:int faults:obj points:any wrong:[any] broken:any interrupted:bool safe?:{lost:int continued:int ended:int told:obj}}",
    ),
    (
        "armento.files/1",
        "{procs:[{pid:int home:str place:str command:str forwarded:int files:FileCounts connections:Connections?}]}",
    ),
    ("armento.history/1", "HistoryInfo"),
    ("armento.hostfile/1", "{hosts:[{name:str slots:int}]}"),
    (
        "armento.invitation/1",
        "{id:str token:str address:str command:str hours:int uses:int}",
    ),
    (
        "armento.invitations/1",
        "{tokens:[{id:str state:str expires:int uses_left:int used:int}]}",
    ),
    ("armento.kept/1", "{kept:[KeptInfo] silent:[str]}"),
    (
        "armento.lab-check/1",
        "{v:int name:str ok:bool processors:[{node:str measured:num ideal:num ok:bool}] links:[obj] apart:[{from:str to:str reached:bool ok:bool}]}",
    ),
    (
        "armento.lab-counters/1",
        "{v:int name:str nodes:[{name:str nics:[{name:str rx_bytes:int rx_packets:int rx_dropped:int tx_bytes:int tx_packets:int tx_dropped:int}]}]}",
    ),
    ("armento.lab/1", "{v:int name:str nodes:[obj] *}"),
    ("armento.labs/1", "{v:int labs:[{name:str nodes:[obj] *}]}"),
    ("armento.log/1", "{entries:[LogEntry]}"),
    ("armento.mfs/1", "MfsInfo"),
    (
        "armento.migrate/1",
        "{pid:int node:str? pause_us?:int total_us?:int bytes?:int}",
    ),
    ("armento.mosix-file/1", "{path:str text:str? names:[str]?}"),
    (
        "armento.mosix/1",
        "{commands:[{name:str system:str about:str synopsis:[str] forms:[{form:str fate:str how?:str why?:str hint?:str}] notes:[str]}]}",
    ),
    ("armento.mpi-env/1", "{mpi:str settings:any stays:[str]}"),
    ("armento.node-drain/1", "{nodes:[DrainInfo] timed_out:bool}"),
    ("armento.nodes/1", "{nodes:[NodeInfo]}"),
    (
        "armento.paper-list/1",
        "{experiments:[{id:str title:str paper:any place:any requirements:any shows:any emulation:any on:any nodes:any scale:any minutes:num packages:[str] relations:any}]}",
    ),
    ("armento.paper-results/1", "{results:[obj]}"),
    (
        "armento.played/1",
        "{about:any rows:[obj] published:any published_copies:any}",
    ),
    (
        "armento.ps/1",
        "{procs:[ProcInfo&{detail:str? explanation:str? remedy:str?}]}",
    ),
    (
        "armento.recovered/1",
        "{recovered:[{id:str pid:int output:any}]}",
    ),
    (
        "armento.removed/1",
        "{node?:str lost?:int untold?:[str] token?:str}",
    ),
    ("armento.rotated/1", "{untold:[str]}"),
    ("armento.safe/1", "{pid:int safe:SafeWish? price:[str]}"),
    ("armento.trust/1", "TrustInfo"),
    (
        "armento.web-token/1",
        "{open?:str? url?:str uses?:int valid_s?:int session_s?:int fingerprint?:str? ended?:int dry_run:bool}",
    ),
    (
        "armento.why/1",
        "{pid:int place:str? stay:Stay? explanation:str remedy:str detail:str? partner:int? away:AwayPrice? setting:str? safe:SafeInfo? connections:Connections?}",
    ),
];
