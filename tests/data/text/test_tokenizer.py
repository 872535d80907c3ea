from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from calibench.data.source import DataError
from calibench.data.text.tokens import SubwordTokenizer, Tokens, WordTokenizer

KERAS = json.loads((Path(__file__).parents[2] / "reference/data_keras_tokenizer.json").read_text())


@pytest.mark.parametrize("num_words", KERAS["cases"])
def test_words_are_keras_own(num_words: str) -> None:
    case = KERAS["cases"][num_words]
    tokenizer = WordTokenizer(vocab_size=int(num_words))
    tokenizer.fit([KERAS["texts"][i] for i in KERAS["fitted_on"]])
    encoded = tokenizer.encode(KERAS["texts"], 10_000)
    assert [row.tolist() for row in encoded] == case["sequences"]
    short = Tokens.from_rows(tokenizer.encode(KERAS["texts"], 20))
    assert short.padded(20).tolist() == case["padded_20"]


def test_no_number_reaches_the_vocabulary_size() -> None:
    tokenizer = WordTokenizer(vocab_size=4).fit(["a b c d e f", "d e"])
    assert tokenizer.words == ["d", "e", "a"]
    assert tokenizer.encode(["f e d a unknown"], 9)[0].tolist() == [2, 1, 3]


def test_words_taken_over_number_texts_as_the_fitted_ones() -> None:
    fitted = WordTokenizer(vocab_size=9).fit(["the cat and the dog"])
    taken = WordTokenizer(vocab_size=9).use(fitted.words)
    assert np.array_equal(*(t.encode(["dog the cat"], 9)[0] for t in (fitted, taken)))


def test_a_vocabulary_of_padding_alone_is_refused() -> None:
    with pytest.raises(ValueError, match=r"`vocab_size` must be an integer >= 2, got 1"):
        WordTokenizer(vocab_size=1)


@pytest.fixture
def tokenizer_file(tmp_path: Path) -> Path:
    tokenizers = pytest.importorskip("tokenizers")
    vocabulary = {
        word: i for i, word in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "cat", "dog"])
    }
    ready = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="[UNK]"))
    ready.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    ready.post_processor = tokenizers.processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    ready.enable_padding(length=12)
    ready.save(str(tmp_path / "tokenizer.json"))
    return tmp_path / "tokenizer.json"


def test_subwords_are_one_more_than_the_files_and_keep_the_special_tokens(tokenizer_file) -> None:
    tokenizer = SubwordTokenizer(file=str(tokenizer_file)).fit(["ignored"]).use([])
    rows = tokenizer.encode(["cat dog bird", "", "dog " * 9], 5)
    assert [row.tolist() for row in rows] == [[3, 5, 6, 2, 4], [3, 4], [3, 6, 6, 6, 4]]


def test_a_file_that_is_no_tokenizer_is_refused_in_one_line(tmp_path: Path) -> None:
    pytest.importorskip("tokenizers")
    with pytest.raises(DataError, match=r"nowhere\.json cannot be read"):
        SubwordTokenizer(file=str(tmp_path / "nowhere.json"))
    (tmp_path / "bad.json").write_text("{}")
    with pytest.raises(DataError, match=r"bad\.json is not a tokenizer\.json"):
        SubwordTokenizer(file=str(tmp_path / "bad.json"))


def test_without_the_library_the_message_says_what_to_install(monkeypatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "tokenizers", None)
    with pytest.raises(DataError, match=r"pip install 'calibench-suite\[text\]'"):
        SubwordTokenizer(file="tokenizer.json")
