"""Store: predictions of many runs by content, that anyone can fetch, add to and verify; it keeps and scores nothing.

    <benchmark>/<backbone>/<loss>/<key>/seed=<k>/   an entry: a run folder without what its numbers do not need
        predictions/<split or set>.npz              logits as float16 (see `calibench.store.packing`), or float32
        config.yaml  metrics.json  environment.json as the run has them (without the command, and paths of its machine)
        status.json                                 written last: sizes and digests of all this, and a digest over them
    labels/<digest>.npz                             labels, once for all runs on the same examples
    index.parquet                                   a row for each entry; derived, no part of a contribution

So whatever reads a folder of runs reads a store. Predictions that were imported have the path
`<dataset>/<model>/imported/<digest>/seed=1`. In Python:

    from calibench import store
    store.load_entry("digits_lt/SmallCNN/FocalLoss/seed=1")      {"val": Predictions, "test": Predictions, ...}
    for entry in store.entries("store"):                   every entry of a store, or run of a folder of results
        entry.name, entry.predictions(), entry.metrics(), entry.digest
"""

from typing import TYPE_CHECKING

from calibench.plugins.lazy_imports import lazy_exports

if TYPE_CHECKING:
    from calibench.runs.predictions import Imported as Imported
    from calibench.store.additions import StoragePolicy as StoragePolicy
    from calibench.store.additions import add as add
    from calibench.store.additions import add_imported as add_imported
    from calibench.store.entry import Entry as Entry
    from calibench.store.index import CARD as CARD
    from calibench.store.index import Listed as Listed
    from calibench.store.index import card_text as card_text
    from calibench.store.index import mark_verified as mark_verified
    from calibench.store.index import read_index as read_index
    from calibench.store.index import rebuild_index as rebuild_index
    from calibench.store.index import write_card as write_card
    from calibench.store.index import wrong_card as wrong_card
    from calibench.store.locations import Folder as Folder
    from calibench.store.locations import Limits as Limits
    from calibench.store.locations import Place as Place
    from calibench.store.locations import Remote as Remote
    from calibench.store.locations import StoreError as StoreError
    from calibench.store.locations import find_place as find_place
    from calibench.store.lookup import entries as entries
    from calibench.store.lookup import find as find
    from calibench.store.lookup import find_run as find_run
    from calibench.store.lookup import load_entry as load_entry
    from calibench.store.lookup import results_folder as results_folder
    from calibench.store.transfer import Added as Added
    from calibench.store.transfer import pull as pull
    from calibench.store.transfer import push as push

__all__ = [
    "CARD",
    "Added",
    "Entry",
    "Folder",
    "Imported",
    "Limits",
    "Listed",
    "Place",
    "Remote",
    "StoragePolicy",
    "StoreError",
    "add",
    "add_imported",
    "card_text",
    "entries",
    "find",
    "find_place",
    "find_run",
    "load_entry",
    "mark_verified",
    "pull",
    "push",
    "read_index",
    "rebuild_index",
    "results_folder",
    "write_card",
    "wrong_card",
]


_MODULES = {
    "Added": "calibench.store.transfer",
    "CARD": "calibench.store.index",
    "Entry": "calibench.store.entry",
    "Folder": "calibench.store.locations",
    "Imported": "calibench.runs.predictions",
    "StoragePolicy": "calibench.store.additions",
    "Limits": "calibench.store.locations",
    "Listed": "calibench.store.index",
    "Place": "calibench.store.locations",
    "Remote": "calibench.store.locations",
    "StoreError": "calibench.store.locations",
    "add": "calibench.store.additions",
    "add_imported": "calibench.store.additions",
    "card_text": "calibench.store.index",
    "entries": "calibench.store.lookup",
    "find": "calibench.store.lookup",
    "find_run": "calibench.store.lookup",
    "load_entry": "calibench.store.lookup",
    "mark_verified": "calibench.store.index",
    "find_place": "calibench.store.locations",
    "pull": "calibench.store.transfer",
    "push": "calibench.store.transfer",
    "read_index": "calibench.store.index",
    "rebuild_index": "calibench.store.index",
    "results_folder": "calibench.store.lookup",
    "write_card": "calibench.store.index",
    "wrong_card": "calibench.store.index",
}

if not TYPE_CHECKING:  # else every name would be one of the package
    __getattr__, __dir__ = lazy_exports(__name__, _MODULES)
