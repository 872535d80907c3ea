"""The base class of text data modules, and loaders that pad each global batch to its longest text, not to the split's.

Texts of similar length share a batch, so short ones do not pay for the longest. A batch's width
depends on the whole global batch, never on a process's slice of it.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from calibench.configuration.files import data_root
from calibench.data.base import ClassificationDataModule
from calibench.data.batch import Batch, EvaluationSet, Examples, Splits
from calibench.data.cache import Arrays, load_or_make
from calibench.data.in_memory_loader import ResidentLoader, ShuffledLoader, mix_seeds
from calibench.data.text.corpus import TEST_TEXTS, CorpusSplits
from calibench.data.text.tokens import (
    PADDING,
    SubwordTokenizer,
    Tokenizer,
    Tokens,
    WordTokenizer,
    hash_texts,
)
from calibench.data.text.word_vectors import WordVectors
from calibench.messages.checks import integer_from, positive_integer
from calibench.tensors.scores import TokenInputs


class TextLoader(ResidentLoader):
    """Batches of a split from short to long texts; `Batch.index` says which row is whose.

    The examples are token numbers (N, width) with the padding in front, of which `margin` columns are kept in front of
    a batch's longest text, as far as the split has them.
    """

    def __init__(self, examples: Examples, *, margin: int, **options: Any) -> None:
        super().__init__(examples, **options)
        self.margin = margin
        self.lengths = (examples.inputs != PADDING).sum(1)

    def __iter__(self) -> Iterator[Batch]:
        yield from self._batches(self.lengths.argsort(stable=True), range(len(self)))

    def slice_of(self, rows: Tensor, positions: Tensor, read: Tensor | None = None) -> Batch:
        """The part at the positions `mine` of the global batch of `rows`, as wide as this one's texts."""
        # The order stays on the host: a batch's width is then known without waiting for a GPU.
        positions = positions.to(self.device)
        width = max(1, int(self.lengths[rows].max()) + self.margin)
        inputs = self.transform(self.examples.inputs[:, -width:][positions])
        return Batch(inputs, self.examples.target[positions], positions, len(rows))


class ShuffledTextLoader(TextLoader, ShuffledLoader):
    """Shuffled batches for training, each of texts of similar length.

    The shuffled rows are cut into pools of `pool` batches, a pool is sorted by length and cut into batches, and the
    batches are shuffled; rows that do not fill a batch come last, unsorted. A pool of 1 is a plain shuffle. The order
    is a function of (seed, epoch) and resumes within an epoch, as in `ShuffledLoader`.
    """

    # `TextLoader` orders by length; the order of an epoch, and where it starts, are ShuffledLoader's.
    __iter__ = ShuffledLoader.__iter__

    def __init__(self, examples: Examples, *, pool: int, **options: Any) -> None:
        super().__init__(examples, **options)
        self.pool = pool

    def _start_epoch(self) -> Tensor:
        generator = torch.Generator().manual_seed(mix_seeds(self.seed, self.epoch))
        shuffled = self._order(generator)
        full = len(shuffled) - len(shuffled) % self.batch_size
        cut = torch.split(shuffled[:full], self.pool * self.batch_size)
        # With a pool of one batch this only orders the rows within it.
        pools = [pool[self.lengths[pool].argsort(stable=True)] for pool in cut]
        batches = torch.cat(pools).view(-1, self.batch_size)
        batches = batches[torch.randperm(len(batches), generator=generator)]
        return torch.cat([batches.flatten(), shuffled[full:]])


