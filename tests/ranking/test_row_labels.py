from __future__ import annotations

from calibench.ranking.row_labels import row_labels, short_setting_names
from tests.run_folders import settings_of


def test_rows_of_a_loss_are_named_by_what_differs() -> None:
    rows = [
        ("CrossEntropyLoss", "a", settings_of("CrossEntropyLoss")),
        ("FocalLoss", "b", settings_of("FocalLoss", gamma=3.0)),
        ("FocalLoss", "c", settings_of("FocalLoss", gamma=5.0)),
    ]
    assert row_labels(rows) == ["CrossEntropy", "Focal gamma=3.0", "Focal gamma=5.0"]


def test_an_argument_that_only_one_has_is_unset_in_the_other() -> None:
    rows = [("X", "a", settings_of("X", weight=1.0)), ("X", "b", settings_of("X"))]
    assert row_labels(rows) == ["X weight=1.0", "X weight=unset"]


def test_an_unusual_protocol_is_said_of_a_single_row_too() -> None:
    rows = [(loss, loss, settings_of(loss)) for loss in ("A", "B", "C")]
    rows[1][2]["trainer.max_epochs"] = 350
    assert row_labels(rows) == ["A", "B max_epochs=350", "C"]


def test_labels_are_unique() -> None:
    many = [settings_of("X", a=i, b=i, c=i, d=d) for i, d in ((1, 1), (1, 2), (2, 2))]
    labels = row_labels([("X", f"key{n}", settings) for n, settings in enumerate(many)])
    assert labels[0] == "X a=1 b=1 c=1 +1 [key0]"
    assert len(set(labels)) == 3


def test_a_row_without_settings_is_told_from_others_of_its_loss_by_its_key() -> None:
    rows = [("X", "k1", settings_of("X")), ("X", "k2", None), ("Y", "k3", None)]
    assert row_labels(rows) == ["X", "X [k2]", "Y"]


def test_short_names_are_the_shortest_unique_ending() -> None:
    keys = ["model.loss.init_args.gamma", "a.init_args.lr", "b.init_args.lr", "a.class_path"]
    names = ["gamma", "a.lr", "b.lr", "a.class_path"]
    assert short_setting_names(keys) == dict(zip(keys, names, strict=True))
