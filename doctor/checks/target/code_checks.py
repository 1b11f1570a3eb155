"""Judge whether code of sources is on the target. Every function is pure: facts in, finding out."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from pgrepl.doctor.finding import Finding, Remedy, Status, listed
from pgrepl.doctor.target_facts import SourceCode, TargetFacts

__all__ = ["check_source_code"]


def check_source_code(target: TargetFacts, trusted: Collection[str]) -> list[Finding]:
    """A copy needs values, not code: what earlier versions brought along is named.

    ``trusted`` are the sources whose code the configuration wants.
    """
    unwanted = [item for item in target.code if item.source not in trusted]
    wanted = [item for item in target.code if item.source in trusted]
    findings = []
    if unwanted:
        findings.append(
            Finding(
                "source-code",
                Status.FAILURE,
                f"code of sources is in their copies, and may run as pgrepl or as who reads:"
                f" {_shown(unwanted)}",
                Remedy(
                    sql=tuple(dict.fromkeys(item.statement for item in unwanted)),
                    then="generated columns keep their values and are filled with the source's",
                ),
                tuple(f"{item.kind} {item.name}" for item in unwanted),
            )
        )
    if wanted:
        findings.append(
            Finding(
                "source-code",
                Status.WARNING,
                "code of sources with trust_code is in their copies: who owns such a source can do"
                f" on the target what pgrepl can: {_shown(wanted)}",
                Remedy(then="remove trust_code and copy the source again, if that is not meant"),
                tuple(f"{item.kind} {item.name}" for item in wanted),
            )
        )
    return findings or [Finding.ok("source-code", "no code of a source is in its copy")]


def _shown(items: Sequence[SourceCode]) -> str:
    return listed([f"{item.kind} {item.name}" for item in items])
