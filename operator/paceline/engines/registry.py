"""Which class drives which engine."""

from typing import Final

from paceline.api.engine import EngineName
from paceline.engines.base import Engine
from paceline.engines.vllm import Vllm

ENGINES: Final[dict[EngineName, Engine]] = {EngineName.VLLM: Vllm()}
