"""Python's names of PostgreSQL's encodings."""

from __future__ import annotations

from pgrepl.errors import SourceError
from pgrepl.postgres.connect import Connection

__all__ = ["fit_text", "kept_codec", "python_codec", "server_codec"]

#: Of the encodings that a server can have. SQL_ASCII says nothing about its bytes: UTF-8 is the
#: likely case, and strict. MULE_INTERNAL and EUC_TW are unknown to Python.
_CODECS = {
    "SQL_ASCII": "utf-8",
    "UTF8": "utf-8",
    "EUC_CN": "gb2312",
    "EUC_JIS_2004": "euc_jis_2004",
    "EUC_JP": "euc_jp",
    "EUC_KR": "euc_kr",
    "ISO_8859_5": "iso8859-5",
    "ISO_8859_6": "iso8859-6",
    "ISO_8859_7": "iso8859-7",
    "ISO_8859_8": "iso8859-8",
    "KOI8R": "koi8-r",
    "KOI8U": "koi8-u",
    "LATIN1": "iso8859-1",
    "LATIN10": "iso8859-16",
    "LATIN2": "iso8859-2",
    "LATIN3": "iso8859-3",
    "LATIN4": "iso8859-4",
    "LATIN5": "iso8859-9",
    "LATIN6": "iso8859-10",
    "LATIN7": "iso8859-13",
    "LATIN8": "iso8859-14",
    "LATIN9": "iso8859-15",
    "WIN1250": "cp1250",
    "WIN1251": "cp1251",
    "WIN1252": "cp1252",
    "WIN1253": "cp1253",
    "WIN1254": "cp1254",
    "WIN1255": "cp1255",
    "WIN1256": "cp1256",
    "WIN1257": "cp1257",
    "WIN1258": "cp1258",
    "WIN866": "cp866",
    "WIN874": "cp874",
}


def python_codec(encoding: str) -> str:
    """Return Python's name of an encoding.

    >>> python_codec("LATIN1")
    'iso8859-1'

    Raises
    ------
    SourceError
        when Python cannot read it.

    """
    codec = _CODECS.get(encoding)
    if codec is None:
        raise SourceError(
            f"the source's encoding {encoding} cannot be read",
            hint="Python has no such codec. Replicate from a database in UTF8.",
        )
    return codec


def server_codec(connection: Connection) -> str:
    """Return what a server can keep, as Python's name of an encoding."""
    return kept_codec(connection.info.parameter_status("server_encoding") or "UTF8")


def kept_codec(encoding: str) -> str:
    """Return what a database in an encoding can keep for sure, as Python's name of an encoding."""
    return _CODECS.get(encoding, "ascii")


def fit_text(connection: Connection, text: str) -> str:
    """Return a text for people as the server can keep it: what its encoding lacks is escaped.

    Never of a value that is replicated.
    """
    codec = server_codec(connection)
    return text.encode(codec, "backslashreplace").decode(codec)
