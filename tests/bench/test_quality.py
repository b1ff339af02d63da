"""What the quality bench measures answers by, and what it sets beside them."""

from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from transformers import Gemma3ForCausalLM, Gemma3TextConfig, LlamaConfig, LlamaForCausalLM

pytest.importorskip("nearkv.core", exc_type=ImportError)

from bench import quality
from bench.real import captures, reading, tasks
from bench.real.anchors import Anchors, KeptCache
from bench.real.answers import CodedLayer, JudgedAnswer, Layer
from bench.real.caches import CACHES, kivi_2, q4_0, q8_0, turboquant_3
from bench.real.captures import CaptureSource, LayerCapture, Subject, joined
from bench.real.measures import Measures
from bench.real.predictions import REFERENCE, Coded, Kept, Predicted, Predictions
from bench.real.reading import NotAttention, Reading, global_layers
from bench.real.tally import Claims, Tally, rms
from bench.real.tasks import TASKS, Task
from bench.real.texts import CALIBRATION, Text, TextMissing
from nearkv.core import AttendMode, Select
from nearkv.results import Goal

TOKENS = 2304
DEVICE = "model:"


def random(*shape: int, seed: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@pytest.fixture(scope="module")
def capture() -> LayerCapture:
    """Keys that drift from page to page, and queries that are like some of them."""
    drift = random(2, TOKENS // 64, 64, seed=1).repeat_interleave(64, 1)
    keys = (drift + random(2, TOKENS, 64, seed=2)).bfloat16()
    queries = 1.5 * keys[:, ::800].float()[..., None, :] + random(2, 3, 3, 64, seed=3)
    return LayerCapture(
        layer=7,
        keys=keys,
        values=random(2, TOKENS, 64, seed=4).bfloat16(),
        queries=queries.transpose(0, 1).bfloat16().contiguous(),
        positions=(2047, 2203, 2303),
        scale=0.125,
        gains=torch.zeros(2, 64, dtype=torch.int8),
    )


@pytest.fixture(scope="module")
def layer(capture: LayerCapture) -> Layer:
    return Layer(capture)


def test_exact_attention_sees_the_tokens_up_to_the_query_s_own(capture, layer):
    query = layer.query(1)
    assert query.tokens == 2204
    exact = query.exact
    keys, values = capture.keys[1, :2204].double(), capture.values[1, :2204].double()
    weights = (keys @ query.rows[1, 2].double() * 0.125).softmax(0)
    assert torch.allclose(exact[1, 2], weights @ values, rtol=1e-12)
    assert layer.errors(query, exact).tolist() == [0] * 6
    assert layer.errors(query, 1.25 * exact) == pytest.approx([0.25] * 6)


def test_attention_by_codes_reads_less_and_keeps_its_error(layer):
    coded = CodedLayer(layer, DEVICE)
    query = layer.query(2)
    answers = {error: coded.attend(query, AttendMode.BOUNDED, error=error) for error in (0.05, 0.1)}
    for error, answer in answers.items():
        assert answer.errors.shape == answer.bound.shape == (6,)
        assert answer.errors.max() < answer.bound.max() <= error
        assert not answer.is_dense
    assert answers[0.1].share < answers[0.05].share < 1
    assert coded.attend(query, AttendMode.DENSE).errors.max() < 1e-4


def test_a_search_is_judged_by_its_ids_and_its_bytes_of_keys(layer, monkeypatch):
    coded = CodedLayer(layer, DEVICE)
    share, equal = coded.search(layer.query(2), 64, 96)
    assert equal == 6
    assert 0.1 < share < 1
    top = coded._top

    def another(*asked, mode, **how):
        ids, near = top(*asked, mode=mode, **how)
        return (ids if mode == Select.FULL else [[*ids[0][1:], TOKENS], *ids[1:]]), near

    monkeypatch.setattr(coded, "_top", another)
    assert coded.search(layer.query(2), 64, 96)[1] == 4


@pytest.mark.parametrize(
    "choose",
    [
        lambda anchors, query: anchors.top_k(query, query.tokens),
        lambda anchors, query: anchors.quest(query, 1.0),
        lambda anchors, query: anchors.vattention(query, 0.0, 1.0),
    ],
)
def test_a_way_to_choose_that_takes_all_tokens_is_exact(layer, choose):
    assert choose(Anchors(layer), layer.query(1)).errors.max() < 1e-5


def test_pages_without_their_best_tokens_have_the_means_of_the_others(capture):
    keys, values = capture.keys.clone(), capture.values.clone()
    keys[:], values[:] = keys[:, :1], values[:, :1]
    same = Layer(LayerCapture(**vars(capture) | {"keys": keys, "values": values}))
    assert Anchors(same).top_k(same.query(1), 8).errors.max() < 1e-5


def test_bytes_of_chosen_tokens_are_the_union_over_a_group(layer):
    query = layer.query(2)
    alike = layer.query_of(query.rows[:, :1].expand(-1, 3, -1), query.tokens)
    pages = round(0.05 * query.tokens / 16)
    least_and_most = 1 / 16
    share = Anchors(layer).quest(alike, 0.05).share
    assert share == pytest.approx(16 * pages / query.tokens + least_and_most)
    assert Anchors(layer).quest(query, 0.05).share > share


def test_samples_are_as_many_as_the_denominator_asks_for(capture, layer):
    """Equal scores need the first sample alone; uneven ones more."""
    query = layer.query(2)
    none = layer.query_of(0 * query.rows, query.tokens)
    assert Anchors(layer).vattention(none, 0.0, 0.01).share < 0.15
    assert Anchors(layer).vattention(query, 0.0, 0.01).share > 0.3


def test_blocks_are_ggml_s(layer):
    rows = torch.zeros(2, 64)
    rows[0, :32] = torch.arange(-16, 16) / 16
    rows[1, 40] = -8
    assert torch.equal(q8_0(torch.zeros(2, 64)), torch.zeros(2, 64))
    assert (q8_0(rows) - rows).abs().max() <= 0.5 / 127 + 1e-3
    # The largest magnitude, -1, is cell 0 of 16, so a step is 1/8 and 7 steps are the most.
    cells = (torch.arange(-16, 16) / 2 + 0.5).floor().clamp(max=7)
    assert torch.equal(q4_0(rows)[0, :32], cells / 8)
    assert q4_0(rows)[1, 40] == -8
    names = "q8_0", "q4_0"
    errors = [KeptCache(layer, name).attend(layer.query(2)).errors.max() for name in names]
    assert 0 < errors[0] < 0.02 < errors[1] < 0.5


def test_two_bits_are_between_a_group_s_extremes_and_the_last_tokens_stay():
    tokens = 64 + 128
    keys, values = random(1, tokens, 64, seed=5), random(1, tokens, 64, seed=6)
    kept_keys, kept_values = kivi_2(keys, values)
    assert torch.equal(kept_keys[:, 64:], keys[:, 64:])
    assert torch.equal(kept_values[:, 64:], values[:, 64:])
    # A third of the distance from a group's least to its greatest, and rounding of these to fp16.
    for kept, rows, axis in ((kept_keys, keys, 1), (kept_values, values, 2)):
        some, own = kept[:, :32, :32], rows[:, :32, :32]
        step = (own.amax(axis, keepdim=True) - own.amin(axis, keepdim=True)) / 3
        assert ((some - own).abs() <= 0.51 * step + 0.01).all()
        assert all(column.unique().numel() <= 4 for column in some[0].movedim(axis - 1, 0).T)


def test_rotated_rows_keep_their_length_and_nearly_all_of_their_direction():
    rows = random(1, 512, 128, seed=7)
    rows[:, :, 3] *= 50  # An outlier's channel, which the rotation spreads.
    kept = turboquant_3(rows)
    shares = (kept - rows).norm(dim=-1) / rows.norm(dim=-1)
    assert 0.1 < shares.mean() < 0.25  # Of a normal distribution, 8 levels leave .0345 squared.
    assert not turboquant_3(0 * rows).any()


def test_a_cache_s_bits_are_told_with_those_of_its_scales():
    told = {name: cache.bits(64) for name, cache in CACHES.items()}
    assert told == {"q8_0": 8.5, "q4_0": 4.5, "kivi_2": 3, "turboquant_3": 3.25}
    assert CACHES["turboquant_3"].share(128) == 3.125 / 16


def test_layers_joined_score_as_both_do(capture):
    both = joined([capture, capture, capture])
    assert [each.keys.shape[-1] for each in both] == [128]
    alone, twice = Layer(capture).query(1), Layer(both[0]).query(1)
    again = Layer(LayerCapture(**vars(capture) | {"scale": capture.scale * 2**0.5})).query(1)
    assert torch.allclose(twice.exact[..., :64], again.exact)
    assert not torch.allclose(twice.exact[..., :64], alone.exact)


def test_tallies_count_pairs_and_claims_leave_dense_answers_out():
    tally, claims = Tally(), Claims()
    bound = torch.tensor([0.1, 0.1]).numpy()
    answer = JudgedAnswer(torch.tensor([0.05, 0.25]).numpy(), 0.5, bound)
    dense = JudgedAnswer(torch.tensor([0.0, 0.0]).numpy(), 1.0, 0 * bound, is_dense=True)
    for each in answer, dense:
        tally.add(3, each)
        claims.add(3, 4096, True, each)
    claims.add(3, 2048, False, answer)
    assert tally.summary()["pairs"] == 4
    assert (tally.bytes, tally.beyond(0.1), tally.beyond(0.3)) == (0.75, 1, 0)
    assert set(claims.by_layer) == {3}
    assert set(claims.by_length) == {4096, 2048}
    assert rms(claims.by_layer[3]) == pytest.approx((0.5 * (0.5**2 + 2.5**2)) ** 0.5)


def llama() -> LlamaForCausalLM:
    torch.manual_seed(5)
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=97,
            hidden_size=96,
            intermediate_size=64,
            num_hidden_layers=2,
            num_attention_heads=6,
            num_key_value_heads=2,
            head_dim=64,
        )
    ).eval()


