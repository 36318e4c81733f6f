"""What every pod of ours does towards the operator: live progress over HTTP, a result as termination message.

Shared by ``stages`` and ``probe``, so that the operator reads one dialect. Nothing here knows what a pod is for, and
nothing here talks to Kubernetes.
"""
