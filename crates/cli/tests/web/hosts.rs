//! Tokens and rights without a browser: what a program that speaks HTTP can do.

use crate::lab::{Farm, until};
use serde_json::Value;

/// A user of all nodes, and one whom n2 calls by another name.
const USERS: [(&str, u32); 2] = [("ann", 4001), ("ben", 4002)];

/// curl is not everywhere: perl speaks HTTP well enough. Prints the status, then the body.
const HTTP: &str = r#"
use IO::Socket::INET;
my ($method, $path, $cookie, $body) = @ARGV;
my $s = IO::Socket::INET->new("127.0.0.1:7118") or die "no connection: $!";
my $type = $method eq "POST" ? "Content-Type: application/json\r\nContent-Length: " . length($body) . "\r\n" : "";
my $c = $cookie ? "Cookie: $cookie\r\n" : "";
print $s "$method $path HTTP/1.1\r\nHost: 127.0.0.1:7118\r\nConnection: close\r\n$c$type\r\n$body";
local $/; print <$s>;
"#;

fn http(farm: &Farm, method: &str, path: &str, cookie: &str, body: &str) -> (u16, String) {
    let ask = format!("perl /tmp/http.pl {method} '{path}' '{cookie}' '{body}'");
    let text = farm.sh("n1", &ask);
    let status = text.split(' ').nth(1).and_then(|s| s.parse().ok());
    (status.unwrap_or(0), text)
}

fn token(farm: &Farm, user: &str, more: &str) -> String {
    let said = farm.sh("n1", &format!("{user} armento web --json {more}"));
    let said: Value = serde_json::from_str(&said).expect("JSON");
    let open = said["open"].as_str().expect("an address");
    open.split_once("#token=").expect("a token").1.to_owned()
}

fn sign_in(farm: &Farm, token: &str) -> Option<String> {
    let body = format!("{{\"token\":\"{token}\"}}");
    let (status, text) = http(farm, "POST", "/api/sign-in", "", &body);
    let cookie = text.lines().find_map(|l| {
        let (name, value) = l.split_once(": ")?;
        let value = value.split(';').next()?;
        name.eq_ignore_ascii_case("set-cookie")
            .then(|| value.to_owned())
    });
    cookie.filter(|_| status == 200)
}

fn prefix(uid: u32) -> String {
    format!("setpriv --reuid {uid} --regid {uid} --clear-groups")
}

