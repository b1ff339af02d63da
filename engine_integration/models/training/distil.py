"""Trains what mixes tokens in a model of another shape to do what the Llama's attention does.

Layer by layer: each mixer is given what the Llama's attention is given, and is to return the same.
All layers learn at once, no gradient goes from one to another, and errors do not add up while they
are large. Everything else stays the Llama's, to the bit.
"""

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import torch
from tokenizers import Tokenizer
from torch import Tensor, nn
from transformers import LlamaForCausalLM, PreTrainedModel

from training.long_context import diluted_causal_mask, draw_dilution
from training.schedule import Phase, Stage
from training.sequences import Batch, make_batch
from training.trainer import MATRIX_RATE, VECTOR_RATE

_MOMENT_BATCHES = 8
_MOMENT_PHASE = Phase(_MOMENT_BATCHES, batch=2, length=512, mix=(1, 1, 2))


@dataclass(frozen=True)
class Step:
    """A batch, and the masks that make it stand for a longer one (see long_context.py)."""

    batch: Batch
    diluted: Tensor

    def run(self, model: PreTrainedModel) -> Tensor:
        """Final hidden states of a model; its layers with a window see no more than that."""
        kinds = set(getattr(model.config, "layer_types", None) or ["full_attention"])
        masks = {"full_attention": self.diluted, "linear_attention": None}
        if "sliding_attention" in kinds:
            masks["sliding_attention"] = self._windowed(model.config.sliding_window)
        return model.model(
            self.batch.tokens,
            attention_mask=self.diluted if len(kinds) == 1 else masks,
            position_ids=self.batch.positions,
            use_cache=False,
        ).last_hidden_state

    def _windowed(self, tokens: int) -> Tensor:
        every = torch.arange(self.diluted.shape[-1])
        distance = every[:, None] - every
        hidden = (distance < 0) | (distance >= tokens)
        return torch.zeros_like(self.diluted).masked_fill(hidden, float("-inf"))


class Seen(NamedTuple):
    """What passed through a mixer, in float32."""

    given: Tensor
    """[batch, tokens, hidden]."""
    made: Tensor
    """[batch, tokens, hidden]."""
    looks: Tensor | None
    """Of "eager" attention its weights [batch, heads, tokens, tokens]."""


def mixers(model: PreTrainedModel) -> list[nn.Module]:
    """What mixes tokens, of each layer: its attention, or what stands in its place."""
    return [
        layer.self_attn if getattr(layer, "self_attn", None) is not None else layer.mamba
        for layer in model.model.layers
    ]


@torch.no_grad()
def attention_moments(
    llama: LlamaForCausalLM, tokenizer: Tokenizer, text: str, seed: int
) -> Tensor:
    """Mean outer products [layers, hidden, hidden] of what each layer's attention is given."""
    total = torch.zeros(())
    for step in draw_steps(llama, tokenizer, text, Stage((_MOMENT_PHASE,)), str(seed)):
        given = torch.stack([one.given for one in observed(llama, step)]).flatten(1, 2)
        total = total + given.mT @ given / given.shape[1]
    return total / _MOMENT_BATCHES


def match_layers(
    student: PreTrainedModel,
    teacher: LlamaForCausalLM,
    layers: Sequence[int],
    tokenizer: Tokenizer,
    text: str,
    stage: Stage,
    seed: str,
) -> Iterator[float]:
    """Trains the mixers of some layers on the teacher's inputs to give its outputs; yields errors.

    An error is the mean squared difference as a share of the mean square, over these layers.
    """
    student.requires_grad_(False)
    taught = [mixers(student)[layer] for layer in layers]
    learning = [parameter for mixer in taught for parameter in mixer.parameters()]
    steps = draw_steps(student, tokenizer, text, stage, seed)
    return learn(learning, stage, steps, partial(_error, student, teacher, layers))


