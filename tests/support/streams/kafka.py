"""Topics of the tests' broker, and sources that read them."""

from __future__ import annotations

import itertools
import json
import logging
from collections.abc import Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from pgrepl.config.file import load_config
from pgrepl.config.model import Config
from pgrepl.receiver import Receiver, ReceiverSettings, Result
from pgrepl.replayer import Replayer, ReplaySettings, SourceResult
from pgrepl.throwaway import Broker
from pgrepl.throwaway.broker import find_jars
from tests.support.database import Database
from tests.support.running.pipeline import NoDdl

#: Found at once: tests of Spark move the user's cache elsewhere.
KAFKA_JARS = find_jars()

#: Who may use the listener with TLS.
BROKER_USER, BROKER_PASSWORD = "pgrepl", "s3cret-of-the-broker"

#: What clients log: without it they write to the terminal, as when they outlive the broker.
CLIENT_LOG = logging.getLogger("tests.kafka")

#: The driver applies all of it: these tests are about what comes before.
_DRIVER_ALONE = ReplaySettings(backoff_s=0.01, backoff_limit_s=0.05, driver_changes=10**9)

_numbers = itertools.count(1)


class Topics:
    """Topics with names of their own; they stay until the broker goes."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.prefix = f"t{next(_numbers)}"
        self._producer = Producer(
            {
                "bootstrap.servers": broker.bootstrap,
                "linger.ms": 0,
                "partitioner": "murmur2",
                # Without it a record that is sent again, as to a topic whose leader is just being
                # chosen, comes after those that were sent later.
                "enable.idempotence": True,
            },
            logger=CLIENT_LOG,
        )

    @cached_property
    def admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.broker.bootstrap}, logger=CLIENT_LOG)

    def make(self, name: str, partitions: int = 1, **settings: str) -> str:
        """Make a topic and return its name; underscores in settings stand for dots."""
        topic = f"{self.prefix}.{name}"
        config = {key.replace("_", "."): value for key, value in settings.items()}
        new = NewTopic(topic, num_partitions=partitions, replication_factor=1, config=config)
        for future in self.admin.create_topics([new]).values():
            future.result()
        return topic

    def delete(self, topic: str) -> None:
        for future in self.admin.delete_topics([topic]).values():
            future.result()

    def send(self, topic: str, records: Iterable[tuple[Any, Any]], **options: Any) -> None:
        """Send records: bytes as they are, None, or what becomes JSON."""
        for key, value in records:
            self._producer.produce(topic, _bytes(value), _bytes(key), **options)
        assert self._producer.flush(60) == 0


def _bytes(value: Any) -> bytes | None:
    return value if value is None or isinstance(value, bytes) else json.dumps(value).encode()


class Stream:
    """A source of topics, its target and a configuration."""

    def __init__(self, target: Database, folder: Path, name: str = "feed", **settings: Any) -> None:
        self.target = target
        self.folder = folder
        self.name = name
        self.settings = settings
        #: Section to settings.
        self.sections: dict[str, Mapping[str, Any]] = {}
        self.write_config()

    @property
    def path(self) -> Path:
        return self.folder / "pgrepl.toml"

    @property
    def config(self) -> Config:
        return load_config(self.path)

    def write_config(self, **settings: Any) -> None:
        self.settings = {**self.settings, **settings}
        sections = {
            "target": {"dsn": self.target.dsn()},
            **self.sections,
            f"sources.{self.name}": self.settings,
        }
        lines: list[str] = []
        for section, own in sections.items():
            lines.append(f"[{section}]")
            lines += [f"{key} = {_toml(value)}" for key, value in own.items()]
        self.path.write_text("\n".join(lines) + "\n", encoding="utf-8")

    def receive(self, **settings: Any) -> Result:
        config = self.config
        receiver = Receiver(config, config.source(self.name), settings=ReceiverSettings(**settings))
        return receiver.run(once=True)

    def replay(self, settings: ReplaySettings = _DRIVER_ALONE) -> SourceResult:
        (result,) = Replayer(self.config, NoDdl(), settings).run(once=True)
        return result

    def bring(self) -> SourceResult:
        """Receive and replay what is there."""
        self.receive()
        return self.replay()

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        return self.target.rows(query)


def _toml(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{json.dumps(k)} = {_toml(v)}" for k, v in value.items()) + " }"
    return json.dumps(value)
