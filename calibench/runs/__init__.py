"""Run folders, alone and in a store: files, status, lock and predictions; without torch, so that readers stay light."""

from typing import TYPE_CHECKING

from calibench.plugins.lazy_imports import lazy_exports

if TYPE_CHECKING:
    from calibench.files.atomic_files import atomic_file as atomic_file
    from calibench.files.atomic_files import write_atomically as write_atomically
    from calibench.runs.files import FORMAT as FORMAT
    from calibench.runs.files import CorruptRun as CorruptRun
    from calibench.runs.files import check_archive as check_archive
    from calibench.runs.files import check_format as check_format
    from calibench.runs.files import corrupt_if_it_fails as corrupt_if_it_fails
    from calibench.runs.files import json_bytes as json_bytes
    from calibench.runs.files import json_or_nothing as json_or_nothing
    from calibench.runs.files import read_json as read_json
    from calibench.runs.files import write_json as write_json
    from calibench.runs.files import write_output as write_output
    from calibench.runs.folder import Run as Run
    from calibench.runs.folder import RunId as RunId
    from calibench.runs.folder import effective_settings as effective_settings
    from calibench.runs.folder import evaluated_calibrators as evaluated_calibrators
    from calibench.runs.folder import run_key as run_key
    from calibench.runs.lock import Busy as Busy
    from calibench.runs.lock import Claim as Claim
    from calibench.runs.lock import LostClaim as LostClaim
    from calibench.runs.predictions import Predictions as Predictions
    from calibench.runs.walk import run_folders as run_folders

__all__ = [
    "FORMAT",
    "Busy",
    "Claim",
    "CorruptRun",
    "LostClaim",
    "Predictions",
    "Run",
    "RunId",
    "atomic_file",
    "check_archive",
    "check_format",
    "corrupt_if_it_fails",
    "effective_settings",
    "evaluated_calibrators",
    "json_bytes",
    "json_or_nothing",
    "read_json",
    "run_folders",
    "run_key",
    "write_atomically",
    "write_json",
    "write_output",
]


_MODULES = {
    "Busy": "calibench.runs.lock",
    "Claim": "calibench.runs.lock",
    "CorruptRun": "calibench.runs.files",
    "FORMAT": "calibench.runs.files",
    "LostClaim": "calibench.runs.lock",
    "Predictions": "calibench.runs.predictions",
    "Run": "calibench.runs.folder",
    "RunId": "calibench.runs.folder",
    "atomic_file": "calibench.files.atomic_files",
    "check_archive": "calibench.runs.files",
    "check_format": "calibench.runs.files",
    "corrupt_if_it_fails": "calibench.runs.files",
    "effective_settings": "calibench.runs.folder",
    "evaluated_calibrators": "calibench.runs.folder",
    "json_bytes": "calibench.runs.files",
    "json_or_nothing": "calibench.runs.files",
    "read_json": "calibench.runs.files",
    "run_folders": "calibench.runs.walk",
    "run_key": "calibench.runs.folder",
    "write_atomically": "calibench.files.atomic_files",
    "write_json": "calibench.runs.files",
    "write_output": "calibench.runs.files",
}

if not TYPE_CHECKING:  # else every name would be one of the package
    __getattr__, __dir__ = lazy_exports(__name__, _MODULES)