def learn(
    parameters: list[nn.Parameter],
    stage: Stage,
    steps: Iterable[Step],
    error_of: Callable[[Step], Tensor],
) -> Iterator[float]:
    """Trains these parameters, which no other has gradients beside; yields each step's error."""
    optimizers = _optimizers([parameter.requires_grad_() for parameter in parameters])
    tokens = 0
    for number, step in enumerate(steps):
        error = error_of(step)
        error.backward()
        rate = stage.rate_at(number, tokens)
        for optimizer in optimizers:
            for group in optimizer.param_groups:
                group["lr"] = group["base_rate"] * rate
            optimizer.step()
            optimizer.zero_grad()
        tokens += step.batch.tokens.numel()
        yield error.item()


def _error(
    student: PreTrainedModel, teacher: LlamaForCausalLM, layers: Sequence[int], step: Step
) -> Tensor:
    with torch.autocast("cpu", torch.bfloat16):
        with torch.no_grad():
            wanted = observed(teacher, step)
        made = _outputs_given(student, step, [one.given for one in wanted])
        errors = []
        for layer in layers:
            output, target = made[layer], wanted[layer].made
            square = (output - target).square().mean(-1) * step.batch.weights.clamp(min=1)
            errors.append(square.mean() / target.square().mean())
        return torch.stack(errors).mean()


def draw_steps(
    model: PreTrainedModel, tokenizer: Tokenizer, text: str, stage: Stage, seed: str
) -> Iterator[Step]:
    """The batches of a stage, for a model of this context."""
    rng = random.Random(seed)
    generator = torch.Generator().manual_seed(rng.getrandbits(63))
    limit = model.config.max_position_embeddings
    for phase in stage.phases:
        most = stage.dilution * limit / phase.length
        for _ in range(phase.steps):
            batch = make_batch(tokenizer, text, phase, limit, rng)
            dilution = draw_dilution(phase.batch, most, generator)
            yield Step(batch, diluted_causal_mask(batch.salient, dilution))


def observed(model: PreTrainedModel, step: Step) -> list[Seen]:
    """What passed through each mixer."""
    seen: list[Seen] = []

    def note(module: nn.Module, args: tuple, options: dict, output: object) -> None:
        mixed, looks, *_ = output if isinstance(output, tuple) else (output, None)
        seen.append(Seen(options["hidden_states"].float(), mixed.float(), looks))

    with ExitStack() as hooks:
        for mixer in mixers(model):
            hook = mixer.register_forward_hook(note, with_kwargs=True)
            hooks.callback(hook.remove)
        step.run(model)
    return seen


def _outputs_given(model: PreTrainedModel, step: Step, inputs: list[Tensor]) -> list[Tensor]:
    """What each mixer returns for inputs that are not its own model's."""

    def give(inputs: Tensor, module: nn.Module, args: tuple, options: dict) -> tuple[tuple, dict]:
        return args, options | {"hidden_states": inputs}

    with ExitStack() as hooks:
        for mixer, given in zip(mixers(model), inputs, strict=True):
            hook = mixer.register_forward_pre_hook(partial(give, given), with_kwargs=True)
            hooks.callback(hook.remove)
        return [one.made for one in observed(model, step)]


def _optimizers(parameters: list[nn.Parameter]) -> list[torch.optim.Optimizer]:
    """As trainer.py has them: Muon for matrices, AdamW for all else."""
    matrices = [parameter for parameter in parameters if parameter.dim() == 2]
    others = [parameter for parameter in parameters if parameter.dim() != 2]
    muon = torch.optim.Muon(
        [{"params": matrices, "base_rate": MATRIX_RATE}],
        lr=MATRIX_RATE,
        weight_decay=0.0,
        adjust_lr_fn="original",
    )
    if not others:
        return [muon]
    adamw = torch.optim.AdamW(
        [{"params": others, "base_rate": VECTOR_RATE}], lr=VECTOR_RATE, weight_decay=0.0
    )
    return [muon, adamw]
