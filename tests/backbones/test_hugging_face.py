from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

from calibench.backbones import HuggingFaceBackbone
from calibench.messages.errors import UsageError
from calibench.tensors.scores import TokenInputs


@pytest.fixture
def tiny_bert(tmp_path: Path) -> Path:
    transformers = pytest.importorskip("transformers")
    config = transformers.BertConfig(
        vocab_size=30, hidden_size=16, num_hidden_layers=2, num_attention_heads=2,
        intermediate_size=32, max_position_embeddings=24, pad_token_id=4,
    )  # fmt: skip
    config.save_pretrained(tmp_path)
    return tmp_path


def build(folder: Path, **options) -> HuggingFaceBackbone:
    torch.manual_seed(0)
    return HuggingFaceBackbone(num_classes=5, name=str(folder), pretrained=False, **options).eval()


def test_a_random_tiny_bert(tiny_bert: Path) -> None:
    network = build(tiny_bert)
    inputs = torch.tensor([[0, 0, 3, 7, 9], [1, 2, 3, 4, 5], [0, 0, 0, 0, 0]])
    logits = network(inputs)
    assert logits.shape == (3, 5)
    assert network(inputs[:0]).shape == (0, 5)
    network.train()(inputs).square().sum().backward()
    assert all(p.grad is not None for p in network.parameters())


def test_the_model_sees_its_own_tokens_from_the_first_position_on(tiny_bert: Path) -> None:
    network = build(tiny_bert)
    alone = network.network(input_ids=torch.tensor([[2, 6, 8]])).logits
    padded = network(torch.tensor([[0, 0, 3, 7, 9], [1, 2, 3, 4, 5]]))[:1]
    torch.testing.assert_close(padded, alone)
    tokens, mask = network._left_aligned(torch.tensor([[0, 0, 3, 7, 9]]))
    assert tokens.tolist() == [[2, 6, 8, 4, 4]]
    assert mask.tolist() == [[1, 1, 1, 0, 0]]


def test_saved_weights_are_loaded_and_another_head_is_replaced(tiny_bert: Path) -> None:
    saved = build(tiny_bert)
    saved.network.save_pretrained(tiny_bert)
    loaded = HuggingFaceBackbone(num_classes=5, name=str(tiny_bert)).eval()
    inputs = torch.tensor([[0, 3, 7]])
    torch.testing.assert_close(loaded(inputs), saved(inputs))
    assert HuggingFaceBackbone(num_classes=3, name=str(tiny_bert))(inputs).shape == (1, 3)
    saved.on_tokens(TokenInputs(31, are_words=True))  # which a network without weights may learn
    with pytest.raises(UsageError, match="texts are cut into words"):
        loaded.on_tokens(TokenInputs(31, are_words=True))


def test_what_is_loaded_is_no_report_but_a_warning_if_weights_are_missing(
    tiny_bert: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.BertConfig.from_pretrained(tiny_bert)
    transformers.BertModel(config).save_pretrained(tiny_bert)
    HuggingFaceBackbone(num_classes=5, name=str(tiny_bert))
    assert "REPORT" not in capfd.readouterr().err
    transformers.BertModel(config, add_pooling_layer=False).save_pretrained(tiny_bert)
    missing = "no weights of bert.pooler.dense.bias, bert.pooler.dense.weight: they start at random"
    with pytest.warns(UserWarning, match=missing):
        HuggingFaceBackbone(num_classes=5, name=str(tiny_bert))


def test_options_change_the_configuration(tiny_bert: Path) -> None:
    assert build(tiny_bert, options={"num_hidden_layers": 1}).network.config.num_hidden_layers == 1


def test_a_tokenizer_of_another_model_is_one_line(tiny_bert: Path) -> None:
    network = build(tiny_bert)
    network.on_tokens(TokenInputs(31))  # 30 tokens and padding
    with pytest.raises(UsageError, match="has 31 tokens, the model knows 30"):
        network.on_tokens(TokenInputs(32))


def test_an_unknown_model_is_one_line(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    with pytest.raises(ValueError, match="cannot be had") as refused:
        HuggingFaceBackbone(num_classes=2, name=str(tmp_path / "nowhere"), pretrained=False)
    assert "\n" not in str(refused.value)


def test_without_the_library_the_message_says_what_to_install(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(ValueError, match=r"pip install 'calibench-suite\[text\]'"):
        HuggingFaceBackbone(num_classes=2, name="anything")
