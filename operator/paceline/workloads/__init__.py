"""Pods as Kubernetes wants them: restricted security, writable caches, volumes, probes. Shared by training and rollout.

Pure rendering: resource models in, JSON out. What a pod is *for* is decided elsewhere.
"""
