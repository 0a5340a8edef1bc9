"""Tables and sentences of the section speculative."""

from __future__ import annotations

from types import SimpleNamespace

from .. import speculative as arithmetic
from ..render.display import Display, sentence
from ..render.table import Column, table
from ..render.words import Words
from .schemes import scheme_name

PERCENT = 100


def answer(record: SimpleNamespace, words: Words) -> Display:
    """Does guessing make it faster, and does it change a token?"""
    drafts, work = record.drafts, record.work
    first = (
        words.gettext(
            "No token changed. Guesses looked up in the prompt ran at **{look_up} the plain speed** where the answer "
            "repeats its prompt; a rounded copy of the model, whose guesses are good and dear, ran at **{draft}**."
        )
        if drafts.identical and work.identical
        else words.gettext(
            "**Tokens changed.** Guesses looked up in the prompt ran at {look_up} the plain speed, a rounded copy of "
            "the model at {draft}."
        )
    )
    return sentence(
        first.format(look_up=words.times(work.claimed.value, 2), draft=words.times(drafts.speedup.value, 2))
    )


def identity_table(record: SimpleNamespace, words: Words) -> Display:
    """The drafts that ran in the loop, beside plain greedy decoding."""
    drafts = record.drafts
    columns = (
        Column("draft", words.gettext("Draft")),
        Column("guesses", words.gettext("Guesses γ")),
        Column("prompts", words.gettext("Texts")),
        Column("tokens", words.gettext("Tokens")),
        Column("rounds", words.gettext("Passes of the target")),
        Column("equal", words.gettext("Texts equal to plain decoding's")),
        Column("as_walked", words.gettext("Rounds that the hits predict")),
    )
    rows = [
        (
            scheme_name(row.scheme, words),
            row.guesses,
            row.prompts,
            row.tokens,
            row.rounds,
            row.equal,
            row.as_walked,
        )
        for row in drafts.live
    ]
    caption = words.gettext("Rounded copies of the target in the loop, beside plain greedy decoding")
    return table("identity", columns, rows, words, caption=caption)


def identity(record: SimpleNamespace, words: Words) -> Display:
    """Is greedy speculative decoding greedy decoding?"""
    drafts = record.drafts
    texts, equal = (sum(getattr(row, name) for row in drafts.live) for name in ("prompts", "equal"))
    if equal == texts:
        text = words.gettext(
            "**Every token is plain decoding's**, in {texts} of {texts} texts. Between one pass over a text and single "
            "steps rounding moves a logit by up to {noise}."
        )
    elif drafts.identical:
        text = words.gettext(
            "{equal} of {texts} texts are plain decoding's; the others first differ where the two best logits are "
            "closer than twice {noise}, by which rounding moves a logit between one pass and single steps."
        )
    else:
        text = words.gettext(
            "**Only {equal} of {texts} texts are plain decoding's**, and the difference is more than rounding, which "
            "moves a logit by up to {noise}."
        )
    return sentence(
        text.format(
            equal=words.number(equal), texts=words.number(texts), noise=words.number(drafts.logit_noise)
        )
    )


def acceptance_table(record: SimpleNamespace, words: Words) -> Display:
    """Agreement and acceptance rate of every rounded copy."""
    drafts = record.drafts
    columns = (
        Column("scheme", words.gettext("Draft")),
        Column(
            "agreement",
            words.gettext("Same choice, of {n}").format(n=words.number(drafts.agreement[0].positions)),
            unit="%",
            digits=0,
            scale=PERCENT,
        ),
        Column("judged", words.gettext("Guesses judged")),
        Column("acceptance", words.gettext("Accepted α"), unit="%", digits=0, scale=PERCENT),
        Column("tokens_per_round", words.gettext("Tokens a round"), digits=2),
        Column("formula_tokens", words.gettext("… by the formula"), digits=2),
    )
    rows = [
        (
            scheme_name(row.scheme, words),
            _share(row.agreed, row.positions),
            row.judged,
            row.acceptance,
            row.tokens_per_round,
            row.formula_tokens,
        )
        for row in drafts.agreement
    ]
    caption = words.gettext(
        "Agreement, and the loop at γ = {guesses} (95 % intervals, texts resampled)"
    ).format(guesses=words.number(drafts.guesses))
    marked = [i for i, row in enumerate(drafts.agreement) if row.scheme == drafts.main]
    return table("acceptance", columns, rows, words, caption=caption, marked=marked)


