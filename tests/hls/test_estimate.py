"""The model of the kernels' dataflow: it is of these sources, and adds up as on paper."""

import pytest

from hls.estimate.estimate import (
    KERNELS,
    Sizes,
    estimate,
    kernel_names,
    loops_of_model,
    loops_of_sources,
)


@pytest.mark.quick
def test_loops_have_the_intervals_of_the_sources() -> None:
    sources = loops_of_sources()
    for label, interval in loops_of_model():
        assert label in sources, f"no loop is called {label}"
        assert interval in sources[label], f"{label}: {sources[label]} in the sources"


@pytest.mark.quick
def test_every_kernel_is_estimated() -> None:
    text = "".join(path.read_text(encoding="utf-8") for path in KERNELS.glob("*.cpp"))
    for name in kernel_names():
        assert f"nearkv_{name}(" in text
    assert text.count('extern "C"') == len(kernel_names())


@pytest.mark.quick
def test_scores_are_bound_by_their_slowest_process() -> None:
    # 8 rows of a query: 8 bursts each, read after 64 cycles and aligned after 8. Then the decoder,
    # which begins anew with each page, and what lies before and behind it.
    query = 8 * 8 + 8 * 64 + 8 * 8 + 8 * 8
    decode = 10 * 64 * 4 + 10 * 8
    filling = 64 + 64 + 3 + 3 + 8 + 14 + 3
    assert estimate("score", Sizes(pages=10)) == query + decode + filling


@pytest.mark.quick
def test_longer_lists_take_longer() -> None:
    for name in ("score", "attend", "plane_score", "digest_bound", "threshold", "topk"):
        assert estimate(name, Sizes(pages=20)) > estimate(name, Sizes(pages=10))


@pytest.mark.quick
def test_there_is_no_such_kernel() -> None:
    with pytest.raises(KeyError):
        estimate("scores")
