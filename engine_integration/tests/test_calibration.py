"""What gains of K's channels are told by."""

import pytest
import torch

from nearkv.calibration import gains_from

HEAD_DIM = 64


def rows(tokens: int, seed: int) -> torch.Tensor:
    return torch.randn(tokens, HEAD_DIM, generator=torch.Generator().manual_seed(seed))


def test_an_octave_of_queries_is_half_an_octave_of_gain():
    queries, keys = rows(4096, 1), rows(4096, 2)
    queries[:, 5] *= 2
    keys[:, 9] *= 4
    gains = gains_from(queries, keys)
    others = torch.cat([gains[:5], gains[6:9], gains[10:]]).float().mean()
    assert gains.dtype == torch.int8
    assert gains.shape == (HEAD_DIM,)
    assert gains[5] - others == pytest.approx(8, abs=1.5)
    assert gains[9] - others == pytest.approx(-16, abs=1.5)


def test_means_of_pages_do_not_count():
    queries, keys = rows(512, 3), rows(512, 4)
    drift = 100 * rows(8, 5).repeat_interleave(64, 0)
    assert torch.equal(gains_from(queries, keys + drift), gains_from(queries, keys))
    assert not torch.equal(gains_from(queries, keys + drift, 128), gains_from(queries, keys, 128))


def test_a_factor_of_all_channels_does_not_count():
    queries, keys = rows(512, 6), rows(512, 7)
    assert torch.equal(gains_from(1024 * queries, keys / 64), gains_from(queries, keys))


def test_channels_that_one_text_does_not_use_have_gains_all_the_same():
    queries, keys = rows(512, 8), rows(512, 9)
    queries[:, 0] = 0
    keys[:, 1] = 7
    gains = gains_from(queries, keys).int()
    # A hundredth of the mean is 6.6 octaves, and a gain is half of them.
    assert gains[0] - gains[2:].float().mean() == pytest.approx(-53, abs=3)
    assert gains[1] - gains[2:].float().mean() == pytest.approx(53, abs=3)
    assert torch.equal(gains_from(0 * queries, 0 * keys), torch.zeros(HEAD_DIM, dtype=torch.int8))


def test_heads_and_dtypes_of_an_engine_fit():
    queries, keys = rows(1024, 10).bfloat16(), rows(512, 11).bfloat16()
    alone = gains_from(queries.float(), keys.float())
    assert torch.equal(gains_from(queries.reshape(2, 512, HEAD_DIM), keys), alone)


@pytest.mark.parametrize("tokens", [0, 63])
def test_less_than_a_page_is_refused(tokens):
    with pytest.raises(ValueError, match="not a page"):
        gains_from(rows(64, 12), rows(tokens, 13))


def test_shapes_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="head_dim"):
        gains_from(rows(64, 14)[:, :32], rows(64, 15))
    with pytest.raises(ValueError, match="head_dim"):
        gains_from(rows(0, 16), rows(64, 17))