pub fn users_are_kept_apart(farm: &Farm) {
    for (name, uid) in USERS {
        for node in ["n1", "n2"] {
            let there = if (name, node) == ("ben", "n2") {
                "benedict"
            } else {
                name
            };
            farm.sh(
                node,
                &format!("echo '{there}:x:{uid}:{uid}::/tmp:/bin/sh' >> /etc/passwd"),
            );
        }
    }
    farm.sh(
        "n1",
        &format!("cat > /tmp/http.pl <<'END'\n{HTTP}\nEND\nchmod 644 /tmp/http.pl"),
    );
    let (ann, ben) = (prefix(4001), prefix(4002));

    // Nothing listens, and no process runs, before somebody asks.
    assert!(
        !farm
            .run("n1", "pgrep -f '[a]rmento web-server'")
            .status
            .success()
    );
    let dry = farm.sh("n1", &format!("{ann} armento web --dry-run"));
    assert!(
        dry.contains("would print") && !dry.contains("token="),
        "{dry}"
    );
    assert!(
        !farm
            .run("n1", "pgrep -f '[a]rmento web-server'")
            .status
            .success()
    );
    let anns = sign_in(farm, &token(farm, &ann, "")).expect("signed in");
    let server = farm.sh("n1", "ps -e -o uid=,args= | grep '[w]eb-server'");
    assert_eq!(server.split_whitespace().next(), Some("65534"), "{server}");

    // Tokens: wrong, used, good for two.
    assert_eq!(sign_in(farm, "c0ffee"), None);
    let twice = token(farm, &ben, "--uses 2");
    let bens = sign_in(farm, &twice).expect("once");
    assert!(sign_in(farm, &twice).is_some());
    assert_eq!(sign_in(farm, &twice), None);
    let (_, me) = http(farm, "GET", "/api/me", &anns, "");
    assert!(
        me.contains("\"user\":\"ann\"") && me.contains("4001"),
        "{me}"
    );

    // A process of ann's, at home on n1, and one at home on n2.
    let run = |node: &str| {
        let start = format!(
            "({ann} sh -c 'echo $$ > /tmp/pid-ann; exec armento run --stay sleep 1000' >/dev/null 2>&1 &)"
        );
        farm.sh(node, &start);
        until("it runs", || {
            let there = "armento ps --json | grep -q \"\\\"pid\\\": $(cat /tmp/pid-ann)[,]\"";
            farm.run(node, there).status.success()
        });
        farm.sh(node, "cat /tmp/pid-ann").trim().to_owned()
    };
    let act = |cookie: &str, home: &str, what: &str| {
        let body = format!("{{\"home\":\"{home}\",\"action\":{{{what}}}}}");
        http(farm, "POST", "/api/act", cookie, &body)
    };
    for home in ["n1", "n2"] {
        let pid = run(home);
        let state = || farm.sh(home, &format!("ps -o state= -p {pid}"));
        let stop = format!("\"what\":\"stop\",\"pid\":{pid}");
        let (status, said) = act(&bens, home, &stop);
        assert_ne!(status, 200, "{said}");
        assert!(!state().starts_with('T'));
        // Another person has that number there.
        assert_eq!(said.contains("another-user"), home == "n2", "{said}");
        assert_eq!(act(&anns, home, &stop).0, 200);
        until("it is stopped", || state().starts_with('T'));
        let lower = format!("\"what\":\"renice\",\"pid\":{pid},\"nice\":-5");
        assert_eq!(act(&anns, home, &lower).0, 403);
        let go = format!("\"what\":\"continue\",\"pid\":{pid}");
        assert_eq!(act(&anns, home, &go).0, 200);
    }
    // No process of the farm, no process at all, not a process of a keeper.
    for pid in ["1", "0", "-1", "4194303"] {
        let (status, said) = act(&anns, "n1", &format!("\"what\":\"stop\",\"pid\":{pid}"));
        assert_eq!(status, 404, "{said}");
    }
    // Sessions end by command, and only the user's own.
    let ended = farm.sh("n1", &format!("{ann} armento web --end --json"));
    assert!(ended.contains("\"ended\": 1"), "{ended}");
    assert_eq!(http(farm, "GET", "/api/me", &anns, "").0, 401);
    assert_eq!(http(farm, "GET", "/api/me", &bens, "").0, 200);
    farm.sh("n1", &format!("{ben} armento web --end"));
    until("the server ends when nobody is signed in", || {
        !farm
            .run("n1", "pgrep -f '[a]rmento web-server'")
            .status
            .success()
    });
}

pub fn addresses_beyond_loopback_have_tls(farm: &Farm) {
    farm.sh(
        "n3",
        "printf '[web]\\nlisten = \"0.0.0.0:7118\"\\n' >> /etc/armento/config.toml",
    );
    farm.sh("n3", "pkill -f '[a]rmento node$'");
    farm.daemon("n3");
    let said = farm.sh("n3", "armento web --json");
    let said: Value = serde_json::from_str(&said).expect("JSON");
    assert!(
        said["open"]
            .as_str()
            .is_some_and(|o| o.starts_with("https://")),
        "{said}"
    );
    assert!(
        said["fingerprint"].as_str().is_some_and(|f| f.len() == 95),
        "{said}"
    );
    // Over the network, with the certificate that was shown.
    let shown = "a=$(getent hosts n3 | cut -d' ' -f1); openssl s_client -connect ${a:-n3}:7118 </dev/null 2>/dev/null | openssl x509 -noout -fingerprint -sha256";
    let shown = farm.sh("n2", shown);
    let print = said["fingerprint"].as_str().unwrap_or_default();
    assert!(shown.contains(print), "{shown} {print}");
    farm.sh("n3", "pkill -9 -f '[a]rmento node$'");
    until("the server ends with its daemon", || {
        !farm
            .run("n3", "pgrep -f '[a]rmento web-server'")
            .status
            .success()
    });
    farm.daemon("n3");
}

/// More connections than are served, of which none asks anything: they are closed after a while, and pages come in again.
pub fn silent_connections_are_closed(farm: &Farm) {
    farm.sh("n1", &format!("cat > /tmp/http.pl <<'END'\n{HTTP}\nEND"));
    farm.sh("n1", "armento web");
    let script = r#"perl -MIO::Socket::INET -e 'my @s = map { IO::Socket::INET->new("127.0.0.1:7118") } 1..400; open F, ">", "/tmp/open"; close F; sleep 1000' >/dev/null 2>&1 &"#;
    farm.sh("n1", script);
    until("they are connected", || {
        farm.run("n1", "test -e /tmp/open").status.success()
    });
    let asks = "perl /tmp/http.pl GET / '' '' | grep -q '200 OK'";
    until("a page is served", || farm.run("n1", asks).status.success());
}
