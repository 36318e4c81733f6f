"""The programs inside training pods: inspect, prepare, extract, train, evaluate, publish.

Each reads a configuration, leaves its work on the run's shared volume, and reports through its termination message;
killed anywhere, a rerun continues. torch, vllm, speculators and transformers belong to this room alone, and are
imported only where they are used, so that its decisions can be tested without gigabytes of packages. Nothing here
talks to Kubernetes, and nothing here starts a server: where one is needed it is the pod's sidecar.
"""
