"""subquad.capture: the attention of transformers' models as case folders."""

import numpy as np
import pytest

import subquad
from subquad._capture import options_of

N_Q, N_K = 12, 12


def pairs(sees, n_q=N_Q, n_k=N_K):
    """Returns the mask [1, 1, n_q, n_k] of a rule for the offset of a key from a query."""
    return sees(np.arange(n_k) - (np.arange(n_q)[:, None] + n_k - n_q))[None, None]


def test_masks_that_parameters_can_say():
    everything = pairs(lambda ahead: ahead > -99)
    assert options_of(everything, None, (N_Q, N_K)) == {}
    causal = pairs(lambda ahead: ahead <= 0)
    assert options_of(causal, None, (N_Q, N_K)) == {"causal": True}
    # A window that is longer than the sequence hides nothing.
    assert options_of(causal, 99, (N_Q, N_K)) == {"causal": True}
    window = pairs(lambda ahead: (ahead <= 0) & (ahead > -5))
    assert options_of(window, 5, (N_Q, N_K)) == {"causal": True, "window_left": 4}
    both = pairs(lambda ahead: abs(ahead) < 5)
    assert options_of(both, 5, (N_Q, N_K)) == {"window_left": 4, "window_right": 4}


def test_positions_of_a_cache():
    chunk = pairs(lambda ahead: ahead <= 0, 4)
    assert options_of(chunk, None, (4, N_K)) == {"causal": True, "query_offset": N_K - 4}
    token = pairs(lambda ahead: (ahead <= 0) & (ahead > -5), 1)
    options = options_of(token, 5, (1, N_K))
    # The window hides the first keys from the only query, as a mask of keys does.
    assert set(options) == {"mask"} and np.array_equal(options["mask"], token)


def test_padding_becomes_a_mask_of_keys():
    padding = np.ones((2, 1, 1, N_K), dtype=bool)
    padding[1, ..., :3] = False
    for rule, params in ((lambda ahead: ahead <= 0, {"causal": True}), (lambda ahead: ahead > -99, {})):
        options = options_of(pairs(rule) & padding, None, (N_Q, N_K))
        assert np.array_equal(options.pop("mask"), padding) and options == params


def test_other_masks_stay_as_they_are():
    other = np.random.default_rng(1).random((2, 3, N_Q, N_K)) < 0.5
    options = options_of(other, 5, (N_Q, N_K))
    assert set(options) == {"mask"} and np.array_equal(options["mask"], other)


SMALL = {
    "vocab_size": 100,
    "hidden_size": 64,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
}


@pytest.fixture(name="models")
def transformers_models():
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    torch.manual_seed(1)
    return pytest.importorskip("transformers", reason="transformers is not installed")


def captured(folder, model, **options):
    """Captures two texts of 40 tokens, the second one padded after 30. Returns the cases by the name of their folder."""
    import torch  # pylint: disable=import-outside-toplevel

    tokens = torch.randint(0, 100, (2, 40))
    attention_mask = torch.ones(2, 40, dtype=torch.long)
    attention_mask[1, 30:] = 0
    before = model.config._attn_implementation
    with subquad.capture(folder, model.eval(), **options) as folders, torch.no_grad():
        model(input_ids=tokens, attention_mask=attention_mask)
    assert model.config._attn_implementation == before
    return {name.rsplit("/", 1)[-1]: subquad.load_case(name) for name in folders}


def result_of(case):
    return subquad.check(case.operator, case.expected["out"], **case.params, **case.inputs)


