"""The main job on one machine, for real: ``make demo``.

Nothing here decides anything: it installs the chart, applies resources, and shows what the operator does with them. The
end-to-end test drives the same functions.
"""
