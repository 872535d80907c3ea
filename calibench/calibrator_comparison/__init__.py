"""Post-hoc benchmark: every calibrator on every set of saved predictions, compared.

sources.py     what the command line names: stores, results folders, files; one `ModelPredictions` a model and data set
cells.py       a cell: a calibrator fitted and scored on one split of one source, in a worker; the results as CSV
peers.py       calibrators of other packages as they come
summary.py     mean post-hoc improvement (PHI), win rates, ranks, seconds; learning curves; the same as pictures
"""