class TextDataModule(ClassificationDataModule, ABC):
    """Base class of text data modules: a corpus as token matrices in memory, padded in front.

    A subclass implements `load_corpus`. Inputs are token numbers (n, L) int64, 0 for padding; with
    `vectors` they are word vectors (n, L, D) float32. L is the longest text of the *global* batch
    and `margin`, at most `max_length`.

    A convolutional network with a receptive field of r positions and a global maximum gives the same
    logits for any number of zeros in front from r on: further zeros only repeat what its windows have
    seen. So `margin: 21`, the receptive field of `GlobalPoolingCNN`, gives the logits of the published
    padding to `max_length` exactly. For other networks, `padding: published` pads to `max_length`.

    Args:
        class_names: One name per class.
        max_length: Tokens of a text that are kept.
        root: Folder of the datasets and of the cache of tokens; by default the environment's
            CALIBENCH_DATA, else ~/.cache/calibench.
        vocab_size: Token numbers in use, with 0 for padding: one less is the number of words. The
            backbone's `vocab_size` must not be smaller.
        fit_on: The texts the vocabulary is fitted on: the whole training split, or "all", the test
            texts included, as the public code does.
        tokenizer_file: A `tokenizer.json` in place of words, or `hf:NAME` for that of a model of the hub. By default
            that of a pretrained `HuggingFaceBackbone`, else none.
        vectors: A file of word vectors (`glove.6B.100d.txt`), below `root` unless absolute; or
            "cooccurrence" for vectors of 100 numbers made from the training texts themselves.
        embedding: What becomes of `vectors`: "frozen", as in the papers: the inputs then are
            vectors, and the backbone's `vocab_size` is null; "trainable": they are where the
            backbone's embedding starts, words without one start at random.
        padding: "bucket" for each batch's own width, "published" for `max_length` always.
        margin: Zeros kept in front of the longest text of a batch; 21 gives `GlobalPoolingCNN`'s
            logits with the published padding exactly.
        bucket_batches: Batches of shuffled texts that are sorted by length together; 1 for none.
        common: Those of all data modules.
    """

    def __init__(
        self,
        *,
        class_names: Sequence[str],
        max_length: int,
        root: str | None = None,
        vocab_size: int = 20_000,
        fit_on: Literal["train", "all"] = "train",
        tokenizer_file: str | None = None,
        vectors: str | None = None,
        embedding: Literal["frozen", "trainable"] = "frozen",
        padding: Literal["bucket", "published"] = "bucket",
        margin: int = 21,
        bucket_batches: int = 20,
        **common: Any,
    ) -> None:
        super().__init__(class_names=class_names, **common)
        positive_integer("max_length", max_length)
        integer_from("margin", margin, 0)
        positive_integer("bucket_batches", bucket_batches)
        if vectors is not None and tokenizer_file is not None:
            raise ValueError("`vectors` are of words: leave `tokenizer_file` out.")
        self.root = data_root(root)
        self.vectors, self.embedding = vectors, embedding
        self.fit_on, self.max_length = fit_on, max_length
        self.has_many_lengths = padding == "bucket"
        columns = margin if padding == "bucket" else max_length
        self.loader = partial(TextLoader, margin=columns)
        self.shuffled_loader = partial(ShuffledTextLoader, margin=columns, pool=bucket_batches)
        self.tokenizer: Tokenizer = (
            WordTokenizer(vocab_size=vocab_size)
            if tokenizer_file is None
            else SubwordTokenizer(file=tokenizer_file)
        )
        self.transform = Tensor.long

    @abstractmethod
    def load_corpus(self, seed: int) -> CorpusSplits:
        """Read the texts and cut them; the same seed gives the same splits."""

    def load_splits(self, seed: int) -> Splits:
        """Read the texts, fit the vocabulary, and turn texts into token matrices."""
        corpus = self.load_corpus(seed)
        tokens = self._tokenize(corpus)
        names = ("training", "validation", "test")
        matrices = [self._padded(part, name) for part, name in zip(tokens, names, strict=True)]
        self._prepare_inputs(tokens[0])
        targets = (part.target for part in corpus)
        return Splits(*map(Examples, matrices, targets))

    def load_evaluation_set(self, name: str, test: Examples) -> EvaluationSet:
        """The texts of another corpus, in this one's vocabulary."""
        return self.unlabelled_set(name, TEST_TEXTS[name](self.root))

    def unlabelled_set(self, name: str, texts: Sequence[str]) -> EvaluationSet:
        """An out-of-distribution set of texts."""
        tokens = Tokens.from_rows(self.tokenizer.encode(texts, self.max_length))
        inputs = self._padded(tokens, f"`{name}`")
        return EvaluationSet(name, "ood", Examples(inputs, torch.full((len(texts),), -1)))

    def _tokenize(self, corpus: CorpusSplits) -> list[Tokens]:
        texts = [text for part in corpus for text in part.texts]
        fitted_on = texts if self.fit_on == "all" else corpus.train.texts

        def arrays() -> Arrays:
            words = "\n".join(self.tokenizer.fit(fitted_on).words)  # no word has a newline
            token_arrays = {"words": np.frombuffer(words.encode(), dtype=np.uint8)}
            for i, part in enumerate(corpus):
                tokens = Tokens.from_rows(self.tokenizer.encode(part.texts, self.max_length))
                token_arrays |= {f"flat{i}": tokens.flat, f"lengths{i}": tokens.lengths}
            return token_arrays

        sizes = [len(part.texts) for part in corpus]
        key = hash_texts(texts, sizes, len(fitted_on), self.tokenizer.settings, self.max_length)
        cache = self.root / ".calibench" / f"tokens-{key[:16]}.npz"
        cached_arrays = load_or_make(cache, key, arrays)
        self.tokenizer.use(filter(None, cached_arrays["words"].tobytes().decode().split("\n")))
        return [
            Tokens(cached_arrays[f"flat{i}"], cached_arrays[f"lengths{i}"])
            for i in range(len(corpus))
        ]

    def _padded(self, tokens: Tokens, part_name: str) -> Tensor:
        """The matrix of a part's tokens; a caveat counts its texts without any."""
        if empty := int((tokens.lengths == 0).sum()):
            self.caveats.append(
                f"{empty} {part_name} texts hold no word of the vocabulary: all padding"
            )
        return tokens.padded(self.max_length)

    def _prepare_inputs(self, train: Tokens) -> None:
        """Decide whether batches hold word vectors or token numbers, and describe the numbers to the backbone."""
        vectors = None if self.vectors is None else self._word_vectors(self.vectors, train)
        if vectors is not None and self.embedding == "frozen":
            self.transform = vectors
        else:
            table = None if vectors is None else vectors.table
            are_words = isinstance(self.tokenizer, WordTokenizer)
            self.tokens = TokenInputs(self.tokenizer.numbers, table, are_words)

    def _word_vectors(self, name: str, train: Tokens) -> WordVectors:
        words = self.tokenizer.words
        vectors = (
            WordVectors.fit(train, len(words), self.root / ".calibench")
            if name == "cooccurrence"
            else WordVectors.read(self.root / Path(name).expanduser(), words)
        )
        others = "zeros" if self.embedding == "frozen" else "a random start"
        self.caveats.append(
            f"word vectors {Path(name).name}: {vectors.found} of {len(words)} words "
            f"({vectors.found / max(1, len(words)):.1%}), {others} for the others; {self.embedding}"
        )
        return vectors