def gemma3() -> Gemma3ForCausalLM:
    torch.manual_seed(6)
    return Gemma3ForCausalLM(
        Gemma3TextConfig(
            vocab_size=97,
            hidden_size=96,
            intermediate_size=64,
            num_hidden_layers=3,
            num_attention_heads=4,
            num_key_value_heads=1,
            head_dim=64,
            query_pre_attn_scalar=64,
            sliding_window=100,
            layer_types=["sliding_attention", "full_attention", "sliding_attention"],
        )
    ).eval()


class Letters:
    """A tokenizer: a token for each character."""

    def __call__(self, text: str, **_: object):
        ids = torch.tensor([[ord(character) % 97 for character in text]])
        return type("Tokens", (), {"input_ids": ids})


def text_of(*parts: str, name: str = "some", has_needle: bool = False) -> Text:
    return Text(name, lambda: iter(parts), "a package", has_needle)


WORDS = "".join(f"{number * number} words, " for number in range(400))


@pytest.mark.parametrize("make", [llama, gemma3])
def test_reading_in_chunks_sees_what_reading_at_once_does(make, monkeypatch):
    model, ids = make(), torch.arange(700) % 97
    layers = global_layers(model.config)
    assert layers == ([0, 1] if make is llama else [1])
    seen = []
    for chunk in (256, 1024):
        monkeypatch.setattr(reading, "_CHUNK_TOKENS", chunk)
        read = Reading(model, layers)
        read.read(ids, lambda _: None)
        assert read.scales == dict.fromkeys(layers, 64**-0.5)
        seen.append([(read.queries(layer), *read.rows(layer)) for layer in layers])
    for chunked, whole in zip(*seen, strict=True):
        for rows, expected in zip(chunked, whole, strict=True):
            assert rows.dtype == torch.bfloat16
            assert rows.shape[1] == 700
            assert (rows - expected).float().norm() < 1e-2 * expected.float().norm()


