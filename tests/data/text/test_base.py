"""What all text data modules do, on 20 Newsgroups' fakes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from lightning.pytorch import Trainer

from calibench.backbones import GlobalPoolingCNN
from calibench.data import NewsgroupsDataModule
from calibench.data.text.corpus import Corpus, split_corpus
from calibench.losses import CrossEntropyLoss
from calibench.training.module import ClassificationModule
from tests.data import fake_texts


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Posts that nobody changes, and what is kept of them."""
    folder = tmp_path_factory.mktemp("posts")
    fake_texts.newsgroups(folder)
    return folder


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """Posts for a test that changes some."""
    fake_texts.newsgroups(tmp_path)
    return tmp_path


def module(root: Path, **options) -> NewsgroupsDataModule:
    options = {"val_size": 20, "ood": (), "batch_size": 16, "max_length": 50, **options}
    data = NewsgroupsDataModule(root=str(root), **options)
    data.setup()
    return data


def text_of(data: NewsgroupsDataModule, row: torch.Tensor) -> str:
    return " ".join(data.tokenizer.words[number - 1] for number in row.tolist() if number)


def test_rows_are_the_posts_and_targets_their_groups(root: Path) -> None:
    data = module(root)
    for examples in data.splits:
        for row, target in zip(examples.inputs, examples.target.tolist(), strict=True):
            group = data.class_names[target].replace(".", "")
            assert (
                text_of(data, row).startswith((group, "caf")) or group not in data.tokenizer.words
            )
    assert data.class_counts.sum() == len(data.splits.train.target)


def test_the_vocabulary_is_of_the_training_split_unless_all_is_asked_for(own: Path) -> None:
    # One post whose words are nowhere else: it is in the test split of the by-date cut.
    post = own / "20news-bydate" / "20news-bydate-test" / "sci.med" / "50000"
    post.write_bytes(b"Subject: x\n\nwordofthetestset alpha\n")
    words = {
        fit_on: module(own, split="bydate", fit_on=fit_on).tokenizer.words
        for fit_on in ("train", "all")
    }
    assert "wordofthetestset" not in words["train"]
    assert "wordofthetestset" in words["all"]


def test_the_second_use_reads_the_tokens_from_the_cache(own: Path, monkeypatch) -> None:
    first = module(own)
    monkeypatch.setattr("calibench.data.text.tokens.WordTokenizer.fit", None)
    again = module(own)
    assert again.fingerprint == first.fingerprint
    assert again.tokenizer.words == first.tokenizer.words
    with pytest.raises(TypeError):  # another setting is another key
        module(own, vocab_size=7)


def test_a_changed_text_is_tokenised_anew(own: Path) -> None:
    before = module(own).fingerprint
    post = own / "20news-bydate" / "20news-bydate-train" / "sci.med" / "50000"
    post.write_bytes(post.read_bytes().replace(b"scimed", b"alpha alpha"))
    assert module(own).fingerprint != before


def test_posts_without_a_known_word_are_kept_and_counted(own: Path) -> None:
    for part in ("train", "test"):
        post = own / "20news-bydate" / f"20news-bydate-{part}" / "sci.med" / "50001"
        post.write_bytes(b"Subject: x\n\n... !!!\n")
    data = module(own, split="bydate")
    assert sum(len(part.target) for part in data.splits) == 180
    counted = [line for line in data.caveats if "all padding" in line]
    assert len(counted) == 2
    assert counted[-1].startswith("1 test texts")
    for loader in (data.val_dataloader(), data.test_dataloader()[0]):
        assert sum(len(batch.target) for batch in loader) == len(loader.lengths)


def test_inputs_are_token_numbers_of_the_batchs_own_width(root: Path) -> None:
    data = module(root, margin=3)
    for loader in (data.train_dataloader(), data.val_dataloader(), *data.test_dataloader()):
        for batch in loader:
            longest = int((batch.inputs != 0).sum(1).max())
            assert batch.inputs.dtype == torch.int64
            assert batch.inputs.shape == (batch.size, longest + 3)


