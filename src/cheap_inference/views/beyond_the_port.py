"""Tables, figures and sentences of the section beyond-the-port."""

from __future__ import annotations

from itertools import pairwise
from types import SimpleNamespace

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from ..render.display import Display, sentence
from ..render.figure import COLOURS, figure, localise
from ..render.table import Column, table
from ..render.words import Words

WAITING, PREFILL, DECODE = COLOURS["rest"], COLOURS["prefill"], COLOURS["decode"]
SECONDS_A_MINUTE = 60
#: Gap and step count as the same within this share.
SAME = 0.1


def answer(record: SimpleNamespace, words: Words) -> Display:
    """The section's question in one measured sentence."""
    found, first = record.watched, [seen.time_to_first_token for seen in record.watched.crowd.seen]
    text = words.gettext(
        "Of {requests} requests sent at once to a server with {slots} slots, the quickest had its first token after "
        "**{soon} s** and the slowest after **{late} s**. From then on all of them ran at one pace, about "
        "**{pace} tokens per second**: the queue and the prompts make the difference, the batch makes the pace."
    ).format(
        requests=words.number(len(first)),
        slots=words.number(found.slots),
        soon=words.number(min(first), 2),
        late=words.number(max(first), 2),
        pace=words.number(1 / found.crowd.gap.value, 1),
    )
    return sentence(text)


def timeline_figure(record: SimpleNamespace, words: Words) -> Display:
    """Every request over time: waiting, prefill, and a mark for each event."""
    seen = record.watched.crowd.seen

    def draw(drawn: Figure) -> None:
        axes = drawn.subplots()
        for place, request in enumerate(seen):
            _timeline(axes, place, request)
        axes.set_title(words.gettext("Wait, then prompt, then one pace for all"))
        axes.set_yticks(range(len(seen)), [words.number(place + 1) for place in range(len(seen))])
        axes.set_ylabel(words.gettext("request"))
        axes.set_xlabel(words.gettext("seconds since all requests were there"))
        axes.grid(False, axis="y")
        axes.set_xlim(left=0)
        axes.invert_yaxis()
        localise(axes, words, y=False)
        names = (words.gettext("waits for a slot"), words.gettext("prefill"), words.gettext("events"))
        marks = [
            Patch(color=colour, label=name)
            for colour, name in zip((WAITING, PREFILL, DECODE), names, strict=True)
        ]
        drawn.legend(handles=marks, loc="outside lower center", ncols=len(marks))

    alt = words.gettext(
        "A chart with one row for each request, over seconds. Requests that find a slot begin with their prefill, the "
        "others with a long wait. After the prefill every row is a line of marks, one for each event, equally far "
        "apart in all rows. Where one row has a long prefill, the marks of the others pause."
    )
    return figure("timeline", draw, words, alt=alt, size=(5.2, 4.0))


def _timeline(axes: Axes, place: int, request: SimpleNamespace) -> None:
    """One row; the prefill ends where the first event comes."""
    first = request.arrivals[0]
    spans = [(0, first - request.prefill), (first - request.prefill, request.prefill)]
    axes.broken_barh(spans, (place - 0.3, 0.6), facecolors=[WAITING, PREFILL])
    axes.vlines(request.arrivals, place - 0.3, place + 0.3, color=DECODE, linewidth=1.4)


