"""DraftTrainingJob: what its stages' Jobs should be, decided from what is seen.

Every module is a pure function of values: an ``Observed`` and the time go in, a record, actions and a status come out.
Nothing here talks to Kubernetes or to a pod; what a stage does inside its pod is ``stages``' matter.
"""
