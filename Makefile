# Keyp's tasks; `make help` lists them. Works with GNU make 3.81 and later.
#
# Variables, as in `make torture KILLS=1000`:
#   TESTFLAGS   further flags of go test (-run, -v, -count=1 …)
#   KILLS       kill -9 rounds of the restart tests under `make torture`, and failovers under `make torture-group`
#   TORTURE     time for the histories of internal/torture, and for those of consensus, under `make torture`
#   CORRUPT     damaged bits and pages under `make torture`
#   FOLLOWED    histories of a follower beside its leader under `make torture-group`
#   CHECKS      cases of each property under `make torture`
#   FUZZTIME    time for each fuzz target
#   MUTANTS     packages whose mutations `make mutants` makes, as in MUTANTS="storage server"
#   BENCHFLAGS  further flags of keyp-bench, see bin/keyp-bench --help
#   VULNDB      a copy of the vulnerability database, for .ci/vulns
#   PEER        the server that `make bench` compares with
#   QUEUEFLAGS  flags of bench/queues, as in QUEUEFLAGS="--jobs 1000 --only asynq", or of its kills.js
#   GROUPFLAGS  flags of bench/groups, as in GROUPFLAGS="--rounds 5 --length 10s"
#   BEFORE      an earlier Keyp, as in BEFORE=/tmp/keyp-old, that it compares with instead of PEER
# and the environment variables of internal/testkit/doc.go.

TESTFLAGS  =
KILLS      = 500
TORTURE    = 10m
CORRUPT    = 10000
CHECKS     = 2000
FOLLOWED   = 8000
FUZZTIME   = 30s
BENCHFLAGS =
QUEUEFLAGS =
GROUPFLAGS =
BEFORE     =
PEER       = redis-server --port {port} --dir {dir} --appendonly yes --appendfsync always --save ''

GO        = go
# A test that hangs fails by itself, as each of its waits is bounded (internal/testkit/await).
# This bound is for what cannot: it is so long that a busy machine never meets it.
TIMEOUT   = 20m
# Packages are tested in the order of this list: the longest last would have the machine
# to themselves, and leave most of it idle. Many tests wait for disks, servers and clocks,
# so more packages than processors run at once, and more tests of a package.
LONGEST   = ./internal/e2e ./storage ./commands ./internal/e2e/group ./member ./server ./internal/e2e/restart ./web ./cmd/keyp ./internal/e2e/linear ./cmd/keyp-bench ./internal/e2e/rediscli ./scripting
PACKAGES  = $$(($$(getconf _NPROCESSORS_ONLN) + 4))
TESTS     = $$(($$(getconf _NPROCESSORS_ONLN) + 2))
# What `make check` has more of than `make test`.
MORE      = KEYP_LONG=1
QUICK     = -gcflags=all=-N -l
PLATFORMS = linux/amd64 linux/arm64 darwin/amd64 darwin/arm64

# A checkout that belongs to somebody else, as in containers, has no readable history. Half of
# the time of `make test` in a fresh clone goes into compiling, and a seventh of that into what
# only debuggers read; all tasks leave that out, so that they share what they compile, but those
# that make programs to keep.
PLAIN          := $(GOFLAGS) -buildvcs=false
# go-redis, and what only tests and examples compile with it, is left without inlining: each package
# that imports it compiles its hundreds of methods once more, which takes half as long so. Likewise
# what comes with Prometheus's client.
NOT_INLINED := github.com/redis/go-redis/v9 google.golang.org/protobuf/... github.com/prometheus/... github.com/chromedp/... keyp/docs/examples/... keyp/cmd/keyp-bench/... keyp/internal/testkit/... keyp/internal/e2e/...
export GOFLAGS := $(PLAIN) -ldflags=-s -gcflags=all=-dwarf=false $(foreach package,$(NOT_INLINED),'-gcflags=$(package)=-dwarf=false -l')
build bench bench-queues queue-kills bench-groups: export GOFLAGS := $(PLAIN)
# The compiler, the checks and the tests are small next to the machines that run them: they collect
# garbage when there is four times as much of it as usual, which saves a quarter of their work. The
# race detector's tests run as programs run.
fmt-check vet staticcheck types test: export GOGC = 400

# Each process with the race detector, test or server, would sleep for a second when it
# exits, to see races of then. There are hundreds.
export GORACE := atexit_sleep_ms=50 $(GORACE)

# The race detector needs a C compiler; without one the tests run without it, and
# say so.
RACE = $$(if [ "$$($(GO) env CGO_ENABLED)" = 1 ] && command -v "$$($(GO) env CC)" >/dev/null 2>&1; then echo -race; \
	else echo "make: no C compiler, so the tests run WITHOUT the race detector" >&2; fi)

