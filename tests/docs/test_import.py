"""`import curro` is quick: it leaves the heavy libraries to what needs them."""

import json
import subprocess
import sys

PROGRAM = """
import json, sys, time
start = time.perf_counter()
import curro
print(json.dumps([time.perf_counter() - start, sorted(sys.modules)]))
"""
HEAVY = {"accelerate", "datasets", "matplotlib", "pandas", "pyarrow", "scipy", "torch"}
HEAVY |= {"transformers", "trl"}


def test_importing_curro_imports_nothing_heavy():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    seconds, modules = json.loads(done.stdout)
    print(f"import curro: {seconds:.3f} s")
    assert "curro" in modules
    assert not HEAVY & set(modules)
