# Requires git, make, and Node 20 or newer with npm. All other tools come from node_modules.

BUN := node_modules/.bin/bun
STAMP := node_modules/.csimux-installed

.PHONY: help run try test test-all mutants test-lab test-cluster test-nomad test-peers check assumed bench bench-lab build image version release publish install clean

help:
	@echo "make run          build dist/csimux and serve examples/quickstart"
	@echo "make try          walk through what make run serves, from a second terminal"
	@echo "make check        types, lint, imports, generated files and conventions (ONLY=types: these)"
	@echo "make test         all tests, including the CSI conformance suite (ONLY=tests/core: these files or folders, ONLY=changed)"
	@echo "make test-all     the same without samples: every combination, for hours"
	@echo "make mutants      change csimux at N places and see whether the tests notice (N=60 SEED=7)"
	@echo "make test-lab     tests on real NFS, SMB, iSCSI, NVMe/TCP and ZFS in an emulated machine (ONLY='nfs iscsi': these)"
	@echo "make test-cluster tests of the image and the manifests on a real Kubernetes (ONLY='life kills': these)"
	@echo "make test-nomad   tests of the executable and the image on a real Nomad (ONLY='volumes kills': these)"
	@echo "make test-peers   tests of other TrueNAS clients against the TrueNAS double (see CONTRIBUTING.md)"
	@echo "make assumed      list what the fakes of the tests assume without a source"
	@echo "make bench        measure the executable (QUICK=1: a shorter run)"
	@echo "make bench-lab    measure ZFS over ssh on a lab guest, compared with bare commands"
	@echo "make build        build dist/csimux"
	@echo "make image        write an OCI archive for amd64 and arm64 to dist/image, without a container engine (as root)"
	@echo "make version      write a new version to every file that has one (VERSION=1.2.3)"
	@echo "make release      write executables, image, chart, SBOMs and checksums of a version to dist/release (as root)"
	@echo "make publish      push image and chart of dist/release to a registry (IMAGE=ghcr.io/owner/csimux)"
	@echo "make install      install node_modules"
	@echo "make clean        remove dist, .cache and run"

install: $(STAMP)

$(STAMP): package.json package-lock.json scripts/install.sh
	@sh scripts/install.sh $@

build: $(STAMP)
	@$(BUN) scripts/build.ts

run: $(STAMP)
	@$(BUN) scripts/run.ts

try: $(STAMP)
	@$(BUN) scripts/try.ts

# ONLY="tests/core tests/io/ssh": only these files and folders. ONLY=changed: what imports what has changed since the last commit, or
# since the commit SINCE, two minutes of it; what no test imports is an error. ONLY="changed far": all of it. ONLY="sanity portable": these parts. CASES=regexp: only cases with such titles. JOBS=4: so many processes.
test: export CASES := $(value CASES)
test: $(STAMP)
	@$(BUN) scripts/test.ts $(ONLY)

# Before a release, and each week in CI: every combination of drivers, versions and interruptions, every spoiled answer and all runs of
# csi-sanity, of which make test draws samples. Takes hours.
test-all: export CSIMUX_FUZZ := all
test-all: export CSIMUX_KILLS := 200
test-all: test

# Changes csimux in a copy of the last commit, runs the tests that import the changed file, and prints what they do not notice.
# N=60: so many changes. SEED=7: these.
mutants: export N := $(value N)
mutants: export SEED := $(value SEED)
mutants: $(STAMP)
	@$(BUN) scripts/mutants/main.ts

# GUEST=1: use a running guest (bun scripts/lab/main.ts up). MINUTES=45: time limit. CASES=iscsi: only matching cases.
test-lab: $(STAMP)
	@$(BUN) scripts/lab/main.ts test $(if $(GUEST),--guest $(GUEST)) $(if $(MINUTES),--minutes $(MINUTES)) $(if $(CASES),--cases "$(CASES)") $(ONLY)

# Requires Go. The first run takes half an hour; its builds are kept in ~/.cache/csimux-cluster. KEEP=1: keep the cluster running.
test-cluster: $(STAMP)
	@$(BUN) scripts/cluster/main.ts test $(if $(KEEP),--keep) $(ONLY)

# Requires Go and Docker. The first run takes half an hour; its build is kept in ~/.cache/csimux-nomad. KEEP=1: keep Nomad running.
test-nomad: $(STAMP)
	@$(BUN) scripts/nomad/main.ts test $(if $(KEEP),--keep) $(ONLY)

# Environment: PEER_<CLIENT>_<VERSION> is the command of a client.
test-peers: $(STAMP)
	@$(BUN) scripts/peers.ts

# FRESH=1: use Debian's current packages instead of those that the last run downloaded.
image: $(STAMP)
	@$(BUN) scripts/image/main.ts

version: $(STAMP)
	@$(BUN) scripts/release/version.ts "$(VERSION)"

# IMAGE=ghcr.io/owner/csimux: the chart names this repository. TAG=v1.2.3: fails unless this is the version.
release: $(STAMP)
	@$(BUN) scripts/release/main.ts

# With the credentials of the registry that "docker login" keeps.
publish: $(STAMP)
	@$(BUN) scripts/release/main.ts publish

# ONLY="types imports": only the checks with one of these words in their titles.
check: $(STAMP)
	@$(BUN) scripts/check.ts $(ONLY)

assumed: $(STAMP)
	@$(BUN) scripts/assumed.ts

# ONLY=pairs: only matching scenarios (coldStart, probes, pairs, nodeCycles, manyConnections). QUICK=1: fewer repetitions.
# KEEP=1: put the figures into the guide.
bench: $(STAMP)
	@$(BUN) scripts/bench.ts $(if $(QUICK),--quick) $(if $(KEEP),--keep) $(if $(ONLY),--only "$(ONLY)")

# GUEST=1: use a running guest. QUICK=1: fewer repetitions. ONLY="CreateVolume nfs": only matching operations. TARGETS="1 100 1000":
# iSCSI on a host with as many targets. KEEP=1: put the figures into the guide.
bench-lab: $(STAMP)
	@$(BUN) scripts/bench-lab.ts $(if $(GUEST),--guest $(GUEST)) $(if $(QUICK),--quick) $(if $(KEEP),--keep) $(if $(ONLY),--only "$(ONLY)") $(if $(TARGETS),--targets "$(TARGETS)")

clean:
	rm -rf dist .cache run
