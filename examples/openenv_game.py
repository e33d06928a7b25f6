"""The game of examples/higher_lower.py on a server of OpenEnv, in a process of its own, trained on with TRL.

    pip install openenv
    python examples/openenv_game.py --max-steps 2    # starts the server, then examples/trl_environment.py
    python examples/openenv_game.py --serve          # the server alone: it prints its port

OpenEnv gives every connection a game of its own. Where the server fails, the game's reward is None: the
curriculum takes it as missing and learns nothing from it.
"""

import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import uvicorn
from openenv.core import GenericEnvClient
from openenv.core.env_server import Action, Environment, Observation, State, create_fastapi_app

sys.path.insert(0, str(Path(__file__).parent))
from higher_lower import HigherLower

GAMES = 512


class Guess(Action):
    number: int


class Answer(Observation):
    text: str = ""
    solved: bool = False


class ServedGame(Environment[Guess, Answer, State]):
    """The game on the server's side."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self) -> None:
        super().__init__()
        self.game = HigherLower()

    def reset(
        self, seed: int | None = None, episode_id: str | None = None, *, secret: int, top: int, **_: Any
    ) -> Answer:
        self.game.reset(secret, top)
        return Answer()

    def step(self, action: Guess, timeout_s: float | None = None, **_: Any) -> Answer:
        before = self.game.get_reward()
        text = self.game.guess(action.number)
        reward = self.game.get_reward() - before
        return Answer(text=text, solved=self.game.solved, reward=reward, done=text in ("right", "over"))

    @property
    def state(self) -> State:
        return State(step_count=len(self.game.turn_rewards))


class RemoteGame:
    """The game as TRL takes it, played on the server at `url`."""

    def __init__(self, url: str) -> None:
        self._client = GenericEnvClient(base_url=url, connect_timeout_s=60).sync()

    def reset(self, secret: int, top: int, **columns: Any) -> None:
        """Start a game; TRL calls this with the columns of the row."""
        self.turn_rewards: list[float] = []
        self.solved = self._has_failed = False
        with suppress(Exception):  # TRL would end the training; `get_reward` says that the game failed
            self._ask(self._client.reset, secret=secret, top=top)

    def guess(self, number: int) -> str:
        """Guess the hidden number.

        Args:
            number: the guess.

        Returns:
            whether the hidden number is higher or lower, or the guess is right.
        """
        guess = Guess(number=number)  # what is no number is the model's mistake: TRL shows it the error
        if self._has_failed:
            return "over"
        result = self._ask(self._client.step, guess)
        self.turn_rewards.append(result.reward)
        self.solved = result.observation["solved"]
        return result.observation["text"]

    def get_reward(self) -> float | None:
        """The sum of the turns' rewards; None where the server failed."""
        return None if self._has_failed else sum(self.turn_rewards)

    def _ask(self, method: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        try:
            return method(*arguments, **options)
        except Exception:
            self._has_failed = True
            raise


@contextmanager
def serving() -> Iterator[str]:
    """The URL of a server, whose process ends with the block."""
    command = [sys.executable, __file__, "--serve"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            yield f"http://127.0.0.1:{int(server.stdout.readline())}"
        finally:
            server.kill()


def serve() -> None:
    """Serve on a free port of the loopback interface, and print it."""
    app = create_fastapi_app(ServedGame, Guess, Answer, max_concurrent_envs=GAMES)
    listening = socket.create_server(("127.0.0.1", 0), backlog=GAMES)
    print(listening.getsockname()[1], flush=True)
    uvicorn.Server(uvicorn.Config(app, log_level="warning")).run(sockets=[listening])


if __name__ == "__main__":
    if sys.argv[1:] == ["--serve"]:
        serve()
    else:
        from trl_environment import main

        with serving() as url:
            main(partial(RemoteGame, url))
