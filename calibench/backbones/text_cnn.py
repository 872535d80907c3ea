"""The convolutional network of the papers' text experiments."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from calibench.backbones.base import Backbone
from calibench.messages.checks import unit_interval
from calibench.messages.errors import UsageError
from calibench.tensors.scores import TokenInputs


class GlobalPoolingCNN(Backbone):
    """Global-pooling CNN for texts (Lin et al. 2014; as in Kumar et al. 2018, MMCE).

    Embedding, three convolutions of width 5 with ReLU, maximum pooling of width 5 and stride 1
    after the first two, the global maximum, and two linear layers: 247,316 parameters without the
    embedding for 20 classes. The layers are those of the public code of MMCE (`20ng_mmce.py`);
    that code trains on the softmax plus 1e-10 in place of logits, and keeps 0.7 of the units with
    dropout, where the code of MbLS has none.

    Padding is in front and is number 0, whose embedding is zero and stays so. From 21 zeros on (the
    receptive field) more of them change nothing: their windows all see the same.

    Args:
        num_classes: Number of logits.
        vocab_size: Token numbers, 0 included, of a trained embedding; None if the inputs are word
            vectors already, as data modules of texts make them with `vectors`.
        embedding_dim: Numbers of a word vector.
        embedding_std: Standard deviation of the normal distribution that a trained embedding is
            drawn from. `nn.Embedding`'s own 1 lets rare words, hardly trained, drown the others.
        width: Channels of the convolutions and of the linear layer.
        dropout: Probability of dropping a unit before the last layer, in [0, 1); MMCE's is 0.3.
        word_dropout: Probability of replacing a word by padding in training, in [0, 1). The papers
            have none; a trained embedding overfits a few thousand texts without it.

    Attributes:
        receptive_field: Positions that one output of the last convolution sees.
    """

    receptive_field = 21

    def __init__(
        self,
        *,
        num_classes: int,
        vocab_size: int | None = 20_000,
        embedding_dim: int = 100,
        embedding_std: float = 0.05,
        width: int = 128,
        dropout: float = 0.0,
        word_dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.word_dropout = unit_interval("word_dropout", word_dropout)
        self.num_classes, self.embedding_dim = num_classes, embedding_dim
        self.embedding = None
        if vocab_size is not None:
            self.embedding = nn.Embedding(vocab_size, embedding_dim, padding_idx=0)
            nn.init.normal_(self.embedding.weight[1:], std=embedding_std)
        # Layers of images of height 1: word vectors (N, L, D) are such images with their channels last,
        # which a CPU pools several times faster than it does rows (N, D, L).
        self.features = nn.Sequential(
            nn.Conv2d(embedding_dim, width, (1, 5)),
            nn.ReLU(),
            nn.MaxPool2d((1, 5), stride=1),
            nn.Conv2d(width, width, (1, 5)),
            nn.ReLU(),
            nn.MaxPool2d((1, 5), stride=1),
            nn.Conv2d(width, width, (1, 5)),
            nn.ReLU(),
        )
        self.hidden = nn.Linear(width, width)
        self.dropout = nn.Dropout(dropout)
        self.fc = nn.Linear(width, num_classes)

    def forward(self, inputs: Tensor) -> Tensor:
        """Logits (N, num_classes) of token numbers (N, L), or of word vectors (N, L, D), as `vocab_size` says.

        Shorter texts are padded in front to the receptive field.
        """
        vectors = self._drop_words(self._embed(inputs))
        missing = max(0, self.receptive_field - inputs.shape[1])
        vectors = F.pad(vectors, (0, 0, missing, 0))
        pooled = self.features(vectors.transpose(1, 2).unsqueeze(2)).amax((2, 3))
        logits: Tensor = self.fc(self.dropout(F.relu(self.hidden(pooled))))
        return logits

    def on_tokens(self, tokens: TokenInputs) -> None:
        """Check the vocabulary's size, and start the embedding at the data module's word vectors.

        Words without a vector keep their random start. Raises a UsageError where the embedding does not fit them.
        """
        if self.embedding is None:
            raise UsageError(
                "the inputs are token numbers and the backbone's `vocab_size` is null: give it one "
                f"of at least {tokens.vocab_size}, or the data module `vectors` that are frozen."
            )
        if tokens.vocab_size > self.embedding.num_embeddings:
            raise UsageError(
                f"the backbone's `vocab_size` is {self.embedding.num_embeddings}, the data module's "
                f"{tokens.vocab_size}: it must not be smaller."
            )
        if tokens.vectors is not None:
            _start_at(self.embedding, tokens.vectors)

    def _drop_words(self, vectors: Tensor) -> Tensor:
        if not self.training or not self.word_dropout:
            return vectors
        return vectors * (torch.rand_like(vectors[..., :1]) >= self.word_dropout)

    def _embed(self, inputs: Tensor) -> Tensor:
        if self.embedding is None:
            if inputs.ndim != 3 or inputs.shape[2] != self.embedding_dim:
                raise UsageError(
                    f"`vocab_size` is None: inputs must be word vectors (N, L, "
                    f"{self.embedding_dim}), got shape {tuple(inputs.shape)}; "
                    "give the data module `vectors`, or the backbone a `vocab_size`."
                )
            return inputs
        if inputs.ndim != 2:
            raise UsageError(
                f"inputs must be token numbers (N, L), got shape {tuple(inputs.shape)}; "
                "for word vectors set `vocab_size` to None."
            )
        vectors: Tensor = self.embedding(inputs)
        return vectors


@torch.no_grad()
def _start_at(embedding: nn.Embedding, vectors: Tensor) -> None:
    if vectors.shape[1] != embedding.embedding_dim:
        raise UsageError(
            f"the word vectors have {vectors.shape[1]} numbers, the backbone's `embedding_dim` is "
            f"{embedding.embedding_dim}."
        )
    words_with_vector = vectors.any(1).nonzero().squeeze(1)
    embedding.weight[words_with_vector.to(embedding.weight.device)] = vectors[words_with_vector].to(
        embedding.weight
    )
