"""The training loop: resumable, interruptible, and reproducible from the step number alone."""

import json
import math
import random
import signal
import time
from collections import defaultdict
from pathlib import Path
from types import FrameType

import torch
from tokenizers import Tokenizer

from training.batches import make_batch
from training.initial_weights import initialise
from training.long_context import diluted_causal_mask, draw_dilution
from training.losses import offset_loss, recall_loss, token_loss
from training.model import ModelConfig, RecallLlama, rotation
from training.schedule import Schedule
from training.sequences import ANSWER_WEIGHT, COPY_WEIGHT, TEXT_WEIGHT

MATRIX_RATE = 0.02
VECTOR_RATE = 3e-3
# The hand-written offset heads only need small corrections.
OFFSET_HEAD_RATE_FACTOR = 0.2
RECALL_WEIGHT = 0.5

_WEIGHT_NAMES = ((TEXT_WEIGHT, "text"), (COPY_WEIGHT, "copy"), (ANSWER_WEIGHT, "answer"))
_REPORT_EVERY_STEPS = 20
_SAVE_EVERY_STEPS = 200


class Trainer:
    """Model, optimizers and data of one training run."""

    def __init__(
        self,
        config: ModelConfig,
        tokenizer: Tokenizer,
        text: str,
        schedule: Schedule,
        *,
        seed: int = 0,
        compiled: bool = True,
    ) -> None:
        self.config = config
        self.schedule = schedule
        self.step_index = 0
        self.model = RecallLlama(config)
        initialise(self.model, seed)
        self._seed = seed
        self._tokenizer = tokenizer
        self._text = text
        self._forward = torch.compile(self.model, dynamic=False) if compiled else self.model
        self._optimizers = _optimizers(self.model)

    def step(self) -> dict[str, float]:
        """One optimizer step; returns mean losses by kind of token."""
        phase = self.schedule.phase_at(self.step_index)
        rng = random.Random(f"{self._seed}/{self.step_index}")
        generator = torch.Generator().manual_seed(rng.getrandbits(63))
        limit = self.config.max_position_embeddings
        batch = make_batch(self._tokenizer, self._text, phase, limit, rng)

        stretch = limit / phase.length
        mask = None
        if phase.dilution:
            dilution = draw_dilution(phase.batch, phase.dilution * stretch, generator)
            mask = diluted_causal_mask(batch.salient, dilution)
        by = rotation(self.config, batch.positions)
        with torch.autocast("cpu", torch.bfloat16):
            logits, attention = self._forward(batch.tokens[:, :-1], by, mask)

        per_token = token_loss(logits, batch.tokens[:, 1:])
        offset = offset_loss(
            self.config, attention, batch.positions, phase.offset_margin, generator
        )
        recall = recall_loss(self.config, attention, batch.sources, math.log(stretch), generator)
        loss = (per_token * batch.weights).mean() + phase.offset_weight * offset
        metrics = {"offset": offset.item()}
        if recall is not None:
            loss = loss + RECALL_WEIGHT * recall
            metrics["recall"] = recall.item()
        loss.backward()
        self._update()

        for weight, name in _WEIGHT_NAMES:
            chosen = per_token[batch.weights == weight]
            if len(chosen):
                metrics[name] = chosen.mean().item()
        return metrics

    def run(self, folder: Path) -> bool:
        """Trains to the end of the schedule, or until SIGINT; returns whether the end was reached.

        Progress goes to standard output and to `folder`/log.jsonl; the state is saved to
        `folder`/checkpoint.pt now and then and when interrupted.
        """
        folder.mkdir(parents=True, exist_ok=True)
        checkpoint = folder / "checkpoint.pt"
        if checkpoint.exists():
            self.load(checkpoint)
            print(f"resuming at step {self.step_index}", flush=True)
        sums: dict[str, list[float]] = defaultdict(list)
        begin, begin_work = time.monotonic(), self.schedule.work_before(self.step_index)
        with _InterruptFlag() as interrupt, (folder / "log.jsonl").open("a") as log:
            while self.step_index < self.schedule.steps and not interrupt.raised:
                for name, value in self.step().items():
                    sums[name].append(value)
                if self.step_index % _REPORT_EVERY_STEPS == 0:
                    means = {name: round(sum(v) / len(v), 4) for name, v in sorted(sums.items())}
                    sums.clear()
                    log.write(json.dumps({"step": self.step_index, **means}) + "\n")
                    log.flush()
                    print(self._progress(means, begin, begin_work), flush=True)
                if self.step_index % _SAVE_EVERY_STEPS == 0:
                    self.save(checkpoint)
        self.save(checkpoint)
        return self.step_index == self.schedule.steps

    def save(self, path: Path) -> None:
        """Writes the state, replacing the file in one go."""
        partial = path.with_suffix(".partial")
        state = {
            "step": self.step_index,
            "model": self.model.state_dict(),
            "optimizers": [optimizer.state_dict() for optimizer in self._optimizers],
        }
        torch.save(state, partial)
        partial.replace(path)

    def load(self, path: Path) -> None:
        """Restores what `save` wrote."""
        state = torch.load(path, weights_only=True)
        self.step_index = state["step"]
        self.model.load_state_dict(state["model"])
        for optimizer, saved in zip(self._optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(saved)

    def _update(self) -> None:
        rate = self.schedule.rate_at(self.step_index)
        for optimizer in self._optimizers:
            for group in optimizer.param_groups:
                group["lr"] = group["base_rate"] * rate
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        self.step_index += 1

    def _progress(self, means: dict[str, float], begin: float, begin_work: float) -> str:
        phase = self.schedule.phase_at(self.step_index - 1)
        done = self.schedule.work_before(self.step_index)
        total = self.schedule.work_before(self.schedule.steps)
        elapsed = time.monotonic() - begin
        left = elapsed * (total - done) / (done - begin_work)
        losses = " ".join(f"{name} {value:.3f}" for name, value in means.items())
        return (
            f"step {self.step_index}/{self.schedule.steps} length {phase.length}  {losses}  "
            f"elapsed {elapsed / 60:.0f} min, left {left / 60:.0f} min"
        )


class _InterruptFlag:
    """Turns the first SIGINT into a flag, so that a step is never cut in half."""

    def __init__(self) -> None:
        self.raised = False

    def __enter__(self) -> "_InterruptFlag":
        self._previous = signal.signal(signal.SIGINT, self._raise)
        return self

    def __exit__(self, *_: object) -> None:
        signal.signal(signal.SIGINT, self._previous)

    def _raise(self, _number: int, _frame: FrameType | None) -> None:
        print("interrupted: finishing this step, then saving", flush=True)
        self.raised = True
        signal.signal(signal.SIGINT, self._previous)


def _optimizers(model: RecallLlama) -> list[torch.optim.Optimizer]:
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