def test_a_layer_that_does_not_attend_to_what_was_seen_is_noticed(monkeypatch):
    def unmasked(module, query, key, value, mask, **options):
        return 1.1 * attend(module, query, key, value, mask, **options)[0], None

    attend = reading.sdpa_attention_forward
    monkeypatch.setattr(reading, "sdpa_attention_forward", unmasked)
    with pytest.raises(NotAttention):
        Reading(llama(), [0]).read(torch.arange(64), lambda _: None)


def test_a_needle_is_in_the_text_and_asked_for_at_its_end():
    tokens = text_of(WORDS, has_needle=True).tokens(Letters(), 2000)
    written = "".join(chr(32 + (token - 32) % 97) for token in tokens.tolist())
    assert tokens.shape == (2000,)
    assert written.endswith("in Lisbon is")
    assert 0.3 < written.index("731946") / 2000 < 0.45
    assert torch.equal(text_of(WORDS).tokens(Letters(), 50), Letters()(WORDS).input_ids[0, :50])


def test_a_task_hides_its_parts_and_ends_with_the_answer(monkeypatch):
    def written(text: str) -> bytes:
        return bytes(Letters()(text).input_ids[0].tolist())

    monkeypatch.setattr(tasks, "_HAYSTACK", text_of(WORDS, name="around"))
    for task in TASKS:
        tokens, answered = task.tokens(Letters(), 2000)
        whole = bytes(tokens.tolist())
        assert len(whole) == 2000
        assert whole.endswith(written(task.question + task.answer))
        assert answered == len(task.answer)
        begin = 0
        for depth, part in task.hidden:
            place = whole.index(written(part), begin)
            assert place / 2000 == pytest.approx(depth, abs=0.15)
            begin = place + len(part)
        assert task.answer.strip() in "".join(part for _, part in task.hidden)


