from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack

import pytest

from pgrepl.throwaway import Cluster, ServerBinaries
from tests.support.database import Database
from tests.support.observing.patient import Patient


@pytest.fixture
def admit(
    binaries: ServerBinaries,
    source_cluster: Cluster,
    target_cluster: Cluster,
    make_database: Callable[..., Database],
    tmp_path,
) -> Iterator[Callable[..., Patient]]:
    """Return a function that makes a patient, on servers of its own where settings are given."""
    with ExitStack() as stack:

        def database(shared: Cluster, settings: Mapping[str, str] | None, name: str) -> Database:
            if settings is None:
                return make_database(shared, prefix=name)
            cluster = stack.enter_context(Cluster(binaries=binaries, settings=settings))
            cluster.create_database(name)
            return Database(cluster, name)

        def make(
            *,
            source_settings: Mapping[str, str] | None = None,
            target_settings: Mapping[str, str] | None = None,
        ) -> Patient:
            patient = Patient(
                database(source_cluster, source_settings, "source"),
                database(target_cluster, target_settings, "target"),
                tmp_path,
            )
            stack.callback(patient.discharge)
            return patient

        yield make


@pytest.fixture
def patient(admit: Callable[..., Patient]) -> Patient:
    return admit()
