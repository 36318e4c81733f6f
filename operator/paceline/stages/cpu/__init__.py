"""What a CPU node needs, and nothing else: dtype by the processor's flags, a connector without CUDA, trainer settings.

The operator renders one command line for all nodes; what differs on a CPU is added in here, next to the hardware that
it depends on. The day an accelerator is present, none of this runs.
"""
