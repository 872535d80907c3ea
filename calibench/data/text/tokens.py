"""From texts to token numbers: words of a fitted vocabulary, or subwords of a tokenizer file; whole splits, cached."""

import hashlib
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path
from typing import NamedTuple, Self

import numpy as np
import torch
from torch import Tensor

from calibench.data.source import DataError
from calibench.files.hub import download_model_file
from calibench.messages.checks import integer_from
from calibench.messages.errors import pip_install

PADDING = 0
# Keras' Tokenizer turns these into blanks, lowers the case and splits; a word is what is left between.
_WORD = r"""[^ !"#$%&()*+,\-./:;<=>?@\[\\\]^_`{|}~\t\n]+"""


class Tokens(NamedTuple):
    """Token numbers of consecutive texts, and the number of tokens of each (N,)."""

    flat: np.ndarray
    lengths: np.ndarray

    @classmethod
    def from_rows(cls, rows: Sequence[np.ndarray]) -> Self:
        """Concatenate the texts' tokens."""
        empty = np.empty(0, dtype=np.int32)
        return cls(np.concatenate([empty, *rows]), np.array([len(row) for row in rows], np.int64))

    def padded(self, width: int) -> Tensor:
        """A matrix (N, width) int32 with each text at the right end, zeros in front of it."""
        matrix = np.full((len(self.lengths), width), PADDING, dtype=np.int32)
        matrix[np.arange(width) >= width - self.lengths[:, None]] = self.flat
        return torch.from_numpy(matrix)


def hash_texts(texts: Sequence[str], *settings: object) -> str:
    """A SHA-256 over the texts and what is done with them."""
    digest = hashlib.sha256(repr(settings).encode())
    for text in texts:
        raw = text.encode("utf-8", errors="surrogatepass")
        digest.update(f"{len(raw)}:".encode())
        digest.update(raw)
    return digest.hexdigest()


class Tokenizer(ABC):
    """Base class of tokenizers, which number the tokens of texts: 0 is padding, every token is at least 1.

    Attributes:
        settings: What distinguishes two tokenizers of a class, before `fit`, for the cache's key.
        words: The words by number, `words[0]` for number 1, where the vocabulary is fitted.
    """

    settings: str
    words: Sequence[str] = ()

    @property
    def numbers(self) -> int:
        """Number of token numbers, padding's included, once the vocabulary is fitted."""
        return len(self.words) + 1

    def fit(self, texts: Iterable[str]) -> Self:
        """Choose the vocabulary, where there is one to choose."""
        return self

    def use(self, words: Iterable[str]) -> Self:
        """Take the `words` of an equal tokenizer that was fitted before."""
        return self

    @abstractmethod
    def encode(self, texts: Sequence[str], max_length: int) -> list[np.ndarray]:
        """Token numbers of each text, int32, at most `max_length` of them."""


class WordTokenizer(Tokenizer):
    """The most frequent words of the texts it is fitted on, in Keras' manner.

    Lower case, split at blanks and ASCII punctuation except the apostrophe (scikit-learn's analyser
    with Keras' filter as its pattern); words are numbered by falling frequency from 1, ties by
    first appearance, and the `vocab_size - 1` most frequent have one; others are left out; of a
    long text the end is kept, as Keras' `pad_sequences` does.
    """

    def __init__(self, *, vocab_size: int) -> None:
        integer_from("vocab_size", vocab_size, 2)
        from sklearn.feature_extraction.text import CountVectorizer

        self.vocab_size, self.settings = vocab_size, f"words {vocab_size} {_WORD}"
        self._split = CountVectorizer(token_pattern=_WORD).build_analyzer()
        self._number: dict[str, int] = {}

    def fit(self, texts: Iterable[str]) -> Self:
        """Number the most frequent words."""
        counts = Counter(chain.from_iterable(map(self._split, texts)))
        return self.use(word for word, _ in counts.most_common(self.vocab_size - 1))

    def use(self, words: Iterable[str]) -> Self:
        """Number these words."""
        self.words = list(words)
        self._number = {word: number for number, word in enumerate(self.words, start=1)}
        return self

    def encode(self, texts: Sequence[str], max_length: int) -> list[np.ndarray]:
        """Numbers of the last `max_length` known words of each text."""
        token_numbers = (filter(None, map(self._number.get, self._split(text))) for text in texts)
        return [np.fromiter(numbers, np.int32)[-max_length:] for numbers in token_numbers]


class SubwordTokenizer(Tokenizer):
    """A ready tokenizer from its `tokenizer.json`, by Hugging Face's `tokenizers`.

    The file may be `hf:NAME` for that of a model of the hub. Its special tokens are added; of a long text the beginning
    is kept. A token's number is one more than the file's, because 0 is padding here whatever the model pads with:
    `HuggingFaceBackbone` takes the one off again.

    Raises:
        DataError: The library is missing, or the file cannot be read.
        ValueError: The hub has none, or does not answer.
    """

    def __init__(self, *, file: str) -> None:
        try:
            from tokenizers import Tokenizer as Ready
        except ImportError:
            raise DataError(
                f"a tokenizer.json needs the `tokenizers` library: {pip_install('text')}."
            ) from None
        if file.startswith("hf:"):
            file = download_model_file(file.removeprefix("hf:"), "tokenizer.json")
        try:
            content = Path(file).expanduser().read_text(encoding="utf-8")
            self._ready = Ready.from_str(content)
        except (OSError, UnicodeDecodeError) as error:
            raise DataError(f"{file} cannot be read: {error}.") from None
        except Exception as error:  # the library raises Exception itself
            raise DataError(f"{file} is not a tokenizer.json ({error}).") from None
        self._ready.no_padding()
        self.settings = f"subwords {hashlib.sha256(content.encode()).hexdigest()}"

    @property
    def numbers(self) -> int:
        """The file's tokens and padding."""
        return int(self._ready.get_vocab_size()) + 1

    def encode(self, texts: Sequence[str], max_length: int) -> list[np.ndarray]:
        """Numbers of the first tokens of each text, special tokens included."""
        self._ready.enable_truncation(max_length)
        encodings = self._ready.encode_batch(list(texts))
        return [np.asarray(encoding.ids, dtype=np.int32) + 1 for encoding in encodings]
