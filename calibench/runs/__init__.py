"""Run folders, alone and in a store: files, status, lock and predictions; without torch, so that readers stay light."""

from typing import TYPE_CHECKING

from calibench.plugins.lazy_imports import lazy

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
    from calibench.runs.folder import RunId as RunId
    from calibench.runs.folder import Run as Run
    from calibench.runs.folder import run_key as run_key
    from calibench.runs.folder import evaluated_calibrators as evaluated_calibrators
    from calibench.runs.folder import former_defaults as former_defaults
    from calibench.runs.folder import run_folders as run_folders
    from calibench.runs.folder import effective_settings as effective_settings
    from calibench.runs.folder import with_present_calibrators as with_present_calibrators
    from calibench.runs.folder import with_present_names as with_present_names
    from calibench.runs.lock import Busy as Busy
    from calibench.runs.lock import Claim as Claim
    from calibench.runs.lock import LostClaim as LostClaim
    from calibench.runs.predictions import Predictions as Predictions


lazy(__name__)
