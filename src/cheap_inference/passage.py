"""An ordinary piece of English, written for this book, from which prompts of a wanted length are cut."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

    from .models.load import LoadedModel

PASSAGE = """\
The lighthouse on the northern point was built in the year the ferry began to run, and for a long time
the two kept each other company. Every evening at six the keeper climbed ninety-one steps with a can of
oil, trimmed the wick, wound the clockwork that turned the lens, and wrote the weather in a book with a
green cover. Wind from the west, he would write, sea moderate, two sails before dark. In the morning he
climbed again, put out the flame, and polished the glass until the whole bay could be seen in it upside
down. When the electric lamp came, the oil can stayed behind on its hook and the book went on: the lamp
needed no trimming, but somebody still had to look at the sea. The ferry captain used to say that the
light was worth less to him than the book, because a light only tells you where the rocks are, and they
had never once moved, while the book told him what the water had been doing all night. He asked for it
by telephone each morning before he cast off. Years later, when a machine had learned to read the wind
and to send it to any ship that asked, the keeper's daughter found forty green books in a cupboard and
counted the gales in them, winter by winter. There were fewer than she remembered from being a child and
more than the machine had been told to expect. She copied the numbers out by hand, because the ink had
faded to the colour of tea, and sent them to the office on the mainland with a short letter. They wrote
back that the figures were of great interest and asked whether she would be willing to go on looking.
"""


def prompt_ids(lm: LoadedModel, tokens: int) -> torch.Tensor:
    """The first `tokens` tokens of the passage, repeated as often as needed: [1, tokens] on the model's device."""
    import torch

    once = lm.tokenizer(PASSAGE)["input_ids"]
    repeated = once * -(-tokens // len(once))
    return torch.tensor([repeated[:tokens]], device=lm.device)
