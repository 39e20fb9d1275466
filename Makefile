# Everything a newcomer types. Each target does all of its own set-up.
#
#   make demo       24 encoders spread over a farm of four nodes on this machine;
#                   data in target/demo.json, picture in target/demo.svg
#   make demo-boot  two machines without a disk, in QEMU, become nodes; a boot server dies, and nothing is lost
#   make test       everything the server checks (some 30 minutes on 2 cores, cold)
#   make test-all   make test, then conformance twice more, the test suites of programs, the long tests, the package
#                   and farms of Debian machines in QEMU
#   make bench      the measured bars (cargo xtask bench)
#   make bench-nfs  the NFS server beside nfs-ganesha
#   make deb        target/debian/armento_VERSION_amd64.deb, with service, settings, manual pages
#   make tarball    the same for other systems, one static program: target/armento-VERSION.tar.gz
#   make manual    the manual as a book with search, in target/manual
#   make clean-lab  remove every trace of laboratories, also of killed ones

CARGO ?= cargo
# The one profile: tests, demo and tools share what was built once. `--bin` and not `--package`:
# so cargo joins the features of the whole workspace, and builds no dependency twice.
XTASK = $(CARGO) run --quiet --release --locked --bin xtask --
BUILT = $(or $(CARGO_TARGET_DIR),target)
ARMENTO = $(BUILT)/release/armento

# To build: ring and zstd compile C. To raise a lab: iproute2, ethtool, util-linux, procps.
BUILD = gcc libc6-dev make
LAB = iproute2 ethtool util-linux procps
# alsa-utils brings recorded voices as WAV; sox joins them; lame is the encoder.
DEMO = lame sox alsa-utils
# What jobs of a scenario are compared with (`armento lab play`).
OTHERS = parallel
# What starts programs on several nodes of a lab (`armento lab rsh`).
LAUNCHERS = openmpi-bin mpich pvm
# What compiles programs for MPI and PVM, and a benchmark of others on the same link.
MPI = libopenmpi-dev libmpich-dev pvm-dev netpipe-openmpi
# What others make farms of, and the client for Python.
OTHERS_NAMES = slurmctld slurmd slurm-client munge jq python3-pip python3-setuptools python3-wheel
# What the conformance guests run, beside the small C programs.
GUESTS = bash python3 perl sqlite3 xz-utils gzip openssl tar strace coreutils findutils \
	grep sed gawk bc file diffutils g++ redis-server redis-tools rsync lua5.4 tcl tmux nano \
	vim-tiny
# The dashboard is looked at in a browser. Node.js and npm, 20 or later, are not Debian 12's: tests that need them are skipped.
WEB = chromium
# Whose parsers check the files of `armento fabric`, and one of whom sets up networks in namespaces.
NETWORK = netplan.io ifupdown dnsmasq-base
# A boot server, and what its tests ask it with.
BOOT = dnsmasq-base ipxe ovmf erofs-utils curl cpio zstd
# Debian machines in QEMU, for tests: the image is made of Debian's packages.
MACHINES = qemu-system-x86 qemu-utils mmdebstrap e2fsprogs openssh-client zstd
# A foreign client of the NFS server.
NFS = libnfs-utils
# make test-all only: the big ones, and what suites need; a node with another kernel (its kernel, of
# linux-image-cloud-amd64, is unpacked and not installed).
GUESTS_ALL = postgresql nodejs default-jdk-headless golang-go ruby php-cli git gdb valgrind dpkg-dev erlang-base
EMULATED = busybox-static cpio
# … and large MPI programs with their libraries.
MPI_ALL = lammps libopenblas0-serial libblas3

.PHONY: all build demo demo-boot test test-all bench bench-nfs deb tarball pages manual clean-lab need-build need-demo need-test need-test-all

all: build

need-build:
	@scripts/need.sh $(BUILD)

need-demo: need-build
	@scripts/need.sh $(LAB) $(DEMO)

TESTS = $(LAB) $(DEMO) $(OTHERS) $(LAUNCHERS) $(MPI) $(OTHERS_NAMES) $(GUESTS) $(WEB) $(MACHINES) $(NETWORK) $(BOOT) $(NFS)

need-test: need-build
	@scripts/need.sh --soft $(TESTS)

build: need-build
	$(CARGO) build --release --locked --workspace

demo: need-demo
	$(CARGO) build --release --locked --bin armento
	$(ARMENTO) demo --json $(BUILT)/demo.json --plot $(BUILT)/demo.svg $(ARGS)

# Two machines without a disk become nodes; between them one of two boot servers dies. Some ten minutes.
demo-boot: need-test
	ARMENTO_LONG_TESTS=1 $(CARGO) test --release --locked --bin armento --test debian_diskless -- a_live_root --nocapture

# The packages of the tests are installed beside the build.
test: need-build
	@$(XTASK) ci --packages $(TESTS)

need-test-all: need-test
	@scripts/need.sh --soft $(GUESTS_ALL) $(EMULATED) $(MPI_ALL)
	@scripts/kernel.sh $(BUILT)/linux-cloud-amd64

test-all: need-test-all deb
	@$(XTASK) ci --long

bench: need-test
	@$(XTASK) bench $(ARGS)

# The NFS server beside nfs-ganesha, which is unpacked and not installed.
bench-nfs: need-build
	@scripts/need.sh $(LAB) libnfs-dev
	$(CARGO) build --release --locked -p armento-nfs --examples
	@scripts/nfs-bench.sh $(BUILT)

# The program is static as it is built (crates/cli/build.rs), so that package and tarball have the same one.
PACKAGE = dpkg-dev lintian gzip
CARGO_DEB = 3.8.0
DEB_VERSION ?=

pages: build
	rm -rf target/pages
	$(ARMENTO) pages target/pages
	gzip -9n target/pages/man/*
	gzip -9nc packaging/debian/changelog > target/pages/changelog.gz

deb: pages
	@scripts/need.sh $(PACKAGE)
	@target/tools/bin/cargo-deb --version 2>/dev/null | grep -qF $(CARGO_DEB) || \
		$(CARGO) install cargo-deb --locked --version $(CARGO_DEB) --root target/tools
	rm -f target/debian/armento_*.deb
	target/tools/bin/cargo-deb --no-build -p armento-cli $(if $(DEB_VERSION),--deb-version $(DEB_VERSION))
	lintian --fail-on error target/debian/armento_*.deb

tarball: pages
	@scripts/tarball.sh $(BUILT)

# The manual as a book with search, in target/manual.
MDBOOK = 0.5.4

manual: need-build
	@$(BUILT)/tools/bin/mdbook --version 2>/dev/null | grep -qF $(MDBOOK) || \
		$(CARGO) install mdbook --locked --version $(MDBOOK) --no-default-features --features search --root $(BUILT)/tools
	$(BUILT)/tools/bin/mdbook build docs

clean-lab:
	$(CARGO) build --release --locked --bin armento
	$(ARMENTO) lab down --all
