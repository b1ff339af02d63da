"""Byte-level BPE tokenizer: any UTF-8 text survives a round trip, and every digit is one token."""

import json
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

VOCAB_SIZE = 2048
# Their token ids are 0, 1 and 2.
SPECIAL_TOKENS = {"bos_token": "<|bos|>", "eos_token": "<|eos|>", "pad_token": "<|pad|>"}

# The merges settle on far less text than the corpus: pieces spread evenly over it are enough.
_SAMPLE_PIECES = 160
_SAMPLE_PIECE_CHARS = 40_000


def train(text: str) -> Tokenizer:
    """Learns the merges from evenly spread pieces of `text`."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCAB_SIZE,
        special_tokens=list(SPECIAL_TOKENS.values()),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    stride = max(len(text) // _SAMPLE_PIECES, _SAMPLE_PIECE_CHARS)
    pieces = (text[i : i + _SAMPLE_PIECE_CHARS] for i in range(0, len(text), stride))
    tokenizer.train_from_iterator(pieces, trainer)
    return tokenizer


def save(tokenizer: Tokenizer, folder: Path, context_tokens: int) -> None:
    """Writes tokenizer.json and tokenizer_config.json as transformers expects them."""
    tokenizer.save(str(folder / "tokenizer.json"))
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        **SPECIAL_TOKENS,
        "clean_up_tokenization_spaces": False,
        "model_max_length": context_tokens,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=2) + "\n")
