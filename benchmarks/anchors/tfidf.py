"""An anchor for the text benchmarks: TF-IDF and logistic regression (scikit-learn) on the same splits.

Command:  python benchmarks/anchors/tfidf.py newsgroups      (or ag_news; --root DIR or CALIBENCH_DATA)

Measured: ag_news (26,895 of 120,000 training texts) 10.87 % test error, 27 s; newsgroups 10.51 %, 163 s; one thread.

The inverse regularisation is chosen by the validation error, the vectoriser is fitted on the training split.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression

from calibench.data import AGNewsDataModule, NewsgroupsDataModule, TextDataModule

CORPORA: dict[str, type[TextDataModule]] = {
    "newsgroups": NewsgroupsDataModule,
    "ag_news": AGNewsDataModule,
}
INVERSE_REGULARISATION = (1.0, 10.0, 100.0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("corpus", choices=CORPORA)
    parser.add_argument("--root", help="folder of the datasets (default: $CALIBENCH_DATA)")
    parser.add_argument("--split_seed", type=int, default=1)
    options = parser.parse_args()
    start = time.perf_counter()
    train, val, test = CORPORA[options.corpus](root=options.root, ood=()).load_corpus(
        options.split_seed
    )
    vectoriser = TfidfVectorizer(sublinear_tf=True, min_df=2)
    features = vectoriser.fit_transform(train.texts)

    def error(model: LogisticRegression, part) -> float:
        predicted = model.predict(vectoriser.transform(part.texts))
        return float(np.mean(predicted != part.target.numpy()))

    models = [
        LogisticRegression(C=value, max_iter=300).fit(features, train.target.numpy())
        for value in INVERSE_REGULARISATION
    ]
    errors = [error(model, val) for model in models]
    best = models[int(np.argmin(errors))]
    print(
        f"{options.corpus}: {len(train.texts)} training texts, {features.shape[1]} terms, "
        f"validation errors {[round(100 * e, 2) for e in errors]} % at C {INVERSE_REGULARISATION}; "
        f"test error {100 * error(best, test):.2f} % ({len(test.texts)} texts, C {best.C:g}), "
        f"{time.perf_counter() - start:.0f} s"
    )


if __name__ == "__main__":
    main()