def _share(count: object, total: int) -> object:
    return type(count)(count.value / total, "ratio", count.low / total, count.high / total, count.n)


def acceptance(record: SimpleNamespace, words: Words) -> Display:
    """Why the two numbers differ, on the main draft."""
    drafts = record.drafts
    row = next(one for one in drafts.agreement if one.scheme == drafts.main)
    skipped = row.positions - row.judged
    text = words.gettext(
        "{name}: {agreed} of {positions} choices agree, {accepted} of {judged} judged guesses were accepted. The "
        "{skipped} positions between the two counts are tokens that the target added after a round without a "
        "refusal. Nobody guessed them; the draft would have been right on {hits}."
    ).format(
        name=scheme_name(row.scheme, words),
        agreed=words.number(row.agreed.value),
        positions=words.number(row.positions),
        accepted=words.number(row.accepted),
        judged=words.number(row.judged),
        skipped=words.number(skipped),
        hits=words.number(row.unjudged_hits),
    )
    return sentence(text)


# --- sampling ---


def rule_table(record: SimpleNamespace, words: Words) -> Display:
    """The right and the wrong rule in both tests."""
    exact, drawn = record.exact, record.drawn
    columns = (
        Column("rule", words.gettext("A refused guess is replaced from")),
        Column("difference", words.gettext("Largest error of a probability, enumerated")),
        Column("statistic", words.gettext("χ² on the model"), digits=1, varies=True),
        Column("freedom", words.gettext("Degrees of freedom"), varies=True),
        Column("p_value", words.gettext("Chance of such counts"), varies=True),
    )
    rows = [
        (label, _tiny(difference, words), test.statistic, test.degrees_of_freedom, _tiny(test.p_value, words))
        for label, difference, test in (
            (words.gettext("what is left of p"), exact.right, drawn.right),
            (words.gettext("p itself (wrong)"), exact.wrong, drawn.wrong),
        )
    ]
    caption = words.gettext(
        "Enumeration: {cases} pairs of models on {vocabulary} tokens, γ = {guesses}, texts of {length}. χ²: {draws} draws"
    ).format(
        cases=words.number(exact.cases),
        vocabulary=words.number(exact.vocabulary),
        guesses=words.number(exact.guesses),
        length=words.number(exact.length),
        draws=words.number(drawn.draws),
    )
    return table("rules", columns, rows, words, caption=caption, marked=[0])


def _tiny(value: float, words: Words) -> str:
    """A number that may be very small; below 10⁻¹² it counts as rounding."""
    if value < 1e-12:
        return words.gettext("< 10⁻¹²")
    return words.number(value) if value >= 1e-3 else words.gettext("< 0.001")


def rules(record: SimpleNamespace, words: Words) -> Display:
    """Do both tests tell the rules apart?"""
    enumerated = (
        words.gettext(
            "Enumerated, the right rule gives the target's probabilities **to machine precision** and the wrong one does not."
        )
        if record.exact.exact
        else words.gettext("The enumeration **does not tell the two rules apart**.")
    )
    tested = (
        words.gettext("On the model the test passes the right rule and rejects the wrong one.")
        if record.drawn.passed
        else words.gettext("On the model the test **does not** pass the right rule and reject the wrong one.")
    )
    return sentence(f"{enumerated} {tested}")


# --- speed ---


