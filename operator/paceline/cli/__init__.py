"""The command line: answers on standard output, talk on standard error, ``-o json`` on every answer.

A command decides nothing that the operator does not decide: it calls the same rooms on recorded or freshly measured
data.
"""
