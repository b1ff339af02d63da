"""The training loop: the same seed, text and schedule give the same weights."""

import math
import random
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence

import torch
import torch.nn.functional as F
from tokenizers import Tokenizer
from transformers import LlamaForCausalLM

from training.long_context import diluted_causal_mask, draw_dilution
from training.losses import offset_loss, recall_loss
from training.model import forward
from training.schedule import Phase, Stage
from training.sequences import ANSWER_WEIGHT, COPY_WEIGHT, TEXT_WEIGHT, Batch, make_batch

MATRIX_RATE = 0.02
VECTOR_RATE = 3e-3
# The hand-written offset heads only need small corrections.
OFFSET_HEAD_RATE_FACTOR = 0.2
RECALL_WEIGHT = 0.5

_WEIGHT_NAMES = ((TEXT_WEIGHT, "text"), (COPY_WEIGHT, "copy"), (ANSWER_WEIGHT, "answer"))
_REPORT_EVERY_STEPS = 20


def train(
    model: LlamaForCausalLM,
    tokenizer: Tokenizer,
    text: str,
    schedule: Sequence[Stage],
    seed: int,
) -> None:
    """Trains a model of `new_llama` in place through all stages, with progress on stdout."""
    begin, done = time.monotonic(), 0
    total = sum(stage.tokens for stage in schedule)
    means: dict[str, list[float]] = defaultdict(list)
    for number, stage in enumerate(schedule, start=1):
        steps = train_stage(model, tokenizer, text, stage, f"{seed}/{number}")
        for step, (phase, losses) in enumerate(steps, start=1):
            done += phase.batch * phase.length
            for name, value in losses.items():
                means[name].append(value)
            if step % _REPORT_EVERY_STEPS == 0 or done == total:
                shown = "  ".join(f"{name} {sum(v) / len(v):.3f}" for name, v in means.items())
                means.clear()
                minutes = (time.monotonic() - begin) / 60
                progress = f"{100 * done // total} % in {minutes:.1f} min"
                print(f"stage {number} step {step}  {progress}  {shown}", flush=True)


def train_stage(
    model: LlamaForCausalLM, tokenizer: Tokenizer, text: str, stage: Stage, seed: str
) -> Iterator[tuple[Phase, dict[str, float]]]:
    """Trains one stage; yields after every step with its phase and losses."""
    optimizers = _optimizers(model)
    rng = random.Random(seed)
    generator = torch.Generator().manual_seed(rng.getrandbits(63))
    limit = model.config.max_position_embeddings
    step = tokens = 0
    for phase in stage.phases:
        for _ in range(phase.steps):
            batch = make_batch(tokenizer, text, phase, limit, rng)
            loss, shown = _loss(model, batch, stage, generator)
            loss.backward()
            rate = stage.rate_at(step, tokens)
            for optimizer in optimizers:
                for group in optimizer.param_groups:
                    group["lr"] = group["base_rate"] * rate
                optimizer.step()
                optimizer.zero_grad()
            step += 1
            tokens += phase.batch * phase.length
            yield phase, shown


def _loss(
    model: LlamaForCausalLM, batch: Batch, stage: Stage, generator: torch.Generator
) -> tuple[torch.Tensor, dict[str, float]]:
    """The loss to minimise, and its parts by name."""
    sequences, length = batch.tokens.shape
    stretch = model.config.max_position_embeddings / length
    dilution = draw_dilution(sequences, stage.dilution * stretch, generator)
    mask = diluted_causal_mask(batch.salient, dilution)
    with torch.autocast("cpu", torch.bfloat16):
        logits, attention = forward(model, batch.tokens, batch.positions, mask)

    per_token = F.cross_entropy(logits.float().mT, batch.targets, reduction="none")
    offset = offset_loss(attention, batch.positions, stage.offset_margin, generator)
    loss = (per_token * batch.weights).mean() + stage.offset_weight * offset
    shown = {"offset": offset.item()}
    recall = recall_loss(attention, batch.sources, math.log(max(1.0, stretch)), generator)
    if recall is not None:
        loss = loss + RECALL_WEIGHT * recall
        shown["recall"] = recall.item()
    for weight, name in _WEIGHT_NAMES:
        chosen = per_token[batch.weights == weight]
        if len(chosen):
            shown[name] = chosen.mean().item()
    return loss, shown


def _optimizers(model: LlamaForCausalLM) -> list[torch.optim.Optimizer]:
    """Muon for the matrices of the layers, AdamW for embeddings and norms."""
    attention = model.model.layers[0].self_attn
    offset_heads = [attention.q_proj.weight, attention.k_proj.weight]
    slow = {id(parameter) for parameter in offset_heads}
    matrices = [
        parameter
        for parameter in model.model.layers.parameters()
        if parameter.dim() == 2 and id(parameter) not in slow
    ]
    of_muon = slow | {id(parameter) for parameter in matrices}
    others = [parameter for parameter in model.parameters() if id(parameter) not in of_muon]
    muon = torch.optim.Muon(
        [
            {"params": matrices, "base_rate": MATRIX_RATE},
            {"params": offset_heads, "base_rate": MATRIX_RATE * OFFSET_HEAD_RATE_FACTOR},
        ],
        lr=MATRIX_RATE,
        weight_decay=0.02,
        adjust_lr_fn="original",
    )
    adamw = torch.optim.AdamW(
        [{"params": others, "base_rate": VECTOR_RATE}],
        lr=VECTOR_RATE,
        betas=(0.9, 0.95),
        weight_decay=0.0,
    )
    return [muon, adamw]
