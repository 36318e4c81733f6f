"""The load generator: drives servers with real requests and says what it saw, as measurements.

Closed loop, both arms on the same prompts at the same concurrency, in blocks A B B A. It judges nothing and knows
nothing of Kubernetes. Requests go out through an injected transport: everything but the transport is tested without a
network.
"""