def requests_table(record: SimpleNamespace, words: Words) -> Display:
    """The crowd, request by request."""
    columns = (
        Column("request", words.gettext("Request")),
        Column("prompt_tokens", words.gettext("Prompt"), unit=words.gettext("tokens")),
        Column("queued", words.gettext("Wait for a slot"), unit="s", digits=2, varies=True),
        Column("prefill", words.gettext("Prefill"), unit="s", digits=2, varies=True),
        Column("ttft", words.gettext("First token"), unit="s", digits=2, varies=True),
        Column("pace", words.gettext("Then"), unit=words.gettext("tokens/s"), digits=1, varies=True),
        Column("events", words.gettext("Events"), varies=True),
        Column("finish_reason", "finish_reason", varies=True),
    )
    seen = record.watched.crowd.seen
    rows = [
        (
            place,
            request.prompt_tokens,
            request.queued,
            request.prefill,
            request.time_to_first_token,
            1 / request.gap.value if request.gap else None,
            request.events,
            request.finish_reason,
        )
        for place, request in enumerate(seen, start=1)
    ]
    caption = words.gettext(
        "{requests} requests at once, {slots} slots; the marked one waited longest"
    ).format(requests=words.number(len(seen)), slots=words.number(record.watched.slots))
    slowest = max(range(len(seen)), key=lambda place: seen[place].queued)
    return table("requests", columns, rows, words, caption=caption, marked=[slowest])


def wire(record: SimpleNamespace, words: Words) -> Display:
    """The first and the last lines of a stream, as they came."""
    lines = record.watched.crowd.lines
    middle = len(lines) // 2
    return sentence("\n".join(["```", *lines[:middle], "…", *lines[middle:], "```"]))


def setting(record: SimpleNamespace, words: Words) -> Display:
    """What was served, and to whom."""
    found = record.watched
    text = words.gettext(
        "The server has {slots} slots of {capacity} tokens and a queue of {places} places. {requests} requests come "
        "one right after another, each for {tokens} tokens at most."
    ).format(
        slots=words.number(found.slots),
        capacity=words.number(found.capacity),
        places=words.number(found.queue_places),
        requests=words.number(len(found.crowd.seen)),
        tokens=words.number(found.answer_tokens),
    )
    return sentence(text)


def same_tokens(record: SimpleNamespace, words: Words) -> Display:
    """Did the wire or the crowd change anybody's answer?"""
    crowd = record.watched.crowd
    text = words.ngettext(
        "{whole} stream of {requests} carried exactly the text of the engine's tokens, and {own} of {requests} are the "
        "tokens that the request gets alone.",
        "{whole} streams of {requests} carried exactly the text of the engine's tokens, and {own} of {requests} are "
        "the tokens that the request gets alone.",
        crowd.whole,
    ).format(
        whole=words.number(crowd.whole),
        own=words.number(crowd.identical + crowd.excused),
        requests=words.number(len(crowd.seen)),
    )
    return sentence(text)


def pace(record: SimpleNamespace, words: Words) -> Display:
    """The gap between two events beside the engine's step, and beside that of a request alone."""
    found = record.watched
    gap, step = found.crowd.gap.value, found.crowd.step.value
    both = words.gettext(
        "Between two events of a stream lay {gap} s, in the median of them all; a decode step of the engine took "
        "{step} s."
    ).format(gap=words.number(gap), step=words.number(step))
    verdict = (
        words.gettext("The gap is the step.")
        if abs(gap / step - 1) < SAME
        else words.gettext("The gap is {ratio} the step.").format(ratio=words.times(gap / step, 2))
    )
    rest = words.gettext(
        "The way through the port added {delivery} ms to a first token. A request that had the server to itself saw "
        "{alone} s between its events."
    ).format(
        delivery=words.number(found.crowd.delivery.value * 1000, 1),
        alone=words.number(found.alone.gap.value),
    )
    return sentence(f"{both} {verdict} {rest}")


def silence(record: SimpleNamespace, words: Words) -> Display:
    """The longest pause in any stream, and the longest prompt."""
    seen = record.watched.crowd.seen
    longest = max(later - earlier for request in seen for earlier, later in pairwise(request.arrivals))
    prompt = max(request.prompt_tokens for request in seen)
    text = words.gettext(
        "The longest pause inside a stream was {pause} s. The longest prompt of the crowd has {prompt} tokens, and "
        "while it is prefilled nobody else gets a token."
    ).format(pause=words.number(longest), prompt=words.number(prompt))
    return sentence(text)


