"""The section of Spark."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from pgrepl.config import keys
from pgrepl.config.dsn import MASK, mask_uris, uri_passwords
from pgrepl.config.secrets import is_secret, mask_settings

__all__ = ["SparkConfig"]


def _check_setting(name: str) -> str | None:
    if not name.startswith("spark."):
        return 'Spark settings begin with "spark."'
    return "belongs into spark.master of this file" if name == "spark.master" else None


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkConfig:
    """Section ``[spark]``."""

    master: str = field(
        default="local[*]",
        metadata=keys.text(
            "where Spark runs: this machine, or `spark://…`, `yarn`, `k8s://…`. A task of replay"
            " waits for the target half of its time: on this machine a slot for each shard,"
            " `local[4]`, is faster than one for each core"
        ),
    )
    #: May hold secrets of the cluster.
    conf: Mapping[str, str] = field(
        default_factory=lambda: MappingProxyType({}),
        repr=False,
        metadata=keys.settings(
            "any `spark.*` setting, passed through; overrides pgrepl's own defaults",
            check=_check_setting,
            write=mask_settings,
        ),
    )

    @property
    def shown_master(self) -> str:
        """The master without a password, should its URI hold one."""
        return mask_uris(self.master)

    def secret_conf(self) -> dict[str, str]:
        """Return the settings that hold a secret."""
        return {k: v for k, v in self.conf.items() if is_secret(k, v)}

    def redact(self, text: str) -> str:
        """Strike the settings' secrets out of a text that Spark printed."""
        values = list(self.secret_conf().values())
        passwords = [word for value in (*values, self.master) for word in uri_passwords(value)]
        for secret in filter(None, (*values, *passwords)):
            text = text.replace(secret, MASK)
        return text
