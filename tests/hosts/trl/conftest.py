"""What older packages lack, in one table: the tests of it are skipped there by name."""

from __future__ import annotations

from importlib.metadata import version

import pytest
from packaging.version import Version

from curro.lab.model import build_model, build_tokenizer

LACKS = (
    (
        "trl",
        "1.15",
        "several tokens that end a completion",
        ("test_metis.py::test_both_losses_have_the_gradient_of_a_direct_computation",),
    ),
    (
        "transformers",
        "5.13",
        "response templates, by which the game's tokenizer tells tool calls",
        (
            "test_tools.py::test_games_are_chosen_gated_and_allotted_by_whether_they_were_won",
            "test_tools.py::test_the_turns_rewards_are_trained_on_and_the_win_is_the_signal",
            "test_tools.py::test_a_game_that_failed_has_no_reward_and_teaches_nothing",
            "test_tools.py::test_metis_judges_the_games_prompts",
            "test_tools.py::test_environments_may_make_the_prompts",
        ),
    ),
)
"""The package, its version that has it first, what it is, and the tests that need it."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for package, first, what, tests in LACKS:
        if Version(version(package)) >= Version(first):
            continue
        for item in items:
            if any(name in item.nodeid for name in tests):
                reason = f"{package} {version(package)} lacks {what} ({first})"
                item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="session")
def model_folder(tmp_path_factory):
    """The tests' tiny model in a folder, from which TRL can load its reference model too."""
    folder = tmp_path_factory.mktemp("model")
    tokenizer = build_tokenizer()
    for part in (build_model(tokenizer, width=32, layers=1), tokenizer):
        part.save_pretrained(folder)
    return str(folder)
