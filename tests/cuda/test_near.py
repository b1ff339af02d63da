"""nearkv.near, as engines' adapters call it, where the kernels of a GPU are there: emulated."""

from collections.abc import Callable

import pytest
import torch

import nearkv.cuda
from nearkv import near
from nearkv.near import attend_here, merge
from nearkv.parallel.shard import Scores, attend

Rows = tuple[torch.Tensor, ...]


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the operators that were called; tensors of the host count as a GPU's."""
    calls: list[str] = []

    def counted(name: str) -> Callable[..., Rows]:
        operator = getattr(nearkv.cuda, name)
        return lambda *given: calls.append(name) or operator(*given)

    for name in ("attend_window", "merge_parts"):
        monkeypatch.setattr(nearkv.cuda, name, counted(name))
    monkeypatch.setattr(near, "_has_kernels", lambda device: True)
    return calls


def _rows(
    dtype: torch.dtype = torch.bfloat16, *, queries: int = 1, tokens: int = 70, dim: int = 32
) -> Rows:
    torch.manual_seed(1)
    query = torch.randn(2, 3, 2, queries, dim)
    return tuple(part.to(dtype) for part in (query, *torch.randn(2, 2, 3, tokens, dim).unbind(0)))


def _exact(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask=None) -> Rows:
    """What torch makes of it in float64, for which there are no kernels."""
    return attend_here(query.double(), key.double(), value.double(), mask, 0.2, 0.0)


def _assert_close(found: Rows, wanted: Rows) -> None:
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one.double(), other, rtol=1e-5, atol=1e-5)


def _apart(part: torch.Tensor) -> torch.Tensor:
    """The same elements in a tensor whose tokens come before its heads, between others'."""
    room = torch.randn(2, part.shape[2], 3, 3, part.shape[3]).to(part.dtype)
    room[:, :, :, 1] = part.transpose(1, 2)
    return room[:, :, :, 1].transpose(1, 2)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_a_step_goes_to_the_kernel(taken: list[str], dtype: torch.dtype) -> None:
    query, key, value = _rows(dtype)
    _assert_close(attend_here(query, key, value, None, 0.2, 0.0), _exact(query, key, value))
    strided = query[:, :, :, -1:], _apart(key), _apart(value)
    _assert_close(attend_here(*strided, None, 0.2, 0.0), _exact(query, key, value))
    one_head = query[:, :1], key[:, 1:2], value[:, 1:2]
    _assert_close(attend_here(*one_head, None, 0.2, 0.0), _exact(*one_head))
    assert taken == ["attend_window"] * 3


@pytest.mark.parametrize(
    "unfit",
    {
        "several queries": lambda: (*_rows(queries=3), None),
        "a mask": lambda: (*_rows(), torch.rand(2, 1, 1, 70) < 0.5),
        "channels that are not multiples of 16": lambda: (*_rows(dim=24), None),
        "more channels than pages have": lambda: (*_rows(dim=592), None),
        "rows that do not start at 16 bytes": lambda: (
            *(part[..., 4:36] for part in _rows(dim=48)),
            None,
        ),
        "channels apart": lambda: (*(part[..., ::2] for part in _rows(dim=64)), None),
        "types that differ": lambda: (_rows()[0].float(), *_rows()[1:], None),
        "derivatives": lambda: (_rows(torch.float32)[0].requires_grad_(), *_rows()[1:], None),
    }.items(),
    ids=lambda given: given[0],
)
def test_what_the_kernel_does_not_take_is_torchs(
    taken: list[str], unfit: tuple[str, Callable[[], Rows]]
) -> None:
    query, key, value, mask = unfit[1]()
    found = attend_here(query, key, value, mask, 0.2, 0.0)
    assert not taken
    _assert_close(found, _exact(query, key, value, mask))


@pytest.mark.parametrize(
    ("dim", "calls"), [(384, ["attend_window"]), (400, [])], ids=["fits", "does not"]
)
def test_rows_as_wide_as_a_gpus_shared_memory_go_to_the_kernel_and_wider_ones_to_torch(
    taken: list[str], dim: int, calls: list[str]
) -> None:
    torch.manual_seed(3)
    query = torch.randn(1, 1, 8, 1, dim)
    key, value = torch.randn(2, 1, 1, 10, dim).unbind(0)
    _assert_close(attend_here(query, key, value, None, 0.2, 0.0), _exact(query, key, value))
    assert taken == calls


@pytest.mark.parametrize(("batch", "tokens"), [(2, 0), (0, 70), (0, 0)])
def test_nothing_to_see_is_zero_and_minus_infinity(
    taken: list[str], batch: int, tokens: int
) -> None:
    query, key, value = (part[:batch] for part in _rows(tokens=tokens))
    output, lse = attend_here(query, key, value, None, 0.2, 0.0)
    assert output.shape == (batch, 3, 2, 1, 32) and lse.shape == (batch, 3, 2, 1)
    assert not output.any() and (lse == -torch.inf).all()


def test_parts_are_merged_by_the_kernel(taken: list[str]) -> None:
    query, key, value = _rows(tokens=96)
    parts = [
        attend_here(query, key[:, :, some], value[:, :, some], None, 0.2, 0.0)
        for some in (slice(0, 40), slice(40, 96), slice(0, 0))
    ]
    merged = merge(merge(parts[0], parts[2]), parts[1])
    assert taken.count("merge_parts") >= 2
    _assert_close(merged, _exact(query, key, value))
    both_empty = merge(parts[2], parts[2])
    assert not both_empty[0].any() and (both_empty[1] == -torch.inf).all()
    # Views, as an adapter that joins heads hands them over.
    joined = [tuple(part.transpose(0, 1) for part in some) for some in parts]
    _assert_close(
        tuple(part.transpose(0, 1) for part in merge(joined[0], joined[1])),
        _exact(query, key, value),
    )


def test_parts_may_lie_in_wider_tensors(taken: list[str]) -> None:
    query, key, value = _rows()
    here, far = (
        attend_here(query, key[:, :, some], value[:, :, some], None, 0.2, 0.0)
        for some in (slice(0, 40), slice(40, 70))
    )
    both = torch.cat([far[0], torch.randn(2, 3, 2, 1, 7), far[1].unsqueeze(-1)], -1)
    wanted = _exact(query, key, value)
    _assert_close(merge(here, (both[..., :32], both[..., -1])), wanted)
    _assert_close(merge((both[..., :32], both[..., -1]), here), wanted)
    assert taken.count("merge_parts") == 2


def test_parts_that_want_derivatives_are_merged_by_torch(taken: list[str]) -> None:
    here, far = (
        (torch.randn(5, 16, requires_grad=True), torch.randn(5, requires_grad=True)) for _ in "ab"
    )
    merge(here, far)[0].sum().backward()
    assert not taken and here[0].grad is not None
    with torch.no_grad():
        merge(here, far)
    assert taken == ["merge_parts"]


def test_a_rank_of_a_ring_goes_to_the_kernel(taken: list[str]) -> None:
    query, key, value = _rows()
    flat, last, positions = query.flatten(1, 2), torch.tensor([69]), torch.arange(70)
    output, lse = attend(flat, last, key, value, positions, Scores(scale=0.2))
    assert "attend_window" in taken
    wanted = _exact(query, key, value)
    _assert_close((output, lse), tuple(part.flatten(1, 2) for part in wanted))