def endings(record: SimpleNamespace, words: Words) -> Display:
    """How many answers ended by themselves, and how many were cut."""
    found = record.watched
    stopped = [request for request in found.crowd.seen if request.finish_reason == "stop"]
    text = words.ngettext(
        "{stopped} answer of {requests} ended with `stop`; the others were cut at {tokens} tokens, with `length`.",
        "{stopped} answers of {requests} ended with `stop`; the others were cut at {tokens} tokens, with `length`.",
        len(stopped),
    ).format(
        stopped=words.number(len(stopped)),
        requests=words.number(len(found.crowd.seen)),
        tokens=words.number(found.answer_tokens),
    )
    return sentence(text)


def refused(record: SimpleNamespace, words: Words) -> Display:
    """What happened to the one who came when all was full."""
    found = record.watched.refused
    waits = words.ngettext(
        "One more request was refused within {refusal} s, with status 429 and `Retry-After: {first}`.",
        "One more request was refused {times} times, the first time within {refusal} s, with status 429 and "
        "`Retry-After: {first}`.",
        len(found.retry_after),
    ).format(
        refusal=words.number(found.refusal_seconds, 2),
        first=found.retry_after[0],
        times=words.number(len(found.retry_after)),
    )
    served = words.gettext(
        "It waited as told, asked again, and had its first token {seconds} s after its first attempt."
    ).format(seconds=words.number(found.until_first_token, 1))
    return sentence(f"{waits} {served}")


def hung_up(record: SimpleNamespace, words: Words) -> Display:
    """What a client that hangs up costs, and what it gives free."""
    found = record.watched.hung_up
    made = words.ngettext(
        "The client hung up after {heard} of {asked} tokens; {made} token was made for it in all.",
        "The client hung up after {heard} of {asked} tokens; {made} tokens were made for it in all.",
        found.made,
    ).format(heard=words.number(found.heard), asked=words.number(found.asked), made=words.number(found.made))
    reused = words.gettext(
        "{seconds} s later the request that had waited was in a slot. Without the hanging up it would have waited "
        "about {rest} s."
    ).format(seconds=words.number(found.until_reused, 2), rest=words.number(found.rest, 1))
    return sentence(f"{made} {reused}")


def promises_table(record: SimpleNamespace, words: Words) -> Display:
    """What operators promise, what it is made of, and how much of it this server could promise."""
    columns = (
        Column("promise", words.gettext("An operator's number")),
        Column("made_of", words.gettext("What it is made of")),
        Column("here", words.gettext("This server"), varies=True),
    )
    caption = words.gettext("What operators promise, and what stands behind it")
    return table("promises", columns, _promises(record.watched, words), words, caption=caption)


def _promises(found: SimpleNamespace, words: Words) -> list[tuple[str, str, str]]:
    first = [request.time_to_first_token for request in found.crowd.seen]
    seconds = words.gettext("{seconds} s")
    rate = words.gettext("{tokens} tokens/s")
    return [
        (
            words.gettext("time to first token"),
            words.gettext("wait for a slot, then prefill"),
            seconds.format(seconds=words.spread(min(first), max(first), 2)),
        ),
        (
            words.gettext("time per output token"),
            words.gettext("one decode step of the batch"),
            seconds.format(seconds=words.number(found.crowd.gap.value)),
        ),
        (
            words.gettext("throughput"),
            words.gettext("slots at work, divided by the time of a step"),
            rate.format(tokens=words.number(found.crowd.tokens_per_second, 1)),
        ),
        (
            words.gettext("requests at once"),
            words.gettext("free memory, divided by the cache of one request"),
            words.gettext("{slots} slots, {places} places in the queue").format(
                slots=words.number(found.slots), places=words.number(found.queue_places)
            ),
        ),
        (
            words.gettext("context length"),
            words.gettext("cache places of a slot"),
            words.gettext("{tokens} tokens").format(tokens=words.number(found.capacity)),
        ),
        (
            words.gettext("requests per minute"),
            words.gettext("throughput, divided by the tokens of an answer"),
            words.number(SECONDS_A_MINUTE * found.crowd.tokens_per_second / found.answer_tokens, 0),
        ),
    ]
