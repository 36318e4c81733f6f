"""The environment in which stages run with their real packages."""

import importlib.util
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def python():
    """Return the heavy environment's interpreter."""
    spec = importlib.util.spec_from_file_location("cpu_env", REPOSITORY / "requirements" / "cpu_env.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found = module.find_venv()
    if found is None:
        pytest.skip("the heavy environment is not built; run python3 requirements/cpu_env.py venv")
    return found / "bin" / "python"
