"""Files of formats that are not read: what writes one that is, by their suffix."""

from contextlib import suppress
from pathlib import Path

_TO_CSV = "`pandas.{}({{path!r}}).to_csv('x.csv', index=False)`"
_UNPACK = "unpack it, `{} {{path}}`"
_MAT_7_3 = ".mat of version 7.3"  # which is HDF5, with the axes in the order of MATLAB
_CONVERSIONS = {
    **dict.fromkeys((".xlsx", ".xls", ".ods", ".xlsm"), _TO_CSV.format("read_excel")),
    **dict.fromkeys((".feather", ".arrow"), _TO_CSV.format("read_feather")),
    ".orc": _TO_CSV.format("read_orc"),
    ".dta": _TO_CSV.format("read_stata"),
    ".sav": _TO_CSV.format("read_spss"),
    **dict.fromkeys((".sas7bdat", ".xpt"), _TO_CSV.format("read_sas")),
    ".xml": _TO_CSV.format("read_xml"),
    ".html": "`pandas.read_html({path!r})[0].to_csv('x.csv', index=False)`",
    ".avro": "`pandas.DataFrame(fastavro.reader(open({path!r}, 'rb'))).to_csv('x.csv', index=False)`",
    **dict.fromkeys(
        (".yaml", ".yml"), "`json.dump(yaml.safe_load(open({path!r})), open('x.json', 'w'))`"
    ),
    ".rds": "`write.csv(readRDS({path!r}), 'x.csv', row.names = FALSE)` in R",
    ".mat": "`m = scipy.io.loadmat({path!r}); np.savez('x.npz', probs=m['probs'], labels=m['labels'].ravel())`",
    _MAT_7_3: "`m = h5py.File({path!r}); np.savez('x.npz', probs=m['probs'][()].T, labels=m['labels'][()].ravel())`",
    ".arff": "`pandas.DataFrame(scipy.io.arff.loadarff({path!r})[0]).to_csv('x.csv', index=False)`",
}
_START_OF_HDF5 = b"\x89HDF"
_NETWORKS = (".onnx", ".pt2", ".ckpt", ".keras", ".tflite", ".joblib")
_PACKED = {
    ".bz2": "bunzip2 -k",
    ".xz": "unxz -k",
    ".zst": "unzstd",
    ".zip": "unzip",
    ".tar": "tar xf",
    ".7z": "7z x",
}


def describe_conversion(path: Path) -> str:
    """The sentence on a file that is not read, with what writes one that is; empty for a suffix without such."""
    suffix = path.suffix.lower()
    if suffix == ".gz" or suffix in _PACKED:
        command = _PACKED.get(suffix, "gunzip -k")
        return f"`{path}` is packed: {_UNPACK.format(command).format(path=path)}"
    if suffix in _NETWORKS:
        return f"`{path}` is a network: what it predicts is needed, `np.savez('x.npz', probs=probs, labels=labels)`"
    if suffix == ".py":
        return f"`{path}` is a file of Python: `calibench audit {path.stem}.NAME` examines a loss in it"
    suffix = _MAT_7_3 if suffix == ".mat" and _is_hdf5(path) else suffix
    if writing := _CONVERSIONS.get(suffix):
        return f"`{path}` is not read: {writing.format(path=str(path))} writes a file that is"
    return ""


def _is_hdf5(path: Path) -> bool:
    """Whether a file is HDF5, behind a block of text of MATLAB; false for one that cannot be read."""
    with suppress(OSError), path.open("rb") as file:
        return any(part[:4] == _START_OF_HDF5 for part in (file.read(512), file.read(4)))
    return False