def test_both_paddings_give_the_network_the_same_logits(root: Path) -> None:
    network = GlobalPoolingCNN(num_classes=20, vocab_size=1000).eval()
    logits = {}
    for padding in ("bucket", "published"):
        loader = module(root, padding=padding, max_length=1000).test_dataloader()[0]
        batches = [(network(batch.inputs), batch.index) for batch in loader]
        logits[padding] = torch.cat([out for out, _ in batches])[
            torch.cat([index for _, index in batches]).argsort()
        ]
    torch.testing.assert_close(logits["bucket"], logits["published"], rtol=0, atol=1e-6)


def test_logits_are_kept_in_dataset_order_although_batches_are_not(root: Path) -> None:
    data = NewsgroupsDataModule(root=str(root), val_size=50, ood=(), batch_size=16, max_length=50)
    network = GlobalPoolingCNN(num_classes=20, vocab_size=1000)
    module = ClassificationModule(network, CrossEntropyLoss(), 20)
    trainer = Trainer(
        accelerator="cpu", logger=False, enable_progress_bar=False, enable_model_summary=False,
        enable_checkpointing=False, default_root_dir=str(root),
    )  # fmt: skip
    trainer.validate(module, datamodule=data, verbose=False)
    val, kept = data.splits.val, module.outputs["val"]
    batches = [batch.index for batch in data.val_dataloader()]
    assert torch.cat(batches).diff().min() < 0
    assert torch.equal(kept.target, val.target)
    with torch.no_grad():
        expected = network.eval()(val.inputs.long())
    torch.testing.assert_close(kept.logits, expected, rtol=0, atol=1e-5)


def test_word_vectors_replace_token_numbers(root: Path) -> None:
    (root / "vectors.txt").write_text("alpha 1 0 0\nbeta 0 2 0\n")
    data, tokens = module(root, vectors="vectors.txt"), module(root)
    assert any(line.startswith("word vectors vectors.txt: 2 of") for line in data.caveats)
    numbers, vectors = (next(iter(d.val_dataloader())).inputs for d in (tokens, data))
    assert vectors.shape == (*numbers.shape, 3)
    alpha = numbers == data.tokenizer.words.index("alpha") + 1
    assert alpha.any()
    assert torch.equal(vectors[alpha], torch.tensor([[1.0, 0, 0]]).expand(int(alpha.sum()), 3))
    known = torch.tensor([data.tokenizer.words.index(word) + 1 for word in ("alpha", "beta")])
    assert not vectors[~torch.isin(numbers, known)].any()


def test_a_trained_embedding_starts_at_the_word_vectors(root: Path) -> None:
    (root / "vectors.txt").write_text("alpha 1 0 0\nbeta 0 2 0\n")
    data, tokens = module(root, vectors="vectors.txt", embedding="trainable"), module(root)
    assert torch.equal(data.splits.train.inputs, tokens.splits.train.inputs)
    assert next(iter(data.val_dataloader())).inputs.dtype == torch.int64
    assert data.tokens.vocab_size == len(data.tokenizer.words) + 1
    known = data.tokens.vectors.any(1)
    assert {data.tokenizer.words[n - 1] for n in known.nonzero().squeeze(1)} == {"alpha", "beta"}
    assert tokens.tokens == (data.tokens.vocab_size, None, True)
    assert module(root, vectors="vectors.txt").tokens is None


def test_vectors_of_the_training_texts_need_no_file(own: Path, monkeypatch) -> None:
    data = module(own, vectors="cooccurrence")
    assert next(iter(data.val_dataloader())).inputs.shape[2] == 100
    assert any(line.startswith("word vectors cooccurrence: ") for line in data.caveats)
    words = len(data.tokenizer.words)
    assert data.transform.table.shape == (words + 1, 100)
    assert data.transform.found > words / 2
    monkeypatch.setattr("calibench.data.text.word_vectors.cooccurrence_vectors", None)
    again = module(own, vectors="cooccurrence")
    assert torch.equal(again.transform.table, data.transform.table)
    # Other test texts do not change them: they are of the training split.
    post = own / "20news-bydate" / "20news-bydate-test" / "sci.med" / "50000"
    bydate = {"split": "bydate", "vectors": "cooccurrence"}
    monkeypatch.undo()
    before = module(own, **bydate).transform.table
    post.write_bytes(b"Subject: x\n\nalpha beta alpha beta gamma\n")
    assert torch.equal(module(own, **bydate).transform.table, before)


