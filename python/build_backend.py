"""Makes the wheel of docket_producer for pip with the standard library alone, so that pip needs no network."""

import base64
import hashlib
import pathlib
import zipfile

NAME = "docket_producer-0.1.0"
METADATA = """Metadata-Version: 2.1
Name: docket-producer
Version: 0.1.0
Summary: Sends records to docket and keeps each until docket has it on disk
Requires-Python: >=3.9
"""
WHEEL = """Wheel-Version: 1.0
Generator: build_backend
Root-Is-Purelib: true
Tag: py3-none-any
"""


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    """The hook of PEP 517."""
    module = pathlib.Path(__file__).with_name("docket_producer.py").read_text()
    files = {"docket_producer.py": module, f"{NAME}.dist-info/METADATA": METADATA, f"{NAME}.dist-info/WHEEL": WHEEL}
    record = ""
    for name, text in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
        record += f"{name},sha256={digest},{len(text.encode())}\n"
    files[f"{NAME}.dist-info/RECORD"] = record + f"{NAME}.dist-info/RECORD,,\n"
    wheel = f"{NAME}-py3-none-any.whl"
    with zipfile.ZipFile(pathlib.Path(wheel_directory) / wheel, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return wheel
