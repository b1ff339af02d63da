"""LayerPrefetch's streams, on a machine without a GPU: what it asks of torch."""

import contextlib

import pytest
import torch

from nearkv.cuda import LayerPrefetch

SECOND_GPU = torch.device("cuda", 1)


class _Stream:
    """What LayerPrefetch uses of a stream."""

    def __init__(self, device: torch.device | None = None) -> None:
        self.device = device
        self.awaits: list[object] = []

    def wait_stream(self, other: "_Stream") -> None:
        self.awaits.append(other)

    def wait_event(self, event: "_Stream") -> None:
        self.awaits.append(event)

    def record_event(self) -> "_Stream":
        return self

    def synchronize(self) -> None:
        """All is done at once here."""


class _Torch:
    """Stands for torch's streams and a GPU's tensors, and keeps what was asked for."""

    def __init__(self) -> None:
        self.asked: list[torch.device | None] = []
        self.recorded: list[tuple[torch.Tensor, object]] = []
        self.current = _Stream()

    def current_stream(self, device: torch.device | None = None) -> _Stream:
        self.asked.append(device)
        return self.current

    def empty_like(self, like: torch.Tensor, *, device: torch.device) -> torch.Tensor:
        assert device == SECOND_GPU
        return torch.zeros(like.shape, dtype=like.dtype)


@pytest.fixture
def second_gpu(monkeypatch: pytest.MonkeyPatch) -> _Torch:
    stand_in = _Torch()
    monkeypatch.setattr(torch.cuda, "Stream", _Stream)
    monkeypatch.setattr(torch.cuda, "stream", lambda stream: contextlib.nullcontext())
    monkeypatch.setattr(torch.cuda, "current_stream", stand_in.current_stream)
    monkeypatch.setattr(torch, "empty_like", stand_in.empty_like)
    monkeypatch.setattr(torch.Tensor, "is_pinned", lambda tensor: True)
    monkeypatch.setattr(
        torch.Tensor,
        "record_stream",
        lambda tensor, stream: stand_in.recorded.append((tensor, stream)),
    )
    return stand_in


def _layers() -> list[list[torch.Tensor]]:
    return [[torch.full((4,), float(i)), torch.full((2,), -float(i))] for i in range(3)]


def test_it_waits_for_the_stream_of_the_gpu_that_the_layers_come_to(second_gpu: _Torch) -> None:
    with LayerPrefetch(_layers(), SECOND_GPU) as fetch:
        for i in range(3):
            assert fetch.take(i)[0][0] == i
    assert second_gpu.asked and all(device == SECOND_GPU for device in second_gpu.asked)
    assert len(second_gpu.current.awaits) == 3


def test_places_are_not_given_away_before_the_copies_to_them_are_done(second_gpu: _Torch) -> None:
    fetch = LayerPrefetch(_layers(), SECOND_GPU)
    places = {id(place) for layer in range(2) for place in fetch.take(layer)}
    assert {id(place) for place, _ in second_gpu.recorded} == places
    assert {stream.device for _, stream in second_gpu.recorded} == {SECOND_GPU}
