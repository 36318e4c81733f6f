"""SpeculativeDeployment: a pure reconcile from what the cluster shows to the plan that brings it forward.

One policy a file; ``reconcile`` is the order in which they are asked. What is durable is kept in two kinds of object
alone: immutable revisions (what to serve) and rollout records (what was measured and decided). Nothing here does I/O or
reads a clock.
"""
