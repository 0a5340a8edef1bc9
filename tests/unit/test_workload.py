"""The workload: the chapter's three numbers, the order it is served in, and its prompts."""

from statistics import median

from cheap_inference import workload


def test_the_chapters_numbers():
    lengths = workload.output_lengths()
    assert len(lengths) == 64
    assert median(lengths) == 18
    assert max(lengths) == 231
    assert sum(lengths) == 1_874


def test_the_order_is_part_of_the_workload():
    # fmt: off
    assert workload.output_lengths() == (
        15, 8, 12, 3, 42, 2, 40, 18, 11, 44, 77, 6, 4, 36, 13, 7, 22, 58, 33, 5, 9, 20, 5, 25, 6, 231, 4, 21, 17,
        63, 15, 69, 6, 54, 34, 31, 87, 50, 23, 12, 9, 24, 11, 18, 47, 9, 8, 14, 16, 38, 10, 27, 16, 21, 13, 19,
        128, 103, 3, 7, 29, 10, 26, 30,
    )
    # fmt: on


def test_no_quantile_lies_on_the_edge_of_its_rounding():
    normal = workload.NormalDist()
    for i in range(workload.REQUESTS - 1):
        exact = workload.MEDIAN_TOKENS * workload.exp(workload.SIGMA * normal.inv_cdf((i + 0.5) / 64))
        assert abs(exact % 1 - 0.5) > 1e-4


def test_a_shuffle_keeps_every_item_and_follows_its_seed():
    items = list(range(50))
    once, again, other = (workload.shuffled(items, seed=seed) for seed in (1, 1, 2))
    assert once == again != other
    assert sorted(once) == items


def test_every_request_has_a_prompt_of_its_own():
    prompts = workload.cut_prompts(list(range(300)))
    assert [len(prompt) for prompt in prompts] == list(workload.prompt_lengths())
    assert len({prompt[0] for prompt in prompts}) == 64


def test_prompts_wrap_round_a_short_text():
    assert workload.cut_prompts([1, 2, 3])[2] == [3, 1, 2] * 5 + [3]
