# Needs Go and make; git and a C compiler are used where they are there.

.DEFAULT_GOAL := help
.SHELLFLAGS := -eu -c
MAKEFLAGS += --no-builtin-rules

FUZZTIME ?= 20s
KILLS ?= 1000
CUTS ?= 200
RELOADS ?= 200
CHAOS ?= 15m
ROLLING ?= 30m
COUNT ?= 6
LAPS ?= 5
BENCH ?=
RELEASE ?=
ONLY ?=
IMAGE ?= docket.test/docket:dev
PLATFORMS ?= linux/$(shell go env GOARCH)
PARALLEL ?= $(shell echo $$((2 * $$(getconf _NPROCESSORS_ONLN))))

# The last release and what came after it; "devel" where git knows of none.
VERSION := $(or $(shell git describe --tags --match 'v*' --dirty 2>/dev/null),devel)

# Without a readable repository the go command would fail, not leave the commit out.
BUILDVCS := $(if $(shell git rev-parse --verify --quiet HEAD 2>/dev/null),auto,false)

LDFLAGS := -s -w -X github.com/docket-export/docket/cli/versioncmd.version=$(VERSION)
BUILDER ?= $(or $(shell command -v docker),$(shell command -v podman),docker)

# Every module of the repository.
MODULES = $(patsubst %/go.mod,%,$(shell find . -name go.mod -not -path './.cache/*' -not -path '*/testdata/*'))

# Every package of the modules that go.work joins: this one and those producers import.
PACKAGES = $(shell go list -m -f '{{.Dir}}/...')

LINT := go run github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0

.PHONY: help
help: ## explain the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' Makefile

.PHONY: build
build: ## build bin/docket: static, stripped, with its version
	CGO_ENABLED=0 go build -trimpath -buildvcs=$(BUILDVCS) -ldflags "$(LDFLAGS)" -o bin/docket ./cmd/docket

.PHONY: engine
engine: ## build bin/docket-webhook, the policy engine: static, stripped, with its version
	cd webhook/engine && CGO_ENABLED=0 go build -trimpath -buildvcs=$(BUILDVCS) -ldflags "-s -w -X github.com/docket-export/docket/webhook/engine/cli.version=$(VERSION)" -o $(CURDIR)/bin/docket-webhook ./cmd/docket-webhook

# IMAGE names its registry; PLATFORMS takes more, with commas between, where the builder can store them.
.PHONY: image
image: ## build the container image IMAGE (docket.test/docket:dev) with docker or podman
	for platform in $$(echo $(PLATFORMS) | tr , ' '); do \
		CGO_ENABLED=0 GOOS=$${platform%%/*} GOARCH=$${platform#*/} go build -trimpath -buildvcs=$(BUILDVCS) -ldflags "$(LDFLAGS)" -o bin/image/$$platform/docket ./cmd/docket; \
	done
	$(BUILDER) build --platform $(PLATFORMS) --tag $(IMAGE) --file Dockerfile bin/image

.PHONY: push
push: ## push the container image IMAGE
	$(BUILDER) push $(IMAGE)

# RELEASE takes flags of goreleaser, such as --skip=publish. Every module has its tag at HEAD, or the others could not require it.
GORELEASER = go run github.com/goreleaser/goreleaser/v2@v2.17.0
.PHONY: release
release: ## make the release of the tags at HEAD below bin/release, and upload it as a draft; RELEASE takes flags
	for tag in $(VERSION) decision/$(VERSION) client/$(VERSION) webhook/$(VERSION); do git tag --points-at HEAD | grep -qx "$$tag" || { echo "HEAD has no tag $$tag" >&2; exit 1; }; done
	go run golang.org/x/vuln/cmd/govulncheck@v1.9.0 $(if $(GOVULNDB),-db=$(GOVULNDB)) ./cmd/docket
	GORELEASER_CURRENT_TAG=$(VERSION) $(GORELEASER) release --clean $(RELEASE)

.PHONY: release-snapshot
release-snapshot: ## check the configuration of releases, and make archives and packages of this tree below bin/release
	$(GORELEASER) check
	$(GORELEASER) release --snapshot --clean --skip=sign,sbom,docker

# The tests of every module that needs Go alone; a failed one is run once more, alone. What passes then is named by
# .ci/run as flaky, which is a defect. Data races, panics and more than five failures end it. GOGC, where
# .ci/run sets it, is for compilers: a test runs without. More tests than processors run at
# once: those of files and processes mostly wait.
FLAKY := $(CURDIR)/.cache/flaky
GOTESTSUM = go tool gotestsum --format pkgname --hide-summary skipped --rerun-fails=1 --rerun-fails-max-failures=5 --rerun-fails-abort-on-data-race --rerun-fails-run-root-test --rerun-fails-report $(FLAKY).$@
TESTFLAGS = -vet=off -p $(PARALLEL) -parallel $(PARALLEL) -timeout 10m
UNTUNED = env -u GOGC

