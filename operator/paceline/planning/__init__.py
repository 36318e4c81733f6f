"""The language between deciding and doing: what a reconcile may see (a View), and what it may ask for (a Plan).

Pure values only. ``training`` and ``rollout`` decide in these terms, ``controller`` carries them out.
"""
