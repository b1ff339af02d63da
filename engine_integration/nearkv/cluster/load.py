"""Conversations on a cluster, and a worker that is killed when half of the turns are over."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from nearkv.cluster.client import Answer, complete
from nearkv.cluster.conversations import Conversation


@dataclass
class Turns:
    """What was answered, by user and turn."""

    answers: dict[tuple[int, int], Answer] = field(default_factory=dict)

    @property
    def texts(self) -> list[str]:
        """In one order, whatever came first."""
        return [self.answers[place].text for place in sorted(self.answers)]


def run_load(
    conversations: Sequence[Conversation],
    port: int,
    model: str,
    max_tokens: int,
    *,
    at_half: Callable[[], None] | None,
    tell: Callable[[str], None],
) -> Turns:
    """All users at once, each turn when the one before is answered; ClusterError if one is not."""
    turns = Turns()
    total = sum(len(one.turns) for one in conversations)
    lock = threading.Lock()
    stop = threading.Event()

    def note(user: int, turn: int, answer: Answer) -> bool:
        with lock:
            turns.answers[user, turn] = answer
            tell(f"{len(turns.answers)} of {total} turns")
            return len(turns.answers) == total // 2

    def talk(conversation: Conversation) -> None:
        try:
            for turn, prompt in enumerate(conversation.prompts()):
                if stop.is_set():
                    return
                answer = complete(port, model, prompt, max_tokens)
                conversation.answered(answer.text)
                if note(conversation.user, turn, answer) and at_half is not None:
                    at_half()
        except BaseException:
            stop.set()
            raise

    with ThreadPoolExecutor(len(conversations)) as pool:
        try:
            for future in [pool.submit(talk, one) for one in conversations]:
                future.result()
        except BaseException:
            stop.set()
            raise
    return turns
