"""Tokens are drawn from the distribution that temperature and top_p mean."""

import torch

from adaptermill.rollouts.sampling import next_tokens


def test_draws_spread_over_the_tokens_by_their_probability():
    logits = torch.tensor([[0.1, 0.2, 0.3, 0.4]]).log().expand(1000, -1)
    draws = (torch.arange(1000, dtype=torch.float64) + 0.5) / 1000
    assert next_tokens(logits, 1.0, 1.0, draws).bincount().tolist() == [100, 200, 300, 400]
    assert next_tokens(logits, 0.0, 1.0, draws).unique().tolist() == [3]


def test_top_p_keeps_the_fewest_likeliest_tokens_that_reach_it():
    logits = torch.tensor([[0.1, 0.2, 0.3, 0.4]]).log().expand(700, -1)
    draws = (torch.arange(700, dtype=torch.float64) + 0.5) / 700
    counts = next_tokens(logits, 1.0, 0.65, draws).bincount(minlength=4)
    assert counts.tolist() == [0, 0, 300, 400]


def test_a_nucleus_wider_than_the_likeliest_tokens_is_found_by_sorting_all():
    """Over 1000 equal tokens, top_p 0.9 keeps 900: more than are looked at first."""
    logits = torch.zeros(2000, 1000)
    draws = (torch.arange(2000, dtype=torch.float64) + 0.5) / 2000
    assert abs(len(next_tokens(logits, 1.0, 0.9, draws).unique()) - 900) <= 1


def test_the_largest_draw_never_falls_beyond_the_last_likely_token():
    logits = torch.tensor([[0.0, -torch.inf, -torch.inf]])
    draws = torch.tensor([1 - 2**-53], dtype=torch.float64)
    for top_p in (0.9, 1.0):
        assert next_tokens(logits, 1.0, top_p, draws).item() == 0
