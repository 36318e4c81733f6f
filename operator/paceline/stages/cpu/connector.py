"""vLLM's hidden-states connector for a CPU: the same protocol, without CUDA streams.

The scheduler's side is vLLM's own. On the worker's side the states already lie in main memory, so they are copied out
and written at once; the file is complete before the lock that readers wait for is released.
"""

import os
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from vllm.distributed.kv_transfer.kv_connector.v1 import example_hidden_states_connector as upstream


class _Copied:
    """Stands for the CUDA event of a copy that is already over."""

    def query(self) -> bool:
        return True

    def synchronize(self) -> None:
        return None


class CpuHiddenStatesConnector(upstream.ExampleHiddenStatesConnector):  # type: ignore[misc] # vLLM may not be installed
    """Writes hidden states [tokens, layers, hidden] and token ids [tokens] of each finished request."""

    def _submit_async_write(self, pending: Any) -> None:
        """Write one request's states; upstream calls this for each request that has finished."""
        if not self._is_tp_rank_zero:
            return
        states = upstream.extract_from_kv_cache(
            self._kv_cache, self._slots(pending.block_ids), pending.token_ids.shape[0]
        )
        filename = Path(pending.filename)
        filename.parent.mkdir(parents=True, exist_ok=True)
        lock = self._lock_fds.pop(pending.req_id, None)
        try:
            # Indexing has copied the states, so the engine may reuse the blocks from here on.
            save_file({"hidden_states": states.contiguous(), "token_ids": pending.token_ids.clone()}, filename)
        finally:
            if lock is not None:
                os.close(lock)
        # Tells upstream's ``get_finished`` that the request's blocks can be freed.
        self._req_copy_events[pending.req_id] = _Copied()

    def _slots(self, block_ids: list[int]) -> torch.Tensor:
        """Return the cache slots of a request's blocks, in the order of its tokens."""
        blocks = torch.tensor(block_ids, dtype=torch.long).reshape(-1, 1)
        return (blocks * self._block_size + torch.arange(self._block_size).reshape(1, -1)).flatten()
