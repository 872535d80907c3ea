"""Names of calibrators' methods and arguments in other libraries, each with what to write here."""

_MAP = "`calibrator(logits)` gives calibrated probabilities"
FIT_AND_MAP = f"`calibrator.fit(logits, target)` fits it, and {_MAP}"
FOREIGN_METHODS = {
    **dict.fromkeys(("transform", "calibrate", "scale", "apply_calibration"), _MAP),
    "fit_transform": FIT_AND_MAP,
    "fit_predict": FIT_AND_MAP,
    **dict.fromkeys(
        ("predict_logits", "predict_log_proba", "forward_logits"),
        f"{_MAP}, whose logarithm are calibrated logits",
    ),
    "predict": f"{_MAP}, of which `.argmax(1)` is the class",
    "save": "`calibench.save_calibrator(calibrator, path)` writes it to a file",
    **dict.fromkeys(
        ("from_file", "from_pretrained", "load_model", "load_from_checkpoint", "read"),
        "`calibench.load_calibrator(path)` reads one from a file",
    ),
    **dict.fromkeys(
        ("save_model", "to_file", "dump"), "`calibench.save_calibrator(calibrator, path)` writes it"
    ),
    **dict.fromkeys(
        ("classes_", "classes"),
        "`calibrator.class_names` are names of the classes, and `num_classes` counts them",
    ),
    **dict.fromkeys(
        ("fit_calibrator", "train_model", "optimize", "set_temperature"),
        "`calibrator.fit(logits, target)` fits it",
    ),
    **dict.fromkeys(
        ("plot", "plot_reliability", "reliability_diagram"),
        "`calibench.reliability(calibrator(logits), labels)` draws the diagram of what it gives",
    ),
    "load": "`calibench.load_calibrator(path)` reads one from a file",
}
"""Methods of calibrators in other libraries, with the call that does the same here."""


_FITTED = "leave it out: `fit(logits, target)` finds it"
_CONVERGENCE = "leave it out: it is fitted to convergence"
FOREIGN_ARGUMENTS = {
    **dict.fromkeys(
        ("temperature", "init_temperature", "init_temp", "T", "init_val", "a", "b"), _FITTED
    ),
    **dict.fromkeys(
        ("lr", "learning_rate", "max_iter", "optimizer", "epochs", "tol", "random_state"),
        _CONVERGENCE,
    ),
    **dict.fromkeys(
        ("num_classes", "n_classes", "n_class"),
        "leave it out, the logits say how many classes there are",
    ),
    **dict.fromkeys(
        ("model", "estimator", "base_estimator", "network"),
        "a calibrator takes logits; `calibench.CalibratedClassifier` takes a classifier of scikit-learn",
    ),
    **dict.fromkeys(
        ("cv", "n_splits"), "`calibench.doctor(logits, labels)` cross-validates calibrators"
    ),
    "device": "`calibrator.to(device)` moves it",
}
"""Arguments of calibrators in other libraries, with what to write instead."""
