"""Post-hoc benchmark: every calibrator on every set of saved predictions, compared.

sources.py     what the command line names: stores, results folders, files; one `ModelPredictions` a model and data set
cells.py       one cell: a calibrator fitted and scored on one split of one source, in a worker process
results.py     the results as CSV, a row a cell, to which an interrupted run adds what is missing
summary.py     mean post-hoc improvement (PHI), win rates, ranks, seconds; learning curves
pictures.py    the same as pictures
"""