def task_name(task: str, words: Words) -> str:
    """What was asked of the model."""
    return {
        "summary": words.gettext("look-up: summarise a text"),
        "rewrite": words.gettext("look-up: write code again"),
        "story": words.gettext("look-up: a new story"),
        "function": words.gettext("look-up: a new function"),
    }[task]


def speed_table(record: SimpleNamespace, words: Words) -> Display:
    """Measured speedups beside the formula's and the corrected one's."""
    columns = (
        Column("draft", words.gettext("Draft and request")),
        Column("acceptance", words.gettext("α"), unit="%", digits=0, scale=PERCENT, varies=True),
        Column("found", words.gettext("Rounds with a guess"), unit="%", digits=0, scale=PERCENT, varies=True),
        Column("measured", words.gettext("Speedup measured"), unit="×", digits=2, varies=True),
        Column("corrected", words.gettext("Corrected formula"), unit="×", digits=2, varies=True),
        Column("formula", words.gettext("Formula"), unit="×", digits=2, varies=True),
    )
    rows = [_draft_cells(record, words)]
    rows += [
        (task_name(row.task, words), row.acceptance, row.found, row.speedup, row.corrected, row.formula)
        for row in record.work.rows
        if not row.temperature
    ]
    caption = words.gettext("Greedy decoding, γ = {guesses}, plain decoding = 1").format(
        guesses=words.number(record.work.guesses)
    )
    return table("speeds", columns, rows, words, caption=caption, marked=[1])


def _draft_cells(record: SimpleNamespace, words: Words) -> tuple:
    drafts, costs = record.drafts, record.costs
    check = next(one.cost.value for one in costs.checks if one.positions == drafts.guesses + 1)
    corrected, formula = (
        arithmetic.expected_speedup(
            drafts.main_acceptance, drafts.guesses, draft_cost=costs.draft_cost.value, check_cost=one
        )
        for one in (check, 1.0)
    )
    return (
        words.gettext("{name}, open texts").format(name=scheme_name(drafts.main, words)),
        drafts.main_acceptance,
        1.0,
        drafts.speedup,
        corrected,
        formula,
    )


def speeds(record: SimpleNamespace, words: Words) -> Display:
    """Which formula does the clock agree with?"""
    work = record.work
    row = next(one for one in work.rows if one.task == "summary" and not one.temperature)
    text = words.gettext(
        "For the summary the formula promises {formula}, the corrected one {corrected}; measured: **{measured}**."
    ).format(
        formula=words.times(row.formula, 2),
        corrected=words.times(row.corrected, 2),
        measured=words.times(row.speedup.value, 2),
    )
    nearer = abs(row.speedup.value - row.corrected) < abs(row.speedup.value - row.formula)
    verdict = (
        words.gettext("The clock agrees with the corrected one.")
        if nearer
        else words.gettext("The clock is nearer to the uncorrected one here.")
    )
    return sentence(f"{text} {verdict}")


def kinds(record: SimpleNamespace, words: Words) -> Display:
    """Prose and code, each repeated and new."""
    speed = {row.task: words.times(row.speedup.value, 2) for row in record.work.rows if not row.temperature}
    text = words.gettext(
        "Prose: {summary} for the summary, {story} for the new story. Code: {rewrite} for the rewriting, {function} "
        "for the new function."
    )
    return sentence(text.format(**speed))


def temperature_table(record: SimpleNamespace, words: Words) -> Display:
    """Look-up at several temperatures."""
    several = {row.task for row in record.work.rows if row.temperature}
    columns = (
        Column("task", words.gettext("Request")),
        Column("temperature", words.gettext("Temperature"), digits=1),
        Column("found", words.gettext("Rounds with a guess"), unit="%", digits=0, scale=PERCENT, varies=True),
        Column("acceptance", words.gettext("α"), unit="%", digits=0, scale=PERCENT, varies=True),
        Column("tokens_per_round", words.gettext("Tokens a round"), digits=2, varies=True),
        Column("speedup", words.gettext("Speedup"), unit="×", digits=2, varies=True),
    )
    rows = [
        (
            task_name(row.task, words),
            row.temperature,
            row.found,
            row.acceptance,
            row.tokens_per_round,
            row.speedup,
        )
        for row in record.work.rows
        if row.task in several
    ]
    caption = words.gettext(
        "Prompt look-up, γ = {guesses}; three texts a row, each with its own seed"
    ).format(guesses=words.number(record.work.guesses))
    return table("temperatures", columns, rows, words, caption=caption)


