"""A load of conversations: users who share a long beginning and ask, turn after turn."""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field

from nearkv.demo.prompt import draw_needle


@dataclass
class Conversation:
    """What one user asks. Each turn's prompt is all that was said before, and more."""

    user: int
    beginning: str
    turns: list[str]
    """What each turn adds: a passage with a line `@key=value;` in it, and the question `@key=`."""
    said: str = field(init=False)

    def __post_init__(self) -> None:
        self.said = self.beginning

    def prompts(self) -> Iterator[str]:
        """The prompt of each turn; tell answered() before the next is taken."""
        for turn in self.turns:
            self.said += turn
            yield self.said

    def answered(self, text: str) -> None:
        """What the model wrote, which belongs to the next prompt."""
        self.said += text


def make_conversations(
    document: str, users: int, turns: int, shared_characters: int, turn_characters: int, seed: int
) -> list[Conversation]:
    """Of a text that all begin with, and passages of it that differ by user and turn."""
    random_numbers = random.Random(seed)
    beginning = document[:shared_characters]
    rest = document[shared_characters:]
    conversations = []
    for user in range(users):
        added = []
        for _ in range(turns):
            needle = draw_needle(document, random_numbers.getrandbits(32))
            begin = random_numbers.randrange(max(1, len(rest) - turn_characters))
            passage = rest[begin : begin + turn_characters]
            middle = len(passage) // 2
            parts = passage[:middle], needle.line, passage[middle:], needle.question
            added.append("\n" + "\n".join(parts))
        conversations.append(Conversation(user, beginning, added))
    return conversations
