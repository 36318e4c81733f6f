"""What an inference engine wants to be told: command line, ports, health paths. One file an engine.

Nothing here talks to a server; ``probe`` does.
"""
