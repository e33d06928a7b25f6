"""SkyRL's Tinker server in processes of its own, with the lab's model on this machine's processor."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from curro.lab.model import CHECKPOINTS

TYPED_DICT = "import typing, typing_extensions; typing.TypedDict = typing_extensions.TypedDict\n"
"""SkyRL 0.3.0 has a class that pydantic refuses before Python 3.12 unless it is of the other `TypedDict`."""

SMALL = {
    "max_lora_adapters": 3,
    "max_lora_rank": 8,
    # requests are padded to these, so that JAX compiles once and not for every number that comes together
    "sample_max_num_sequences": 32,
    "train_micro_batch_size": 32,
}


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    """Of the server, once it answers; the server ends with the tests of the module."""
    folder = tmp_path_factory.mktemp("skyrl")
    (folder / "sitecustomize.py").write_text(TYPED_DICT if sys.version_info < (3, 12) else "")
    command = [
        "uv", "run", "--no-project", "--offline", "-m", "skyrl.tinker.api", "--host", "127.0.0.1",
        "--port", "0", "--base-model", str(CHECKPOINTS / "chains"), "--backend", "jax",
        "--backend-config", json.dumps(SMALL),
        "--checkpoints-base", str(folder / "checkpoints"), "--database-url", f"sqlite:///{folder}/server.db",
    ]  # fmt: skip
    path = f"{Path(sys.prefix) / 'bin'}:{os.environ['PATH']}"
    own = {"VIRTUAL_ENV": sys.prefix, "PATH": path, "PYTHONPATH": str(folder), "JAX_PLATFORMS": "cpu"}
    own["COLUMNS"] = "200"  # the log is folded at the width of a terminal
    own["JAX_DISABLE_MOST_OPTIMIZATIONS"] = "1"  # programs this small take longer to compile than to run
    with open(folder / "server.log", "w+") as log:
        server = subprocess.Popen(
            command, cwd=folder, env=os.environ | own, stdout=log, stderr=log, start_new_session=True
        )
        try:
            yield _announced(server, folder / "server.log")
        finally:
            os.killpg(server.pid, signal.SIGTERM)
            server.wait(600)


def _announced(server, log, patience=3600):
    """The address that the server writes to its log once it listens."""
    until = time.monotonic() + patience
    while time.monotonic() < until and server.poll() is None:
        if found := re.search(r"running on\s+(http://\S+)\s", log.read_text()):
            return found[1]
        time.sleep(0.2)
    raise RuntimeError(f"SkyRL's server does not answer:\n{log.read_text()[-2000:]}")