# Results are cached, and make check vets. Without cgo there is no C compiler to wait for, and the
# packages are the same as those of the program that is shipped.
.PHONY: test
test: ## run every test that needs Go alone, at its smallest (-short)
	@mkdir -p .cache
	CGO_ENABLED=0 $(GOTESTSUM) --packages="$(PACKAGES)" -- -short -exec '$(UNTUNED)' $(TESTFLAGS)

# The packages in which a record crosses goroutines, with the race detector, which needs a C compiler; make soak has
# all of them. What the tests build themselves needs none. A program with the detector sleeps
# for a second at its end unless it is told not to.
RACE ?= ./exporter ./exporter/queue ./exporter/deadletter ./internal/budget ./internal/fairconn ./internal/signal ./internal/contract ./sources/feed ./sources/streamsource ./sources/httpsource ./sinks/httpsink ./sinks/kafkasink ./client ./webhook ./webhook/serving
RACING = env -u GOGC CGO_ENABLED=0 GORACE=atexit_sleep_ms=0
.PHONY: test-race
test-race: ## the packages with goroutines once more, with the race detector
	@mkdir -p .cache
	CGO_ENABLED=1 $(GOTESTSUM) --packages="$(RACE)" -- -race -short -exec '$(RACING)' $(TESTFLAGS) -timeout 15m

.PHONY: gate
gate: ## what must be green before a change lands: .ci/run
	.ci/run

.PHONY: hygiene
hygiene: check-format check-vet check-prose check-generated ## format, go vet, plain English, generated files, tidy modules
	@hack/tidy.sh -diff . client decision webhook

.PHONY: check-format
check-format:
	@files=$$(gofmt -l $$(find . -name '*.go' -not -path './.cache/*' -not -path './bin/*')); \
	if [ -n "$$files" ]; then echo "not formatted: run gofmt -w on"; echo "$$files"; exit 1; fi

.PHONY: check-vet
check-vet:
	go vet $(PACKAGES)
	go vet -tags soak $(PACKAGES)

.PHONY: lint
lint: ## staticcheck, with the version that go.mod has
	go tool staticcheck -tags soak $(PACKAGES)

.PHONY: check
check: hygiene check-cross check-tidy check-lint ## hygiene of every module, all platforms, and more linters

.PHONY: check-prose
check-prose:
	@echo "prose ."; go run ./hack/prose

.PHONY: check-lint
check-lint:
	@for m in $(MODULES); do echo "lint $$m"; (cd $$m && $(LINT) run --config $(CURDIR)/.golangci.yml ./...); done

# Every platform that docket, the modules of producers and the policy engine are released for.
.PHONY: check-cross
check-cross:
	for arch in amd64 arm64 arm 386 s390x ppc64le riscv64; do GOARCH=$$arch CGO_ENABLED=0 go build -o /dev/null ./cmd/docket; done
	GOOS=darwin GOARCH=arm64 go build ./decision/... ./client/... ./webhook/...
	GOOS=windows GOARCH=amd64 go build ./decision/... ./client/... ./webhook/...
	cd webhook/engine && GOARCH=arm64 CGO_ENABLED=0 go build ./...

.PHONY: check-tidy
check-tidy:
	@hack/tidy.sh -diff

.PHONY: tidy
tidy: ## go mod tidy in every module
	@hack/tidy.sh

# Compares the tree with itself, so that it needs no git and minds no change that
# is not committed yet.
TREE = find . -type f -not -path './.git/*' -not -path './.cache/*' -not -path './bin/*' -exec cksum {} + | sort
.PHONY: check-generated
check-generated:
	@echo "generate ."; mkdir -p .cache; \
	$(TREE) > .cache/tree.before; go generate $(PACKAGES); $(TREE) > .cache/tree.after; \
	if ! diff .cache/tree.before .cache/tree.after >&2; then \
		echo "make check: go generate changed the files above: commit them as they are now" >&2; exit 1; \
	fi

# What takes a quarter of an hour and more to build, once; make e2e builds it otherwise.
.PHONY: servers
servers: ## build the servers of make e2e, below .cache
	cd test && go test -vet=off -exec '$(UNTUNED)' -count=1 -timeout 70m -v -run '^TestPrograms?$$' ./kubetest ./destinations ./helmtest ./opatest

.PHONY: e2e
e2e: ## test against real servers; what is missing is skipped, or fails with CI=true
	cd test && go test -vet=off -exec '$(UNTUNED)' -count=1 -timeout 40m -v ./...

# The gate's part of crash and of e2e.
.PHONY: crash-smoke kafka-smoke
crash-smoke: build
	@mkdir -p .cache
	$(GOTESTSUM) --packages=./cli -- -count=1 -vet=off -timeout 10m -run '^(TestKill|TestReloads|TestPowerCut)$$' -args -docket $(CURDIR)/bin/docket -kills 5 -reloads 5 -cuts 3

kafka-smoke:
	@mkdir -p .cache
	cd test && $(GOTESTSUM) --packages=./kafka -- -count=1 -vet=off -timeout 10m -run '^TestSmoke$$'

.PHONY: soak
soak: ## the long proofs, hours of them; ONLY="crash fuzz" for some
	hack/soak.sh $(ONLY)

