"""Facts about a target or a head from its files, and whether head, target and engine fit: before a GPU is spent.

Reading takes bytes and gives facts (``paceline.api.checkpoint``); judging takes facts and gives problems. Both run in
pods, in the control plane and on a laptop, so nothing here opens a network connection, imports a model library or runs
a repository's code.
"""
