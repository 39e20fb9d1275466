# See suites.rs for the verbs. The tests are those of the source, all else is what is installed.
set -u
case $1 in
prepare)
    mkdir -p lib && ln -sfn ../source/Lib/test lib/test
    cd source/Lib/test
    # The system, processes and threads, files and sockets, programs of its own; and of the language what is quick.
    for name in os posix subprocess signal threading thread threadsignals threading_local threadedtempfile \
        io file fileio largefile mmap fcntl fileinput tempfile shutil pathlib glob stat posixpath \
        socket select selectors epoll poll fork1 wait3 wait4 popen pty openpty \
        eintr faulthandler resource sched queue concurrent_futures \
        multiprocessing_fork multiprocessing_main_handling \
        sqlite3 dbm dbm_dumb mailbox zipfile tarfile gzip bz2 lzma zlib zipimport \
        httpservers urllib2_localnet xmlrpc ftplib smtplib poplib ssl logging \
        cmd_line cmd_line_script runpy site venv sys context contextlib coroutines generators \
        exceptions gc weakref pickle json re decimal float fractions struct array codecs \
        dict list set functools itertools collections dataclasses enum typing ast compile; do
        for file in "test_$name.py" "test_$name"; do
            if test -e "$file"; then echo "${file%.py}"; fi
        done
    done
    ;;
stage) mkdir tmp ;;
run)
    # The one left out asks that a wait is over within 10 ms. Without -u no test goes to the network.
    PYTHONPATH=$SUITE/lib TMPDIR=$PWD/tmp PYTHONDONTWRITEBYTECODE=1 python3.11 -m test --junit-xml log.xml \
        --tempdir "$PWD/tmp" -i test_control_and_wait "$2" > log 2>&1
    status=$?
    test -e log.xml && python3.11 - log.xml << 'EOF'
import sys, xml.etree.ElementTree as tree
for case in tree.parse(sys.argv[1]).iter("testcase"):
    kinds = {child.tag for child in case}
    word = "skip" if "skipped" in kinds else "FAIL" if kinds & {"failure", "error"} else "ok"
    print(word, ".".join(filter(None, [case.get("classname"), case.get("name")])))
EOF
    echo "ended with $status"
    ;;
esac
