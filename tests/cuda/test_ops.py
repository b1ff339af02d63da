"""NearKV's operators of torch, on kernels that cores run, beside torch's own arithmetic."""

import itertools
from pathlib import Path

import pytest
import torch

from nearkv import near
from nearkv.core import Error, Status
from nearkv.cuda import attend_window, gpu_of, library, merge_parts, serves
from nearkv.near import attend_here, merge

CPU = torch.device("cpu")


def _window(group: int = 2, tokens: int = 70, dim: int = 32) -> tuple[torch.Tensor, ...]:
    torch.manual_seed(1)
    rows = torch.randn(2, 3, group, dim), *torch.randn(2, 2, 3, tokens, dim).unbind(0)
    return tuple(part.to(torch.bfloat16) for part in rows)


def _reference(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, **named: float):
    output, lse = attend_here(
        query.double().unsqueeze(3), key, value, None, named["scale"], named.get("soft_cap", 0.0)
    )
    return output.squeeze(3).float(), lse.squeeze(3).float()


def test_a_window_is_attended_to() -> None:
    query, key, value = _window()
    for soft_cap in (0.0, 2.0):
        found = attend_window(query, key, value, 0.2, soft_cap)
        wanted = _reference(query, key, value, scale=0.2, soft_cap=soft_cap)
        for one, other in zip(found, wanted, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)


def test_rows_may_lie_apart_and_sequences_end_where_they_like() -> None:
    query, key, value = _window()
    tokens_first = key.transpose(1, 2).contiguous().transpose(1, 2)
    first = torch.tensor([3, 70], dtype=torch.int32)
    end = torch.tensor([50, 70], dtype=torch.int32)
    output, lse = attend_window(query, tokens_first, value, 0.2, 0.0, first, end)
    wanted = _reference(query[:1], key[:1, :, 3:50], value[:1, :, 3:50], scale=0.2)
    torch.testing.assert_close(output[:1], wanted[0], rtol=1e-5, atol=1e-6)
    assert torch.all(output[1] == 0) and torch.all(lse[1] == -torch.inf)


def test_parts_merge_to_the_same_bits_in_any_order() -> None:
    torch.manual_seed(2)
    parts = [(torch.randn(5, 16), torch.randn(5)) for _ in range(4)]
    found = {
        tuple(part.numpy().tobytes() for part in merge_parts(*map(list, zip(*order, strict=True))))
        for order in itertools.permutations(parts)
    }
    assert len(found) == 1
    two = merge_parts([parts[0][0], parts[1][0]], [parts[0][1], parts[1][1]])
    for one, other in zip(two, merge(parts[0], parts[1]), strict=True):
        torch.testing.assert_close(one, other)


def test_torch_compile_sees_operators() -> None:
    query, key, value = _window(tokens=20)

    def step(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        output, lse = attend_window(query, key, value, 0.2)
        rows = output.flatten(0, 2), lse.flatten()
        return merge_parts([rows[0], rows[0]], [rows[1], rows[1]])[0] * 2

    compiled = torch.compile(step, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(compiled(query, key, value), step(query, key, value))


@pytest.mark.parametrize(
    ("operator", "arguments"),
    [
        (attend_window, lambda: (*_window(tokens=5), 0.5)),
        (merge_parts, lambda: ([torch.randn(3, 16)], [torch.randn(3)])),
    ],
)
def test_operators_keep_torchs_rules(operator, arguments) -> None:
    torch.library.opcheck(operator, arguments(), test_utils=("test_schema", "test_faketensor"))


def test_what_kernels_do_not_take_is_refused() -> None:
    query, key, value = _window()
    for bad in (
        lambda: attend_window(query, key[..., :16], value, 0.2),
        lambda: attend_window(query, key.float(), value, 0.2),
        lambda: attend_window(query, key.transpose(2, 3), value.transpose(2, 3), 0.2),
        lambda: attend_window(query, key[..., ::2], value, 0.2),
        lambda: attend_window(query[..., 1:17], key[..., 1:17], value, 0.2),
        lambda: attend_window(query, key, value, float("nan")),
        lambda: attend_window(query, key, value, 0.2, 0.0, torch.tensor([1, 2])),
        lambda: merge_parts([torch.randn(3, 16).half()], [torch.randn(3)]),
        lambda: merge_parts([torch.randn(3, 16)], [torch.randn(4)]),
        lambda: merge_parts([torch.randn(1, 2, 3, 16)], [torch.randn(1, 2, 3)]),
    ):
        with pytest.raises(Error) as caught:
            bad()
        assert caught.value.status == Status.BAD_ARGUMENT


def test_a_device_without_kernels_is_named() -> None:
    with pytest.raises(Error, match="no kernels for tensors of meta"):
        gpu_of(torch.device("meta"))
    assert not serves(CPU)
    assert gpu_of(CPU).is_emulated


def test_kernels_that_are_not_there_are_told_with_what_to_do(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    gpu = torch.device("cuda", 9)
    monkeypatch.setattr(library._nearkv, "__file__", str(tmp_path / "_nearkv.so"))
    with pytest.raises(Error, match=r"--config-settings=cmake\.define\.NEARKV_CUDA=ON") as caught:
        gpu_of(gpu)
    assert caught.value.status == Status.NO_DEVICE
    monkeypatch.setenv("NEARKV_CUDA_LIBRARY", str(tmp_path / "libmine.so"))
    with pytest.raises(Error, match=r"NEARKV_CUDA_LIBRARY names .*libmine\.so, which is not there"):
        gpu_of(gpu)


@pytest.mark.parametrize("soft_cap", [0.0, 2.0])
def test_a_step_of_the_engines_adapters_uses_them_where_they_are(
    monkeypatch: pytest.MonkeyPatch, soft_cap: float
) -> None:
    query, key, value = _window()
    given = query.unsqueeze(3), key, value, None, 0.2, soft_cap
    far = torch.randn(2, 3, 2, 1, 32), torch.randn(2, 3, 2, 1)
    plain = attend_here(*given)
    calls: list[torch.device] = []
    monkeypatch.setattr(near, "_has_kernels", lambda device: calls.append(device) or True)
    found = attend_here(*given)
    merged = merge(found, far)
    assert len(calls) == 2
    monkeypatch.undo()
    for one, other in ((found, plain), (merged, merge(plain, far))):
        for part, wanted in zip(one, other, strict=True):
            torch.testing.assert_close(part, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU that torch sees")
def test_on_a_gpu_as_on_the_host() -> None:
    gpu = torch.device("cuda", 0)
    given = _window(group=8, tokens=3000, dim=128)
    found = attend_window(*(part.to(gpu) for part in given), 0.1)
    for one, other in zip(found, _reference(*given, scale=0.1), strict=True):
        torch.testing.assert_close(one.cpu(), other, rtol=1e-5, atol=1e-6)