# Every seed, kill and planted fault. The tests of bench and the policy engine belong to it.
.PHONY: test-long
test-long: ## run all tests at full size, with the race detector
	long() { (set -x; CGO_ENABLED=1 go test -race -tags soak -exec '$(RACING)' -count=1 $(TESTFLAGS) -timeout 60m "$$@"); }; \
	long $(PACKAGES); for m in bench webhook/engine; do (cd $$m; long ./...); done

# The wall clock of time.Now with 400 days added, in the standard library that the tests are built with. The clock
# of a bubble of testing/synctest, which begins in the year 2000, stays as it is.
.PHONY: test-later
test-later: ## run the tests with a clock that is 400 days ahead
	@mkdir -p .cache/later; \
	sed 's/sec, nsec, mono := runtimeNow()/&; if sec > 1700000000 { sec += 400 * 86400 }/' $$(go env GOROOT)/src/time/time.go > .cache/later/time.go; \
	printf '{"Replace": {"%s": "%s"}}' $$(go env GOROOT)/src/time/time.go $(CURDIR)/.cache/later/time.go > .cache/later/overlay.json; \
	CGO_ENABLED=0 GOFLAGS="$$GOFLAGS -overlay=$(CURDIR)/.cache/later/overlay.json" go test -short $(TESTFLAGS) $(PACKAGES)

# Each mode of delivery takes that long, and three brokers all of a small machine.
.PHONY: chaos
chaos: ## kill and freeze docket and Kafka for CHAOS (15m) in each mode of delivery, and count what readers get
	cd test && go test -count=1 -timeout 4h -v -run '^TestChaos$$' ./kafka -chaos $(CHAOS)

.PHONY: pods
pods: ## replace the pods of docket-webhook under load for ROLLING (30m): no request may fail, no denial be without its record
	cd test && go test -count=1 -timeout 4h -v ./engine/pods -rolling $(ROLLING)

# First the queue alone, at every operation with every outcome; then the program as
# it is shipped, not with the race detector's.
.PHONY: crash
crash: build ## kill docket KILLS (1000) times, reload it RELOADS (200) times, cut its power CUTS (200) times
	CRASH_ALL=1 go test -count=1 -timeout 20m -run '^Test(Killed|Error)AtEveryOperation' ./exporter/queue
	go test -count=1 -v -timeout 60m -run '^(TestKill|TestReloads|TestPowerCut)$$' ./cli \
		-docket $(CURDIR)/bin/docket -kills $(KILLS) -reloads $(RELOADS) -cuts $(CUTS)

# Each round runs all that ONLY matches, so that the programs take turns. BENCH takes flags of the benchmarks: -large for
# those that need 5 GB of disk, -docket for another binary, -dir for another disk. The peers run where ONLY names them.
.PHONY: bench
bench: build ## measure docket beside the plain program on the same disk, COUNT (6) rounds; ONLY=Intake for some
	@cd bench && CGO_ENABLED=0 go test -c -o ../bin/bench.test .
	@cd bench && for round in $$(seq $(COUNT)); do \
		$(UNTUNED) ../bin/bench.test -test.run '^$$' -test.bench '$(or $(ONLY),.)' -test.skip '$(if $(findstring Peer,$(ONLY)),^$$,Peer)' -test.benchtime $(LAPS)x -test.timeout 60m $(BENCH); \
	done

# The peers are downloaded or built once, below .cache; nothing is installed.
.PHONY: bench-peers
bench-peers: ## measure docket beside rsyslog, syslog-ng, Filebeat and the OpenTelemetry collector
	@$(MAKE) --no-print-directory bench ONLY=Peer COUNT=3 LAPS=1

# go test fuzzes one target of one package at a time, in the module of that package. Minimizing is bounded: what
# recovery covers varies with its goroutines, and would be minimized without end.
.PHONY: fuzz
fuzz: ## run each fuzz target for FUZZTIME (20s)
	@grep -rEo --include='*_test.go' --exclude-dir=.cache --exclude-dir=test '^func Fuzz[A-Za-z0-9_]+' . | sort | \
	while IFS=: read -r file target; do \
		target=$${target#func }; echo "fuzz $$target in $$(dirname $$file)"; \
		(cd "$$(dirname $$file)" && go test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 20x .); \
	done

# What builds the site is pinned with hashes; it is installed once, below .cache.
SITE := $(CURDIR)/.cache/site-venv
.PHONY: docs
docs: $(SITE)/installed ## build the documentation as a site with search, bin/site, and check every link
	$(SITE)/bin/python hack/site/build.py bin/site .cache/site

$(SITE)/installed: hack/site/requirements.txt
	python3 -m venv --clear $(SITE)
	$(SITE)/bin/python -m pip install --quiet --disable-pip-version-check --only-binary :all: --require-hashes -r hack/site/requirements.txt
	@touch $@

.PHONY: screenshots
screenshots: build ## make the picture of the page in docs/images anew, of a docket at work
	./hack/screenshots/run.sh

.PHONY: demo
demo: build ## see the exporter at work on this machine
	./hack/demo.sh

.PHONY: clean
clean: ## remove what was built
	rm -rf bin .cache
