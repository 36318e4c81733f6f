# The test bed: included by the Makefile at the root. docs/testbed.md says what it is.

# Which cluster: embedded (built here, no Docker), kind, or existing (KUBECONFIG).
CLUSTER ?= embedded
# The bed's name; beds of different names run side by side.
BED ?= default
# Nodes of the embedded bed; 0 is the control plane alone, which needs no root.
NODES ?= 1

BEDCTL = PYTHONPATH=tests/cluster CLUSTER=$(CLUSTER) BED=$(BED) NODES=$(NODES) $(PYTHON) -m bedctl

.PHONY: cluster
cluster:  ## Bring up a real Kubernetes and print how to use it (BED, NODES, CLUSTER).
	@$(BEDCTL) up

.PHONY: cluster-down
cluster-down:  ## Remove the bed and everything that it left on the machine.
	@$(BEDCTL) down

.PHONY: cluster-status
cluster-status:  ## Print what runs of the bed.
	@$(BEDCTL) status

.PHONY: cluster-build
cluster-build:  ## Build the bed's programs into the cache, and start nothing.
	@$(BEDCTL) build
