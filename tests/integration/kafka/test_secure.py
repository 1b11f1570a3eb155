"""A broker that takes nobody without TLS and a password; secrets stand in files or outside."""

from __future__ import annotations

import pytest

from tests.integration.kafka.test_upsert import put
from tests.support.machine.tls import Authority
from tests.support.program import run_pgrepl
from tests.support.streams.kafka import BROKER_PASSWORD, BROKER_USER


@pytest.fixture
def secure(broker, broker_authority, topics, stream_of):
    """Return a function that makes a source of one record with settings of librdkafka."""
    topic = topics.make("public.people")
    topics.send(topic, [put(1, "ann")])

    def make(**settings):
        given = {
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(broker_authority.certificate),
            "sasl.mechanism": "PLAIN",
            "sasl.username": BROKER_USER,
            **{name.replace("_", "."): value for name, value in settings.items()},
        }
        return stream_of(topic, bootstrap=broker.secure_bootstrap, librdkafka=given)

    return make


def receive(stream, **env):
    done = run_pgrepl("receive", "feed", "--once", "--config", stream.path, env=env)
    assert BROKER_PASSWORD not in done.stdout + done.stderr
    return done


def test_password_comes_from_a_file_or_the_environment(secure, tmp_path):
    file = tmp_path / "password"
    file.write_text(BROKER_PASSWORD + "\n")
    stream = secure(sasl_password_file=str(file))
    done = receive(stream)
    assert done.returncode == 0, done.stderr
    stream.replay()
    assert stream.rows("select name from feed_public.people") == [("ann",)]

    stream = secure(sasl_password_env="KAFKA_PASSWORD")
    done = receive(stream)
    assert (done.returncode, "KAFKA_PASSWORD is not in the environment" in done.stderr) == (
        10,
        True,
    )
    assert receive(stream, KAFKA_PASSWORD=BROKER_PASSWORD).returncode == 0
    shown = run_pgrepl("config", "show", "--config", stream.path)
    assert (shown.returncode, BROKER_PASSWORD in shown.stdout) == (0, False)


def test_wrong_password_and_wrong_certificate_are_refused_and_said(secure, tmp_path):
    done = receive(secure(sasl_password="wrong-one"))
    assert done.returncode == 20
    assert "the cluster refuses: " in done.stderr
    assert "wrong-one" not in done.stderr
    shown = run_pgrepl("config", "show", "--config", tmp_path / "pgrepl.toml")
    assert "wrong-one" not in shown.stdout

    other = Authority(tmp_path / "other")
    other.begin()
    stream = secure(sasl_password=BROKER_PASSWORD, ssl_ca_location=str(other.certificate))
    done = receive(stream)
    assert done.returncode == 20
    assert "certificate" in done.stderr
    doctor = run_pgrepl("doctor", "feed", "--no-spark", "--config", stream.path)
    assert "the cluster refuses: " in doctor.stdout
