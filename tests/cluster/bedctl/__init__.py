"""The test bed's orchestrator: a real Kubernetes on one machine, without Docker and without a registry.

It brings up the Go program of ``../bed`` as a control plane, nodes with containerd, runc and the real kubelet in
namespaces of their own, and takes everything away again. It must run on a bare machine before any virtual
environment exists, so nothing here imports more than the standard library, and nothing here knows Paceline.
"""
