"""Judge whether a Spark session is closed to all other users.

On a cluster, whoever reaches the driver's ports without authentication can run code as its user;
and tasks carry connection strings, so without encryption the network sees their passwords.
"""

from __future__ import annotations

from collections.abc import Mapping

from pgrepl.config.model import SparkConfig
from pgrepl.doctor.finding import Finding, Remedy, Status
from pgrepl.spark.session import local_cores

__all__ = ["JUDGED_SETTINGS", "check_closed"]

_AUTHENTICATE = "spark.authenticate"
_DISKS = "spark.io.encryption.enabled"
#: Any of them encrypts what goes over the network.
_NETWORK = (
    "spark.network.crypto.enabled",
    "spark.ssl.rpc.enabled",
    "spark.authenticate.enableSaslEncryption",
)
#: What is to be known of a running session.
JUDGED_SETTINGS = (_AUTHENTICATE, *_NETWORK, _DISKS)


def check_closed(
    config: SparkConfig, settings: Mapping[str, str] | None, *, is_tried: bool
) -> list[Finding]:
    """Judge the settings of a session that ran, or of the configuration when there was none.

    ``settings`` is None when no session ran; ``is_tried``: one was to run. Spark's own file of
    defaults may hold settings too, which only a session knows.
    """
    known = config.conf if settings is None else settings
    authentication = _authentication(config, known)
    if authentication.status is Status.FAILURE and not is_tried and _AUTHENTICATE not in known:
        authentication = Finding.skipped(
            "spark-authentication", "not in [spark] conf, and Spark's own defaults were not read"
        )
    if local_cores(config.master) is not None or authentication.status is not Status.OK:
        # What is encrypted for all users is not reported.
        return [authentication]
    return [authentication, _encryption(known)]


def _authentication(config: SparkConfig, known: Mapping[str, str]) -> Finding:
    is_local = local_cores(config.master) is not None
    if _is_on(known, _AUTHENTICATE) or (is_local and _AUTHENTICATE not in known):
        return Finding.ok("spark-authentication", "Spark's ports want a secret")
    if is_local:
        return Finding(
            "spark-authentication",
            Status.FAILURE,
            f"{_AUTHENTICATE} is switched off: any user of this machine can run code as this one",
            Remedy(then=f"take {_AUTHENTICATE} out of [spark] conf: without it, it is on"),
        )
    return Finding(
        "spark-authentication",
        Status.FAILURE,
        f"{_AUTHENTICATE} is not on: whoever reaches Spark's ports on {config.shown_master} can run"
        " code as its user and read the databases' passwords",
        _remedy(config.master),
    )


def _remedy(master: str) -> Remedy:
    switch = f'"{_AUTHENTICATE}" = "true"'
    if not master.startswith("spark://"):
        return Remedy(then=f"set {switch} in [spark] conf; Spark makes the secret itself")
    return Remedy(
        shell=("openssl rand -hex 32",),
        then=f'give the secret to the cluster: set {switch} and "{_AUTHENTICATE}.secret" in'
        " conf/spark-defaults.conf of the master and of every worker, files that only their user"
        " can read, and restart them; then set both in [spark] conf",
    )


def _encryption(known: Mapping[str, str]) -> Finding:
    if any(_is_on(known, key) for key in _NETWORK):
        disks = "" if _is_on(known, _DISKS) else f"; {_DISKS} would encrypt its files too"
        return Finding.ok(
            "spark-encryption", f"what Spark sends over the network is encrypted{disks}"
        )
    return Finding(
        "spark-encryption",
        Status.WARNING,
        "tasks carry connection strings with their passwords, and go over the network in clear",
        Remedy(
            then=f'set "{_NETWORK[0]}" = "true", and "{_DISKS}" = "true" for what Spark writes to'
            " disks, in [spark] conf and for the cluster"
        ),
    )


def _is_on(known: Mapping[str, str], key: str) -> bool:
    return known.get(key, "").strip().lower() == "true"
