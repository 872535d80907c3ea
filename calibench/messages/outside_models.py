"""Models of other libraries, which are not trained here: how their probabilities are scored."""

import re

from calibench.messages.spelling import is_command_line

_OUTSIDE_MODEL = re.compile(
    "forest|boost|xgb|lgbm|lightgbm|svc|svm|logistic|neighbo|bayes|sklearn|scikit|keras|tensorflow|flax",
    re.IGNORECASE,
)


def describe_outside_model(name: str) -> str:
    """The sentence on a model that is no network of torch, by its name; an empty string for any other name."""
    if not _OUTSIDE_MODEL.search(name):
        return ""
    score = (
        "`calibench evaluate preds.csv`"
        if is_command_line()
        else "`calibench.evaluate(probs, labels)`"
    )
    return (
        f": only networks of torch are trained here; train it with its own library, then {score} scores its "
        "probabilities and labels (`calibench.CalibratedClassifier` calibrates classifiers of scikit-learn)"
    )