.DEFAULT_GOAL := build
.NOTPARALLEL:
.PHONY: build cluster test check race rest lint fmt-check vet staticcheck vulns types cross redis chromium browser screenshots torture torture-group test-go-redis fuzz mutants bench bench-queues queue-kills bench-groups release packages test-packages clean help

build: ## build bin/keyp and bin/keyp-bench
	$(GO) build -o bin/ ./cmd/keyp ./cmd/keyp-bench

cluster: build ## run a group of three servers on this machine, until it is interrupted
	@.ci/cluster bin/keyp

# What go test prints, and in one line at the end what was skipped. go test would vet too, with
# a part of the checks of `make vet`.
REPORT = $(GO) run ./internal/testkit/report -vet=off -timeout $(TIMEOUT) -p $(PACKAGES) -parallel $(TESTS)

test: redis ## the tests: some minutes, the same each time; needs no more than Go
	$(REPORT) $(TESTFLAGS) $(LONGEST) ./...

check: lint types redis browser race rest ## all else: static checks, a browser, and the tests once more, with random seeds and more cases

# The race detector makes a test take five to ten times as long, and proves something only where
# goroutines share memory: in these packages, and in these tests of the two that take longest. A
# test belongs here if it starts goroutines, or opens a store whose background work runs on purpose.
SHARED = ./server ./member ./consensus/... ./storage/wal ./storage/datafile ./storage/archive ./storage/backupfile ./ttl ./features/... ./web ./internal/e2e/...
SHARED_STORAGE = BesideBackground|KillsDoNotPileUpSegments|CompactionBesideEverything|CountsBesideSteps|Share.*|MirrorWhole|ClockConfirmBesideWriters|LoadsAtOnce|MillionEntriesAge|ExpiringWaitsForGlobal|TimelineWaitsForGlobal|TimelineWalksOn|CountTypes|StopOnFullDisk|ReapDelay|BatchOfOneSlotFails|RecordsOfManyShards
SHARED_KEYP = Life|SecondSignal|Log.*|Syslog.*|Notify.*|ShutdownCommand|ImportToOther|ArchiveCommandIsKilled
SHARED_COMMANDS = ReaperRemoves.*|PropertyExpiration|ExpireCycle|Backup(Place|Resume)|DebugSleep|TrackingOfMigrate|ArgumentsStayAsTheyAre|ColdCommands|RandomCommands

# Of the tests from outside these have one client at a time, and take longest.
ONE_CLIENT = TestDiff.*|TestBackups|TestGoRedis(Sets|Collections|Strings|Hashes|Streams|Scripts)|TestDataFileErrors|TestBackup(ToBucket|Killed)?|TestBucketToolKilled|TestSmallMaxMemory
# Of what is under the race detector these have more cases with KEYP_LONG.
LONGER = TestClocksDrift|TestDisksFail

race: ## the tests in which goroutines share memory, under the race detector
	KEYP_SEED=random $(MORE) $(REPORT) $(RACE) $(TESTFLAGS) -run '^Test.*($(SHARED_STORAGE))$$' ./storage
	KEYP_SEED=random $(MORE) $(REPORT) $(RACE) $(TESTFLAGS) -run '^Test($(SHARED_COMMANDS))$$' ./commands
	KEYP_SEED=random $(REPORT) $(RACE) $(TESTFLAGS) -run '^Test($(SHARED_KEYP))$$' ./cmd/keyp
	KEYP_SEED=random $(REPORT) $(RACE) $(TESTFLAGS) -skip '^($(ONE_CLIENT))$$' $(SHARED)

rest: ## all other tests, with random seeds and more cases
	$(GO) list ./... >/dev/null
	KEYP_SEED=random $(MORE) $(REPORT) $(TESTFLAGS) -run '^($(ONE_CLIENT))$$' ./internal/e2e ./internal/e2e/group
	KEYP_SEED=random $(MORE) $(REPORT) $(TESTFLAGS) -run '^($(LONGER))$$' ./member
	KEYP_SEED=random $(MORE) $(REPORT) $(TESTFLAGS) ./storage ./commands ./server \
		$$($(GO) list ./... | grep -vxF -e keyp/storage -e keyp/commands -e "$$($(GO) list $(SHARED))" | sed 's/^keyp/./')

lint: fmt-check vet staticcheck vulns ## formatting, go vet, staticcheck, govulncheck

