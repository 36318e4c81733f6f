"""Carries out what the rooms decide: watches, a work queue, one executor for every write, one leader.

Nothing here knows what a training run or a rollout is; nothing outside talks to the API server.
"""