def test_a_text_that_is_missing_or_short_names_its_package():
    def missing():
        yield Path("/nowhere/text").read_text()

    with pytest.raises(TextMissing, match="a package"):
        Text("missing", missing, "a package").tokens(Letters(), 5)
    with pytest.raises(TextMissing, match=r"3 of 5 tokens.*a package"):
        text_of("abc").tokens(Letters(), 5)


@pytest.fixture
def source(tmp_path, monkeypatch):
    """A small model and its captures, in a cache of their own; `said` is its progress."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(captures, "load_model", lambda *_: (llama(), None))
    monkeypatch.setattr(captures.AutoTokenizer, "from_pretrained", lambda *_, **__: Letters())
    llama().config.save_pretrained(tmp_path / "small")
    monkeypatch.setattr(captures, "CALIBRATION", text_of(WORDS[100:], name=CALIBRATION.name))

    def make(positions: int = 4):
        subject = Subject("small", (2112, 2304), positions)
        return CaptureSource(subject, tmp_path / "small", said.append)

    said: list[str] = []
    make.said = said
    return make


def test_a_text_is_read_once(source):
    text = text_of(WORDS)
    first = source().layers_of(text)
    assert [said for said in source.said if "reading" in said] == [
        "small_2k: reading man_bash, once",
        "small_2k: reading some, once",
    ]
    source.said.clear()
    again = source().layers_of(text)
    assert source.said == []
    for one, other in zip(first, again, strict=True):
        assert torch.equal(one.keys, other.keys)
        assert torch.equal(one.gains, other.gains)
    assert [layer.layer for layer in again] == [0, 1]
    assert again[0].queries.shape == (8, 2, 3, 64)
    assert again[0].positions == tuple(
        position for length in (2112, 2304) for position in source().subject.positions_of(length)
    )
    source(positions=5).layers_of(text)
    assert any("reading some" in said for said in source.said)
    assert not any("reading man_bash" in said for said in source.said)


def test_an_interrupted_capture_leaves_nothing(source, monkeypatch):
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(captures, "save_file", interrupted)
    with pytest.raises(KeyboardInterrupt):
        source().layers_of(text_of(WORDS))
    assert list(captures.captures_folder().iterdir()) == []


def test_measures_hold_the_device_beside_the_others(source):
    measures = Measures(source().subject)
    (capture, _) = source().layers_of(text_of(WORDS))
    measures.measure(capture, DEVICE, 2, lambda _: None)
    positions = measures.subject.positions
    assert measures.searched == measures.found == positions * 6
    assert set(measures.methods) >= {"error_10", "error_05", "tail_64", "quest_5", "q8_0"}
    of_device = {"error_10", "error_05", "tail_64"}
    for name, tally in measures.methods.items():
        assert tally.errors.size == 6 * (positions if name in of_device else 2)
    assert measures.methods["error_05"].beyond(0.1) == 0
    assert set(measures.claims["error_10"].by_length) == {2112, 2304}


def test_predictions_differ_by_what_is_replaced(source):
    gains = source().gains
    ways = {
        REFERENCE: Kept(REFERENCE),
        "q8_0": Kept("q8_0"),
        "q4_0": Kept("q4_0"),
        "error_05": Coded(DEVICE, gains, AttendMode.BOUNDED, error=0.05),
        "dense": Coded(DEVICE, gains, AttendMode.DENSE),
    }
    predictions = Predictions(source(), 6, ways)
    predictions.predict(text_of(WORDS), lambda _: None)
    told = predictions.predicted
    apart = {name: max(way.divergences) for name, way in told.items()}
    assert apart[REFERENCE] == 0
    assert apart["dense"] < apart["q8_0"] < apart["q4_0"]
    assert apart["dense"] < apart["error_05"]
    assert [len(told["q8_0"].divergences), len(told["q8_0"].losses)] == [6, 5]
    assert 0 < told["error_05"].bytes[0] < told["dense"].bytes[0]


def test_an_answer_is_right_if_each_of_its_tokens_is_the_likeliest(source, monkeypatch):
    monkeypatch.setattr(tasks, "_HAYSTACK", text_of(WORDS))
    predictions = Predictions(source(), 6, {REFERENCE: Kept(REFERENCE)})
    ids, _ = Task("some", (), "ends", "?").tokens(Letters(), 1000)
    with torch.inference_mode():
        likeliest = int(llama().float()(ids[None, :-1]).logits[0, -1].argmax())
    for answer, is_right in ((likeliest, True), ((likeliest + 1) % 97, False)):
        given = Task("some", (), "ends", chr(answer))
        predictions.ask(given, 1000, lambda _: None)
        assert predictions.predicted[REFERENCE].answers["some"][-1] == is_right


def test_a_task_that_exact_attention_does_half_of_is_a_goal():
    predictions = SimpleNamespace(predicted={REFERENCE: Predicted(), "error_10": Predicted()})
    for kind, right in (("easy", 3), ("hard", 1), ("hopeless", 0)):
        for way in predictions.predicted.values():
            way.answers[kind] = [place < right for place in range(4)]
    told = {
        result.name: result
        for result in quality._answered(
            SimpleNamespace(device=DEVICE), Subject("small", (2048,), 1), 1024, predictions
        )
    }
    assert told["quality/small_1k/task_easy/error_10"].goal == Goal(">=", 0.75)
    assert told["quality/small_1k/task_easy/bf16"].goal is None
    assert told["quality/small_1k/task_hard/error_10"].goal is None
    assert told["quality/small_1k/task_hard/error_10"].ratio == 1
    assert told["quality/small_1k/task_hopeless/error_10"].value == 0