@pytest.mark.parametrize("embedding", ["frozen", "trainable"])
def test_the_network_hears_of_the_tokens_before_training(root: Path, embedding: str) -> None:
    data = NewsgroupsDataModule(
        root=str(root), val_size=50, ood=(), vectors="cooccurrence", embedding=embedding
    )
    vocab_size = None if embedding == "frozen" else 1000
    network = GlobalPoolingCNN(num_classes=20, vocab_size=vocab_size)
    trainer = Trainer(
        accelerator="cpu", logger=False, enable_progress_bar=False, enable_model_summary=False,
        enable_checkpointing=False, default_root_dir=str(root),
    )  # fmt: skip
    trainer.validate(
        ClassificationModule(network, CrossEntropyLoss(), 20), datamodule=data, verbose=False
    )
    if embedding == "trainable":
        start = data.tokens.vectors
        assert start is not None
        known = start.any(1)
        assert torch.equal(network.embedding.weight[: len(start)][known], start[known])


def test_the_end_of_a_long_post_is_kept(root: Path) -> None:
    long, short = module(root, max_length=50), module(root, max_length=2)
    assert short.splits.train.inputs.shape[1] == 2
    assert torch.equal(short.splits.train.inputs, long.splits.train.inputs[:, -2:])


def test_training_on_a_share_keeps_the_vocabulary(root: Path) -> None:
    half, whole = module(root, train_fraction=0.5), module(root)
    assert half.tokenizer.words == whole.tokenizer.words
    assert len(half.splits.train.target) < len(whole.splits.train.target)
    assert torch.equal(half.splits.test.inputs, whole.splits.test.inputs)


def test_a_tokenizer_file_in_place_of_words(root: Path) -> None:
    tokenizers = pytest.importorskip("tokenizers")
    vocabulary = {"[UNK]": 0, "alpha": 1, "beta": 2}
    ready = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="[UNK]"))
    ready.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    ready.save(str(root / "tokenizer.json"))
    data = module(root, tokenizer_file=str(root / "tokenizer.json"))
    assert set(data.splits.train.inputs.unique().tolist()) == {0, 1, 2, 3}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_length": 0}, "`max_length` must be a positive integer, got 0"),
        ({"margin": -1}, "`margin` must be an integer >= 0, got -1"),
        ({"bucket_batches": 0}, "`bucket_batches` must be a positive integer"),
        ({"vectors": "v", "tokenizer_file": "t"}, "leave `tokenizer_file` out"),
        ({"ood": ("ag_new",)}, "no evaluation set `ag_new` here; did you mean ag_news"),
    ],
)
def test_bad_arguments(tmp_path: Path, options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        NewsgroupsDataModule(root=str(tmp_path), **options)


def test_cut_is_the_reference_codes() -> None:
    corpus = Corpus([str(i) for i in range(100)], torch.arange(100))
    np_seeded = np.random.RandomState(3)
    order = np.arange(100)
    np_seeded.shuffle(order)
    train, val, test = split_corpus(corpus, test_size=20, val_size=9, seed=3)
    assert test.target.tolist() == sorted(order[-20:].tolist())
    assert val.target.tolist() == sorted(order[-29:-20].tolist())
    assert train.target.tolist() == sorted(order[:-29].tolist())
    assert test.texts == [str(i) for i in test.target.tolist()]
    for val_size in (0, 80, 100):
        with pytest.raises(ValueError, match="`val_size` must leave some of 100 texts"):
            split_corpus(corpus, test_size=20, val_size=val_size, seed=3)
