# Everything that a person or CI runs. `make help` lists it.
MODULES := shared authority gateway ticketing worldrouter services
export PATH := $(CURDIR)/bin:$(PATH)

.DEFAULT_GOAL := help

.PHONY: help
help: ## list the targets
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

.PHONY: up
up: ## run the whole suite in one process, with the demo page
	go run ./services/cmd/switchyard up

.PHONY: build
build: ## build the binaries into bin/
	go build -o bin/ ./services/cmd/switchyard ./gateway/cmd/gateway ./authority/cmd/authority ./ticketing/cmd/ticketing ./worldrouter/cmd/worldrouter

.PHONY: test
test: ## every test of the workspace, end-to-end tests included
	go test work

.PHONY: race
race: ## the same with the race detector
	go test -race -timeout 30m work

.PHONY: browser
browser: ## the demo page in a real browser (needs chromium)
	go test -tags browser -timeout 10m ./services/e2e/browser

.PHONY: fuzz
fuzz: ## each fuzz target for FUZZTIME (10s)
	scripts/fuzz.sh

.PHONY: bench
bench: ## the Go benchmarks
	go test -run '^$$' -bench . -benchmem work

.PHONY: tools
tools: ## install the pinned development tools into bin/
	scripts/tools.sh

.PHONY: generate
generate: tools ## generate the wire code from its schemas
	cd shared/wire && buf generate

.PHONY: baseline
baseline: tools ## take today's wire schemas as what later ones must stay compatible with (at a release)
	cd shared/wire && buf build -o baseline.binpb

.PHONY: lint
lint: tools ## format, lint, schemas, layout
	scripts/layout.sh
	cd shared/wire && buf lint && buf breaking --against baseline.binpb
	for m in $(MODULES); do (cd $$m && golangci-lint run ./...) || exit 1; done

.PHONY: modules
modules: ## each module by itself, without the workspace
	scripts/modules.sh

.PHONY: ci
ci: ## what CI runs
	bash .ci/run