def test_windows_and_softcaps_of_gemma(models, tmp_path):
    config = models.Gemma2Config(**SMALL, sliding_window=12, attn_logit_softcapping=2.0, query_pre_attn_scalar=16)
    cases = captured(tmp_path / "cases", models.Gemma2Model(config))
    sliding, full = cases["layers.0.self_attn"], cases["layers.1.self_attn"]
    assert sliding.params == {"causal": True, "scale": 0.25, "softcap": 2.0, "window_left": 11}
    assert full.params == {"causal": True, "scale": 0.25, "softcap": 2.0}
    assert sliding.inputs["mask"].shape == (2, 1, 1, 40) and sliding.inputs["k"].shape == (2, 2, 40, 16)
    for case in (sliding, full):
        assert result_of(case).passed
        case.params["softcap"] = 2.2
        assert not result_of(case).passed


def test_sinks_of_gpt_oss(models, tmp_path):
    config = models.GptOssConfig(**SMALL, sliding_window=20, num_local_experts=2, num_experts_per_tok=1)
    model = models.GptOssModel(config)
    for layer in model.layers:
        layer.self_attn.sinks.data.fill_(0.5)
    cases = captured(tmp_path / "cases", model, layers=[1])
    assert list(cases) == ["layers.1.self_attn"]
    case = cases["layers.1.self_attn"]
    assert case.inputs["sinks"].tolist() == [0.5] * 4
    assert result_of(case).passed
    case.inputs["sinks"] = case.inputs["sinks"] + np.float32(0.01)
    assert not result_of(case).passed


def test_biases_of_t5_and_padding(models, tmp_path):
    config = models.T5Config(vocab_size=100, d_model=64, d_kv=16, num_heads=4, d_ff=64, num_layers=1)
    (case,) = captured(tmp_path / "cases", models.T5EncoderModel(config)).values()
    assert case.params == {"scale": 1.0}
    assert case.inputs["pair_bias"].shape == (1, 4, 40, 40) and case.inputs["mask"].shape == (2, 1, 1, 40)
    assert result_of(case).passed


def test_rows_that_see_nothing_are_named(models, tmp_path):
    import torch  # pylint: disable=import-outside-toplevel

    model = models.MistralModel(models.MistralConfig(**SMALL, sliding_window=10)).eval()
    attention_mask = torch.ones(1, 40, dtype=torch.long)
    attention_mask[0, :7] = 0  # before the text
    with subquad.capture(tmp_path / "cases", model, layers=[0]) as folders, torch.no_grad():
        model(input_ids=torch.randint(0, 100, (1, 40)), attention_mask=attention_mask)
    result = result_of(subquad.load_case(folders[0]))
    assert result.verdict == "failed" and "rows that see no key averaged" in str(result)


def test_calls_and_refusals(models, tmp_path):
    import torch  # pylint: disable=import-outside-toplevel

    model = models.MistralModel(models.MistralConfig(**SMALL)).eval()
    tokens = torch.randint(0, 100, (1, 9))
    with subquad.capture(tmp_path / "cases", model, layers=[0]) as folders, torch.no_grad():
        model(input_ids=tokens)
        model(input_ids=tokens)
    assert [name.rsplit("/", 1)[-1] for name in folders] == ["layers.0.self_attn", "layers.0.self_attn-call2"]
    with pytest.raises(ValueError, match="folder: expected a new or empty folder"):
        with subquad.capture(tmp_path / "cases", model):
            pass
    with pytest.raises(ValueError, match=r"layers: expected indices among \[0, 1\], found 2"):
        with subquad.capture(tmp_path / "others", model, layers=[2]):
            pass
    with pytest.raises(ValueError, match="model: expected a model of transformers, found Linear"):
        with subquad.capture(tmp_path / "others", torch.nn.Linear(1, 1)):
            pass
    assert not (tmp_path / "others").exists()
    model.config.attention_dropout = 0.5
    for layer in model.layers:
        layer.self_attn.attention_dropout = 0.5
    with pytest.raises(ValueError, match="without dropout"):
        with subquad.capture(tmp_path / "others", model.train()):
            model(input_ids=tokens)
    model.eval()(input_ids=tokens)  # works as before, and writes nothing
    assert not list((tmp_path / "others").iterdir())
