from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from calibench.backbones import GlobalPoolingCNN
from calibench.messages.errors import UsageError
from calibench.tensors.scores import TokenInputs


def network(**options) -> GlobalPoolingCNN:
    torch.manual_seed(1)
    options = {"num_classes": 20, "vocab_size": 50, "embedding_dim": 100, **options}
    return GlobalPoolingCNN(**options).eval()


def texts(lengths: list[int], width: int) -> torch.Tensor:
    rows = [torch.randint(1, 50, (n,)) for n in lengths]
    return torch.stack([F.pad(row, (width - len(row), 0)) for row in rows])


def test_published_number_of_parameters() -> None:
    """247,316 without the embedding: counted on the public code of MMCE and MbLS."""
    counts = {name: p.numel() for name, p in network().named_parameters()}
    assert counts.pop("embedding.weight") == 50 * 100
    assert sum(counts.values()) == 247_316


def test_the_layers_are_the_published_ones() -> None:
    """Written again with one-dimensional layers, as the public code of MbLS has them."""
    net, tokens = network(), texts([30, 60], 80)
    first, _, _, second, _, _, third, _ = net.features
    rows = net.embedding(tokens).transpose(1, 2)
    for layer in (first, second):
        rows = F.relu(F.conv1d(rows, layer.weight.squeeze(2), layer.bias))
        rows = F.max_pool1d(rows, 5, stride=1)
    rows = F.relu(F.conv1d(rows, third.weight.squeeze(2), third.bias))
    pooled = F.max_pool1d(rows, rows.shape[2]).squeeze(2)
    expected = net.fc(F.relu(net.hidden(pooled)))
    torch.testing.assert_close(net(tokens), expected, rtol=1e-4, atol=1e-6)


def test_padding_beyond_the_receptive_field_changes_nothing() -> None:
    net, lengths = network(), [0, 1, 3, 20, 21, 64, 100]
    full = texts(lengths, 1000)
    bucket = full[:, -(max(lengths) + net.receptive_field) :]
    torch.testing.assert_close(net(bucket), net(full), rtol=0, atol=1e-6)


def test_less_padding_than_the_receptive_field_may_change_logits() -> None:
    net = network()
    full = texts([30], 1000)
    assert (net(full[:, -30:]) - net(full)).abs().max() > 1e-4


def test_the_receptive_field_is_what_the_last_convolution_sees() -> None:
    net = network()
    out = net.features(torch.randn(1, 100, 1, 61))
    assert out.shape[3] == 61 - net.receptive_field + 1
    seen = torch.zeros(61, dtype=torch.bool)
    for _ in range(20):  # a maximum hides positions; other inputs show them
        vectors = torch.randn(1, 100, 1, 61, requires_grad=True)
        (gradient,) = torch.autograd.grad(net.features(vectors)[..., 20].sum(), vectors)
        seen |= gradient.abs().sum((0, 1, 2)) > 0
    positions = seen.nonzero().squeeze(1)
    assert (int(positions[0]), int(positions[-1])) == (20, 20 + net.receptive_field - 1)


def test_a_short_text_is_padded_to_the_receptive_field() -> None:
    net, row = network(), texts([3], 3)
    assert torch.equal(net(row), net(F.pad(row, (18, 0))))


def test_word_vectors_give_the_logits_of_the_embedding_they_come_from() -> None:
    trained, tokens = network(), texts([5, 30], 60)
    frozen = network(vocab_size=None)
    state = {k: v for k, v in trained.state_dict().items() if not k.startswith("embedding")}
    frozen.load_state_dict(state)
    assert torch.equal(frozen(trained.embedding(tokens)), trained(tokens))


def test_the_paddings_vector_is_zero_and_stays_so() -> None:
    net, tokens = network().train(), texts([5, 30], 60)
    optimizer = torch.optim.Adam(net.parameters(), lr=0.1)
    net(tokens).square().sum().backward()
    optimizer.step()
    assert not net.embedding.weight[0].any()
    assert net.embedding.weight.grad.abs().sum() > 0


def test_the_wrong_kind_of_inputs_says_what_to_change() -> None:
    with pytest.raises(UsageError, match="`vocab_size` is None: inputs must be word vectors"):
        network(vocab_size=None)(texts([5], 30))
    with pytest.raises(UsageError, match="set `vocab_size` to None"):
        network()(torch.randn(2, 30, 100))


def test_the_embedding_starts_at_the_data_modules_vectors() -> None:
    net, vectors = network(vocab_size=6, embedding_dim=2), torch.zeros(5, 2)
    random = net.embedding.weight.detach().clone()
    vectors[1], vectors[3] = torch.tensor([1.0, 0.0]), torch.tensor([2.0, 3.0])
    net.on_tokens(TokenInputs(5, vectors))
    assert torch.equal(net.embedding.weight[[1, 3]], vectors[[1, 3]])
    assert torch.equal(net.embedding.weight[[0, 2, 4, 5]], random[[0, 2, 4, 5]])
    assert net.embedding.weight.requires_grad


@pytest.mark.parametrize(
    ("options", "tokens", "message"),
    [
        ({}, TokenInputs(51), "`vocab_size` is 50, the data module's 51: it must not be smaller"),
        ({"vocab_size": None}, TokenInputs(9), "`vocab_size` is null: give it one of at least 9"),
        ({}, TokenInputs(9, torch.ones(9, 3)), "3 numbers, the backbone's `embedding_dim` is 100"),
    ],
)
def test_tokens_that_do_not_fit_are_one_line(options, tokens: TokenInputs, message: str) -> None:
    with pytest.raises(UsageError, match=message) as refused:
        network(**options).on_tokens(tokens)
    assert "\n" not in str(refused.value)
    network().on_tokens(TokenInputs(50))


@pytest.mark.parametrize("vocab_size", [50, None])
def test_word_dropout_replaces_words_by_padding_in_training_only(vocab_size: int | None) -> None:
    net = network(vocab_size=vocab_size, word_dropout=0.25)
    vectors = torch.ones(40, 50, 100)
    assert torch.equal(net._drop_words(vectors), vectors)
    kept = net.train()._drop_words(vectors)
    assert set(kept.unique().tolist()) == {0, 1}
    assert torch.equal(kept[..., 0], kept[..., 99])
    assert kept.mean().item() == pytest.approx(0.75, abs=0.03)
    with pytest.raises(ValueError, match="`word_dropout` must lie in"):
        network(word_dropout=1.0)
