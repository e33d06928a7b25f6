import sys
from importlib import import_module
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import stand_in

CURRO = "curro.contrib.slime"


@pytest.fixture(params=["slime", "miles"])
def load(request, monkeypatch):
    """slime's `load_function`, with the one framework there."""
    before = {name: module for name, module in sys.modules.items() if name.startswith(CURRO)}
    for name in before:
        monkeypatch.delitem(sys.modules, name)
    stand_in.install(request.param)

    def load_function(path):
        module, _, name = path.rpartition(".")
        return getattr(import_module(module), name)

    yield load_function
    for name in [name for name in sys.modules if name.startswith((CURRO, request.param))]:
        del sys.modules[name]
