"""Import paths of version 0.2 still work, and warn."""

import importlib
import sys
import warnings

import pytest

from curro.core.old_paths import MOVED, new_path


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("curro.errors", "curro.core.errors"),
        ("curro.selection.base", "curro.core.bases"),
        ("curro.selection.uniform", "curro.methods.selection.uniform"),
        ("curro.evaluation.suites", "curro.training.evaluation.suites"),
    ],
)
def test_an_old_path_gives_the_same_module_and_a_warning(old, new):
    sys.modules.pop(old, None)
    module = importlib.import_module(new)
    spec = module.__spec__
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        assert importlib.import_module(old) is module
    assert any(str(warning.message).startswith(f"{old} has moved to {new};") for warning in warned)
    assert module.__name__ == new
    assert module.__spec__ is spec
    for name in [name for name in sys.modules if name in MOVED or new_path(name)]:
        del sys.modules[name]


def test_a_name_that_never_was_is_refused():
    assert new_path("curro.data") is None
    with pytest.raises(ModuleNotFoundError, match=r"curro\.nothing"):
        importlib.import_module("curro.nothing")