def batch_table(record: SimpleNamespace, words: Words) -> Display:
    """A round in plain steps and the speedup, by batch size."""
    found = record.batches
    columns = (
        Column("batch_size", words.gettext("Requests")),
        Column("round_cost", words.gettext("Round"), unit=words.gettext("steps"), digits=2, varies=True),
        Column("speedup", words.gettext("Speedup"), unit="×", digits=2, varies=True),
    )
    rows = [(row.batch_size, row.round_cost, row.speedup) for row in found.rows]
    caption = words.gettext(
        "Prompt look-up on up to {n} requests in one pass, γ = {guesses}, {tokens} tokens a round"
    ).format(
        n=words.number(found.rows[-1].batch_size),
        guesses=words.number(found.guesses),
        tokens=words.number(found.tokens_per_round, 2),
    )
    return table("batches", columns, rows, words, caption=caption)


def batches(record: SimpleNamespace, words: Words) -> Display:
    """Does company make guessing dearer?"""
    rows = record.batches.rows
    first, last, best = rows[0], rows[-1], max(rows, key=lambda row: row.speedup.value)
    text = words.gettext(
        "One request alone ran at {one} its plain speed, {size} together at {many}. The best size of the batch was {best_size}, at {best}."
    ).format(
        one=words.times(first.speedup.value, 2),
        size=words.number(last.batch_size),
        many=words.times(last.speedup.value, 2),
        best_size=words.number(best.batch_size),
        best=words.times(best.speedup.value, 2),
    )
    if last.speedup.high < best.speedup.low:
        verdict = words.gettext("From there on **company makes guessing dearer**.")
    else:
        verdict = words.gettext("That the largest batch is dearer is **not beyond the noise**.")
    return sentence(f"{text} {verdict}{_alone(first, best, words)}")


def _alone(first: SimpleNamespace, best: SimpleNamespace, words: Words) -> str:
    """Why one request may be worse off than a few."""
    if first.speedup.high >= best.speedup.low:
        return ""
    return " " + words.gettext(
        "One request gains less than a few do: its plain step multiplies matrices by one vector, which costs least, "
        "and its check is a product of small matrices. A few requests need such a product in either case."
    )


def family(record: SimpleNamespace, words: Words) -> Display:
    """A smaller model of the family as draft, or why it is not here."""
    found = record.family
    missing = {
        "no-gpu": words.gettext(
            "**Not measured here.** The page tries a smaller sibling as draft where there is a GPU and the model hub can "
            "be reached; this run has no GPU."
        ),
        "no-sibling": words.gettext(
            "**Not measured here.** The book knows no larger model of this one's family to draft for."
        ),
        "no-hub": words.gettext(
            "**Not measured here.** The larger model would come from the hub, which cannot be reached."
        ),
    }
    if found.missing:
        return sentence(missing[found.missing])
    text = words.gettext(
        "{draft} guessed for {target}: {acceptance} of its judged guesses were accepted, {tokens} tokens a round. A "
        "guess cost {cost} of a step, and the whole ran at **{speedup} the plain speed**."
    ).format(
        draft=found.draft,
        target=found.target,
        acceptance=words.percent(found.acceptance),
        tokens=words.number(found.tokens_per_round, 2),
        cost=words.percent(found.draft_cost.value),
        speedup=words.times(found.speedup.value, 2),
    )
    return sentence(text)
