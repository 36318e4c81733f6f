"""Paceline owns the life of a draft model for speculative decoding: it trains it, proves it, serves it.

Rooms, each importing only from those to its right (import-linter holds them to it):
``cli, controller -> training, rollout -> judge, engines, checkpoints, planning -> api``;
``stages`` and ``probe`` run inside pods and never import ``controller``.
"""

__version__ = "0.1.0"