fmt-check:
	@echo 'gofmt -l .'
	@files=$$("$$($(GO) env GOROOT)/bin/gofmt" -l .) || exit 1; \
	if [ -n "$$files" ]; then echo "not formatted, run gofmt -w on:"; echo "$$files"; exit 1; fi

vet:
	$(GO) vet ./...

staticcheck:
	$(GO) tool staticcheck ./...

vulns: ## known vulnerabilities, by govulncheck; VULNDB is another place of its database
	@.ci/vulns

HOST = $(shell $(GO) env GOHOSTOS)/$(shell $(GO) env GOHOSTARCH)

# No file is for one processor alone, so one platform stands for each system; `make cross` compiles for all.
types: ## check the types of everything, tests included, for another system than this one, and with tags
	$(GO) run ./internal/typecheck $(HOST):browser,race $(if $(filter darwin/%,$(HOST)),linux/amd64,darwin/arm64)

# Nobody runs what this compiles, so it need not be optimized.
cross: ## compile everything for each platform, and the tests for another system than this one
	@host="$$($(GO) env GOHOSTOS)/$$($(GO) env GOHOSTARCH)"; \
	for platform in $(PLATFORMS); do \
		if [ "$$platform" = "$$host" ]; then flags=; else flags='$(QUICK)'; fi; \
		echo "GOOS=$${platform%/*} GOARCH=$${platform#*/} $(GO) build ./..."; \
		GOOS=$${platform%/*} GOARCH=$${platform#*/} $(GO) build $${flags:+"$$flags"} ./... || exit 1; \
	done
	@other=darwin; if [ "$$($(GO) env GOHOSTOS)" = darwin ]; then other=linux; fi; \
	echo "GOOS=$$other GOARCH=arm64 $(GO) vet ./..."; GOOS=$$other GOARCH=arm64 $(GO) vet '$(QUICK)' ./...

redis: ## see to it that redis-server and redis-cli are there to compare with
	@.ci/redis

chromium: ## see to it that there is a browser to test the dashboard with
	@.ci/chromium

browser: chromium ## the dashboard in a browser
	$(MORE) $(REPORT) -tags browser $(TESTFLAGS) ./internal/e2e/browser

screenshots: chromium ## pictures of the dashboard, in docs/images
	KEYP_SCREENSHOTS=$(CURDIR)/docs/images $(GO) test -tags browser -count=1 -run TestScreenshots ./internal/e2e/browser

torture: redis ## long crash runs: the storage model, the log, kills of the real server
	$(GO) test $(RACE) -count=1 -timeout 3h -run 'Model|Crash|Recover|Durable' $(TESTFLAGS) ./storage ./storage/wal -rapid.checks=$(CHECKS)
	KEYP_SHARE_MS=60000 $(GO) test $(RACE) -count=1 -timeout 3h -run TestShare $(TESTFLAGS) ./storage
	KEYP_TORTURE=$(TORTURE) $(GO) test -count=1 -timeout 3h -v $(TESTFLAGS) ./internal/torture
	KEYP_CONSENSUS=$(TORTURE) $(GO) test -count=1 -timeout 3h -v -run 'TestSimulation$$' $(TESTFLAGS) ./consensus
	KEYP_STRESS=100 $(GO) test $(RACE) -count=1 -timeout 3h -v -run 'CountsBesideSteps|DataFileFaults' $(TESTFLAGS) ./storage
	KEYP_CORRUPT=$(CORRUPT) $(GO) test -count=1 -timeout 3h -v -run 'Corruption|Repair|DamageIsFound' $(TESTFLAGS) ./storage ./internal/boltfile
	$(GO) test $(RACE) -count=1 -timeout 3h -run ACLDecisions $(TESTFLAGS) ./commands -rapid.checks=$(CHECKS)
	KEYP_RANDOM_RUNS=$(CHECKS) $(GO) test $(RACE) -count=1 -timeout 3h -run RandomCommands $(TESTFLAGS) ./commands
	KEYP_TLS_LONG=1 $(GO) test $(RACE) -count=1 -timeout 3h -v -run TLSStreams $(TESTFLAGS) ./server
	KEYP_TLS_LONG=1 KEYP_KILLS=$(KILLS) KEYP_DIFF_CASES=$(CHECKS) $(GO) test $(RACE) -count=1 -timeout 3h -v $(TESTFLAGS) ./internal/e2e/...

