"""Whether Spark is closed to others, as doctor judges it."""

from __future__ import annotations

import pytest

from pgrepl.config.model import SparkConfig
from pgrepl.doctor import Status
from pgrepl.doctor.checks.target.spark_checks import check_closed

ON = {"spark.authenticate": "true"}
STANDALONE = "spark://here:7077"


def judge(master, conf, settings=None, *, is_tried=True):
    found = check_closed(SparkConfig(master=master, conf=conf), settings, is_tried=is_tried)
    return [(finding.check, finding.status) for finding in found]


def test_local_master_is_closed_without_any_setting():
    assert judge("local[*]", {}) == [("spark-authentication", Status.OK)]


def test_local_master_that_was_opened_fails():
    conf = {"spark.authenticate": "false"}
    assert judge("local[*]", conf) == [("spark-authentication", Status.FAILURE)]


@pytest.mark.parametrize("master", [STANDALONE, "yarn", "k8s://https://here"])
def test_cluster_without_authentication_fails_with_a_remedy(master):
    (finding,) = check_closed(SparkConfig(master=master), {}, is_tried=True)
    assert finding.status is Status.FAILURE
    assert finding.remedy is not None
    assert '"spark.authenticate" = "true"' in (finding.remedy.then or "")
    # Only there it is for people to make the secret.
    assert bool(finding.remedy.shell) == (master == STANDALONE)


def test_cluster_without_encryption_is_warned_of():
    expected = [("spark-authentication", Status.OK), ("spark-encryption", Status.WARNING)]
    assert judge(STANDALONE, ON) == expected
    (_, finding) = check_closed(SparkConfig(master=STANDALONE, conf=ON), None, is_tried=True)
    assert finding.remedy is not None
    assert "spark.network.crypto.enabled" in (finding.remedy.then or "")


@pytest.mark.parametrize(
    "key",
    [
        "spark.network.crypto.enabled",
        "spark.ssl.rpc.enabled",
        "spark.authenticate.enableSaslEncryption",
    ],
)
def test_cluster_with_encryption_of_any_kind_is_well(key):
    conf = ON | {key: "true"}
    expected = [("spark-authentication", Status.OK), ("spark-encryption", Status.OK)]
    assert judge(STANDALONE, conf) == expected


def test_what_the_session_says_counts_as_sparks_own_defaults_may_hold_it():
    assert judge(STANDALONE, {}, ON)[0] == ("spark-authentication", Status.OK)
    assert judge(STANDALONE, ON, {})[0] == ("spark-authentication", Status.FAILURE)


def test_without_a_session_sparks_own_defaults_are_not_known():
    assert judge("yarn", {}, is_tried=False) == [("spark-authentication", Status.SKIPPED)]
    conf = {"spark.authenticate": "false"}
    assert judge("yarn", conf, is_tried=False) == [("spark-authentication", Status.FAILURE)]
    assert judge("yarn", ON, is_tried=False)[0] == ("spark-authentication", Status.OK)
