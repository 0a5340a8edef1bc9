"""What is to be translated, as messages by catalogue file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

#: The catalogue file of messages that stand in several places: translated once, the same everywhere.
COMMON = "common"


@dataclass(frozen=True)
class Message:
    """One unit of translation.

    Attributes:
        plural: the English plural; empty for a message without plural forms.
        note: what a translator should know of its place.
    """

    text: str
    plural: str = ""
    note: str = ""

    @property
    def id(self) -> str | tuple[str, str]:
        """The key of its catalogue entry, as Babel has it."""
        return (self.text, self.plural) if self.plural else self.text


#: Messages by the name of their catalogue file, in reading order.
Template = dict[str, list[Message]]


def distributed(places: Mapping[str, Iterable[Message]]) -> Template:
    """The messages of each place, once; those that several places share go to the common file."""
    unique = {name: _without_repeats(messages) for name, messages in places.items()}
    count = Counter(message.text for messages in unique.values() for message in messages)
    shared = [message for messages in unique.values() for message in messages if count[message.text] > 1]
    template = {COMMON: _without_repeats(shared)}
    for name, messages in unique.items():
        own = [message for message in messages if count[message.text] == 1]
        template[name] = _without_repeats([*template[COMMON], *own]) if name == COMMON else own
    return {name: messages for name, messages in template.items() if messages}


def _without_repeats(messages: Iterable[Message]) -> list[Message]:
    """Each English text once; a message with plural forms also serves where only the singular is asked."""
    kept: dict[str, Message] = {}
    for message in messages:
        if message.text not in kept or (message.plural and not kept[message.text].plural):
            kept[message.text] = message
    return list(kept.values())
