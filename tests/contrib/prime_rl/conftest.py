import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import prime_stand_in


@pytest.fixture
def prime(monkeypatch):
    """prime-rl's modules, as far as the launcher and the sampler know them."""
    for name in [name for name in sys.modules if name.startswith("curro.contrib.prime_rl")]:
        monkeypatch.delitem(sys.modules, name)
    modules = prime_stand_in.modules()
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)
    started = []
    entry = modules["prime_rl.entrypoints.orchestrator"]
    monkeypatch.setattr(entry, "main", lambda: started.append(sys.argv[1:]), raising=False)
    monkeypatch.setattr(entry, "started", started, raising=False)
    monkeypatch.setattr(sys, "argv", sys.argv)
    source = modules["prime_rl.orchestrator.train_source"]
    monkeypatch.setattr(source, "Curriculum", source.Curriculum)
    monkeypatch.setattr(source.TrainSource, "next_task", source.TrainSource.next_task)
    yield source
    for name in [name for name in sys.modules if name.startswith("curro.contrib.prime_rl")]:
        del sys.modules[name]