torture-group: ## long crash runs of groups: followers beside a leader, the simulation, failovers of real servers
	$(GO) test -count=1 -timeout 3h -v -run 'TestMirror$$' $(TESTFLAGS) ./storage -rapid.checks=$(FOLLOWED)
	KEYP_CONSENSUS=$(TORTURE) $(GO) test -count=1 -timeout 3h -v -run 'TestSimulation(OnFiles)?$$' $(TESTFLAGS) ./consensus
	KEYP_KILLS=$(KILLS) $(GO) test -count=1 -timeout 3h -v -run Failovers $(TESTFLAGS) ./internal/e2e/linear
	KEYP_FAILOVERS=$(KILLS) $(GO) test -count=1 -timeout 3h -v -run 'TestFailoverTimes|TestExpiriesOverLeaders' $(TESTFLAGS) ./internal/e2e/group

test-go-redis: ## go-redis's own tests against Keyp on port 6379, which must be free
	KEYP_UPSTREAM=1 $(GO) test -count=1 -v -timeout 30m $(TESTFLAGS) ./internal/e2e/upstream

fuzz: ## every fuzz target for FUZZTIME
	@grep -rE --include='*_test.go' '^func Fuzz[A-Za-z0-9_]*\(' . | sed -E 's|^(.*)/[^/]*:func ([A-Za-z0-9_]*).*|\1 \2|' | sort -u | \
	while read -r package target; do \
		echo "$(GO) test -run '^$$' -fuzz '^$$target$$' -fuzztime $(FUZZTIME) -fuzzminimizetime 20x $$package"; \
		$(GO) test -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 20x $$package </dev/null || exit 1; \
	done

mutants: ## whether the tests notice each of the mutations in test/mutants
	test/mutants/run $(MUTANTS)

KEYPFLAGS = --port {port} --dir {dir} --appendfsync always

bench: build ## Keyp beside redis-server with appendfsync always; BENCHFLAGS="--workload all" for everything
	@if [ -n "$(BEFORE)" ]; then set -- --before "$(BEFORE) $(KEYPFLAGS)"; \
	elif command -v redis-server >/dev/null 2>&1; then set -- --peer "$(PEER)"; \
	else set --; echo "redis-server is not installed: Keyp is measured alone"; fi; \
	bin/keyp-bench --keyp "bin/keyp $(KEYPFLAGS)" "$$@" $(BENCHFLAGS)

# They have a module of their own, and Node's from npm: nothing of the server depends on it.
bench-queues: build bench/queues/node_modules ## delayed jobs a second: KEYP.DELAY beside asynq, Bull and BullMQ; needs Node, npm and redis-server
	cd bench/queues && $(GO) run . --keyp "$(CURDIR)/bin/keyp $(KEYPFLAGS)" $(QUEUEFLAGS)

queue-kills: build bench/queues/node_modules ## BullMQ's jobs while the server is killed with -9 four times, ten runs or until one fails; needs Node and npm
	cd bench/queues && for run in 1 2 3 4 5 6 7 8 9 10; do node kills.js $(QUEUEFLAGS) -- "$(CURDIR)/bin/keyp" $(KEYPFLAGS) || exit 1; done

bench/queues/node_modules: bench/queues/package.json
	cd bench/queues && npm install --no-package-lock --no-audit --no-fund --ignore-scripts
	@touch $@

bench-groups: build ## writes a second of a group of three, beside etcd, and Redis with two replicas; needs redis-server
	cd bench && $(GO) build -o ../bin/bench-groups ./groups && ../bin/bench-groups --keyp "$(CURDIR)/bin/keyp" $(GROUPFLAGS)

release: ## archives of the server for each platform in bin/release, with checksums and lists of modules
	GO="$(GO)" $(GO) run ./internal/release

# nfpm has a module of its own, so that the server's has none of what it needs.
packages: export SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct 2>/dev/null)
packages: export VERSION = $(shell sed -n 's/^const Version = "\(.*\)"/\1/p' internal/config/version.go)
packages: release ## deb and rpm of that, there too
	cd tools && GOFLAGS= $(GO) build -o ../bin/nfpm github.com/goreleaser/nfpm/v2/cmd/nfpm
	@for arch in amd64 arm64; do for kind in deb rpm; do \
		GOARCH=$$arch STAGE=bin/release/linux-$$arch bin/nfpm package -f deploy/package/nfpm.yaml -p $$kind -t bin/release/ || exit 1; \
	done; done

test-packages: packages ## install, upgrade, remove and purge that deb ON THIS MACHINE, as root on Debian
	KEYP_PACKAGES="$(CURDIR)/bin/release" $(GO) test -count=1 -v $(TESTFLAGS) -run Package ./internal/release

clean: ## remove what was built
	rm -rf bin

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
