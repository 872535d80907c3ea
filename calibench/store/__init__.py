"""Store: predictions of many runs by content, that anyone can fetch, add to and verify; it keeps and scores nothing.

    <benchmark>/<backbone>/<loss>/<key>/seed=<k>/   an entry: a run folder without what its numbers do not need
        predictions/<split or set>.npz              logits as float16 (see `packing`), or float32
        config.yaml  metrics.json  environment.json as the run has them (without the command, and paths of its machine)
        status.json                                 written last: sizes and digests of all this, and a digest over them
    labels/<digest>.npz                             labels, once for all runs on the same examples
    index.parquet                                   a row for each entry; derived, no part of a contribution

So whatever reads a folder of runs reads a store. Predictions that were imported have the path
`<dataset>/<model>/imported/<digest>/seed=1`. In Python:

    from calibench import store
    store.load("digits_lt/SmallCNN/FocalLoss/seed=1")      {"val": Predictions, "test": Predictions, ...}
    for entry in store.entries("store"):                   every entry of a store, or run of a folder of results
        entry.name, entry.predictions(), entry.metrics(), entry.digest
"""

from typing import TYPE_CHECKING

from calibench.ground.lazily import lazy

if TYPE_CHECKING:
    from calibench.runs.predictions import Imported as Imported
    from calibench.store.adding import Kept as Kept
    from calibench.store.adding import add as add
    from calibench.store.adding import add_imported as add_imported
    from calibench.store.entry import Entry as Entry
    from calibench.store.finding import entries as entries
    from calibench.store.finding import find as find
    from calibench.store.finding import find_run as find_run
    from calibench.store.finding import load as load
    from calibench.store.finding import results_folder as results_folder
    from calibench.store.index import CARD as CARD
    from calibench.store.index import Listed as Listed
    from calibench.store.index import card_text as card_text
    from calibench.store.index import mark_verified as mark_verified
    from calibench.store.index import read_index as read_index
    from calibench.store.index import rebuild_index as rebuild_index
    from calibench.store.index import write_card as write_card
    from calibench.store.index import wrong_card as wrong_card
    from calibench.store.moving import Added as Added
    from calibench.store.moving import pull as pull
    from calibench.store.moving import push as push
    from calibench.store.places import Folder as Folder
    from calibench.store.places import Limits as Limits
    from calibench.store.places import Place as Place
    from calibench.store.places import Remote as Remote
    from calibench.store.places import StoreError as StoreError
    from calibench.store.places import place_of as place_of


lazy(__name__)
