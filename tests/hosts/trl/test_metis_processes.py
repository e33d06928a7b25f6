"""METIS on two processes: the second loss is (9) over all auxiliary samples, however they are shared out."""

from __future__ import annotations

from tests.hosts.trl.launch import in_two_processes


def test_the_gradient_of_both_processes_together_is_that_of_equation_9(made_once):
    owner, other = in_two_processes(made_once, "metis")
    assert len(owner) == 8
    for name, found in owner.items():
        assert found["weights"] == other[name]["weights"], name
        assert other[name]["auxiliary_samples"] == 0, "the curriculum is the owner's"
        assert found["auxiliary_samples"] >= 4, name
        assert found["size"] > 0.01, name
        assert found["error"] < 1e-3 * found["size"], name
        assert found["logged"], name
