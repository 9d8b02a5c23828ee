# Everything a person types. Tools come from node_modules; needed beforehand: git, make, Node 20 or newer, npm.

BUN := node_modules/.bin/bun
STAMP := node_modules/.csimux-installed

.PHONY: help run try test test-lab test-cluster test-peers check assumed bench bench-lab build image install clean

help:
	@echo "make run      build dist/csimux and serve the quick start of examples/quickstart"
	@echo "make try      a walk through what make run serves, from a second terminal"
	@echo "make test     every test, the CSI conformance suite included"
	@echo "make test-lab tests against real NFS, SMB, iSCSI, NVMe/TCP and ZFS in an emulated machine (ONLY='nfs iscsi': these)"
	@echo "make test-cluster csimux from its image and manifests on a real Kubernetes (ONLY='life kills': these)"
	@echo "make test-peers clients of TrueNAS that you have beside csimux, on its double (see CONTRIBUTING.md)"
	@echo "make check    types, lint, import rules, generated code"
	@echo "make assumed  what the fakes of the tests assume without a source"
	@echo "make bench    figures of the executable (make bench QUICK=1: a shorter run)"
	@echo "make bench-lab figures of ZFS over ssh: csimux, the bare commands and those of democratic-csi, on a lab's guest"
	@echo "make build    dist/csimux"
	@echo "make image    dist/image: an OCI archive for amd64 and arm64, without a container engine (root)"
	@echo "make install  node_modules"
	@echo "make clean    remove dist, .cache and run"

install: $(STAMP)

$(STAMP): package.json package-lock.json scripts/install.sh
	@sh scripts/install.sh $@

build: $(STAMP)
	@$(BUN) scripts/build.ts

run: $(STAMP)
	@$(BUN) scripts/run.ts

try: $(STAMP)
	@$(BUN) scripts/try.ts

test: $(STAMP)
	@$(BUN) scripts/test.ts

# GUEST=1: in a guest that is up (bun scripts/lab/main.ts up). MINUTES=45: when all must be over. CASES=iscsi: only cases so called.
test-lab: $(STAMP)
	@$(BUN) scripts/lab/main.ts test $(if $(GUEST),--guest $(GUEST)) $(if $(MINUTES),--minutes $(MINUTES)) $(if $(CASES),--cases "$(CASES)") $(ONLY)

# Needs Go and half an hour the first time; what it builds is kept in ~/.cache/csimux-cluster. KEEP=1: the cluster stays up.
test-cluster: $(STAMP)
	@$(BUN) scripts/cluster/main.ts test $(if $(KEEP),--keep) $(ONLY)

# PEER_<CLIENT>_<VERSION> in the environment: the command of a client.
test-peers: $(STAMP)
	@$(BUN) scripts/peers.ts

# FRESH=1: with what Debian has now, instead of what the last run fetched.
image: $(STAMP)
	@$(BUN) scripts/image/main.ts

check: $(STAMP)
	@$(BUN) scripts/check.ts

assumed: $(STAMP)
	@$(BUN) scripts/assumed.ts

# ONLY="TrueNAS": only what is so called. QUICK=1: fewer of everything.
bench: $(STAMP)
	@$(BUN) scripts/bench/main.ts $(if $(QUICK),--quick) $(if $(ONLY),--only "$(ONLY)")

# GUEST=1: a guest that is up. QUICK=1: fewer of everything. VOLUMES=0: without the pool of thousands of volumes, which takes long.
# ONLY="CreateVolume nfs": only what is so called; "in the pool" is a listing and a snapshot in a full one.
bench-lab: $(STAMP)
	@$(BUN) scripts/bench-lab/main.ts $(if $(GUEST),--guest $(GUEST)) $(if $(VOLUMES),--volumes $(VOLUMES)) $(if $(QUICK),--quick) $(if $(ONLY),--only "$(ONLY)")

clean:
	rm -rf dist .cache run
