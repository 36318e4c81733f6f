"""The resources and every other document that crosses a process boundary.

What may live here: pydantic models, names, labels, conditions and the generator of the CRDs. Nothing here does I/O
besides the generator's command line, and nothing here knows how a decision is made.
"""
