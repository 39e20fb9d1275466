//! Real programs, as command lines for `sh -c` in an empty directory.
//!
//! Each line must have the same result every time: no random numbers, times, pids or names of temporary files in its
//! output or files.

pub struct Real {
    pub name: &'static str,
    pub about: &'static str,
    pub line: &'static str,
    /// Program and the Debian package that contains it.
    pub needs: &'static [(&'static str, &'static str)],
}

/// Starts a command line with a function `text LINES` that prints text which compresses and sorts like ordinary text,
/// made from numbers only.
macro_rules! with_text {
    ($($line:expr),+) => {
        concat!(
            "set -e; text() { awk -v n=$1 'BEGIN { s = 7; for (i = 0; i < n; i++) { ",
            "s = (s * 16807) % 2147483647; ",
            "print s, \"line\", i % 97, \"of some text that repeats\" } }'; }; ",
            $($line),+
        )
    };
}

pub const REAL: &[Real] = &[
    Real {
        name: "bash-pipeline",
        about: "A bash pipeline: sort, uniq, grep, wc, process substitution, PIPESTATUS.",
        line: include_str!("../../real/bash-pipeline.sh"),
        needs: &[("bash", "bash")],
    },
    Real {
        name: "sh-jobs",
        about: "A shell script with background jobs, wait, traps, kill, here documents, umask.",
        line: include_str!("../../real/sh-jobs.sh"),
        needs: &[],
    },
    Real {
        name: "python-threads",
        about: "python3: threads, locks, queues, a thread pool, timers, thread-local data.",
        line: include_str!("../../real/python-threads.sh"),
        needs: &[("python3", "python3")],
    },
    Real {
        name: "python-subprocess",
        about: "python3: subprocess, pipes, multiprocessing by fork, signals, time-outs, asyncio.",
        line: include_str!("../../real/python-subprocess.sh"),
        needs: &[("python3", "python3")],
    },
    Real {
        name: "python-libraries",
        about: "python3: the modules sqlite3, re, zlib, json, hashlib, decimal, mmap, socket.",
        line: include_str!("../../real/python-libraries.sh"),
        needs: &[("python3", "python3")],
    },
    Real {
        name: "python-pool",
        about: "python3: multiprocessing, with semaphores shared by its processes: pool, lock, queue, event.",
        line: include_str!("../../real/python-pool.sh"),
        needs: &[("python3", "python3")],
    },
    Real {
        name: "perl",
        about: "perl: regular expressions, hashes, fork and wait, pipes, sort, pack, sockets.",
        line: include_str!("../../real/perl.sh"),
        needs: &[("perl", "perl")],
    },
    Real {
        name: "gcc",
        about: "gcc compiles, optimises and links two files; the program runs.",
        line: include_str!("../../real/gcc.sh"),
        needs: &[("gcc", "gcc")],
    },
    Real {
        name: "sqlite3",
        about: "The sqlite3 program fills a table of 100,000 rows and builds an index over it.",
        line: include_str!("../../real/sqlite3.sh"),
        needs: &[("sqlite3", "sqlite3")],
    },
    Real {
        name: "sort-parallel",
        about: "sort with several threads and temporary files over 150,000 lines.",
        line: with_text!(
            "text 150000 > in; sort --parallel=4 -S 2M -T . in > out; sort -c out; ",
            "sort --parallel=2 -u -k1,1n in | sha256sum; wc -l < out; rm in"
        ),
        needs: &[("sort", "coreutils")],
    },
    Real {
        name: "xz",
        about: "xz packs with two threads, tests and unpacks.",
        line: with_text!(
            "text 40000 > in; xz -3 -T2 --block-size=512KiB -k in; xz -t in.xz; ",
            "xz -dc in.xz | cmp - in; xz -l --robot in.xz | head -2 | tail -1 | cut -f2-5"
        ),
        needs: &[("xz", "xz-utils")],
    },
    Real {
        name: "gzip",
        about: "gzip and bzip2 pack, test and unpack; zcat and zgrep read.",
        line: with_text!(
            "text 120000 > in; gzip -nk9 in; gzip -t in.gz; zcat in.gz | cmp - in; ",
            "zgrep -c 'line 42' in.gz; gzip -dc < in.gz | gzip -nc1 | wc -c; ",
            "head -c 1000 in.gz | gzip -t; echo status $?"
        ),
        needs: &[("gzip", "gzip")],
    },
    Real {
        name: "openssl",
        about: "openssl: digests, an hmac, encryption with a given key, base64, an error.",
        line: with_text!(
            "text 60000 > in; for d in md5 sha1 sha256 sha512 blake2b512; do openssl dgst -$d in; done; ",
            "openssl dgst -sha256 -hmac secret in; K=000102030405060708090a0b0c0d0e0f; ",
            "openssl enc -aes-128-cbc -K $K -iv $K -in in -out enc; ",
            "openssl enc -d -aes-128-cbc -K $K -iv $K -in enc | cmp - in; ",
            "openssl base64 -in enc | openssl dgst -sha256; ",
            "openssl enc -pbkdf2 -iter 200000 -S 0011223344556677 -pass pass:x -aes-256-ctr -in in | ",
            "openssl dgst -sha256; openssl prime 1000000007; openssl dgst none 2>/dev/null || echo no"
        ),
        needs: &[("openssl", "openssl")],
    },
    Real {
        name: "lame",
        about: "lame encodes a WAV that sox made from a fixed sound, and decodes it again.",
        line: "sox -D -n -b 16 -r 44100 -c 2 in.wav synth 12 sine 200-3000 square 330 gain -8 && \
               lame --silent -b 128 in.wav out.mp3 && lame --silent -V 4 -m m in.wav mono.mp3 && \
               lame --silent --decode out.mp3 back.wav && sha256sum in.wav out.mp3 mono.mp3 back.wav",
        needs: &[("lame", "lame"), ("sox", "sox")],
    },
    Real {
        name: "tar",
        about: "tar packs a tree of 400 files, lists, compares and unpacks it; cpio-like pipes.",
        line: "set -e; mkdir -p t/a/b t/c; for i in $(seq 400); do echo $i $i > t/a/f$i; done; \
               ln -s ../a t/c/link; ln t/a/f1 t/c/hard; head -c 2000000 /dev/zero > t/c/zeros; \
               chmod 600 t/a/f2; \
               tar --sort=name --mtime=@0 --numeric-owner -cf t.tar t; sha256sum < t.tar | cut -c1-8 | wc -c; \
               tar -tf t.tar | sha256sum; mkdir u; tar -C u -xf t.tar; diff -r t u/t; \
               tar --sort=name --mtime=@0 --owner=0 --group=0 -cf - t/a | gzip -n | sha256sum; \
               tar -df t.tar; rm -r t; tar -xOf t.tar t/a/f7; tar -tf none 2>/dev/null || echo status $?; rm t.tar",
        needs: &[("tar", "tar")],
    },
    Real {
        name: "awk-sed-grep",
        about: "awk sums and formats, sed edits in place, grep counts, tr, cut, join, comm, diff.",
        line: with_text!(
            "text 60000 > in; awk '{ c[$3] += $1 % 100 } END { for (k = 0; k < 97; k++) print k, c[k] }' in | ",
            "sha256sum; cp in ed; sed -i -e 's/line \\([0-9]*\\)/LINE<\\1>/; /0 of/d' ed; sha256sum < ed; ",
            "grep -c 'line 5' in; grep -E -o '[0-9]{9}' in | sort | uniq | wc -l; tr a-z A-Z < in | cut -d' ' -f2-3 | ",
            "sort | uniq -c | sort -rn | head -3; diff in ed | wc -l; seq 1 5000 | sort > a; seq 1 3 5000 | sort > b; ",
            "join a b | wc -l; comm -23 a b | wc -l; split -n 4 in part.; cat part.* | cmp - in; rm in ed"
        ),
        needs: &[("awk", "gawk")],
    },
    Real {
        name: "make",
        about: "make -j2 over a small tree of C files, run twice: nothing is left to do.",
        line: include_str!("../../real/make.sh"),
        needs: &[("make", "make"), ("gcc", "gcc")],
    },
    Real {
        name: "titles",
        about: "perl gives itself new names; ps, its child, shows each at once.",
        line: "perl -e 'for my $i (1..12) { $0 = \"title number $i\"; print `ps -o command= -p $$`, `ps -o comm= -p $$`; }'",
        needs: &[("perl", "perl"), ("ps", "procps")],
    },
    Real {
        name: "find-xargs",
        about: "find over a tree, xargs with two processes, -exec, tests by size, mode and name.",
        line: "set -e; mkdir -p d/1 d/2 d/3; for i in $(seq 150); do echo $i > d/$((i % 3 + 1))/f$i; done; \
               find d -type f | sort | sha256sum; find d -name 'f1*' -size -2 | wc -l; \
               find d -type f -print0 | xargs -0 -n 20 -P 2 cat | sort -n | sha256sum; \
               find d -name 'f*7' -exec chmod 600 {} +; find d -perm 600 | sort | head -3; \
               find d -type f -name 'f2*' -exec sh -c 'echo $1; exit 0' sh {} ';' | sort | tail -2; \
               find d/2 -delete; find d | wc -l; find none 2>/dev/null || echo status $?; \
               seq 30 | xargs -n 7 -P 3 sh -c 'sleep 0.05; exit 0'; seq 3 | xargs -n1 sh -c 'exit 3' || echo status $?",
        needs: &[("find", "findutils")],
    },
];
