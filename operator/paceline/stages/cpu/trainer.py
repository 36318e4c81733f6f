"""speculators 0.9.0 on a machine without an accelerator: the options it needs, and the places where it asks for one.

Each patch names what it is for and can go when upstream asks ``torch.accelerator`` before it moves a tensor.
"""

from typing import Any, Final

_OPTIONS: Final = {
    # Flex attention has no backward on a CPU.
    "draft-attn-impl": "sdpa",
    # Muon's Newton-Schulz steps cost more than the model itself here.
    "optimizer": "adamw",
    # Workers would compete with the training for the cores.
    "num-workers": "0",
}


def options(dtype: str) -> dict[str, str]:
    """Return the trainer's options on a CPU that computes best in ``dtype``; weights stay float32 in any case."""
    return {**_OPTIONS, "hidden-states-dtype": dtype}


def apply() -> None:
    """Make speculators' trainer run on the CPU of this process."""
    import torch  # noqa: PLC0415 - only the trainer image has it
    from speculators.train import checkpointer, dataloader, trainer  # noqa: PLC0415

    device = torch.device("cpu")
    # model.to(local_rank), where rank 0 would mean the first GPU.
    trainer.get_local_rank = lambda: "cpu"
    # Autocast asks for the current accelerator's type; with a check for presence the honest answer stays "none".
    torch.accelerator.current_accelerator = lambda check_available=False: None if check_available else device
    # The step timer synchronises an accelerator.
    torch.accelerator.synchronize = lambda *_: None
    # Resuming loads weights to "cuda:0" when no accelerator is found.
    checkpointer.get_current_device = lambda: "cpu"
    original = dataloader.DataLoader

    def loader(*args: Any, **settings: Any) -> Any:
        """Return the data loader without pinned memory, which only a CUDA driver can give."""
        return original(*args, **settings | {"pin_memory": False})

    dataloader.DataLoader = loader
