"""A certificate authority for one test, and servers that take nobody without TLS and a password."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

from pgrepl.throwaway import Cluster
from pgrepl.throwaway.unprivileged import server_account

_HBA = """\
local   all all              trust
hostssl all all 127.0.0.1/32 scram-sha-256
"""
_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")


@dataclass(frozen=True)
class Authority:
    """Signs the certificates of servers on this machine."""

    folder: Path

    @property
    def certificate(self) -> Path:
        return self.folder / "ca.crt"

    def begin(self) -> None:
        self.folder.mkdir()
        _openssl(
            *("req", "-x509", *_KEY, "-days", "2", "-subj", "/CN=throwaway"),
            *("-keyout", self.folder / "ca.key", "-out", self.certificate),
        )

    def sign(self, key: Path, certificate: Path, names: str = "DNS:localhost") -> None:
        """Make a server's key and its certificate."""
        request, extension = self.folder / "server.csr", self.folder / "names"
        _openssl("req", *_KEY, "-subj", "/CN=localhost", "-keyout", key, "-out", request)
        extension.write_text(f"subjectAltName = {names}\n", encoding="utf-8")
        _openssl(
            *("x509", "-req", "-in", request, "-days", "2", "-extfile", extension),
            *("-CA", self.certificate, "-CAkey", self.folder / "ca.key", "-CAcreateserial"),
            *("-out", certificate),
        )

    def close(self, cluster: Cluster) -> None:
        """Give a server a certificate for "localhost", and let it take nobody without TLS."""
        key, certificate = cluster.data / "server.key", cluster.data / "server.crt"
        self.sign(key, certificate)
        key.chmod(0o600)
        for path in (key, certificate):
            server_account().own(path)
        (cluster.data / "pg_hba.conf").write_text(_HBA, encoding="utf-8")
        cluster.configure(
            {"ssl": "on", "ssl_cert_file": "server.crt", "ssl_key_file": "server.key"}
        )
        cluster.restart()


def _openssl(*arguments: str | Path) -> None:
    subprocess.run(["openssl", *arguments], check=True, capture_output=True)
